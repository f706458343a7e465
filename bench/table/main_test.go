package main

import (
	"strings"
	"testing"
)

const sample = `go: go1.99
goos: linux
cpu: Some CPU
BenchmarkSeal/size=32B/snappy=off/impl=geth-2   	 100	 3000 ns/op	 10 MB/s	 2800 cpu-ns/op	 0 B/op	 0 allocs/op
BenchmarkSeal/size=32B/snappy=off/impl=rlpx-2   	 100	 1000 ns/op	 30 MB/s	 1000 cpu-ns/op	 0 B/op	 0 allocs/op
BenchmarkMemory/state=idle/size=16MiB/snappy=on/conns=1/impl=geth-2  	 1	 73400320 B/conn
BenchmarkMemory/state=idle/size=16MiB/snappy=on/conns=1/impl=rlpx-2  	 1	 4096 B/conn
BenchmarkHandshake/net=pipe/impl=geth 	 100	 600000 ns/op	 350 allocs/op
BenchmarkHandshake/net=pipe/impl=rlpx 	 100	 800000 ns/op	 100 allocs/op
BenchmarkRefuse/packet=http/impl=rlpx-2 	 100	 800 ns/op
BenchmarkMemory/state=idle/size=1KiB/snappy=off/conns=100/impl=geth-2 	 1	 4500 B/conn	 4000 stack-B/conn
BenchmarkMemory/state=idle/size=1KiB/snappy=off/conns=100/impl=rlpx-2 	 1	 5120 B/conn	 4000 stack-B/conn
BenchmarkShared/load=lone-16KiB/net=pipe/procs=2-2 	 40	 97.4 %shared	 1.00 cpu-shared/alone	 1.02 hi95	 0.97 lo95	 0.9 q1	 1.1 q3	 0.99 shared/alone
BenchmarkShared/load=lone-16KiB/net=pipe/procs=2-2 	 40	 1.10 cpu-shared/alone	 1.04 hi95	 0.99 lo95	 0.9 q1	 1.1 q3	 1.01 shared/alone
BenchmarkShared/load=lone-16KiB-busy/net=pipe/procs=2 	 40	 1.02 hi95	 0.97 lo95	 0.9 q1	 1.1 q3	 0.99 shared/alone
BenchmarkSharedLatency/net=memory/size=16KiB/busy=1/procs=1-2 	 400	 -1000 added-p50-ns	 2000 added-p99-ns	 0 added-max-ns	 60000 alone-p50-ns	 70000 alone-p99-ns	 9000000 alone-max-ns
BenchmarkSharedBeside/conns=8/beside=10x100µs/others=0-2 	 20	 1.5 %shared	 1.04 hi95	 0.96 lo95	 0.9 q1	 1.1 q3	 0.99 shared/alone
BenchmarkSharedBeside/conns=8/beside=4xall/others=2 	 20	 0.94 shared/alone
BenchmarkSharedKept/conns=64/net=tcp/snappy=on/others=2-2 	 20	 0.98 cpu-kept/always	 0.94 kept/always
BenchmarkSharedKept/conns=64/net=tcp/snappy=on/others=2-2 	 20	 0.98 cpu-kept/always	 0.98 kept/always
BenchmarkTrace/work=seal/size=32B/trace=all-2 	 700	 1.11 hi95	 1.09 lo95	 1.1 set/unset	 740 unset-ns
BenchmarkTrace/work=seal/size=32B/trace=all-2 	 700	 1.15 hi95	 1.13 lo95	 1.14 set/unset	 760 unset-ns
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
	render(&out, r, "on")
	for _, want := range []string{
		"Some CPU, go1.99, ",
		"; rounds: 1.", // of the row that has fewest
		"| seal or open one frame, CPU time, 32 B | `Seal/size=32B/snappy=off` | 2.8 µs | 1 µs | 2.80 | >= 2.2, reached |\n",
		"| one lone 16 MiB message over TCP | not measured | | | | >= 2.2 |\n",
		"| full handshake, both sides, time | `Handshake/net=pipe` | 600 µs | 800 µs | 0.75 | >= 1.2, **missed** |\n",
		"| full handshake, both sides, allocations | `Handshake/net=pipe` | 350 | 100 | 3.50 | >= 3, reached |\n",
		"| refusing a garbage handshake | not measured | | | | under 5 µs |\n", // by one side only
		"* `Handshake/net=pipe`: 0.75\n",
		"| memory of an idle connection | `Memory/state=idle/size=1KiB/snappy=off/conns=100` | 4.39 KiB | 5 KiB | 0.88 | under 8 KiB, reached |\n",
		"| `load=lone-16KiB/net=pipe/procs=2` | 1.00 | 0.98 to 1.03 | 0.90 to 1.10 |  | 1.05 |  | 97 % |\n",
		"| `load=lone-16KiB-busy/net=pipe/procs=2` | 0.99 | 0.97 to 1.02 | 0.90 to 1.10 |  |  |  |  |\n",
		"without it. 1 of 2 rows reach 0.95.\n",
		"| `conns=8/beside=10x100µs/others=0` | 0.99 | 0.96 to 1.04 | 0.90 to 1.10 |  | 2 % | reached |\n",
		"| `conns=8/beside=4xall/others=2` | 0.94 |  |  |  |  | **missed** |\n",
		"| `conns=64/net=tcp/snappy=on/others=2` | 0.96 |  |  | 0.98 |  | reached |\n",
		"| `net=memory/size=16KiB/busy=1/procs=1` | 60 µs - 1 µs | 70 µs + 2 µs | 9 ms + 0 ns |\n",
		"| `work=seal/size=32B/trace=all` | 1.120 | 1.110 to 1.130 | 750 ns |\n",
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

const headlineSample = `
BenchmarkSeal/size=128B/snappy=on/impl=geth-2 	 100	 3000 ns/op	 2900 cpu-ns/op
BenchmarkSeal/size=128B/snappy=on/impl=rlpx-2 	 100	 1200 ns/op	 1000 cpu-ns/op
BenchmarkSeal/size=1KiB/snappy=on/impl=geth-2 	 100	 4000 ns/op	 4000 cpu-ns/op
BenchmarkSeal/size=1KiB/snappy=on/impl=rlpx-2 	 100	 2000 ns/op	 2000 cpu-ns/op
BenchmarkSeal/size=128KiB/snappy=on/impl=geth-2 	 100	 300000 ns/op	 300000 cpu-ns/op
BenchmarkSeal/size=128KiB/snappy=on/impl=rlpx-2 	 100	 200000 ns/op	 200000 cpu-ns/op
BenchmarkLone/net=tcp/size=16MiB/snappy=on/impl=geth-2 	 10	 80000000 ns/op
BenchmarkLone/net=tcp/size=16MiB/snappy=on/impl=rlpx-2 	 10	 40000000 ns/op
BenchmarkLone/net=tcp/size=16MiB/snappy=off/impl=geth-2 	 10	 90000000 ns/op
BenchmarkLone/net=tcp/size=16MiB/snappy=off/impl=rlpx-2 	 10	 30000000 ns/op
BenchmarkSession/size=32B/impl=geth-2 	 10	 9000 ns/op
BenchmarkSession/size=32B/impl=rlpx-2 	 10	 3000 ns/op
BenchmarkMemory/state=idle/size=1KiB/snappy=on/conns=100/impl=geth-2 	 1	 4096 B/conn
BenchmarkMemory/state=idle/size=1KiB/snappy=on/conns=100/impl=rlpx-2 	 1	 5120 B/conn
BenchmarkMemory/state=idle/size=16MiB/snappy=on/conns=100/impl=geth-2 	 1	 52428800 B/conn
BenchmarkMemory/state=idle/size=16MiB/snappy=on/conns=100/impl=rlpx-2 	 1	 5120 B/conn
BenchmarkRefuse/packet=http/impl=geth-2 	 10	 500 ns/op
BenchmarkRefuse/packet=http/impl=rlpx-2 	 10	 1000 ns/op
BenchmarkRefuse/packet=tls/impl=geth-2 	 10	 500 ns/op
BenchmarkRefuse/packet=tls/impl=rlpx-2 	 10	 1500 ns/op
`

// The headline has the lines for the compression that was asked for, and whatever is lost.
func TestHeadline(t *testing.T) {
	r, err := parse(strings.NewReader(headlineSample))
	if err != nil {
		t.Fatal(err)
	}
	for snappy, want := range map[string][]string{
		"on": {
			"| seal a frame, CPU time, 128 B / 1 KiB / 128 KiB | 2.9 / 4 / 300 µs | 1 / 2 / 200 µs | 2.90 / 2.00 / 1.50 |\n",
			"| one lone 16 MiB message over TCP, Write to Read | 80 ms | 40 ms | 2.00 |\n",
			"| memory of an idle connection that carried 1 KiB / 16 MiB each way | 4 KiB / 50 MiB | 5 / 5 KiB | 0.80 / 10240 |\n",
		},
		"off": {
			"| seal a frame, CPU time, 128 B / 1 KiB / 128 KiB | not measured | | |\n",
			"| one lone 16 MiB message over TCP, Write to Read | 90 ms | 30 ms | 3.00 |\n",
		},
	} {
		var out strings.Builder
		renderHeadline(&out, r, snappy)
		for _, line := range append(want,
			"| one session, 32 B / 1 KiB / 16 KiB / 128 KiB | not measured | | |\n", // not all of them
			"| **slower:** `Refuse/packet=tls`, the worst of 2 rows of `Refuse` | 500 ns | 1.5 µs | 0.33 |\n",
			"| **larger:** `Memory/state=idle/size=1KiB/snappy=on/conns=100` | 4 KiB | 5 KiB | 0.80 |\n",
		) {
			if !strings.Contains(out.String(), line) {
				t.Errorf("snappy %s, missing: %s", snappy, line)
			}
		}
		if n := strings.Count(out.String(), "\n"); n != 2+len(headlines)+2 {
			t.Errorf("%d lines", n)
		}
		if t.Failed() {
			t.Log(out.String())
		}
	}
}

func TestParseRefusesNonsense(t *testing.T) {
	if _, err := parse(strings.NewReader("BenchmarkSeal/size=1KiB/impl=geth-2 10 x ns/op\n")); err == nil {
		t.Error("accepted a value that is no number")
	}
}

func TestTableOfSharingAlone(t *testing.T) {
	r, err := parse(strings.NewReader("cpu: Some CPU\nBenchmarkShared/load=lone/net=pipe/procs=1 1 0.5 shared/alone\n"))
	if err != nil {
		t.Fatal(err)
	}
	var out strings.Builder
	render(&out, r, "on")
	if strings.Contains(out.String(), "Goals") || !strings.Contains(out.String(), "| `load=lone/net=pipe/procs=1` | 0.50 |") {
		t.Error(out.String())
	}
	if _, err := parse(strings.NewReader("BenchmarkShared/load=lone/net=pipe/procs=1 1 x shared/alone\n")); err == nil {
		t.Error("accepted a value that is no number")
	}
}
