package handshake

import (
	"crypto/aes"
	"crypto/sha256"
	"crypto/subtle"
	"encoding/binary"
	"fmt"
	"io"
	"slices"
)

// A packet is
//
//	size (2, big-endian, of what follows) ‖ R (65) ‖ iv (16) ‖ c ‖ d (32)
//
// with R the sender's ephemeral public key in uncompressed form, c the message under AES-128-CTR,
// and d the HMAC-SHA-256 tag over iv ‖ c ‖ size.
const (
	prefixSize = 2
	ivSize     = aes.BlockSize
	tagSize    = sha256.Size

	uncompressed = 0x04 // first byte of R

	// eciesOverhead is what a packet without any message takes after its size. Every way to decrypt
	// checks it first.
	eciesOverhead = 1 + pointSize + ivSize + tagSize // 113

	// maxPacketSize bounds the size prefix. It is what go-ethereum, reth and others accept; an
	// unpadded auth has 282, so it leaves room for the protocol to grow.
	maxPacketSize = 2048

	offsetR       = prefixSize
	offsetIV      = offsetR + 1 + pointSize
	offsetMessage = offsetIV + ivSize
)

// Sizes of the KDF's output: an AES-128 key and the key that the MAC key is made of.
const (
	encKeySize = 16
	macKeySize = 16
)

// checkSize refuses a size prefix that no packet can have. It is all that is done for such a
// packet.
func checkSize(prefix [prefixSize]byte) (size int, err error) {
	size = int(binary.BigEndian.Uint16(prefix[:]))
	if size < eciesOverhead || size > maxPacketSize {
		return 0, sizeError{size, foreign(prefix)}
	}
	return size, nil
}

// appendPacket extends dst by a packet for a message of n bytes, with its size filled in and the
// message zero.
func appendPacket(dst []byte, n int) (extended, packet []byte) {
	size := eciesOverhead + n
	dst = slices.Grow(dst, prefixSize+size)
	extended = dst[:len(dst)+prefixSize+size]
	packet = extended[len(dst):]
	clear(packet)
	binary.BigEndian.PutUint16(packet, uint16(size))
	return extended, packet
}

// message returns the part of a packet that is encrypted.
func message(packet []byte) []byte {
	return packet[offsetMessage : len(packet)-tagSize]
}

// eciesKeys are the keys of one packet.
type eciesKeys struct {
	enc [encKeySize]byte  // kE
	mac [sha256.Size]byte // SHA-256(kM): the key of the tag
}

// wipe forgets the keys.
func (k *eciesKeys) wipe() { *k = eciesKeys{} }

// derive sets the keys by the NIST SP 800-56 concatenation KDF with SHA-256 and no shared info. Its
// first block is all that the two keys need.
func (k *eciesKeys) derive(shared *[coordinateSize]byte) {
	var block [4 + coordinateSize]byte
	binary.BigEndian.PutUint32(block[:], 1)
	copy(block[4:], shared[:])
	out := sha256.Sum256(block[:])
	copy(k.enc[:], out[:encKeySize])
	k.mac = sha256.Sum256(out[encKeySize : encKeySize+macKeySize])
	clear(block[:])
	clear(out[:])
}

// tag returns HMAC-SHA-256(mac, iv ‖ c ‖ size) of packet, whose own tag is ignored. HMAC is spelled
// out because crypto/hmac takes five allocations a tag, twenty in a handshake: a sixth of what it
// may take in all.
func (k *eciesKeys) tag(packet []byte) [tagSize]byte {
	var buf [sha256.BlockSize + prefixSize + maxPacketSize]byte
	k.pad(&buf, 0x36)
	n := sha256.BlockSize
	n += copy(buf[n:], packet[offsetIV:len(packet)-tagSize])
	n += copy(buf[n:], packet[:prefixSize])
	inner := sha256.Sum256(buf[:n])

	k.pad(&buf, 0x5c)
	n = sha256.BlockSize
	n += copy(buf[n:], inner[:])
	tag := sha256.Sum256(buf[:n])
	clear(buf[:sha256.BlockSize])
	return tag
}

// pad puts the key, which is shorter than a block, xored with HMAC's inner or outer pad at the
// start of buf.
func (k *eciesKeys) pad(buf *[sha256.BlockSize + prefixSize + maxPacketSize]byte, pad byte) {
	for i := range sha256.BlockSize {
		buf[i] = pad
	}
	subtle.XORBytes(buf[:], buf[:len(k.mac)], k.mac[:])
}

// ctr is the scratch of AES-CTR. The mode is spelled out over the standard library's AES, as HMAC
// is over its hash: cipher.NewCTR allocates 512 bytes for each of the four short messages of a
// handshake.
type ctr struct {
	counter, stream [aes.BlockSize]byte
}

// xor encrypts or decrypts src into dst, which may be the same.
func (c *ctr) xor(k *eciesKeys, dst, src, iv []byte) {
	block, err := aes.NewCipher(k.enc[:])
	if err != nil {
		panic("handshake: " + err.Error()) // the key has the right size
	}
	c.counter = [aes.BlockSize]byte(iv)
	for len(src) > 0 {
		block.Encrypt(c.stream[:], c.counter[:])
		n := subtle.XORBytes(dst, src, c.stream[:])
		dst, src = dst[n:], src[n:]
		for i := len(c.counter) - 1; i >= 0; i-- { // big-endian, with the carry through all of it
			c.counter[i]++
			if c.counter[i] != 0 {
				break
			}
		}
	}
	clear(c.stream[:])
}

// encrypt completes a packet of appendPacket in which the message is filled in. Randomness: the
// ephemeral private key, the IV. After an error the message is cleared.
func (p *party) encrypt(packet []byte, to *point) (err error) {
	defer func() {
		clear(p.oneTime[:])
		if err != nil {
			clear(packet)
		}
	}()
	if err := p.oneTime.draw(p.rand); err != nil {
		return err
	}
	iv := packet[offsetIV:offsetMessage]
	if _, err := io.ReadFull(p.rand, iv); err != nil {
		return fmt.Errorf("rlpx: reading randomness: %w", err)
	}
	var r point
	if err := r.baseMult(&p.oneTime); err != nil {
		return err
	}
	packet[offsetR] = uncompressed
	copy(packet[offsetR+1:], r[:])

	keys, err := p.agree(to, &p.oneTime)
	if err != nil {
		return err
	}
	defer keys.wipe()
	p.ctr.xor(&keys, message(packet), message(packet), iv)
	tag := keys.tag(packet)
	copy(packet[len(packet)-tagSize:], tag[:])
	return nil
}

// agree derives the keys of a packet from one end's public and the other's private key.
func (p *party) agree(public *point, private *scalar) (keys eciesKeys, err error) {
	var shared [coordinateSize]byte
	if err := p.scratch.mult(&shared, public, private); err != nil {
		return keys, err
	}
	keys.derive(&shared)
	clear(shared[:])
	return keys, nil
}

// decrypt verifies packet and appends its message to dst, which must not overlap it; the caller
// clears it. The packet must be whole: prefix and exactly as many bytes as it says.
func (p *party) decrypt(dst, packet []byte) ([]byte, error) {
	if len(packet) < prefixSize {
		return nil, fmt.Errorf("%w: no size prefix", ErrPacketSize)
	}
	size, err := checkSize([prefixSize]byte(packet))
	if err != nil {
		return nil, err
	}
	if len(packet) != prefixSize+size {
		return nil, fmt.Errorf("%w: %d bytes announced, %d there", ErrPacketSize, size, len(packet)-prefixSize)
	}
	var r point
	if packet[offsetR] != uncompressed || r.set(packet[offsetR+1:offsetIV]) != nil {
		return nil, fmt.Errorf("%w: ECIES ephemeral key", ErrInvalidPublicKey)
	}
	keys, err := p.agree(&r, &p.static)
	if err != nil {
		return nil, err
	}
	defer keys.wipe()
	tag := keys.tag(packet)
	if subtle.ConstantTimeCompare(tag[:], packet[len(packet)-tagSize:]) != 1 {
		return nil, ErrDecrypt
	}
	n := len(message(packet))
	dst = slices.Grow(dst, n)[:len(dst)+n]
	p.ctr.xor(&keys, dst[len(dst)-n:], message(packet), packet[offsetIV:offsetMessage])
	return dst, nil
}
