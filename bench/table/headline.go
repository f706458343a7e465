package main

import (
	"cmp"
	"fmt"
	"io"
	"slices"
	"strings"
)

// headline is the table of the library's README: what most readers want to know of every row. Lines
// that depend on compression come for the setting that was asked for.
//
// A name with %s has it replaced by "on" or "off".
type headline struct {
	work string
	rows []string // whose values share the cells
	unit string
}

var headlines = []headline{
	{"seal a frame, CPU time, 128 B / 1 KiB / 128 KiB", []string{"Seal/size=128B/snappy=%s", "Seal/size=1KiB/snappy=%s", "Seal/size=128KiB/snappy=%s"}, "cpu-ns/op"},
	{"open a frame, CPU time, 128 B / 1 KiB / 128 KiB", []string{"Open/size=128B/snappy=%s", "Open/size=1KiB/snappy=%s", "Open/size=128KiB/snappy=%s"}, "cpu-ns/op"},
	{"one connection over TCP, 128 B / 1 KiB / 16 KiB", []string{"TCP/size=128B/snappy=%s", "TCP/size=1KiB/snappy=%s", "TCP/size=16KiB/snappy=%s"}, "ns/op"},
	{"one connection over net.Pipe, 1 KiB / 16 KiB", []string{"Pipe/size=1KiB/snappy=%s", "Pipe/size=16KiB/snappy=%s"}, "ns/op"},
	{"64 connections over TCP, 16 KiB", []string{"Conns/net=tcp/conns=64/size=16KiB/snappy=%s/sharing=off"}, "ns/op"},
	{"the same with `SharedHashing`", []string{"Conns/net=tcp/conns=64/size=16KiB/snappy=%s"}, "ns/op"},
	{"one lone 16 MiB message over TCP, Write to Read", []string{"Lone/net=tcp/size=16MiB/snappy=%s"}, "ns/op"},
	{"`Broadcast` to 64 peers, CPU time a peer, 1 KiB / 128 KiB", []string{"Broadcast/conns=64/size=1KiB/snappy=%s", "Broadcast/conns=64/size=128KiB/snappy=%s"}, "cpu-ns/op"},
	{"128 B over TCP, `WriteBatch` of 64", []string{"WriteBatch/net=tcp/size=128B/snappy=%s"}, "ns/op"},
	{"one session, 32 B / 1 KiB / 16 KiB / 128 KiB", []string{"Session/size=32B", "Session/size=1KiB", "Session/size=16KiB", "Session/size=128KiB"}, "ns/op"},
	{"one session with `Send`, 32 B / 1 KiB", []string{"SessionSend/size=32B", "SessionSend/size=1KiB"}, "ns/op"},
	{"16 sessions, 1 KiB / 16 KiB", []string{"Sessions/sessions=16/size=1KiB", "Sessions/sessions=16/size=16KiB"}, "ns/op"},
	{"`SendAll` to 64 sessions, CPU time a peer, 1 KiB / 128 KiB", []string{"SessionBroadcast/sessions=64/size=1KiB", "SessionBroadcast/sessions=64/size=128KiB"}, "send-ns/op"},
	{"handshake, both sides: time", []string{"Handshake/net=pipe"}, "ns/op"},
	{"memory of an idle connection that carried 1 KiB / 16 MiB each way", []string{"Memory/state=idle/size=1KiB/snappy=%s/conns=100", "Memory/state=idle/size=16MiB/snappy=%s/conns=100"}, "B/conn"},
}

// renderHeadline writes the table for compression on or off. Below the lines that are chosen stands
// whatever this library loses, chosen or not.
func renderHeadline(out io.Writer, r *results, snappy string) {
	fmt.Fprint(out, "| work | go-ethereum | this library | ratio |\n|---|---|---|---|\n")
	for _, h := range headlines {
		var rows []*row
		for _, name := range h.rows {
			if strings.Contains(name, "%s") {
				name = fmt.Sprintf(name, snappy)
			}
			if i := slices.IndexFunc(r.rows, func(w *row) bool { return w.name == name && len(w.ratios(h.unit)) > 0 }); i >= 0 {
				rows = append(rows, r.rows[i])
			}
		}
		if len(rows) < len(h.rows) {
			fmt.Fprintf(out, "| %s | not measured | | |\n", h.work)
			continue
		}
		fmt.Fprintf(out, "| %s | %s |\n", h.work, cells(rows, h.unit))
	}
	for _, group := range lost(r) {
		what := fmt.Sprintf("`%s`", group[0].name)
		if n := len(group) - 1; n > 0 {
			benchmark, _, _ := strings.Cut(group[0].name, "/")
			what += fmt.Sprintf(", the worst of %d rows of `%s`", n+1, benchmark)
		}
		lost, unit := "slower", group[0].unit()
		if unit == "B/conn" {
			lost = "larger"
		}
		fmt.Fprintf(out, "| **%s:** %s | %s |\n", lost, what, cells(group[:1], unit))
	}
}

// lost are the rows that this library loses, those of one benchmark together and the worst of them
// first.
func lost(r *results) [][]*row {
	var groups [][]*row
	for _, w := range r.rows {
		if median(w.ratios(w.unit())) >= 1 {
			continue
		}
		benchmark, _, _ := strings.Cut(w.name, "/")
		i := slices.IndexFunc(groups, func(g []*row) bool { return strings.HasPrefix(g[0].name, benchmark+"/") })
		if i < 0 {
			groups = append(groups, nil)
			i = len(groups) - 1
		}
		groups[i] = append(groups[i], w)
	}
	for _, g := range groups {
		slices.SortStableFunc(g, func(a, b *row) int {
			return cmp.Compare(median(a.ratios(a.unit())), median(b.ratios(b.unit())))
		})
	}
	return groups
}

// cells are those of the medians of both sides and of the ratios, of several rows at once.
func cells(rows []*row, unit string) string {
	var geth, rlpx, ratios []string
	for _, w := range rows {
		geth = append(geth, quantity(median(w.geth[unit]), unit))
		rlpx = append(rlpx, quantity(median(w.rlpx[unit]), unit))
		ratio := median(w.ratios(unit))
		if ratio >= 100 {
			ratios = append(ratios, fmt.Sprintf("%.0f", ratio))
		} else {
			ratios = append(ratios, fmt.Sprintf("%.2f", ratio))
		}
	}
	return joined(geth) + " | " + joined(rlpx) + " | " + strings.Join(ratios, " / ")
}

// joined puts quantities in a row, each unit once where it is the same up to the next.
func joined(quantities []string) string {
	for i := range len(quantities) - 1 {
		number, unit, _ := strings.Cut(quantities[i], " ")
		if _, next, _ := strings.Cut(quantities[i+1], " "); unit == next {
			quantities[i] = number
		}
	}
	return strings.Join(quantities, " / ")
}
