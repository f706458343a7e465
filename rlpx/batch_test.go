package rlpx

import (
	"bytes"
	"errors"
	"fmt"
	"net"
	"sync"
	"testing"
	"testing/synctest"

	"github.com/go-rlpx/transport/internal/rlpxtest"
)

// pipePair is a handshaken pair of ours over net.Pipe.
func pipePair(t testing.TB, snappy bool) (*Conn, *Conn) {
	t.Helper()
	ca, cb := net.Pipe()
	a, b := handshakePair(t, newOurs, newOurs, ca, cb)
	a.SetSnappy(snappy)
	b.SetSnappy(snappy)
	return a.(*Conn), b.(*Conn)
}

// expect reads one message and checks it.
func expect(c *Conn, code uint64, data []byte) error {
	gotCode, got, _, err := c.Read()
	if err != nil {
		return err
	}
	if gotCode != code || !bytes.Equal(got, data) {
		return fmt.Errorf("got code %d, %d bytes, want code %d, %d bytes", gotCode, len(got), code, len(data))
	}
	return nil
}

func TestWriteBatch(t *testing.T) {
	rlpxtest.Bound(t)
	for _, snappy := range []bool{false, true} {
		t.Run(fmt.Sprintf("snappy=%v", snappy), func(t *testing.T) {
			a, b := pipePair(t, snappy)
			var msgs []Message
			for i, size := range []int{0, 1, 15, 128, 128, 5000, 300 << 10, 7, 1<<20 + 100, 2 << 20, 3, 200 << 10, 200 << 10} {
				msgs = append(msgs, Message{Code: uint64(i * 50), Data: pattern(size, byte(i))})
			}
			for round := range 3 {
				done := make(chan error, 1)
				go func() {
					_, err := a.WriteBatch(msgs)
					done <- err
				}()
				for i, m := range msgs {
					if err := expect(b, m.Code, m.Data); err != nil {
						t.Fatalf("round %d, message %d: %v", round, i, err)
					}
				}
				if err := <-done; err != nil {
					t.Fatal(err)
				}
			}
			if n, err := a.WriteBatch(nil); n != 0 || err != nil {
				t.Fatalf("empty batch: %d, %v", n, err)
			}
			if s := a.ConnectionState().Stats; s.MessagesWritten != uint64(3*len(msgs)) {
				t.Errorf("%d messages counted, want %d", s.MessagesWritten, 3*len(msgs))
			}
		})
	}
}

func TestWriteBatchMakesOneCall(t *testing.T) {
	a, b := pipePair(t, true)
	before := a.ConnectionState().Stats.WriteCalls
	msgs := make([]Message, 64)
	for i := range msgs {
		msgs[i] = Message{Code: 16, Data: pattern(128, byte(i))}
	}
	done := make(chan error, 1)
	go func() {
		_, err := a.WriteBatch(msgs)
		done <- err
	}()
	for i := range msgs {
		if err := expect(b, 16, msgs[i].Data); err != nil {
			t.Fatal(err)
		}
	}
	if err := <-done; err != nil {
		t.Fatal(err)
	}
	if n := a.ConnectionState().Stats.WriteCalls - before; n != 1 {
		t.Errorf("%d calls on the net.Conn for 64 messages, want 1", n)
	}
}

func TestWriteBatchRefusesAsAWhole(t *testing.T) {
	for _, snappy := range []bool{false, true} {
		a, b := pipePair(t, snappy)
		for _, size := range []int{maxUint24 + 1, maxUint24} {
			if snappy && size == maxUint24 {
				continue // compresses
			}
			n, err := a.WriteBatch([]Message{{Code: 1, Data: []byte("x")}, {Code: 2, Data: make([]byte, size)}})
			if n != 0 || !errors.Is(err, ErrMessageTooBig) {
				t.Fatalf("snappy=%v, %d bytes: %d, %v", snappy, size, n, err)
			}
		}
		go a.Write(3, []byte("after"))
		if err := expect(b, 3, []byte("after")); err != nil {
			t.Fatalf("snappy=%v: %v", snappy, err)
		}
	}
}

func TestWritePayload(t *testing.T) {
	data := pattern(70000, 1)
	p := Compress(data)
	for _, snappy := range []bool{false, true} {
		a, b := pipePair(t, snappy)
		go a.WritePayload(9, p)
		if err := expect(b, 9, data); err != nil {
			t.Fatalf("snappy=%v: %v", snappy, err)
		}
		if _, err := a.WritePayload(9, Compress(make([]byte, maxUint24+1))); !errors.Is(err, ErrMessageTooBig) {
			t.Fatalf("snappy=%v: oversize payload: %v", snappy, err)
		}
	}
}

func TestBroadcast(t *testing.T) {
	rlpxtest.Bound(t)
	for _, peers := range []int{0, 1, 7, 8, 9, 21, 40} {
		for _, size := range []int{0, 100, 16 << 10, 128 << 10, 1<<20 + 500} {
			if size > 1<<20 && peers != 9 {
				continue // frames in pieces are the same work for any number of peers
			}
			t.Run(fmt.Sprintf("peers=%d/size=%d", peers, size), func(t *testing.T) {
				want := make([][]byte, 3)
				for round := range want {
					want[round] = pattern(size, byte(round))
				}
				conns, ends := make([]*Conn, peers), make([]*Conn, peers)
				for i := range conns {
					conns[i], ends[i] = pipePair(t, i%2 == 0)
				}
				var wg sync.WaitGroup
				for i, end := range ends {
					wg.Go(func() {
						for round, data := range want {
							if err := expect(end, 16, data); err != nil {
								t.Errorf("peer %d, round %d: %v", i, round, err)
								end.Close()
								return
							}
						}
					})
				}
				for round, data := range want {
					if errs := Broadcast(conns, 16, data); errs != nil {
						t.Errorf("round %d: %v", round, errs)
					}
				}
				wg.Wait()
			})
		}
	}
}

// A peer that does not read holds up nobody else, and one that is gone costs only its own error.
func TestBroadcastPeersAreIndependent(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		const peers = 12
		conns, ends := make([]*Conn, peers), make([]*Conn, peers)
		for i := range conns {
			conns[i], ends[i] = pipePair(t, true)
		}
		const gone, stalled = 3, 5
		conns[gone].Close()
		data := pattern(5000, 1)
		got := make(chan int, peers)
		for i, end := range ends {
			if i == stalled || i == gone {
				continue
			}
			go func() {
				if err := expect(end, 16, data); err != nil {
					t.Errorf("peer %d: %v", i, err)
				}
				got <- i
			}()
		}
		result := make(chan []error, 1)
		go func() { result <- Broadcast(conns, 16, data) }()
		for range peers - 2 {
			<-got
		}
		synctest.Wait()
		select {
		case errs := <-result:
			t.Fatalf("Broadcast returned while a peer had not read: %v", errs)
		default:
		}
		if err := expect(ends[stalled], 16, data); err != nil {
			t.Fatal(err)
		}
		errs := <-result
		for i := range conns {
			if i == gone {
				if !errors.Is(errs[i], net.ErrClosed) {
					t.Errorf("closed peer: %v", errs[i])
				}
			} else if errs[i] != nil {
				t.Errorf("peer %d: %v", i, errs[i])
			}
		}
	})
}

func TestBroadcastTooBig(t *testing.T) {
	a, b := pipePair(t, false)
	errs := Broadcast([]*Conn{a}, 1, make([]byte, maxUint24+1))
	if len(errs) != 1 || !errors.Is(errs[0], ErrMessageTooBig) {
		t.Fatal(errs)
	}
	errs = Broadcast([]*Conn{a}, 1, make([]byte, maxUint24))
	if len(errs) != 1 || !errors.Is(errs[0], ErrMessageTooBig) {
		t.Fatal(errs)
	}
	go a.Write(3, nil)
	if err := expect(b, 3, nil); err != nil {
		t.Fatal(err)
	}
}

// Broadcasts over the same connections, some listed twice, overlap with writers of all kinds.
func TestBroadcastOverlaps(t *testing.T) {
	rlpxtest.Bound(t)
	const peers, rounds = 10, 30
	conns, ends := make([]*Conn, peers), make([]*Conn, peers)
	for i := range conns {
		conns[i], ends[i] = pipePair(t, i%3 == 0)
	}
	// Every peer gets: 2 broadcasters, one of which lists all of them twice, one
	// writer, one batch writer. Codes tell them apart and data how long it is.
	const perPeer = rounds * (1 + 2 + 1 + 5)
	var readers, writers sync.WaitGroup
	for i, end := range ends {
		readers.Go(func() {
			for n := range perPeer {
				code, data, _, err := end.Read()
				if err != nil {
					t.Errorf("peer %d, message %d: %v", i, n, err)
					return
				}
				if want := pattern(len(data), byte(code)); !bytes.Equal(data, want) {
					t.Errorf("peer %d, message %d: content differs", i, n)
					return
				}
			}
		})
	}
	send := func(b []*Conn, code uint64, size int) {
		if errs := Broadcast(b, code, pattern(size, byte(code))); errs != nil {
			t.Error(errs)
		}
	}
	writers.Go(func() {
		for r := range rounds {
			send(conns, 20, 10<<(r%12))
		}
	})
	writers.Go(func() {
		for r := range rounds {
			send(append(conns[:peers:peers], conns...), 21, 1000*r)
		}
	})
	for _, c := range conns {
		writers.Go(func() {
			for r := range rounds {
				if _, err := c.Write(22, pattern(500*r, 22)); err != nil {
					t.Error(err)
				}
			}
		})
		writers.Go(func() {
			for range rounds {
				batch := make([]Message, 5)
				for i := range batch {
					batch[i] = Message{Code: 23, Data: pattern(100*i, 23)}
				}
				if _, err := c.WriteBatch(batch); err != nil {
					t.Error(err)
				}
			}
		})
	}
	writers.Wait()
	readers.Wait()
}
