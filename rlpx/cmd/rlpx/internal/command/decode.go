package command

import (
	"bufio"
	"context"
	"fmt"
	"io"
	"os"
	"strings"
	"time"

	"github.com/urfave/cli/v3"

	"github.com/go-rlpx/transport/rlpx/cmd/rlpx/internal/capture"
	"github.com/go-rlpx/transport/rlpx/cmd/rlpx/internal/decode"
	"github.com/go-rlpx/transport/rlpx/cmd/rlpx/internal/keylog"
	"github.com/go-rlpx/transport/rlpx/p2p"
)

// How much of each payload is dumped, in bytes. Decoded RLP takes up to 50 times its size.
const (
	defaultDump = 4 * kib
	maxDump     = mib
)

// outputBuffer is written when it is full, and before anything more is read.
const outputBuffer = 64 * kib

func (e *env) decodeCommand() *cli.Command {
	return &cli.Command{
		Name:      "decode",
		Usage:     "show the messages of a packet capture",
		ArgsUsage: "CAPTURE",
		Description: "CAPTURE is a pcap or pcapng file, as tcpdump and Wireshark write them, gzipped or not; - is the standard\n" +
			"input. It is decrypted with the key log of one of the two nodes: of 'rlpx serve', 'ping' or 'demo' with\n" +
			"-keylog, or of a program that sets rlpx.Config.KeyLogWriter. The log is read first, once. Every MAC is verified.\n\n" +
			"There is a line for each message, with the seconds since the first packet, the number of the session, -> for\n" +
			"what the initiator sent and <- for what it received, the capability, the message id within it, the code in the\n" +
			"frame where that is another number, and the size of the payload before compression and as it travelled.\n" +
			"Lines with !! say what could not be decoded and why.\n\n" +
			"The exit status is 0 only if the capture is well formed and every session that is in the key log was decoded\n" +
			"to its end. To record a capture: tcpdump -i any -s 0 -w capture.pcap tcp port 30303\n\n" + capForm,
		Flags: []cli.Flag{
			&cli.StringFlag{Name: "keylog", Usage: "the secrets of the sessions are in `FILE`"},
			&cli.BoolFlag{Name: "json", Usage: "print one JSON object a line"},
			&cli.BoolFlag{Name: "hex", Usage: "dump payloads in hexadecimal"},
			&cli.BoolFlag{Name: "rlp", Usage: "dump payloads as RLP"},
			&cli.IntFlag{Name: "max", Usage: "dump at most `BYTES` of each payload", Value: defaultDump},
			&cli.BoolFlag{Name: "abs", Usage: "print the time of day (UTC) instead of seconds"},
			capFlag("`CAP` that the nodes had, if it is not echo/1, eth or snap"),
		},
		Action: func(ctx context.Context, cmd *cli.Command) error {
			file, err := argument(cmd, "the CAPTURE to decode")
			if err != nil {
				return err
			}
			d := &captureDecoder{env: e, file: file, json: cmd.Bool("json"), abs: cmd.Bool("abs")}
			d.dump = dump{hex: cmd.Bool("hex"), rlp: cmd.Bool("rlp"), max: cmd.Int("max")}
			switch {
			case cmd.String("keylog") == "":
				return usagef(cmd, "-keylog FILE is missing")
			case d.dump.max < 1 || d.dump.max > maxDump:
				return usagef(cmd, "-max must be 1 to %d", maxDump)
			}
			if d.caps, err = capsFlag(cmd, append(publicCaps(), echoCap)); err != nil {
				return err
			}
			if d.log, err = e.readKeyLog(cmd.String("keylog")); err != nil {
				return err
			}
			return d.run(ctx)
		},
	}
}

// readKeyLog reads a key log and says if it was damaged. The lines themselves may be secret.
func (e *env) readKeyLog(file string) (*keylog.Log, error) {
	f, err := os.Open(file)
	if err != nil {
		return nil, fmt.Errorf("key log: %w", err)
	}
	defer f.Close()
	log, err := keylog.Read(f)
	if err != nil {
		return nil, fmt.Errorf("key log %s: %w", file, err)
	}
	skipped, first := log.Skipped()
	switch {
	case skipped > 0 && log.Len() == 0:
		return nil, fmt.Errorf("key log %s: no session in it; %w", file, first)
	case skipped > 0:
		e.warn("key log %s: %s damaged or of something else, the first: %v; %s used",
			file, plural(skipped, "line"), first, plural(log.Len(), "session"))
	}
	return log, nil
}

// captureDecoder is one run of the decode command.
type captureDecoder struct {
	*env
	file      string // "-": standard input
	log       *keylog.Log
	caps      p2p.Capabilities
	json, abs bool
	dump      dump
}

// report is a way to print what was found.
type report interface {
	decode.Sink
	begin(first capture.Point) // the capture has packets
	summary(s *summary)
}

// summary is what remains to say at the end.
type summary struct {
	decode.Stats
	Capture capture.Stats
}

func (d *captureDecoder) run(ctx context.Context) error {
	in, err := openCapture(ctx, d.file, d.env)
	if err != nil {
		return err
	}
	defer in.close()
	w := bufio.NewWriterSize(in.beside(d.out), outputBuffer)
	in.before = func() { w.Flush() }
	var rep report = &textReport{w: w, name: in.name, abs: d.abs, dump: d.dump}
	if d.json {
		rep = newJSONReport(w, d.dump)
	}
	start := time.Now()
	stats, err := d.decode(in, rep)
	if stats != nil {
		rep.summary(stats)
	}
	w.Flush()
	in.finish()
	if err != nil && ctx.Err() != nil {
		return errInterrupted
	}
	if stats == nil {
		return fmt.Errorf("%s: %w", in.name, err)
	}
	elapsed := time.Since(start)
	fmt.Fprintf(d.err, "%s in %s: %s\n", byteCount(in.read), short(elapsed), rate(in.read, elapsed))
	if err != nil {
		return fmt.Errorf("%s: %w", in.name, err)
	}
	return d.verdict(in.name, stats)
}

// decode decodes the capture. It stops early without an error if the output cannot be written.
func (d *captureDecoder) decode(in io.Reader, rep report) (*summary, error) {
	dec := decode.New(d.log, d.caps, rep)
	reader, err := capture.NewReader(in, dec)
	if err != nil {
		return nil, err
	}
	for begun := false; err == nil && d.out.failure() == nil; {
		if !begun && reader.First().Packet > 0 {
			begun = true
			rep.begin(reader.First())
		}
		err = reader.Next()
	}
	if first := reader.First(); first.Packet > 0 {
		rep.begin(first)
	}
	reader.Finish()
	if err == io.EOF {
		err = nil
	}
	return &summary{dec.Stats(), reader.Stats()}, err
}

// verdict says in what respect a capture that could be read was not decoded.
func (d *captureDecoder) verdict(name string, s *summary) error {
	switch {
	case d.out.failure() != nil:
		return nil // Run reports it
	case s.Damaged > 0:
		return fmt.Errorf("%s: %d of %s not decoded to the end", name, s.Damaged, plural(s.Sessions, "session"))
	case s.Sessions > 0:
		return nil
	}
	var why string
	switch {
	case s.Capture.Packets == 0:
		why = "the capture has no packets"
	case d.log.Len() == 0:
		why = "the key log is empty"
	case s.NoKeys > 0:
		why = none(s.NoKeys, "session") + " in the key log"
	case s.Capture.Segments == 0 && s.Capture.FirstLink != nil:
		why = s.Capture.FirstLink.Error()
	case s.Capture.Segments == 0 && s.Capture.Tunneled > 0:
		why = "what is in the capture goes through a tunnel (" + strings.Join(s.Capture.Tunnels, ", ") + "), which is not looked into: capture within it"
	case s.Capture.Segments == 0:
		why = "the capture has no TCP in it"
	case s.Capture.Cut > 0:
		why = "packets were captured in part only (tcpdump -s 0 takes them whole)"
	case s.Middle > 0 || s.Undecidable > 0:
		why = "the capture has no connection with its beginning"
	case s.Unfinished > 0:
		why = "no handshake in it finished"
	default:
		why = "there is no RLPx session in the capture"
	}
	return fmt.Errorf("%s: nothing decoded: %s", name, why)
}

// none says that none of n things is.
func none(n int, thing string) string {
	if n == 1 {
		return "the only " + thing + " is not"
	}
	return fmt.Sprintf("none of the %d %ss is", n, thing)
}

// plural prints a number of things.
func plural(n int, thing string) string {
	if n == 1 {
		return "1 " + thing
	}
	if strings.HasSuffix(thing, "y") {
		return fmt.Sprintf("%d %sies", n, strings.TrimSuffix(thing, "y"))
	}
	return fmt.Sprintf("%d %ss", n, thing)
}
