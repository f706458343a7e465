package bench

import (
	"fmt"
	"testing"

	"github.com/go-rlpx/transport/rlpx"
)

// BenchmarkBroadcast is one message to many peers, on connections that discard what is written:
// what a relay pays to seal it. go-ethereum's side is what its callers do, a Write for each peer,
// from one goroutine; cpu-ns/op counts all goroutines of both. An operation is the message to one
// peer.
func BenchmarkBroadcast(b *testing.B) {
	for _, conns := range []int{8, 64} {
		for _, size := range []size{1 << 10, 16 << 10, 128 << 10} {
			for _, snappy := range []bool{false, true} {
				row := fmt.Sprintf("conns=%d/size=%v/snappy=%s", conns, size, onOff(snappy))
				each(b, row, func(b *testing.B, im impl) {
					peers := make([]transport, conns)
					ours := make([]*rlpx.Conn, 0, conns)
					for i := range peers {
						peers[i] = im.resume(sink{}, newSecrets(i))
						peers[i].SetSnappy(snappy)
						if c, ok := peers[i].(*rlpx.Conn); ok {
							ours = append(ours, c)
						}
					}
					data := payload(int(size))
					broadcast := func() {
						if len(ours) > 0 {
							if errs := rlpx.Broadcast(ours, msgCode, data); errs != nil {
								fail(b, errs[0])
							}
							return
						}
						for _, c := range peers {
							mustWrite(b, c, data)
						}
					}
					broadcast() // so that buffers have their size
					b.SetBytes(int64(size))
					b.ReportAllocs()
					var cpu cpuMeter
					cpu.start()
					b.ResetTimer()
					for n := 0; n < b.N; n += conns {
						broadcast()
					}
					cpu.report(b)
				})
			}
		}
	}
}

// batchLen is how many messages go into one WriteBatch.
const batchLen = 64

// BenchmarkWriteBatch is small messages over TCP, written 64 at a time and read
// one by one; go-ethereum writes them one by one. An operation is one message.
func BenchmarkWriteBatch(b *testing.B) {
	for _, snappy := range []bool{false, true} {
		const batchedSize = 128
		each(b, fmt.Sprintf("net=tcp/size=%v/snappy=%s", size(batchedSize), onOff(snappy)), func(b *testing.B, im impl) {
			from, to := pair(b, im, "tcp", 0, snappy)
			data := payload(batchedSize)
			msgs := make([]rlpx.Message, batchLen)
			for i := range msgs {
				msgs[i] = rlpx.Message{Code: msgCode, Data: data}
			}
			write := func(n int) error {
				if c, ok := from.(*rlpx.Conn); ok {
					_, err := c.WriteBatch(msgs[:n])
					return err
				}
				for range n {
					if _, err := from.Write(msgCode, data); err != nil {
						return err
					}
				}
				return nil
			}
			b.SetBytes(batchedSize)
			b.ReportAllocs()
			var cpu cpuMeter
			cpu.start()
			b.ResetTimer()
			done := make(chan error, 1)
			go func() {
				for left := b.N; left > 0; left -= batchLen {
					if err := write(min(left, batchLen)); err != nil {
						done <- err
						return
					}
				}
				done <- nil
			}()
			for range b.N {
				mustRead(b, to, batchedSize)
			}
			cpu.report(b)
			if err := <-done; err != nil {
				fail(b, err)
			}
		})
	}
}
