package main

import (
	"strings"
	"testing"
)

const sample = `goos: linux
cpu: Some CPU
BenchmarkSeal/size=32B/snappy=off/impl=geth-2   	 100	 3000 ns/op	 10 MB/s	 2800 cpu-ns/op	 0 B/op	 0 allocs/op
BenchmarkSeal/size=32B/snappy=off/impl=rlpx-2   	 100	 1000 ns/op	 30 MB/s	 1000 cpu-ns/op	 0 B/op	 0 allocs/op
BenchmarkMemory/state=idle/size=16MiB/snappy=on/conns=1/impl=geth-2  	 1	 73400320 B/conn
BenchmarkMemory/state=idle/size=16MiB/snappy=on/conns=1/impl=rlpx-2  	 1	 4096 B/conn
BenchmarkHandshake/net=pipe/impl=geth 	 100	 600000 ns/op	 350 allocs/op
BenchmarkHandshake/net=pipe/impl=rlpx 	 100	 800000 ns/op	 100 allocs/op
BenchmarkRefuse/packet=http/impl=rlpx-2 	 100	 800 ns/op
some other line
BenchmarkSeal/size=32B/snappy=off/impl=geth-2   	 100	 9000 ns/op
BenchmarkSeal/size=32B/snappy=off/impl=rlpx-2   	 100	 4500 ns/op
BenchmarkSeal/size=32B/snappy=off/impl=geth-2   	 100	 2500 ns/op
BenchmarkSeal/size=32B/snappy=off/impl=rlpx-2   	 100	 1000 ns/op
`

func TestTable(t *testing.T) {
	r, err := parse(strings.NewReader(sample))
	if err != nil {
		t.Fatal(err)
	}
	var out strings.Builder
	render(&out, r)
	for _, want := range []string{
		"Some CPU, go",
		"; rounds: 1.", // of the row that has fewest
		"| seal or open one frame, CPU time, 32 B | `Seal/size=32B/snappy=off` | 2.8 µs | 1 µs | 2.80 | >= 2.2, reached |\n",
		"| one lone 16 MiB message over TCP | not measured | | | | >= 2.2 |\n",
		"| full handshake, both sides, time | `Handshake/net=pipe` | 600 µs | 800 µs | 0.75 | >= 1.1, **missed** |\n",
		"| full handshake, both sides, allocations | `Handshake/net=pipe` | 350 | 100 | 3.50 | >= 3, reached |\n",
		"| refusing a garbage handshake | not measured | | | | under 5 µs |\n", // by one side only
		"* `Handshake/net=pipe`: 0.75\n",
		"| `Seal/size=32B/snappy=off` | 3 µs | 1 µs | 2.50 | 2.00 | 3.00 | 2.50 | 2.80 |\n",
		"| `Memory/state=idle/size=16MiB/snappy=on/conns=1` | 70 MiB | 4 KiB | 17920.00 | 17920.00 | 17920.00 | 17920.00 |  |\n",
	} {
		if !strings.Contains(out.String(), want) {
			t.Errorf("missing: %s", want)
		}
	}
	if t.Failed() {
		t.Log(out.String())
	}
}

func TestParseRefusesNonsense(t *testing.T) {
	if _, err := parse(strings.NewReader("BenchmarkSeal/size=1KiB/impl=geth-2 10 x ns/op\n")); err == nil {
		t.Error("accepted a value that is no number")
	}
}
