package main

import "regexp"

// goal is what a row of the benchmarks should reach on a machine with AVX-512.
type goal struct {
	work string         // in words
	rows *regexp.Regexp // which rows measure it
	unit string

	// One of the two. Ratios are against go-ethereum.
	ratio float64 // at least
	below float64 // less than so much of the unit
}

func only(pattern string) *regexp.Regexp { return regexp.MustCompile("^" + pattern + "$") }

// Those with compression on come first, then what must not fall without it.
var goals = []goal{
	{work: "seal a frame, compressed, CPU time, 128 B", rows: only(`Seal/size=128B/snappy=on`), unit: "cpu-ns/op", ratio: 2.5},
	{work: "open a frame, compressed, CPU time, 128 B", rows: only(`Open/size=128B/snappy=on`), unit: "cpu-ns/op", ratio: 2.8},
	{work: "seal a frame, compressed, CPU time, 1 KiB", rows: only(`Seal/size=1KiB/snappy=on`), unit: "cpu-ns/op", ratio: 1.75},
	{work: "open a frame, compressed, CPU time, 1 KiB", rows: only(`Open/size=1KiB/snappy=on`), unit: "cpu-ns/op", ratio: 1.95},
	{work: "seal a frame, compressed, CPU time, 128 KiB", rows: only(`Seal/size=128KiB/snappy=on`), unit: "cpu-ns/op", ratio: 1.55},
	{work: "open a frame, compressed, CPU time, 128 KiB", rows: only(`Open/size=128KiB/snappy=on`), unit: "cpu-ns/op", ratio: 1.8},
	{work: "one connection over net.Pipe, compressed, 16 KiB", rows: only(`Pipe/size=16KiB/snappy=on`), unit: "ns/op", ratio: 1.7},
	{work: "one connection over TCP, compressed, 16 KiB", rows: only(`TCP/size=16KiB/snappy=on`), unit: "ns/op", ratio: 1.85},
	{work: "64 connections over TCP, compressed, 16 KiB, shared hashing", rows: only(`Conns/net=tcp/conns=64/size=16KiB/snappy=on`), unit: "ns/op", ratio: 2.6},
	{work: "64 connections over TCP, compressed, 1 KiB, shared hashing", rows: only(`Conns/net=tcp/conns=64/size=1KiB/snappy=on`), unit: "ns/op", ratio: 1.85},
	{work: "64 connections over TCP, random bytes, 16 KiB, shared hashing", rows: only(`Conns/net=tcp/conns=64/size=16KiB/snappy=on/data=random`), unit: "ns/op", ratio: 3.2},
	{work: "one session, 32 B", rows: only(`Session/size=32B`), unit: "ns/op", ratio: 1.9},
	{work: "one session, 1 KiB and 16 KiB", rows: only(`Session/size=(1|16)KiB`), unit: "ns/op", ratio: 2},
	{work: "one session, 128 KiB", rows: only(`Session/size=128KiB`), unit: "ns/op", ratio: 2.2},
	{work: "one session with Send, 32 B", rows: only(`SessionSend/size=32B`), unit: "ns/op", ratio: 4},
	{work: "one session with Send, 1 KiB", rows: only(`SessionSend/size=1KiB`), unit: "ns/op", ratio: 2.5},
	{work: "16 sessions, 1 KiB", rows: only(`Sessions/sessions=16/size=1KiB`), unit: "ns/op", ratio: 2.6},
	{work: "16 sessions, 16 KiB", rows: only(`Sessions/sessions=16/size=16KiB`), unit: "ns/op", ratio: 2.8},
	{work: "one message to 64 sessions, CPU time, 1 KiB", rows: only(`SessionBroadcast/sessions=64/size=1KiB`), unit: "send-ns/op", ratio: 3},
	{work: "one message to 64 sessions, CPU time, 128 KiB", rows: only(`SessionBroadcast/sessions=64/size=128KiB`), unit: "send-ns/op", ratio: 6},
	{work: "seal or open one frame, CPU time, 32 B", rows: only(`(Seal|Open)/size=32B/snappy=off`), unit: "cpu-ns/op", ratio: 2.2},
	{work: "seal or open one frame, CPU time, 1 KiB", rows: only(`(Seal|Open)/size=1KiB/snappy=off`), unit: "cpu-ns/op", ratio: 1.75},
	{work: "seal or open one frame, CPU time, 128 KiB and up", rows: only(`(Seal|Open)/size=(128KiB|1MiB)/snappy=off`), unit: "cpu-ns/op", ratio: 1.5},
	{work: "one connection over net.Pipe, 1 KiB", rows: only(`Pipe/size=1KiB/snappy=off`), unit: "ns/op", ratio: 1.2},
	{work: "one connection over net.Pipe, 16 KiB", rows: only(`Pipe/size=16KiB/snappy=off`), unit: "ns/op", ratio: 1.4},
	{work: "one connection over net.Pipe, 1 MiB", rows: only(`Pipe/size=1MiB/snappy=off`), unit: "ns/op", ratio: 1.45},
	{work: "64 connections over net.Pipe, 16 KiB, shared hashing", rows: only(`Conns/net=pipe/conns=64/size=16KiB/snappy=off`), unit: "ns/op", ratio: 4},
	{work: "64 connections over TCP, 16 KiB, shared hashing", rows: only(`Conns/net=tcp/conns=64/size=16KiB/snappy=off`), unit: "ns/op", ratio: 2.5},
	{work: "one lone 16 MiB message over TCP", rows: only(`Lone/net=tcp/size=16MiB/snappy=off`), unit: "ns/op", ratio: 2.2},
	{work: "Broadcast of 128 KiB to 64 connections, CPU time", rows: only(`Broadcast/.*conns=64/size=128KiB/snappy=off`), unit: "cpu-ns/op", ratio: 6},
	{work: "128 B over TCP, WriteBatch of 64", rows: only(`WriteBatch/.*size=128B.*`), unit: "ns/op", ratio: 5},
	{work: "full handshake, both sides, time", rows: only(`Handshake/net=pipe`), unit: "ns/op", ratio: 1.2},
	{work: "full handshake, both sides, allocations", rows: only(`Handshake/net=pipe`), unit: "allocs/op", ratio: 3},
	{work: "memory of an idle connection", rows: only(`Memory/state=idle/.*conns=100`), unit: "B/conn", below: 8 << 10},
	{work: "memory when 16 MiB are announced and nothing comes", rows: only(`Memory/state=announced/.*conns=100`), unit: "B/conn", below: 64 << 10},
	{work: "refusing a garbage handshake", rows: only(`Refuse/.*`), unit: "ns/op", below: 5000},
}
