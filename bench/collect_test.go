package bench

import (
	"fmt"
	"io"
	"runtime"
	"runtime/metrics"
	"testing"
)

// What Write and Read allocate in a process that collects garbage all the time, as a node does
// that is busy with other things than its connections.

// collectSizes are messages as nodes send them: a request, headers, a batch of transactions,
// a part of the state, bodies and receipts of blocks.
var collectSizes = []size{1 << 10, 16 << 10, 128 << 10, 512 << 10, 2 << 20}

const (
	// collectEvery is how many bytes of messages pass between two collections. A go-ethereum that
	// synced 155 MB collected about as often.
	collectEvery = 1 << 20

	// collectConns is the number of connections that take turns, and connBytes what each carries
	// before another peer takes its place: go-ethereum then allocates half a byte for each byte of
	// 2 MiB messages, as that node did.
	collectConns = 16
	connBytes    = 16 << 20
)

// BenchmarkCollect is one message written and read, on one of 16 connections in turn, with a
// garbage collection for every MiB of messages. write-B/op and read-B/op are the bytes that Write
// and Read allocate. mixed sends 64 messages of 1 KiB and fewer of the other sizes. A connection is
// replaced after 16 MiB.
func BenchmarkCollect(b *testing.B) {
	rows := []struct {
		name  string
		sizes []size
	}{{"size=mixed", nil}}
	for i, s := range collectSizes {
		rows = append(rows, struct {
			name  string
			sizes []size
		}{fmt.Sprintf("size=%v", s), []size{s}})
		for range 64 >> (2 * i) {
			rows[0].sizes = append(rows[0].sizes, s)
		}
	}
	rows[0].sizes = append(rows[0].sizes, 2<<20)
	for _, row := range rows {
		for _, snappy := range []bool{false, true} {
			each(b, fmt.Sprintf("%s/snappy=%s", row.name, onOff(snappy)), func(b *testing.B, im impl) {
				collecting(b, im, row.sizes, snappy)
			})
		}
	}
}

// collectPair is a connection that is replaced when it has carried enough.
type collectPair struct {
	from, to transport
	link     *memoryLink
	carried  int
}

func collecting(b *testing.B, im impl, sizes []size, snappy bool) {
	data := make([][]byte, len(sizes))
	for i, s := range sizes {
		data[i] = payload(int(s))
	}
	pairs := make([]collectPair, collectConns)
	s := newSecrets(0)
	start := func(p *collectPair) {
		if p.from != nil {
			p.from.Close()
			p.to.Close()
			p.to.Read() // as a loop of reads does: what it lent comes back
		} else {
			p.link = &memoryLink{buf: make([]byte, 0, 4<<20)}
		}
		p.from, p.to, p.carried = im.resume(p.link, s), im.resume(p.link, s.peer()), 0
		p.from.SetSnappy(snappy)
		p.to.SetSnappy(snappy)
	}
	for i := range pairs {
		start(&pairs[i])
		pairs[i].carried = i * connBytes / collectConns // so that they are not replaced all at once
	}
	var written, read uint64
	since := 0
	carry := func(p *collectPair, data []byte) {
		before := allocated()
		mustWrite(b, p.from, data)
		between := allocated()
		mustRead(b, p.to, len(data))
		written += between - before
		read += allocated() - between
		if p.carried += len(data); p.carried >= connBytes {
			start(p)
		}
		if since += len(data); since >= collectEvery {
			since = 0
			runtime.GC()
		}
	}
	for i := range pairs {
		for _, d := range data {
			carry(&pairs[i], d) // so that all have the buffers of a connection in use
		}
	}
	written, read = 0, 0
	for i := 0; b.Loop(); i++ {
		carry(&pairs[i%len(pairs)], data[i%len(data)])
	}
	b.ReportMetric(float64(written)/float64(b.N), "write-B/op")
	b.ReportMetric(float64(read)/float64(b.N), "read-B/op")
	b.ReportMetric(0, "ns/op") // mostly of collections: hide it
}

// TestCollect holds Write and Read to a hundredth of what they carry, with three collections before
// each message, which leave nothing in a sync.Pool.
func TestCollect(t *testing.T) {
	ours := impls[1]
	for _, snappy := range []bool{false, true} {
		for _, size := range collectSizes[1:] {
			t.Run(fmt.Sprintf("size=%v/snappy=%s", size, onOff(snappy)), func(t *testing.T) {
				s := newSecrets(0)
				link := new(memoryLink)
				from, to := ours.resume(link, s), ours.resume(link, s.peer())
				from.SetSnappy(snappy)
				to.SetSnappy(snappy)
				data := payload(int(size))
				var total uint64
				const warm, count = 2, 10
				for i := range warm + count {
					for range 3 {
						runtime.GC()
					}
					before := allocated()
					if _, err := from.Write(msgCode, data); err != nil {
						t.Fatal(err)
					}
					if _, got, _, err := to.Read(); err != nil || len(got) != len(data) {
						t.Fatalf("read %d bytes: %v", len(got), err)
					}
					if i >= warm {
						total += allocated() - before
					}
				}
				if most := uint64(count*size) / 100; total > most {
					t.Errorf("%d bytes allocated for %d messages, want at most %d", total, count, most)
				}
			})
		}
	}
}

var allocSample = []metrics.Sample{{Name: "/gc/heap/allocs:bytes"}}

// allocated is how many bytes the process has allocated.
func allocated() uint64 {
	metrics.Read(allocSample)
	return allocSample[0].Value.Uint64()
}

// memoryLink is a net.Conn that hands what was written to whoever reads, and allocates nothing once
// it has grown.
type memoryLink struct {
	inert
	buf []byte
	off int
}

func (l *memoryLink) Write(p []byte) (int, error) {
	if l.off == len(l.buf) {
		l.buf, l.off = l.buf[:0], 0
	}
	l.buf = append(l.buf, p...)
	return len(p), nil
}

func (l *memoryLink) Read(p []byte) (int, error) {
	if l.off == len(l.buf) {
		return 0, io.EOF
	}
	n := copy(p, l.buf[l.off:])
	l.off += n
	return n, nil
}
