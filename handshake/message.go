package handshake

import (
	"encoding/binary"
	"fmt"
	"io"

	"github.com/ethereum/go-ethereum/crypto"
	"github.com/ethereum/go-ethereum/rlp"
)

const (
	signatureSize = crypto.SignatureLength // r ‖ s ‖ recovery id: 65
	nonceSize     = 32

	version = 4 // auth-vsn and ack-vsn. What a peer says is not looked at.

	// EIP-8 asks for a random amount of padding of at least 100 bytes, so that packets differ in
	// size and cannot be taken for the 307 and 210 bytes of the old encoding.
	minPadding = 100
	maxPadding = 300
)

// Encoded sizes of what we send. A string of 56 to 255 bytes has a header of two bytes, a shorter
// one of one byte.
const (
	authContentSize = (2 + signatureSize) + (2 + pointSize) + (1 + nonceSize) + 1
	ackContentSize  = (2 + pointSize) + (1 + nonceSize) + 1

	authSize = 2 + authContentSize // 169
	ackSize  = 2 + ackContentSize  // 102
)

// authMessage and ackMessage are the fields of the two lists that are looked at. When parsed they
// point into the plaintext.
type authMessage struct {
	signature    []byte // signatureSize
	initiatorKey []byte // pointSize, unchecked
	nonce        []byte // nonceSize
}

type ackMessage struct {
	ephemeralKey []byte // pointSize, unchecked
	nonce        []byte // nonceSize
}

// append appends the message as an RLP list. It writes in place instead of going through package
// rlp, whose pooled buffers would keep a copy of the plaintext.
func (m *authMessage) append(dst []byte) []byte {
	dst = append(dst, 0xf8, authContentSize)
	dst = append(append(dst, 0xb8, signatureSize), m.signature...)
	dst = append(append(dst, 0xb8, pointSize), m.initiatorKey...)
	dst = append(append(dst, 0x80+nonceSize), m.nonce...)
	return append(dst, version)
}

func (m *ackMessage) append(dst []byte) []byte {
	dst = append(dst, 0xf8, ackContentSize)
	dst = append(append(dst, 0xb8, pointSize), m.ephemeralKey...)
	dst = append(append(dst, 0x80+nonceSize), m.nonce...)
	return append(dst, version)
}

func parseAuth(plaintext []byte) (m authMessage, err error) {
	list, err := openList(plaintext)
	if err != nil {
		return m, err
	}
	if m.signature, list, err = takeString(list, "signature", signatureSize); err != nil {
		return m, err
	}
	if m.initiatorKey, list, err = takeString(list, "initiator-pubk", pointSize); err != nil {
		return m, err
	}
	if m.nonce, list, err = takeString(list, "nonce", nonceSize); err != nil {
		return m, err
	}
	return m, skipRest(list)
}

func parseAck(plaintext []byte) (m ackMessage, err error) {
	list, err := openList(plaintext)
	if err != nil {
		return m, err
	}
	if m.ephemeralKey, list, err = takeString(list, "recipient-ephemeral-pubk", pointSize); err != nil {
		return m, err
	}
	if m.nonce, list, err = takeString(list, "nonce", nonceSize); err != nil {
		return m, err
	}
	return m, skipRest(list)
}

// openList returns the content of the list that plaintext starts with. What follows it is padding,
// whatever it is.
func openList(plaintext []byte) ([]byte, error) {
	list, _, err := rlp.SplitList(plaintext)
	if err != nil {
		return nil, fmt.Errorf("%w: %v", ErrMessage, err)
	}
	return list, nil
}

// takeString returns the first element of list, which must be a string of the given size, and what
// follows it.
func takeString(list []byte, name string, size int) (value, rest []byte, err error) {
	value, rest, err = rlp.SplitString(list)
	if err != nil {
		return nil, nil, fmt.Errorf("%w: %s: %v", ErrMessage, name, err)
	}
	if len(value) != size {
		return nil, nil, fmt.Errorf("%w: %s of %d bytes, not %d", ErrMessage, name, len(value), size)
	}
	return value, rest, nil
}

// skipRest checks that a version is there. It and any further elements must be RLP, but are not
// decoded.
func skipRest(list []byte) error {
	switch n, err := rlp.CountValues(list); {
	case err != nil:
		return fmt.Errorf("%w: version and later: %v", ErrMessage, err)
	case n == 0:
		return fmt.Errorf("%w: version is missing", ErrMessage)
	}
	return nil
}

// drawPadding returns a length from minPadding to maxPadding, all equally likely.
func drawPadding(rand io.Reader, pair *[2]byte) (int, error) {
	const (
		choices = maxPadding - minPadding + 1
		limit   = 1 << 16 / choices * choices // what is above would favour short paddings
	)
	for range maxDraws {
		if _, err := io.ReadFull(rand, pair[:]); err != nil {
			return 0, fmt.Errorf("rlpx: reading randomness: %w", err)
		}
		if v := int(binary.BigEndian.Uint16(pair[:])); v < limit {
			return minPadding + v%choices, nil
		}
	}
	return 0, errBadRand
}
