package p2p

import (
	"encoding/hex"
	"fmt"

	"github.com/ethereum/go-ethereum/rlp"
)

// Hello is the first message of either side after the encrypted handshake. It is never compressed.
type Hello struct {
	Version    uint64         // of the base protocol, see Version
	Name       string         // the client, such as "Geth/v1.17.10-stable/linux-amd64/go1.26"; raw bytes when from a peer
	Caps       []Cap          // in any order; AppendHello sorts
	ListenPort uint64         // a relic: 0, or the TCP port where the node listens
	ID         [IDLength]byte // public key of the node, the one of the encrypted handshake
}

// PrintableName returns Name escaped and shortened, safe to print whoever chose it.
func (h Hello) PrintableName() string { return printable(h.Name, printedName) }

// String describes h in one short line, safe to print whoever chose its contents.
func (h Hello) String() string {
	return fmt.Sprintf("%s, p2p/%d, capabilities %s, id %s...",
		h.PrintableName(), h.Version, printableCaps(h.Caps), hex.EncodeToString(h.ID[:8]))
}

// Snappy reports whether the sender of h compresses messages after Hello and expects them to be. A
// connection is compressed if this holds for both Hellos.
func (h Hello) Snappy() bool { return h.Version >= SnappyVersion }

// AppendHello appends the payload of our own Hello to dst, capabilities in order. It refuses what a
// peer would refuse or misread: a null ID, a capability whose name is not 1 to MaxCapName bytes of
// printable ASCII or that is there twice, more than MaxCaps of them, a payload over HelloLimit. On
// error, dst is returned as it was.
func AppendHello(dst []byte, h *Hello) ([]byte, error) {
	if h.ID == [IDLength]byte{} {
		return dst, ErrNullIdentity
	}
	caps, err := sortCaps(h.Caps)
	if err != nil {
		return dst, err
	}
	out := appendHello(dst, h, caps)
	if n := len(out) - len(dst); n > HelloLimit {
		return dst, fmt.Errorf("%w: %d bytes, limit %d", ErrHelloTooBig, n, HelloLimit)
	}
	return out, nil
}

// appendHello encodes h with the given capabilities as they are.
func appendHello(dst []byte, h *Hello, caps []Cap) []byte {
	w := rlp.NewEncoderBuffer(nil)
	hello := w.List()
	w.WriteUint64(h.Version)
	w.WriteString(h.Name)
	list := w.List()
	for _, c := range caps {
		pair := w.List()
		w.WriteString(c.Name)
		w.WriteUint64(c.Version)
		w.ListEnd(pair)
	}
	w.ListEnd(list)
	w.WriteUint64(h.ListenPort)
	w.WriteBytes(h.ID[:])
	w.ListEnd(hello)
	dst = w.AppendToBytes(dst)
	w.Flush() // gives the buffer back; without a writer behind it, there is nothing to fail
	return dst
}

// DecodeHello decodes the payload of a peer's Hello. As EIP-8 asks, any version is accepted and
// whatever follows the five elements, within the list or after it, is not even looked at. In the
// list of capabilities, an element that is not a pair of a string and a 64-bit integer is left out:
// it cannot be one of ours, and says nothing against the others. Capabilities stay in the order in
// which they came, whatever their names.
//
// Errors are ErrHelloTooBig, ErrMalformedHello, ErrInvalidIdentity and ErrNullIdentity.
func DecodeHello(payload []byte) (*Hello, error) {
	if len(payload) > HelloLimit {
		return nil, fmt.Errorf("%w: %d bytes, limit %d", ErrHelloTooBig, len(payload), HelloLimit)
	}
	rest, _, err := rlp.SplitList(payload)
	if err != nil {
		return nil, malformed("outer list", err)
	}
	h := new(Hello)
	if h.Version, rest, err = rlp.SplitUint64(rest); err != nil {
		return nil, malformed("version", err)
	}
	var name, caps, id []byte
	if name, rest, err = rlp.SplitString(rest); err != nil {
		return nil, malformed("client name", err)
	}
	if caps, rest, err = rlp.SplitList(rest); err != nil {
		return nil, malformed("capabilities", err)
	}
	if h.ListenPort, rest, err = rlp.SplitUint64(rest); err != nil {
		return nil, malformed("listen port", err)
	}
	if id, _, err = rlp.SplitString(rest); err != nil {
		return nil, malformed("node key", err)
	}
	if len(id) != IDLength {
		return nil, fmt.Errorf("%w: %d bytes, want %d", ErrInvalidIdentity, len(id), IDLength)
	}
	h.ID = [IDLength]byte(id)
	if h.ID == [IDLength]byte{} {
		return nil, ErrNullIdentity
	}
	if h.Caps, err = decodeCaps(caps); err != nil {
		return nil, err
	}
	h.Name = string(name)
	return h, nil
}

// decodeCaps decodes the contents of the list of capabilities. They are counted before anything is
// allocated for them.
func decodeCaps(list []byte) ([]Cap, error) {
	n, err := rlp.CountValues(list)
	if err != nil {
		return nil, malformed("capabilities", err)
	}
	if n > MaxCaps {
		return nil, fmt.Errorf("%w: %d capabilities, limit %d", ErrMalformedHello, n, MaxCaps)
	}
	caps := make([]Cap, 0, n)
	for len(list) > 0 {
		var kind rlp.Kind
		var pair []byte
		if kind, pair, list, err = rlp.Split(list); err != nil {
			return nil, malformed("capabilities", err)
		}
		if kind != rlp.List {
			continue
		}
		if c, ok := decodeCap(pair); ok {
			caps = append(caps, c)
		}
	}
	return caps, nil
}

// decodeCap decodes the contents of one pair, and reports whether it is one.
func decodeCap(pair []byte) (Cap, bool) {
	name, rest, err := rlp.SplitString(pair)
	if err != nil {
		return Cap{}, false
	}
	version, rest, err := rlp.SplitUint64(rest)
	if err != nil || len(rest) > 0 {
		return Cap{}, false
	}
	return Cap{Name: string(name), Version: version}, true
}

// malformed names the part of a Hello that cannot be decoded. The cause goes in as text only: what
// the RLP decoder calls an unexpected EOF must not pass for the end of a connection.
func malformed(part string, cause error) error {
	return fmt.Errorf("%w: %s: %v", ErrMalformedHello, part, cause)
}
