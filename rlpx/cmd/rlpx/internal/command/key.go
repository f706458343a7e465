package command

import (
	"context"
	"crypto/ecdsa"
	"encoding/hex"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"os"
	"runtime"
	"strings"

	"github.com/ethereum/go-ethereum/crypto"
	"github.com/urfave/cli/v3"

	"github.com/go-rlpx/transport/rlpx/p2p"
)

// keyFileMode keeps a key to its owner.
const keyFileMode fs.FileMode = 0o600

const defaultAddr = "127.0.0.1:30303"

func (e *env) keyCommand() *cli.Command {
	return &cli.Command{
		Name:      "key",
		Usage:     "show or make a node key file",
		ArgsUsage: "FILE",
		Description: "Shows the enode URL and the node id of the key in FILE, which has go-ethereum's format:\n" +
			"64 hexadecimal digits. With -new it makes the key first, readable by its owner only; a file\n" +
			"that exists is never overwritten.",
		Flags: []cli.Flag{
			&cli.BoolFlag{Name: "new", Usage: "make a new key and write it to FILE"},
			&cli.StringFlag{Name: "addr", Usage: "`HOST:PORT` for the enode URL", Value: defaultAddr},
		},
		Action: func(_ context.Context, cmd *cli.Command) error {
			file, err := argument(cmd, "the key FILE")
			if err != nil {
				return err
			}
			at, err := parseAddr(cmd.String("addr"))
			if err != nil {
				return usagef(cmd, "-addr: %w", err)
			}
			var key *ecdsa.PrivateKey
			if cmd.Bool("new") {
				key, err = newKeyFile(file)
			} else {
				key, err = e.loadKey(file)
			}
			if err != nil {
				return err
			}
			url := at.node(&key.PublicKey).String()
			if _, err := p2p.ParseNode(url); err != nil {
				return usagef(cmd, "-addr: %w", err)
			}
			e.out.printf("enode  %s\nid     %s\n", url, nodeID(&key.PublicKey))
			return nil
		},
	}
}

// newKeyFile makes a key and a file for it, which must not exist.
func newKeyFile(file string) (*ecdsa.PrivateKey, error) {
	key, err := crypto.GenerateKey()
	if err != nil {
		return nil, err
	}
	f, err := os.OpenFile(file, os.O_WRONLY|os.O_CREATE|os.O_EXCL, keyFileMode)
	if errors.Is(err, fs.ErrExist) {
		return nil, fmt.Errorf("%s exists already and is left as it is", file)
	}
	if err != nil {
		return nil, err
	}
	_, err = f.WriteString(hex.EncodeToString(crypto.FromECDSA(key)))
	if err = errors.Join(err, f.Close()); err != nil {
		// Half a key is good for nothing and would be in the way of the next attempt.
		return nil, errors.Join(err, os.Remove(file))
	}
	return key, nil
}

// loadKey reads a key file, and warns if others can read it too.
func (e *env) loadKey(file string) (*ecdsa.PrivateKey, error) {
	key, err := crypto.LoadECDSA(file)
	if errors.Is(err, fs.ErrNotExist) {
		return nil, fmt.Errorf("no key file %s; 'rlpx key -new %s' makes it", file, file)
	}
	if err != nil {
		if why := notKey(file); why != "" {
			return nil, fmt.Errorf("key file %s: %s; want 64 hexadecimal digits and nothing else", file, why)
		}
		return nil, fmt.Errorf("key file %s: %w", file, err)
	}
	info, err := os.Stat(file)
	// Windows has other rights, of which the mode says nothing.
	if err == nil && runtime.GOOS != "windows" && info.Mode().IsRegular() && info.Mode().Perm()&0o077 != 0 {
		e.warn("key file %s is open to other users (mode %04o)", file, info.Mode().Perm())
	}
	return key, nil
}

// notKey says what a key file is taken for, if it begins like something that is often found in its
// place.
func notKey(file string) string {
	f, err := os.Open(file)
	if err != nil {
		return ""
	}
	defer f.Close()
	begin := make([]byte, 4)
	n, _ := io.ReadFull(f, begin)
	switch text := string(begin[:n]); {
	case strings.HasPrefix(text, "0x"), strings.HasPrefix(text, "0X"):
		return "it begins with 0x"
	case strings.HasPrefix(text, "\xef\xbb\xbf"):
		return "it begins with a byte order mark (UTF-8)"
	case strings.HasPrefix(text, "\xff\xfe"), strings.HasPrefix(text, "\xfe\xff"):
		return "it is UTF-16 text"
	case strings.HasPrefix(text, "{"):
		return "it is JSON, such as a wallet"
	case strings.HasPrefix(text, "----"):
		return "it is a PEM file"
	case strings.HasPrefix(text, "enod"), strings.HasPrefix(text, "enr:"):
		return "it holds the address of a node"
	case n > 0 && strings.TrimLeft(text, " \t\r\n") != text:
		return "it begins with white space"
	}
	return ""
}

func keyFlag() cli.Flag {
	return &cli.StringFlag{Name: "key", Usage: "node key `FILE` (default: a new key for this run)"}
}

// nodeKey returns the key that the -key flag names, or a new one.
func (e *env) nodeKey(cmd *cli.Command) (*ecdsa.PrivateKey, error) {
	if file := cmd.String("key"); file != "" {
		return e.loadKey(file)
	}
	return crypto.GenerateKey()
}

// nodeID is how nodes are told apart by discovery and in logs: the hash of the key.
func nodeID(key *ecdsa.PublicKey) string {
	return hex.EncodeToString(crypto.Keccak256(crypto.FromECDSAPub(key)[1:])) // without the 0x04 of the uncompressed form
}

// shortID is the beginning of the node id, as go-ethereum's logs show it.
func shortID(key *ecdsa.PublicKey) string { return nodeID(key)[:16] }
