package rlpx

import (
	"context"
	"errors"
	"hash/maphash"
	"io"
	"math/rand/v2"
	"net"
	"runtime"
	"slices"
	"time"

	"github.com/go-rlpx/transport/internal/rlpxtest"
)

// smallBuffers keeps what the system holds of a connection small, so that links are what holds up
// writers.
type smallBuffers struct{ net.Listener }

const soakBuffer = 32 << 10

func (l smallBuffers) Accept() (net.Conn, error) {
	conn, err := l.Listener.Accept()
	if err == nil {
		conn.(*net.TCPConn).SetWriteBuffer(soakBuffer)
	}
	return conn, err
}

// connect makes a connection to the listener over a link of random properties.
func (s *soak) connect(ss *soakSession, r *rand.Rand) (net.Conn, error) {
	shape := rlpxtest.Shape{
		Delay: time.Duration(r.IntN(40)) * time.Millisecond, Jitter: time.Duration(1+r.IntN(20)) * time.Millisecond,
		Loss: []float64{0, 0.001, 0.01}[r.IntN(3)], Retransmit: 200 * time.Millisecond,
	}
	maxSize := 0 // what is worth sending over the link
	switch r.IntN(10) {
	case 0:
		shape.Rate, maxSize = 2<<20, 4<<20
	case 1, 2, 3:
		shape.Rate, maxSize = 512<<10, 1<<20
	default:
		shape.Rate, maxSize = 96<<10, 100<<10
	}
	if *soakTime < time.Minute {
		shape.Rate *= 4 // or most of the time would go to the last messages
	}
	ss.ends[0].maxSize, ss.ends[1].maxSize = maxSize, maxSize

	ours, a, err := rlpxtest.TCPPair()
	if err != nil {
		return nil, err
	}
	b, err := net.Dial("tcp", s.listener.Addr().String())
	if err != nil {
		ours.Close()
		a.Close()
		return nil, err
	}
	ours.(*net.TCPConn).SetWriteBuffer(soakBuffer)
	a.(*net.TCPConn).SetReadBuffer(soakBuffer)
	b.(*net.TCPConn).SetReadBuffer(soakBuffer)
	ss.link = rlpxtest.NewLink(a, b, shape, r.Uint64())
	return ours, nil
}

// failed is told of every error. A session that nobody disturbed has none, and no session ever has
// one that blames the peer.
func (s *soak) failed(ss *soakSession, what string, err error) {
	if !ss.disturbed.Load() || errors.Is(err, ErrAuthentication) || errors.Is(err, ErrProtocol) || errors.Is(err, ErrMessageTooBig) {
		s.t.Errorf("session %d: %s: %v", ss.id, what, err)
	}
}

// message draws a message of at most limit bytes. Small ones are the most frequent.
func (s *soak) message(r *rand.Rand, limit int) []byte {
	size := 0
	switch n := r.IntN(100); {
	case n < 5:
	case n < 50:
		size = r.IntN(200)
	case n < 85:
		size = r.IntN(8 << 10)
	case n < 97:
		size = r.IntN(80 << 10)
	default:
		size = r.IntN(4<<20 + 1)
	}
	size = min(size, limit)
	at := r.IntN(len(s.data) - size + 1)
	return s.data[at : at+size]
}

func (s *soak) digest(code uint64, data []byte) uint64 {
	return maphash.Bytes(s.hash, data) ^ code*0x9E3779B97F4A7C15
}

// record takes down messages of a stream that are about to be written.
func (s *soak) record(end *soakEnd, code uint64, messages ...[]byte) {
	end.mu.Lock()
	defer end.mu.Unlock()
	for _, data := range messages {
		end.sent[code] = append(end.sent[code], s.digest(code, data))
	}
	s.count.written.Add(int64(len(messages)))
}

// startWriters starts two writers, each of a stream of its own.
func (s *soak) startWriters(ss *soakSession, end *soakEnd, seed uint64) {
	ctx, leave := context.WithCancel(context.Background())
	end.leave = leave
	write := func(stream uint64, one func(r *rand.Rand) error) {
		end.writers.Go(func() {
			r := rand.New(rand.NewPCG(seed, stream))
			for ctx.Err() == nil {
				if err := one(r); err != nil {
					s.failed(ss, "writing", err)
					return
				}
				if r.IntN(4) == 0 {
					time.Sleep(time.Duration(r.IntN(10)) * time.Millisecond)
				}
			}
		})
	}
	write(soakFirst, func(r *rand.Rand) error { return s.writeAnyway(end, r) })
	write(soakSecond, func(r *rand.Rand) error {
		data := s.message(r, end.maxSize)
		s.record(end, soakSecond, data)
		_, err := end.conn.Write(soakSecond, data)
		return err
	})
}

// writeAnyway writes by one of the ways that there are.
func (s *soak) writeAnyway(end *soakEnd, r *rand.Rand) error {
	switch r.IntN(3) {
	case 0:
		batch := make([]Message, r.IntN(20))
		for i := range batch {
			batch[i] = Message{Code: soakFirst, Data: s.message(r, end.maxSize/32)}
			s.record(end, soakFirst, batch[i].Data)
		}
		_, err := end.conn.WriteBatch(batch)
		return err
	case 1:
		data := s.message(r, end.maxSize)
		s.record(end, soakFirst, data)
		_, err := end.conn.WritePayload(soakFirst, Compress(data))
		return err
	default:
		data := s.message(r, end.maxSize)
		s.record(end, soakFirst, data)
		_, err := end.conn.Write(soakFirst, data)
		return err
	}
}

// broadcastForever broadcasts to some accepted ends at a time.
func (s *soak) broadcastForever(ctx context.Context, r *rand.Rand) {
	for ctx.Err() == nil && !s.t.Failed() {
		var peers []*soakSession
		s.mu.Lock()
		for _, ss := range s.live { // in random order
			if len(peers) < 10 && ss.serving && ss.ends[1].broadcasting.TryLock() {
				peers = append(peers, ss)
			}
		}
		s.mu.Unlock()
		data := s.message(r, 64<<10)
		conns := make([]*Conn, len(peers))
		for i, ss := range peers {
			conns[i] = ss.ends[1].conn
			s.record(&ss.ends[1], soakBroadcasts, data)
		}
		s.count.broadcast.Add(int64(len(peers)))
		errs := Broadcast(conns, soakBroadcasts, data)
		for i, ss := range peers {
			if errs != nil && errs[i] != nil {
				s.failed(ss, "Broadcast", errs[i])
			}
			ss.ends[1].broadcasting.Unlock()
		}
		time.Sleep(time.Duration(r.IntN(40)) * time.Millisecond)
	}
}

// read takes all that an end receives, with deadlines now and then that expire anywhere. It calls
// onBye, if not nil, when the other end has said that nothing more will come.
func (s *soak) read(ss *soakSession, end *soakEnd, r *rand.Rand, onBye func()) {
	bye := false
	for {
		var deadline time.Time
		if r.IntN(8) == 0 {
			deadline = time.Now().Add(time.Duration(r.IntN(40)) * time.Millisecond)
		}
		end.conn.SetReadDeadline(deadline)
		code, data, _, err := end.conn.Read()
		switch {
		case err != nil && isTimeout(err):
			s.count.resumed.Add(1)
		case err != nil:
			if err != io.EOF || !bye {
				s.failed(ss, "Read", err)
			}
			return
		case bye:
			s.t.Errorf("session %d: code %#x after the last message", ss.id, code)
		case code == soakBye && len(data) == 0:
			bye = true
			if onBye != nil {
				onBye()
			}
		case slices.Contains(soakStreams, code):
			end.got[code] = append(end.got[code], s.digest(code, data))
			s.count.received.Add(1)
			s.count.bytes.Add(int64(len(data)))
		default:
			s.t.Errorf("session %d: code %#x", ss.id, code)
		}
	}
}

// bye ends the writing of an end.
func (s *soak) bye(ss *soakSession, end *soakEnd) {
	end.leave()
	end.writers.Wait()
	end.broadcasting.Lock()
	if _, err := end.conn.Write(soakBye, nil); err != nil {
		s.failed(ss, "the last Write", err)
	}
	if err := end.conn.CloseWrite(); err != nil {
		s.failed(ss, "CloseWrite", err)
	}
}

// check compares what either end wrote with what the other received.
func (s *soak) check(ss *soakSession) {
	for i := range ss.ends {
		from, to := &ss.ends[i], &ss.ends[1-i]
		from.mu.Lock()
		for _, stream := range soakStreams {
			sent, got := from.sent[stream], to.got[stream]
			if len(got) > len(sent) || !slices.Equal(got, sent[:len(got)]) {
				s.t.Errorf("session %d, end %d, stream %#x: what was received is not what was written", ss.id, 1-i, stream)
			} else if !ss.disturbed.Load() && len(got) < len(sent) {
				s.t.Errorf("session %d, end %d, stream %#x: %d of %d messages received", ss.id, 1-i, stream, len(got), len(sent))
			}
		}
		from.mu.Unlock()
	}
}

func (s *soak) watchMemory(ctx context.Context) {
	for ctx.Err() == nil {
		var stats runtime.MemStats
		runtime.ReadMemStats(&stats)
		s.count.peak.Store(max(s.count.peak.Load(), stats.HeapAlloc))
		time.Sleep(100 * time.Millisecond)
	}
}
