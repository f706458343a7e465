package command

import (
	"errors"
	"fmt"
	"strconv"
	"strings"

	"github.com/urfave/cli/v3"

	"github.com/go-rlpx/transport/rlpx/p2p"
)

// echoCap is the capability of rlpx serve: whatever is sent comes back.
var echoCap = capability("echo", 1, 16)

func capability(name string, version, length uint64) p2p.Capability {
	return p2p.Capability{Cap: p2p.Cap{Name: name, Version: version}, Length: length}
}

// publicCaps are what nodes on public networks speak. The lengths are those of go-ethereum.
func publicCaps() p2p.Capabilities {
	return p2p.Capabilities{
		capability("eth", 66, 17),
		capability("eth", 67, 17),
		capability("eth", 68, 17),
		capability("eth", 69, 18),
		capability("eth", 70, 18),
		capability("eth", 71, 20),
		capability("eth", 72, 22),
		capability("snap", 1, 8),
		capability("snap", 2, 10),
	}
}

// defaultLength is the length of a capability about which nothing is known: more than any in use,
// so that no message is refused. What it does to the codes of capabilities that follow matters only
// to those who send.
const defaultLength = 256

// known returns c with its length if it is one of publicCaps, else with defaultLength.
func known(c p2p.Cap) p2p.Capability {
	for _, p := range publicCaps() {
		if p.Cap == c {
			return p
		}
	}
	return p2p.Capability{Cap: c, Length: defaultLength}
}

// capForm explains what the -cap flag takes.
var capForm = fmt.Sprintf("A CAP is NAME/VERSION or NAME/VERSION:LENGTH. LENGTH is how many message ids it has, which both nodes\n"+
	"must see alike. Without it, it is what go-ethereum has for eth and snap, and %d for any other.", defaultLength)

func capFlag(usage string) cli.Flag {
	return &cli.StringSliceFlag{Name: "cap", Usage: usage + " (repeatable)"}
}

// capsFlag adds the capabilities that the -cap flag names to some that are there already.
func capsFlag(cmd *cli.Command, caps p2p.Capabilities) (p2p.Capabilities, error) {
	for _, text := range cmd.StringSlice("cap") {
		c, err := parseCap(text)
		if err != nil {
			return nil, usagef(cmd, "-cap: %w", err)
		}
		caps = with(caps, c)
	}
	if err := caps.Validate(); err != nil {
		return nil, usagef(cmd, "-cap: %w", err)
	}
	return caps, nil
}

// with returns caps with c in place of the same version of the same capability, or added.
func with(caps p2p.Capabilities, c p2p.Capability) p2p.Capabilities {
	for i := range caps {
		if caps[i].Cap == c.Cap {
			caps[i] = c
			return caps
		}
	}
	return append(caps, c)
}

// parseCap parses NAME/VERSION or NAME/VERSION:LENGTH.
func parseCap(text string) (p2p.Capability, error) {
	bad := func() (p2p.Capability, error) {
		return p2p.Capability{}, fmt.Errorf("%q is not NAME/VERSION or NAME/VERSION:LENGTH", text)
	}
	name, rest, ok := strings.Cut(text, "/")
	if !ok {
		return bad()
	}
	if name == "p2p" {
		return p2p.Capability{}, errors.New("p2p is the base protocol and no capability")
	}
	number, size, sized := strings.Cut(rest, ":")
	version, err := strconv.ParseUint(number, 10, 64)
	if err != nil {
		return bad()
	}
	c := known(p2p.Cap{Name: name, Version: version})
	if sized {
		if c.Length, err = strconv.ParseUint(size, 10, 64); err != nil {
			return bad()
		}
	}
	return c, nil
}
