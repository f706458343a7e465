package rlpxtest

import (
	"crypto/aes"
	"crypto/cipher"
	"crypto/hmac"
	"errors"
	"fmt"
	"hash"
	"math/rand/v2"

	"golang.org/x/crypto/sha3"
)

const blockSize = 16

// HeaderSize is the length of a header on the wire, with its MAC; MACSize that of a MAC.
const (
	HeaderSize = blockSize + MACSize
	MACSize    = 16
)

// MaxFrame is the largest size that a header can declare.
const MaxFrame = 1<<24 - 1

// HeaderData is what a header carries after the size: rlp([0, 0]).
var HeaderData = []byte{0xC2, 0x80, 0x80}

// Secrets are what one end of a session starts from.
type Secrets struct {
	AES, MAC              []byte
	EgressMAC, IngressMAC hash.Hash
}

// NewSecrets returns matching secrets for the two ends of a session. They are
// a function of the seed.
func NewSecrets(seed uint64) (a, b Secrets) {
	r := rand.New(rand.NewPCG(seed, 0x524c5078))
	aesSecret, macSecret := Random(r, 32), Random(r, 32)
	seedA, seedB := Random(r, 200+r.IntN(300)), Random(r, 200+r.IntN(300))
	return Secrets{aesSecret, macSecret, Keccak(seedA), Keccak(seedB)},
		Secrets{aesSecret, macSecret, Keccak(seedB), Keccak(seedA)}
}

// Keccak returns a legacy Keccak-256 state that absorbed p.
func Keccak(p []byte) hash.Hash {
	h := sha3.NewLegacyKeccak256()
	h.Write(p)
	return h
}

// Random returns n bytes from r.
func Random(r *rand.Rand, n int) []byte {
	b := make([]byte, n)
	for i := range b {
		b[i] = byte(r.Uint32())
	}
	return b
}

// Session is one end of a session.
type Session struct {
	Egress, Ingress *Direction
}

// NewSession returns the end that starts from sec.
func NewSession(sec Secrets) *Session {
	return &Session{
		Egress:  NewDirection(sec.AES, sec.MAC, sec.EgressMAC),
		Ingress: NewDirection(sec.AES, sec.MAC, sec.IngressMAC),
	}
}

// Direction is the cipher and the MAC state of one direction.
type Direction struct {
	stream cipher.Stream
	block  cipher.Block // keyed with the mac-secret
	mac    hash.Hash
}

// NewDirection returns the direction with the given keys and MAC state, which it takes over.
func NewDirection(aesSecret, macSecret []byte, mac hash.Hash) *Direction {
	stream, err := aes.NewCipher(aesSecret)
	if err != nil {
		panic(err)
	}
	block, err := aes.NewCipher(macSecret)
	if err != nil {
		panic(err)
	}
	return &Direction{cipher.NewCTR(stream, make([]byte, blockSize)), block, mac}
}

func (d *Direction) digest() []byte { return d.mac.Sum(nil)[:MACSize] }

func (d *Direction) aes(in []byte) []byte {
	out := make([]byte, blockSize)
	d.block.Encrypt(out, in)
	return out
}

func xor(a, b []byte) []byte {
	out := make([]byte, len(a))
	for i := range a {
		out[i] = a[i] ^ b[i]
	}
	return out
}

func (d *Direction) headerMAC(ciphertext []byte) []byte {
	seed := xor(d.aes(d.digest()), ciphertext)
	d.mac.Write(seed)
	return d.digest()
}

func (d *Direction) frameMAC(ciphertext []byte) []byte {
	d.mac.Write(ciphertext)
	seed := xor(d.aes(d.digest()), d.digest())
	d.mac.Write(seed)
	return d.digest()
}

// Header is the plaintext of a frame's header.
type Header [blockSize]byte

// MakeHeader returns the header that declares size and carries data.
func MakeHeader(size int, data []byte) Header {
	h := Header{byte(size >> 16), byte(size >> 8), byte(size)}
	if copy(h[3:], data) < len(data) {
		panic("rlpxtest: header data too long")
	}
	return h
}

// Size is the size of the frame data that the header declares.
func (h Header) Size() int { return int(h[0])<<16 | int(h[1])<<8 | int(h[2]) }

// SealHeader returns header-ciphertext and header-mac.
func (d *Direction) SealHeader(h Header) []byte {
	ciphertext := make([]byte, blockSize)
	d.stream.XORKeyStream(ciphertext, h[:])
	return append(ciphertext, d.headerMAC(ciphertext)...)
}

// SealData returns frame-ciphertext and frame-mac for frame data that is padded here.
func (d *Direction) SealData(data []byte) []byte {
	ciphertext := make([]byte, Padded(len(data)), Padded(len(data))+MACSize)
	copy(ciphertext, data)
	d.stream.XORKeyStream(ciphertext, ciphertext)
	return append(ciphertext, d.frameMAC(ciphertext)...)
}

// Seal returns the frame of the given frame data.
func (d *Direction) Seal(data []byte) []byte {
	return append(d.SealHeader(MakeHeader(len(data), HeaderData)), d.SealData(data)...)
}

// Padded is the length of the frame-ciphertext for frame data of the given size.
func Padded(size int) int { return (size + blockSize - 1) / blockSize * blockSize }

// Errors of a session's opening side.
var (
	ErrHeaderMAC = errors.New("rlpxtest: wrong header-mac")
	ErrFrameMAC  = errors.New("rlpxtest: wrong frame-mac")
)

// OpenHeader verifies and decrypts header-ciphertext and header-mac.
func (d *Direction) OpenHeader(wire []byte) (h Header, err error) {
	if len(wire) != HeaderSize {
		return Header{}, fmt.Errorf("rlpxtest: header of %d bytes", len(wire))
	}
	if !hmac.Equal(d.headerMAC(wire[:blockSize]), wire[blockSize:]) {
		return Header{}, ErrHeaderMAC
	}
	d.stream.XORKeyStream(h[:], wire[:blockSize])
	return h, nil
}

// OpenData verifies and decrypts frame-ciphertext and frame-mac, and returns
// frame data of the given size. Padding must be zero, as an honest peer makes it.
func (d *Direction) OpenData(wire []byte, size int) ([]byte, error) {
	n := Padded(size)
	if len(wire) != n+MACSize {
		return nil, fmt.Errorf("rlpxtest: %d bytes for frame data of %d", len(wire), size)
	}
	if !hmac.Equal(d.frameMAC(wire[:n]), wire[n:]) {
		return nil, ErrFrameMAC
	}
	plain := make([]byte, n)
	d.stream.XORKeyStream(plain, wire[:n])
	for _, b := range plain[size:] {
		if b != 0 {
			return nil, errors.New("rlpxtest: padding is not zero")
		}
	}
	return plain[:size], nil
}

// A Frame as it was received.
type Frame struct {
	Header Header
	Data   []byte // frame data: code and payload
	Wire   int    // bytes on the wire
}

// OpenAll opens the frames of a recorded wire. It wants whole frames.
func (d *Direction) OpenAll(wire []byte) ([]Frame, error) {
	var frames []Frame
	for len(wire) > 0 {
		if len(wire) < HeaderSize {
			return frames, fmt.Errorf("rlpxtest: %d bytes are left after frame %d", len(wire), len(frames))
		}
		h, err := d.OpenHeader(wire[:HeaderSize])
		if err != nil {
			return frames, err
		}
		end := HeaderSize + Padded(h.Size()) + MACSize
		if len(wire) < end {
			return frames, fmt.Errorf("rlpxtest: frame %d is cut: %d of %d bytes", len(frames), len(wire), end)
		}
		data, err := d.OpenData(wire[HeaderSize:end], h.Size())
		if err != nil {
			return frames, err
		}
		frames = append(frames, Frame{h, data, end})
		wire = wire[end:]
	}
	return frames, nil
}

// Data makes frame data: the code as an RLP integer, then the payload.
func Data(code uint64, payload []byte) []byte {
	return append(Code(code), payload...)
}

// Code is the RLP of a message code.
func Code(code uint64) []byte {
	if code == 0 {
		return []byte{0x80}
	}
	var be []byte
	for c := code; c > 0; c >>= 8 {
		be = append([]byte{byte(c)}, be...)
	}
	if len(be) == 1 && be[0] < 0x80 {
		return be
	}
	return append([]byte{0x80 + byte(len(be))}, be...)
}
