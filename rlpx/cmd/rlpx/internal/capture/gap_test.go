package capture

import (
	"bytes"
	"net/netip"
	"slices"
	"testing"
	"time"

	ct "github.com/go-rlpx/transport/rlpx/cmd/rlpx/internal/capturetest"
)

// lossy is a connection in which the client says 10 segments of 100 bytes, and the server 5.
func lossy() (chunks []ct.Chunk, segments []ct.Segment) {
	for i := range 15 {
		chunks = append(chunks, ct.Chunk{FromClient: i%3 < 2, Data: bytes.Repeat([]byte{byte(i)}, 100)})
	}
	return chunks, ct.NewTCP(ct.Client4, ct.Server4).Conversation(chunks)
}

func TestLostSegment(t *testing.T) {
	chunks, segments := lossy()
	for lost := 3; lost < len(segments)-3; lost++ {
		missing := segments[lost]
		d := FromClient
		if missing.Src == ct.Server4 {
			d = FromServer
		}
		before := said(chunks[:lost-3], d == FromClient)
		rec, _ := mustRead(t, ct.Pcap(ct.Ethernet, slices.Delete(slices.Clone(segments), lost, lost+1)...))
		c := rec.only(t)
		if !bytes.Equal(c.data[d].Bytes(), before) {
			t.Errorf("segment %d: %d bytes, want the %d before it", lost, c.data[d].Len(), len(before))
		}
		other := d.Reverse()
		if !bytes.Equal(c.data[other].Bytes(), said(chunks, other == FromClient)) || len(c.gaps[other]) > 0 {
			t.Errorf("segment %d: the other direction suffers", lost)
		}
		last := d == FromClient && lost == len(segments)-5 || d == FromServer && lost == len(segments)-4
		if last {
			continue // nothing that came later shows that it is missing but the FIN
		}
		if want := (Gap{Offset: uint64(len(before)), Missing: 100}); len(c.gaps[d]) != 1 || c.gaps[d][0] != want {
			t.Errorf("segment %d: gaps %+v, want %+v", lost, c.gaps[d], want)
		}
		if c.closed != 1 {
			t.Errorf("segment %d: closed %d times", lost, c.closed)
		}
	}
}

// What waits for a lost segment is given up after a while, and when too much of it waits.
func TestGivesUpWaiting(t *testing.T) {
	for name, step := range map[string]time.Duration{"time": lostAfter / 10, "pages": 0} {
		tcp := ct.NewTCP(ct.Client4, ct.Server4)
		var file bytes.Buffer
		w := ct.NewPcap(&file, ct.Ethernet)
		w.Step = step
		for _, s := range tcp.Open() {
			w.Segment(s)
		}
		segments := tcp.Data(true, bytes.Repeat([]byte{1}, 2*maxPages*1448))
		if step > 0 {
			segments = segments[:20]
		}
		for i, s := range segments {
			if i != 1 {
				w.Segment(s)
			}
		}
		rec := new(recorder)
		rd, err := NewReader(&file, rec)
		for err == nil && (len(rec.conns) == 0 || len(rec.conns[0].gaps[0]) == 0) {
			err = rd.Next()
		}
		if err != nil {
			t.Fatalf("%s: %v: the gap was noticed at the end only", name, err)
		}
		if want := (Gap{Offset: 1448, Missing: 1448}); rec.only(t).gaps[0][0] != want {
			t.Errorf("%s: gap %+v", name, rec.conns[0].gaps[0][0])
		}
		if n := rec.conns[0].last.Packet; step == 0 && n > maxPages+10 {
			t.Errorf("%s: noticed in packet %d", name, n)
		}
	}
}

func TestBeginsInTheMiddle(t *testing.T) {
	_, segments := lossy()
	for from := 3; from < len(segments)-3; from++ {
		rec, stats := mustRead(t, ct.Pcap(ct.Ethernet, segments[from:]...))
		c := rec.only(t)
		if c.FromStart || c.data[0].Len() > 0 || c.data[1].Len() > 0 || stats.Middle != 1 || stats.Connections != 1 {
			t.Errorf("from %d: %+v, %+v", from, c.Conn, stats)
		}
		if first := segments[from]; c.Client != first.Src || c.Server != first.Dst {
			t.Errorf("from %d: ends %v, %v", from, c.Client, c.Server)
		}
	}
	// The end of a connection is none.
	rec, stats := mustRead(t, ct.Pcap(ct.Ethernet, segments[len(segments)-3:]...))
	if len(rec.conns) > 0 || stats.Connections > 0 {
		t.Errorf("%d connections", len(rec.conns))
	}
	// One that began before the capture does not hide the one that follows.
	chunks := talk(newRand(1), 5, 500)
	next := ct.NewTCP(ct.Client4, ct.Server4)
	next.Advance(1 << 24)
	for _, n := range []int{4, 6, len(segments)} {
		rec, _ := mustRead(t, ct.Pcap(ct.Ethernet, append(slices.Clone(segments[3:n]), next.Conversation(chunks)...)...))
		next = ct.NewTCP(ct.Client4, ct.Server4)
		next.Advance(1 << 24)
		last := rec.conns[len(rec.conns)-1]
		if err := last.want(chunks); err != nil || !last.FromStart {
			t.Errorf("after %d segments: %v", n, err)
		}
	}
}

// A capture of one direction has that direction.
func TestOneDirection(t *testing.T) {
	chunks, segments := lossy()
	for d, fromClient := range []bool{true, false} {
		one := slices.DeleteFunc(slices.Clone(segments), func(s ct.Segment) bool { return (s.Src == ct.Client4) != fromClient })
		rec, _ := mustRead(t, ct.Pcap(ct.Ethernet, one...))
		c := rec.only(t)
		if !bytes.Equal(c.data[d].Bytes(), said(chunks, fromClient)) || c.data[1-d].Len() > 0 || c.Client != ct.Client4 || c.closed != 1 {
			t.Errorf("from client %v: %d bytes, %+v", fromClient, c.data[d].Len(), c.Conn)
		}
	}
}

func TestSnaplen(t *testing.T) {
	chunks, segments := lossy()
	for i := 3; i < len(segments)-3; i++ {
		for _, cut := range []int{1, 50, 100} {
			s := slices.Clone(segments)
			s[i].Cut = cut
			d := FromClient
			if s[i].Src == ct.Server4 {
				d = FromServer
			}
			for _, file := range [][]byte{ct.Pcap(ct.Ethernet, s...), ct.Pcapng(ct.Ethernet, s...)} {
				rec, stats := mustRead(t, file)
				c := rec.only(t)
				before := said(chunks[:i-2], d == FromClient)
				before = before[:len(before)-cut]
				if !bytes.Equal(c.data[d].Bytes(), before) {
					t.Fatalf("segment %d, %d cut: %d bytes, want %d", i, cut, c.data[d].Len(), len(before))
				}
				if g := c.gaps[d]; len(g) != 1 || !g[0].Snaplen || g[0].Offset != uint64(len(before)) || g[0].Missing != 0 && g[0].Missing != cut {
					t.Errorf("segment %d, %d cut: gaps %+v", i, cut, g)
				}
				if stats.Cut != 1 {
					t.Errorf("segment %d, %d cut: %+v", i, cut, stats)
				}
				// Repeated as a whole, it is there.
				rec, _ = mustRead(t, ct.Pcap(ct.Ethernet, slices.Insert(s, i+1, segments[i])...))
				if err := rec.only(t).want(chunks); err != nil {
					t.Errorf("segment %d, %d cut, then whole: %v", i, cut, err)
				}
			}
		}
	}
}

// Packets of which not even the headers are there are counted.
func TestUnreadablePackets(t *testing.T) {
	chunks, segments := lossy()
	var file bytes.Buffer
	w := ct.NewPcap(&file, ct.Ethernet)
	for _, s := range segments {
		p := w.Packet(s)
		for _, n := range []int{0, 13, 20, 33, 40, 53} {
			w.Write(p[:n], len(p))
		}
		fragment := bytes.Clone(p)
		fragment[14+6] |= 0x20 // more fragments
		w.Write(fragment, len(fragment))
		udp := bytes.Clone(p)
		udp[14+9] = 17
		w.Write(udp, len(udp))
		w.Segment(s)
	}
	rec, stats := mustRead(t, file.Bytes())
	if err := rec.only(t).want(chunks); err != nil {
		t.Error(err)
	}
	n := len(segments)
	if stats.Unreadable+stats.Cut != 6*n || stats.Fragments != n || stats.Other != n || stats.Segments != n || stats.FirstUnreadable == nil {
		t.Errorf("%+v", stats)
	}
}

// Silence ends a connection, while others show that time passes.
func TestIdle(t *testing.T) {
	chunks := talk(newRand(2), 5, 500)
	var file bytes.Buffer
	w := ct.NewPcap(&file, ct.Ethernet)
	for _, s := range ct.NewTCP(ct.Client4, ct.Server4).Talk(chunks) {
		w.Segment(s)
	}
	acks := ct.NewTCP(ct.Server6, ct.Client6).Open()[2:] // of no connection
	for end := w.Now.Add(idleAfter + time.Minute); w.Now.Before(end); w.Now = w.Now.Add(maxStep) {
		w.Segment(acks[0])
	}
	for _, s := range ct.NewTCP(ct.Client6, ct.Server6).Talk(chunks) {
		w.Segment(s)
	}
	rec, _ := mustRead(t, file.Bytes())
	if len(rec.conns) != 2 {
		t.Fatalf("%d connections", len(rec.conns))
	}
	for i, how := range []Ending{Idle, StillOpen} {
		if err := rec.conns[i].want(chunks); err != nil || rec.conns[i].how != how {
			t.Errorf("%d: %v, %v", i, err, rec.conns[i].how)
		}
	}
}

// Times that are wrong, or jump, end nothing.
func TestClockIsSet(t *testing.T) {
	chunks := append([]ct.Chunk{{FromClient: true, Data: make([]byte, 5000)}}, talk(newRand(3), 30, 2000)...)
	for _, jump := range []time.Duration{24 * time.Hour, -24 * time.Hour} {
		for _, back := range []bool{false, true} {
			var file bytes.Buffer
			w := ct.NewPcap(&file, ct.Ethernet)
			segments := ct.NewTCP(ct.Client4, ct.Server4).Conversation(chunks)
			segments[4], segments[5] = segments[5], segments[4] // something waits
			for i, s := range segments {
				if i == 5 {
					w.Now = w.Now.Add(jump)
				} else if i == 6 && back {
					w.Now = w.Now.Add(-jump)
				}
				w.Segment(s)
			}
			rec, _ := mustRead(t, file.Bytes())
			if c := rec.only(t); c.want(chunks) != nil || c.how != Closed {
				t.Errorf("%v, and back: %v: %v, %v", jump, back, c.want(chunks), c.how)
			}
		}
	}
}

// What the reassembly holds is bounded by the connections that are followed, however they end and
// follow each other.
func TestEndedConnectionsAreForgotten(t *testing.T) {
	for name, end := range map[string]func(tcp *ct.TCP, i int) []ct.Segment{
		"replaced": func(tcp *ct.TCP, _ int) []ct.Segment { return tcp.Open()[:1] },
		"replaced, something waits": func(tcp *ct.TCP, _ int) []ct.Segment {
			open, data := tcp.Open(), tcp.Data(true, make([]byte, 3000))
			return append(append(open[:1:1], data[1:]...), data[0])
		},
		"replaced, both wait": func(tcp *ct.TCP, _ int) []ct.Segment {
			tcp.MSS = 100
			open, there, back := tcp.Open(), tcp.Data(true, make([]byte, 500)), tcp.Data(false, make([]byte, 500))
			return append(append(open[:2:2], there[2:]...), back[3:]...)
		},
		"reset": func(tcp *ct.TCP, i int) []ct.Segment {
			return append(append(tcp.Open(), tcp.Data(true, make([]byte, 100))...), tcp.Reset(i%2 == 0)...)
		},
		"unwanted": func(tcp *ct.TCP, _ int) []ct.Segment {
			return append(tcp.Open(), tcp.Data(true, make([]byte, 3000))...)
		},
	} {
		t.Run(name, func(t *testing.T) {
			var file bytes.Buffer
			w := ct.NewPcap(&file, ct.Raw)
			w.Step = 0
			const n = 3000
			for i := range n {
				tcp := ct.NewTCP(ct.Client4, ct.Server4)
				tcp.Advance(uint32(i) << 16)
				for _, s := range end(tcp, i) {
					w.Segment(s)
				}
			}
			rec := &recorder{refuse: name == "unwanted"}
			rd, err := NewReader(&file, rec)
			for err == nil {
				err = rd.Next()
				if pooled := rd.table.pooled; pooled > len(rd.table.conns) {
					t.Fatalf("packet %d: %d connections in the reassembly, %d followed", rd.Stats().Packets, pooled, len(rd.table.conns))
				}
			}
			if len(rec.conns) == 0 && name != "replaced" || len(rd.table.conns) != 1 {
				t.Errorf("%d connections, %d left", len(rec.conns), len(rd.table.conns))
			}
			rd.Finish()
			for i, c := range rec.conns {
				if !rec.refuse && c.closed != 1 {
					t.Fatalf("connection %d is closed %d times", i, c.closed)
				}
			}
			if pages := rd.table.assembler.Dump(); pages != "pageCache: used: 0:" {
				t.Error(pages)
			}
		})
	}
}

// What is missing when a connection ends is said, also where nothing waits any longer for it to
// come.
func TestMissingAtTheEnd(t *testing.T) {
	chunks, _ := lossy()
	for name, end := range map[string]func(tcp *ct.TCP) []ct.Segment{
		"reset by the other side": func(tcp *ct.TCP) []ct.Segment { return tcp.Reset(false) },
		"port used again": func(tcp *ct.TCP) []ct.Segment {
			again := ct.NewTCP(ct.Client4, ct.Server4)
			again.Advance(1 << 24)
			return again.Conversation(chunks)
		},
	} {
		for lost := range 3 {
			tcp := ct.NewTCP(ct.Client4, ct.Server4)
			segments := append(tcp.Open(), slices.Delete(tcp.Data(true, make([]byte, 4*1448)), lost, lost+1)...)
			rec, _ := mustRead(t, ct.Pcap(ct.Ethernet, append(segments, end(tcp)...)...))
			if len(rec.conns) == 0 {
				t.Fatalf("%s: no connection", name)
			}
			c := rec.conns[0]
			if want := (Gap{Offset: uint64(lost) * 1448}); len(c.gaps[0]) != 1 || c.gaps[0][0] != want || len(c.gaps[1]) > 0 || c.closed != 1 {
				t.Errorf("%s: gaps %+v, want %+v; closed %d times, %v", name, c.gaps, want, c.closed, c.how)
			}
			for _, c := range rec.conns[1:] {
				if err := c.want(chunks); err != nil {
					t.Errorf("%s: the next: %v", name, err)
				}
			}
		}
	}
}

// A Handler that does not want a connection, or no more of it, hears nothing more.
func TestUnwanted(t *testing.T) {
	_, segments := lossy()
	rec := &recorder{refuse: true}
	rd, err := NewReader(bytes.NewReader(ct.Pcap(ct.Ethernet, segments...)), rec)
	for err == nil {
		err = rd.Next()
	}
	rd.Finish()
	if c := rec.only(t); c.closed != 0 || c.data[0].Len() > 0 {
		t.Errorf("refused: %+v", c)
	}
	rec = new(recorder)
	rd, err = NewReader(bytes.NewReader(ct.Pcap(ct.Ethernet, segments...)), rec)
	for err == nil {
		if err = rd.Next(); len(rec.conns) == 1 {
			rec.conns[0].done = func(r *recorded) bool { return r.data[0].Len() > 0 }
		}
	}
	if c := rec.only(t); c.closed != 1 || c.data[0].Len() != 100 || c.how != Closed {
		t.Errorf("done: %d bytes, closed %d times: %v", c.data[0].Len(), c.closed, c.how)
	}
}

// However many connections there are, only so many are followed.
func TestTooManyConnections(t *testing.T) {
	var file bytes.Buffer
	w := ct.NewPcap(&file, ct.Raw)
	w.Step = 0
	const more = 100
	for i := range maxConnections + more {
		client := netip.AddrPortFrom(netip.AddrFrom4([4]byte{10, 0, byte(i >> 8), byte(i)}), 1000)
		for _, s := range ct.NewTCP(client, ct.Server4).Open()[:1] {
			w.Segment(s)
		}
	}
	rec := new(recorder)
	rd, err := NewReader(&file, rec)
	for err == nil {
		err = rd.Next()
	}
	if n := len(rd.table.conns); n != maxConnections || rd.Stats().Refused != more {
		t.Errorf("%d connections, %+v", n, rd.Stats())
	}
}

// Segments of connections that began before the capture do not pile up.
func TestWaitingIsBounded(t *testing.T) {
	var file bytes.Buffer
	w := ct.NewPcap(&file, ct.Raw)
	w.Step = 0
	const n = 3 * maxWaitingTotal
	for i := range n {
		client := netip.AddrPortFrom(netip.AddrFrom4([4]byte{10, 0, byte(i >> 8), byte(i)}), 1000)
		tcp := ct.NewTCP(client, ct.Server4)
		tcp.Open()
		w.Segment(tcp.Data(true, make([]byte, 100))[0])
	}
	rec, stats, err := readFrom(&file)
	if err != nil || stats.Middle != n || len(rec.conns) != n {
		t.Errorf("%v, %d connections, %+v", err, len(rec.conns), stats)
	}
}
