package command

import (
	"bytes"
	"encoding/binary"
	"encoding/json"
	"errors"
	"flag"
	"io"
	"os"
	"path/filepath"
	"regexp"
	"strings"
	"testing"

	"github.com/gopacket/gopacket/pcapgo"

	ct "github.com/go-rlpx/transport/rlpx/cmd/rlpx/internal/capturetest"
	"github.com/go-rlpx/transport/rlpx/p2p"
)

var update = flag.Bool("update", false, "write the golden files of captures anew")

const captures = "testdata/decode/"

// golden compares output with a file.
func golden(t *testing.T, file, got string) {
	t.Helper()
	file = filepath.FromSlash(captures + file)
	if *update {
		if err := os.WriteFile(file, []byte(got), 0o644); err != nil {
			t.Fatal(err)
		}
		return
	}
	want, err := os.ReadFile(file)
	if err != nil {
		t.Fatal(err)
	}
	if got != strings.ReplaceAll(string(want), "\r\n", "\n") {
		t.Errorf("%s: got\n%s\nwant\n%s", file, got, want)
	}
}

// decodes runs decode with the key log of a golden capture.
func decodes(t *testing.T, name, capture string, args ...string) result {
	t.Helper()
	args = append([]string{"decode", "-keylog", captures + name + ".keylog"}, args...)
	return run(t, append(args, capture)...)
}

// Sessions between serve and ping and with a geth node, recorded with tcpdump, decode completely.
func TestGoldenCaptures(t *testing.T) {
	for _, name := range []string{"serve-ping", "geth"} {
		for suffix, flags := range map[string][]string{".txt": nil, ".rlp.txt": {"-rlp"}, ".json": {"-json", "-hex"}} {
			t.Run(name+suffix, func(t *testing.T) {
				capture := captures + name + ".pcap"
				r := decodes(t, name, capture, flags...)
				r.wantSuccess(t)
				if !regexp.MustCompile(`^\S+ \S+ in \S+ \S+: \S+ \S+/s\n$`).MatchString(r.stderr) {
					t.Errorf("stderr %q does not say how fast it was", r.stderr)
				}
				golden(t, name+suffix, r.stdout)
				if !strings.Contains(r.stdout, "every MAC is right") && suffix != ".json" {
					t.Error("not every MAC was verified")
				}
				// The same as pcapng says the same.
				ng := filepath.Join(t.TempDir(), name+".pcapng")
				if err := os.WriteFile(ng, asPcapng(t, capture), 0o600); err != nil {
					t.Fatal(err)
				}
				got := decodes(t, name, ng, flags...)
				if strings.Replace(got.stdout, ng, capture, 1) != r.stdout {
					t.Errorf("as pcapng:\n%s", got.stdout)
				}
			})
		}
	}
}

func asPcapng(t *testing.T, file string) []byte {
	t.Helper()
	f, err := os.Open(file)
	if err != nil {
		t.Fatal(err)
	}
	defer f.Close()
	in, err := pcapgo.NewReader(f)
	if err != nil {
		t.Fatal(err)
	}
	var b bytes.Buffer
	out, err := pcapgo.NewNgWriter(&b, in.LinkType())
	for err == nil {
		data, ci, readErr := in.ReadPacketData()
		if readErr != nil {
			break
		}
		err = out.WritePacket(ci, data)
	}
	if err = errors.Join(err, out.Flush()); err != nil {
		t.Fatal(err)
	}
	return b.Bytes()
}

// JSON has one object a line, each with a type, and the messages add up.
func TestDecodeJSON(t *testing.T) {
	r := decodes(t, "geth", captures+"geth.pcap", "-json", "-rlp", "-hex", "-max", "64")
	r.wantSuccess(t)
	types := map[string]int{}
	plain := 0.0
	var last map[string]any
	for line := range strings.Lines(r.stdout) {
		last = nil
		if err := json.Unmarshal([]byte(line), &last); err != nil {
			t.Fatalf("%v in %q", err, line)
		}
		kind, _ := last["type"].(string)
		types[kind]++
		if kind == "message" {
			plain += last["plain"].(float64)
			if last["plain"].(float64) > 64 != (last["cut"] == true) {
				t.Errorf("%q", line)
			}
		}
	}
	if types["session"] != 2 || types["handshake"] != 4 || types["end"] != 2 || types["summary"] != 1 || types["note"] != 0 ||
		float64(types["message"]) != last["messages"] || plain != last["plain"] {
		t.Errorf("%v, the last is %v", types, last)
	}
}

// write puts a file into the test's directory.
func write(t *testing.T, name string, content []byte) string {
	t.Helper()
	name = filepath.Join(t.TempDir(), name)
	if err := os.WriteFile(name, content, 0o600); err != nil {
		t.Fatal(err)
	}
	return name
}

// chat is a session of a few messages, and its key log.
func chat(t *testing.T) (*ct.Session, []ct.Chunk) {
	t.Helper()
	s := ct.NewSession(t)
	s.Greet([2]uint64{5, 5}, p2p.Cap{Name: "eth", Version: 68})
	s.Send(true, 0x10, []byte("status"))
	s.Send(false, 0x10, bytes.Repeat([]byte("status "), 500))
	s.Send(true, 1, []byte{0xc1, 8})
	return s, s.Take()
}

func TestDecodeIPv6(t *testing.T) {
	s, chunks := chat(t)
	file := write(t, "v6.pcap", ct.Pcap(ct.Cooked2, ct.NewTCP(ct.Client6, ct.Server6).Conversation(chunks)...))
	run(t, "decode", "-keylog", write(t, "keys", s.KeyLog.Bytes()), file).
		wantSuccess(t, "session [2001:db8::1]:40000 -> [2001:db8::2]:30303, secrets of line 1", "1 session decoded: 5 messages", "every MAC is right")
}

// pcapng has packets without a time.
func TestDecodeWithoutTimes(t *testing.T) {
	s, chunks := chat(t)
	var b bytes.Buffer
	w := ct.NewPcapng(&b, ct.Raw)
	if err := w.Flush(); err != nil {
		t.Fatal(err)
	}
	for _, s := range ct.NewTCP(ct.Client4, ct.Server4).Conversation(chunks) {
		packet := w.Packet(s)
		padded := append(bytes.Clone(packet), make([]byte, -len(packet)&3)...)
		length := uint32(16 + len(padded))
		for _, v := range []uint32{3, length, uint32(len(packet))} { // a Simple Packet Block
			b.Write(binary.LittleEndian.AppendUint32(nil, v))
		}
		b.Write(binary.LittleEndian.AppendUint32(padded, length))
	}
	keys, file := write(t, "keys", s.KeyLog.Bytes()), write(t, "x.pcapng", b.Bytes())
	run(t, "decode", "-keylog", keys, file).wantSuccess(t, "first packet at no time\n", "\n              - #1    -> auth ", "1 session decoded: 5 messages")
	if r := run(t, "decode", "-keylog", keys, "-json", file); r.status != statusOK || strings.Contains(r.stdout, `"time"`) || !strings.Contains(r.stdout, `"t":0,`) {
		t.Errorf("status %d: %s", r.status, r.stdout)
	}
}

// What cannot be decoded is said, beside what can.
func TestDecodeReports(t *testing.T) {
	s, chunks := chat(t)
	_, foreign := chat(t)
	good := ct.NewTCP(ct.Client4, ct.Server4).Conversation(chunks)
	unknown := ct.NewTCP(ct.Client6, ct.Server6).Conversation(foreign)
	http := ct.NewTCP(ct.Server6, ct.Client6).Conversation([]ct.Chunk{{FromClient: true, Data: []byte("GET / HTTP/1.0\r\n\r\n")}})
	lost := append(good[:6:6], good[7:]...)
	var fromClient []ct.Segment
	for _, s := range good {
		if s.Src == ct.Client4 {
			fromClient = append(fromClient, s)
		}
	}
	keys := write(t, "keys", s.KeyLog.Bytes())
	for _, tc := range []struct {
		name     string
		segments []ct.Segment
		status   int
		stdout   []string
		stderr   string
	}{
		{"a session without keys beside one", ct.Interleave(good, unknown), statusOK,
			[]string{"!! [2001:db8::1]:40000 -> [2001:db8::2]:30303: an RLPx session that is not in the key log: it has no line that begins with RLPX ", "1 session decoded", "not decoded: 1 session without keys"}, ""},
		{"another protocol beside one", ct.Interleave(good, http), statusOK, []string{"1 session decoded", "not decoded: 1 connection of other protocols"}, ""},
		{"no session with keys", unknown, statusFailed, []string{"0 sessions decoded"}, "nothing decoded: the only session is not in the key log"},
		{"lost segment", lost, statusFailed, []string{"#1    <- !! lost: 144 bytes are missing after byte ", "1 session decoded", "; 1 not to the end"}, "1 of 1 session not decoded to the end"},
		{"beginning missing", good[4:], statusFailed, []string{"!! 192.0.2.2:30303 -> 192.0.2.1:40000: the capture begins in the middle of this connection"}, "the capture has no connection with its beginning"},
		{"one direction", fromClient, statusFailed, []string{"there is no ack in the capture: what the recipient sent cannot be decoded", "; 1 not to the end"}, "1 of 1 session not decoded to the end"},
		{"handshake without answer", good[:4], statusOK, []string{"there is no ack in the capture"}, ""},
		{"handshake without answer, no keys", unknown[:4], statusFailed, []string{"the handshake did not finish: there is no ack in the capture"}, "no handshake in it finished"},
		{"other protocols only", http, statusFailed, nil, "there is no RLPx session in the capture"},
		{"nothing", nil, statusFailed, nil, "the capture has no packets"},
	} {
		t.Run(tc.name, func(t *testing.T) {
			file := write(t, "x.pcap", ct.Pcap(ct.Raw, tc.segments...))
			r := run(t, "decode", "-keylog", keys, file)
			wantAll(t, r.stdout, tc.stdout...)
			if tc.stderr != "" {
				r.atEnd().wantError(t, statusFailed, tc.stderr)
			} else if r.status != tc.status {
				t.Errorf("status %d, stderr %q", r.status, r.stderr)
			}
			var objects int
			for line := range strings.Lines(run(t, "decode", "-json", "-keylog", keys, file).stdout) {
				if !json.Valid([]byte(line)) {
					t.Errorf("no JSON: %q", line)
				}
				objects++
			}
			if objects == 0 {
				t.Error("no JSON")
			}
		})
	}
}

// What is malformed gives one line and a status, after all that could be decoded.
func TestDecodeMalformed(t *testing.T) {
	s, chunks := chat(t)
	keys := write(t, "keys", s.KeyLog.Bytes())
	good := ct.Pcap(ct.Ethernet, ct.NewTCP(ct.Client4, ct.Server4).Conversation(chunks)...)
	for _, tc := range []struct {
		name string
		file []byte
		want []string
	}{
		{"empty", nil, []string{"x.pcap: header of the capture: the file is empty"}},
		{"text", []byte("not a capture\n"), []string{"neither a pcap nor a pcapng file"}},
		{"cut in its header", good[:20], []string{"cut off in its first bytes"}},
		{"cut in a packet", good[:len(good)-1], []string{"x.pcap: the capture is cut off in packet "}},
		{"802.11", append(append([]byte{}, good[:20]...), 105, 0, 0, 0), []string{"link type 105"}},
	} {
		t.Run(tc.name, func(t *testing.T) {
			r := run(t, "decode", "-keylog", keys, write(t, "x.pcap", tc.file))
			r.atEnd().wantError(t, statusFailed, tc.want...)
			if tc.name == "cut in a packet" {
				wantAll(t, r.stdout, "1 session decoded: 5 messages")
			}
		})
	}
	capture := write(t, "good.pcap", good)
	line := s.KeyLog.String()
	for _, tc := range []struct{ name, log, want string }{
		{"not a key log", "hello\n", "line 1: does not begin with RLPX"},
		{"cut off", "# two\n" + line[:100], "no session in it; line 2: has 2 fields"},
		{"empty", "", "nothing decoded: the key log is empty"},
	} {
		t.Run("key log, "+tc.name, func(t *testing.T) {
			r := run(t, "decode", "-keylog", write(t, "keys", []byte(tc.log)), capture)
			r.atEnd().wantError(t, statusFailed, tc.want)
		})
	}
	// What is good in a damaged log is used.
	damaged := "CLIENT_RANDOM 00 00\n" + line[:100] + line + "\x00\n"
	r := run(t, "decode", "-keylog", write(t, "damaged", []byte(damaged)), capture)
	r.wantSuccess(t, "1 session decoded")
	wantAll(t, r.stderr, "rlpx: warning: key log ", "damaged: 3 lines damaged or of something else, the first: line 1: does not begin with RLPX",
		"; 1 session used\n")
	run(t, "decode", "-keylog", keys, filepath.Join(t.TempDir(), "nowhere")).wantError(t, statusFailed, "nowhere")
	run(t, "decode", "-keylog", filepath.Join(t.TempDir(), "nowhere"), capture).wantError(t, statusFailed, "key log", "nowhere")
	run(t, "decode", "-keylog", keys, t.TempDir()).wantError(t, statusFailed, "is a directory")
}

// A capture of a tunnel says that it is one.
func TestCase_N5_DecodeTunnel(t *testing.T) {
	s, chunks := chat(t)
	var file bytes.Buffer
	w := ct.NewPcap(&file, ct.Raw)
	for _, seg := range ct.NewTCP(ct.Client4, ct.Server4).Conversation(chunks) {
		p := bytes.Clone(w.Packet(seg))
		p[9] = 47 // GRE
		if err := w.Write(p, len(p)); err != nil {
			t.Fatal(err)
		}
	}
	args := []string{"decode", "-keylog", write(t, "keys", s.KeyLog.Bytes()), write(t, "x.pcap", file.Bytes())}
	r := run(t, args...)
	r.atEnd().wantError(t, statusFailed, "nothing decoded: what is in the capture goes through a tunnel (GRE)")
	wantAll(t, r.stdout, "packets within GRE, which is not looked into")
	wantAll(t, run(t, append([]string{"decode", "-json"}, args[1:]...)...).stdout, `"tunnels":"GRE"`)
}

func TestDecodeUsage(t *testing.T) {
	for name, tc := range map[string]struct {
		args []string
		want string
	}{
		"no capture": {[]string{"decode", "-keylog", "x"}, "CAPTURE"},
		"no key log": {[]string{"decode", "x"}, "-keylog"},
		"two":        {[]string{"decode", "-keylog", "x", "a", "b"}, "one argument"},
		"max":        {[]string{"decode", "-keylog", "x", "-max", "0", "a"}, "-max"},
		"max, large": {[]string{"decode", "-keylog", "x", "-max", "2000000", "a"}, "-max"},
		"capability": {[]string{"decode", "-keylog", "x", "-cap", "odd", "a"}, "NAME/VERSION"},
		"flag":       {[]string{"decode", "-verbose"}, "-verbose"},
	} {
		t.Run(name, func(t *testing.T) { run(t, tc.args...).wantError(t, statusUsage, tc.want) })
	}
	for _, args := range [][]string{{"decode", "-h"}, {"help", "decode"}} {
		run(t, args...).wantSuccess(t, "rlpx decode", "CAPTURE", "-keylog", "-json", "-hex", "-rlp", "-max", "-abs", "-cap", "tcpdump")
	}
}

// watched is a stream that says when it was written to.
type watched struct {
	buffer
	written chan struct{}
}

func (w *watched) Write(p []byte) (int, error) {
	defer func() {
		select {
		case w.written <- struct{}{}:
		default:
		}
	}()
	return w.buffer.Write(p)
}

// A capture comes through a pipe as well, and what can be decoded is printed while it lasts.
func TestDecodeStandardInput(t *testing.T) {
	s, chunks := chat(t)
	file := ct.Pcapng(ct.Ethernet, ct.NewTCP(ct.Client4, ct.Server4).Conversation(chunks)...)
	keys := write(t, "keys", s.KeyLog.Bytes())
	half, resume := len(file)-400, make(chan struct{})
	pipeStdin(t, func(w io.Writer) error {
		_, err := w.Write(file[:half])
		<-resume
		if err == nil {
			_, err = w.Write(file[half:])
		}
		return err
	})
	stdout := &watched{written: make(chan struct{}, 1)}
	var stderr buffer
	done := make(chan int, 1)
	go func() { done <- Run(t.Context(), []string{"decode", "-keylog", keys, "-"}, stdout, &stderr) }()
	for !strings.Contains(stdout.String(), "Hello") {
		select {
		case <-stdout.written:
		case <-done:
			t.Fatal("it ended before the capture")
		case <-t.Context().Done():
			t.Fatal("nothing is printed while the capture goes on")
		}
	}
	close(resume)
	if status := <-done; status != statusOK {
		t.Errorf("status %d: %s", status, stderr.String())
	}
	wantAll(t, stdout.String(), "standard input: first packet at 2026-01-02 03:04:05.678901 UTC", "1 session decoded: 5 messages")
}

// -cap gives the length of a capability that nobody knows.
func TestDecodeCap(t *testing.T) {
	s := ct.NewSession(t)
	s.Greet([2]uint64{5, 5}, p2p.Cap{Name: "odd", Version: 3}, p2p.Cap{Name: "snap", Version: 1})
	s.Send(true, 0x14, []byte{1})
	chunks := s.Take()
	keys, file := write(t, "keys", s.KeyLog.Bytes()), write(t, "x.pcap", ct.Pcap(ct.Raw, ct.NewTCP(ct.Client4, ct.Server4).Conversation(chunks)...))
	run(t, "decode", "-keylog", keys, file).wantSuccess(t, "odd/3    0x04 (code 0x14)", "-- how many messages odd/3 has is not known", "-cap odd/3:LENGTH")
	r := run(t, "decode", "-keylog", keys, "-cap", "odd/3:4", file)
	r.wantSuccess(t, "snap/1   0x00 GetAccountRange (code 0x14)")
	if strings.Contains(r.stdout, "not known") {
		t.Error(r.stdout)
	}
}

// Nothing that a peer chose reaches a terminal as it is.
func TestDecodePrintsSafely(t *testing.T) {
	s := ct.NewSession(t)
	evil := "\x1b[2J\r\n\u202e\x00"
	hello := append([]byte{}, s.Hello(true, 5, p2p.Cap{Name: "eth", Version: 68})...)
	hello = bytes.Replace(hello, []byte("initiator/1.0"), []byte(evil + "xxx")[:13], 1)
	hello = bytes.Replace(hello, []byte("eth"), []byte("\x1b[m"), 1)
	s.Send(true, 0, hello)
	s.Send(false, 0, bytes.Replace(s.Hello(false, 5, p2p.Cap{Name: "eth", Version: 68}), []byte("eth"), []byte("\x1b[m"), 1))
	s.Send(true, 0x10, []byte(evil))
	s.Send(true, 1, []byte(evil))
	chunks := s.Take()
	keys, file := write(t, "keys", s.KeyLog.Bytes()), write(t, "x.pcap", ct.Pcap(ct.Raw, ct.NewTCP(ct.Client4, ct.Server4).Conversation(chunks)...))
	for _, flags := range [][]string{nil, {"-hex"}, {"-rlp"}, {"-json", "-hex", "-rlp"}} {
		r := run(t, append(append([]string{"decode", "-keylog", keys}, flags...), file)...)
		for _, c := range r.stdout {
			if c != '\n' && (c < ' ' || c > '~') {
				t.Fatalf("%v: %q in %q", flags, c, r.stdout)
			}
		}
	}
}
