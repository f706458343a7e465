package interop

import (
	"bytes"
	"encoding/binary"
	"fmt"
	"maps"
	"os"
	"path/filepath"
	"slices"
	"strings"

	"github.com/ethereum/go-ethereum/crypto/ecies"
	"github.com/ethereum/go-ethereum/rlp"

	"github.com/go-rlpx/transport/internal/rlpxtest"
	"github.com/go-rlpx/transport/rlpx/p2p"
)

// otherHabits are what no transcript shows, by the name of the peer without its version. They come
// from the peers' sources and from trying.
var otherHabits = map[string]string{
	"@ethereumjs/devp2p": "waits for 307 bytes before it looks at the size of auth, and for 210 before that of ack. " +
		"Compresses if the other's Hello says 5 or more, but never its Disconnect. Reads the code as one byte. Writes header and data of a " +
		"frame in two calls. Receives in quadratic time. Sends a Ping every 15 s and waits 10 s for Pong",
	geth:            "sends a Ping every 15 s and waits 30 s for a message",
	gethTool:        "sets no deadline, sends no Hello, and reads ours",
	"Apache Tuweni": tuweniHabits,
	gethServer:      "as geth. Closes without a Disconnect for a code beyond all capabilities, and for a network error",
}

// habit is what transcripts show of a peer: for each question, all the answers that there were.
type habit struct {
	padding map[string][]int // of auth and ack
	answers map[string]map[string]bool
}

func (h *habit) note(question, answer string) {
	if h.answers[question] == nil {
		h.answers[question] = map[string]bool{}
	}
	h.answers[question][answer] = true
}

// formatHabits returns a line for each peer that was recorded.
func formatHabits() (string, error) {
	files, err := filepath.Glob(filepath.Join(transcripts, "*.txt"))
	if err != nil {
		return "", err
	}
	peers := map[string]*habit{}
	for _, file := range files {
		text, err := os.ReadFile(file)
		if err != nil {
			return "", err
		}
		t, d, err := rlpxtest.OpenTranscript(text)
		if err != nil {
			return "", fmt.Errorf("%s: %w", file, err)
		}
		h := peers[t.Peer]
		if h == nil {
			h = &habit{map[string][]int{}, map[string]map[string]bool{}}
			peers[t.Peer] = h
		}
		if err := h.learn(t, d); err != nil {
			return "", fmt.Errorf("%s: %w", file, err)
		}
	}
	var b strings.Builder
	for _, peer := range slices.Sorted(maps.Keys(peers)) {
		fmt.Fprintf(&b, "* **%s**: %s.", peer, peers[peer])
		name := peer[:max(0, strings.LastIndex(peer, " "))]
		if other, ok := otherHabits[name]; ok {
			fmt.Fprintf(&b, " Beyond the transcripts: %s.", other)
		}
		fmt.Fprintln(&b)
	}
	return b.String(), nil
}

func (h *habit) learn(t *rlpxtest.Transcript, d *rlpxtest.Decoded) error {
	packet := map[rlpxtest.Role]string{rlpxtest.Initiator: "ack", rlpxtest.Recipient: "auth"}[t.Role]
	padding, err := paddingOf(t, d.Handshake(t, rlpxtest.In))
	if err != nil {
		return fmt.Errorf("%s: %w", packet, err)
	}
	h.padding[packet] = append(h.padding[packet], len(padding))
	switch {
	case len(padding) == 0:
	case strings.Trim(string(padding), "\x00") == "":
		h.note("padding", "zeros")
	default:
		h.note("padding", "random")
	}
	for _, m := range d.Of(rlpxtest.In) {
		h.note("header data", fmt.Sprintf("%x", bytes.TrimRight(m.Header[3:], "\x00")))
		switch m.Code {
		case p2p.HelloCode:
			hello, err := p2p.DecodeHello(m.Data)
			if err != nil {
				return err
			}
			h.note("Hello version", fmt.Sprint(hello.Version))
			h.note("Hello name", fmt.Sprintf("`%s`", hello.PrintableName()))
			h.note("listen port", map[bool]string{true: "0", false: "its own"}[hello.ListenPort == 0])
		case p2p.DisconnectCode:
			// "reason 0x08, a bare byte, not compressed"
			parts := strings.Split(m.Words, ", ")
			if len(parts) != 3 {
				continue
			}
			h.note("Disconnect", parts[1])
			if m.End != d.Of(rlpxtest.In)[0].End && d.Snappy {
				h.note("Disconnect after snappy is on", parts[2])
			}
		}
	}
	return nil
}

// paddingOf decrypts a packet of the handshake with go-ethereum's ECIES and returns what follows
// the list.
func paddingOf(t *rlpxtest.Transcript, packet []byte) ([]byte, error) {
	if size := binary.BigEndian.Uint16(packet); len(packet) != 2+int(size) {
		return nil, fmt.Errorf("packet of %d bytes declares %d", len(packet), size)
	}
	plain, err := ecies.ImportECDSA(t.Key).Decrypt(packet[2:], nil, packet[:2])
	if err != nil {
		return nil, err
	}
	_, padding, err := rlp.SplitList(plain)
	return padding, err
}

// questions are in the order of a session.
var questions = []string{"padding", "Hello version", "Hello name", "listen port", "header data", "Disconnect", "Disconnect after snappy is on"}

func (h *habit) String() string {
	var parts []string
	for _, packet := range []string{"auth", "ack"} {
		if n := h.padding[packet]; len(n) > 0 {
			parts = append(parts, fmt.Sprintf("%s with %s bytes of padding", packet, span(n)))
		}
	}
	for _, question := range questions {
		if answers := h.answers[question]; len(answers) > 0 {
			parts = append(parts, question+": "+strings.Join(slices.Sorted(maps.Keys(answers)), " or "))
		}
	}
	return strings.Join(parts, "; ")
}

func span(n []int) string {
	low, high := slices.Min(n), slices.Max(n)
	if low == high {
		return fmt.Sprint(low)
	}
	return fmt.Sprintf("%d to %d", low, high)
}
