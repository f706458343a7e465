package p2p

import (
	"github.com/ethereum/go-ethereum/rlp"
	"github.com/golang/snappy"
)

// AppendDisconnect appends the payload of a Disconnect to dst: a list of one integer. A reason
// without a code on the wire, such as DiscUnspecified, is sent as DiscRequested.
func AppendDisconnect(dst []byte, reason DiscReason) []byte {
	code := uint64(reason.onWire())
	dst = append(dst, 0xc0+byte(rlp.IntSize(code)))
	return rlp.AppendUint64(dst, code)
}

// DecodeDisconnect returns the reason in the payload of a Disconnect after decompression, in any
// form that is seen on public networks: a list that begins with the reason, or the bare integer,
// either of them with a zero written as 0x00 or 0x80. A payload that gives no reason or cannot be
// read is DiscUnspecified: a Disconnect is one whatever it contains.
//
// It looks at a bounded part of the payload and allocates nothing.
func DecodeDisconnect(payload []byte) DiscReason {
	reason, _ := readReason(payload)
	return reason
}

// DecodeWireDisconnect is DecodeDisconnect for a payload as it was on the wire. Peers send a plain
// Disconnect where a compressed one is due and the other way round, around the time of Hello above
// all, so this reads either. What the connection calls for, given by compressed, is tried first.
// The two forms meet in a lone zero byte: a bare reason 0 or, compressed, an empty payload. It is
// taken as DiscRequested.
//
// What declares more than a small plain size is not decompressed.
func DecodeWireDisconnect(payload []byte, compressed bool) DiscReason {
	if compressed {
		if reason, ok := readCompressedReason(payload); ok {
			return reason
		}
	}
	reason, ok := readReason(payload)
	if !ok && !compressed {
		reason, _ = readCompressedReason(payload)
	}
	return reason
}

// readReason reads a plain payload. It reports false, with DiscUnspecified, where the payload has
// none of the known forms or is empty.
func readReason(payload []byte) (DiscReason, bool) {
	payload = payload[:min(len(payload), disconnectLimit)]
	kind, content, rest, err := rlp.Split(payload)
	if err != nil {
		return DiscUnspecified, false
	}
	if kind == rlp.List {
		if len(content) == 0 {
			return DiscUnspecified, true
		}
		// What follows the reason, in the list or after it, does not matter.
		if kind, content, _, err = rlp.Split(content); err != nil || kind == rlp.List {
			return DiscUnspecified, false
		}
	} else if len(rest) > 0 {
		// Almost any bytes begin with something that passes for an integer.
		return DiscUnspecified, false
	}
	switch len(content) {
	case 0:
		return DiscRequested, true
	case 1:
		return DiscReason(content[0]), true
	default:
		return DiscUnspecified, false // over 0xff
	}
}

// readCompressedReason is readReason for a compressed payload.
func readCompressedReason(payload []byte) (DiscReason, bool) {
	if len(payload) > disconnectLimit {
		return DiscUnspecified, false
	}
	var plain [disconnectLimit]byte
	if n, err := snappy.DecodedLen(payload); err != nil || n > len(plain) {
		return DiscUnspecified, false
	}
	content, err := snappy.Decode(plain[:], payload)
	if err != nil {
		return DiscUnspecified, false
	}
	return readReason(content)
}
