package command

import (
	"bufio"
	"bytes"
	"flag"
	"io"
	"math/rand/v2"
	"net/netip"
	"os"
	"runtime"
	"runtime/metrics"
	"strings"
	"testing"
	"time"

	ct "github.com/go-rlpx/transport/rlpx/cmd/rlpx/internal/capturetest"
	"github.com/go-rlpx/transport/rlpx/cmd/rlpx/internal/keylog"
	"github.com/go-rlpx/transport/rlpx/p2p"
)

var loadSize = flag.Int("capture", 200, "size of the capture in TestDecodeMemory, in MiB; at most 48 with -short")

// load is a capture of some sessions side by side, with messages of many sizes, made while it is
// read.
type load struct {
	rng      *rand.Rand
	random   []byte // payloads are parts of it
	sessions []*ct.Session
	tcps     []*ct.TCP
}

const loadSessions = 8

func newLoad(tb testing.TB, seed uint64) *load {
	l := &load{rng: rand.New(rand.NewPCG(seed, 1)), random: make([]byte, 4<<20)}
	src := rand.NewChaCha8([32]byte{byte(seed)})
	src.Read(l.random)
	for i := range loadSessions {
		l.sessions = append(l.sessions, ct.NewSession(tb))
		l.tcps = append(l.tcps, ct.NewTCP(netip.AddrPortFrom(ct.Client4.Addr(), uint16(40000+i)), ct.Server4))
	}
	return l
}

func (l *load) keyLog() []byte {
	var b []byte
	for _, s := range l.sessions {
		b = append(b, s.KeyLog.Bytes()...)
	}
	return b
}

// size draws the size of a payload: most are small, most bytes are in large ones.
func (l *load) size() int {
	for limit := 256; ; limit *= 8 {
		if limit > len(l.random)/2 || l.rng.IntN(4) > 0 {
			return l.rng.IntN(min(limit, len(l.random)/2))
		}
	}
}

// write writes a pcap file of about so many bytes.
func (l *load) write(w io.Writer, size int) error {
	counted := &countingWriter{w: w}
	out := ct.NewPcap(counted, ct.Ethernet)
	out.Step = 10 * time.Microsecond
	for begun := false; counted.n < size; begun = true {
		lists := make([][]ct.Segment, len(l.sessions))
		for i, s := range l.sessions {
			if !begun {
				lists[i] = l.tcps[i].Open()
				s.Greet([2]uint64{5, 5}, p2p.Cap{Name: "eth", Version: 68})
			}
			n := l.size()
			at := l.rng.IntN(len(l.random) - n)
			s.Send(l.rng.IntN(2) == 0, 0x10+uint64(l.rng.IntN(17)), l.random[at:at+n])
			for _, c := range s.Take() {
				lists[i] = append(lists[i], l.tcps[i].Data(c.FromClient, c.Data)...)
			}
		}
		segments := ct.Interleave(lists...)
		for i := range segments {
			if begun && l.rng.IntN(200) == 0 {
				j := min(len(segments)-1, i+l.rng.IntN(100))
				segments[i], segments[j] = segments[j], segments[i]
			}
			if err := out.Segment(segments[i]); err != nil {
				return err
			}
			if l.rng.IntN(200) == 0 { // once more
				if err := out.Segment(segments[l.rng.IntN(i+1)]); err != nil {
					return err
				}
			}
		}
	}
	return nil
}

type countingWriter struct {
	w io.Writer
	n int
}

func (c *countingWriter) Write(p []byte) (int, error) {
	c.n += len(p)
	return c.w.Write(p)
}

// pipeStdin makes what a function writes the standard input, until the test ends.
func pipeStdin(t *testing.T, write func(io.Writer) error) {
	t.Helper()
	r, w, err := os.Pipe()
	if err != nil {
		t.Fatal(err)
	}
	old := os.Stdin
	os.Stdin = r
	done := make(chan error, 1)
	go func() {
		err := write(w)
		w.Close()
		done <- err
	}()
	t.Cleanup(func() {
		os.Stdin = old
		r.Close()
		if err := <-done; err != nil {
			t.Error(err)
		}
	})
}

// peak samples how much memory there is in objects until stop is closed.
func peak(stop <-chan struct{}) <-chan uint64 {
	result := make(chan uint64, 1)
	sample := []metrics.Sample{{Name: "/memory/classes/heap/objects:bytes"}}
	go func() {
		var most uint64
		tick := time.NewTicker(time.Millisecond)
		defer tick.Stop()
		for {
			metrics.Read(sample)
			most = max(most, sample[0].Value.Uint64())
			select {
			case <-tick.C:
			case <-stop:
				result <- most
				return
			}
		}
	}()
	return result
}

// Memory does not depend on the size of a capture. -capture MIB makes it longer or shorter.
func TestDecodeMemory(t *testing.T) {
	const bound = 200 << 20
	l := newLoad(t, 1)
	keys := write(t, "keys", l.keyLog())
	runtime.GC()
	stop := make(chan struct{})
	most := peak(stop)
	size := *loadSize
	if testing.Short() {
		size = min(size, 48)
	}
	pipeStdin(t, func(w io.Writer) error { return l.write(w, size<<20) })
	start := time.Now()
	r := run(t, "decode", "-keylog", keys, "-")
	close(stop)
	r.wantSuccess(t, "8 sessions decoded: ", "every MAC is right")
	n := <-most
	t.Logf("%d MiB in %v, with making it; %s at the most; %s", size, time.Since(start), byteCount(int64(n)), strings.TrimSpace(r.stderr))
	if n > bound {
		t.Errorf("%s at the most", byteCount(int64(n)))
	}
}

// BenchmarkDecode decodes a capture that is in memory.
func BenchmarkDecode(b *testing.B) {
	l := newLoad(b, 2)
	var file bytes.Buffer
	if err := l.write(&file, 32<<20); err != nil {
		b.Fatal(err)
	}
	log, err := keylog.Read(bytes.NewReader(l.keyLog()))
	if err != nil {
		b.Fatal(err)
	}
	b.SetBytes(int64(file.Len()))
	b.ReportAllocs()
	for b.Loop() {
		d := &captureDecoder{env: &env{out: &output{w: io.Discard}, err: io.Discard}, log: log, caps: publicCaps()}
		rep := &textReport{w: bufio.NewWriter(io.Discard), name: "load", dump: dump{max: defaultDump}}
		s, err := d.decode(bytes.NewReader(file.Bytes()), rep)
		if err != nil || s.Sessions != loadSessions || s.Damaged > 0 || s.Messages == 0 {
			b.Fatalf("%v, %+v", err, s)
		}
	}
}
