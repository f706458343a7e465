package mac

import (
	"crypto/cipher"
	"crypto/subtle"
	"hash"

	"github.com/go-rlpx/transport/internal/keccak"
)

// Size is the length of a tag, and of the AES block that seeds it, in bytes.
const Size = 16

// Tag is a header-mac or a frame-mac.
type Tag [Size]byte

// MAC is the egress or the ingress MAC state of one connection.
type MAC struct {
	block cipher.Block // AES keyed with the mac-secret

	// Exactly one of the two holds the running state: sponge unless other is set.
	sponge keccak.State
	other  hash.Hash

	// last is the digest of the running state whenever no frame is half
	// absorbed: the one that seeds the next header.
	last [keccak.Size]byte

	// Fields rather than locals, because arguments of interface methods escape.
	seed   [Size]byte
	header [keccak.Size]byte

	share bool // see Share
	job   job

	// What Work is computed from.
	absorbed uint64 // bytes, from the start of the block in which New found the sponge
	digests  uint64
	pieces   uint64
	lanes    uint64
}

// New makes the MAC state of one direction. block is the cipher keyed with the
// mac-secret and seed the state that the handshake left, both as go-ethereum's
// rlpx.Secrets carries them. It panics, as go-ethereum does, if the cipher's block is not 16
// bytes or the digest not 32: no peer can cause that.
func New(block cipher.Block, seed hash.Hash) *MAC {
	if block.BlockSize() != Size {
		panic("mac: cipher block is not 16 bytes")
	}
	if seed.Size() != keccak.Size {
		panic("mac: digest is not 32 bytes")
	}
	m := &MAC{block: block}
	if sponge, ok := keccak.Import(seed); ok {
		m.sponge = sponge
	} else {
		m.other = seed
	}
	m.digest()
	m.digests, m.absorbed = 0, uint64(m.sponge.Position())
	return m
}

// Work is what a MAC has cost.
type Work struct {
	// Permutations is the number of runs of Keccak-f[1600]: three digests a frame, and one for each
	// 136 bytes absorbed. Zero for a hash that only has its own methods, where nobody can tell.
	Permutations uint64

	// SharedPieces counts the pieces that were hashed in a pass of the shared queue, and
	// SharedLanes the lanes that were busy in these passes, all of them together.
	SharedPieces, SharedLanes uint64
}

// Work returns what m has cost since New. Like every method it is not safe for concurrent use.
func (m *MAC) Work() Work {
	w := Work{SharedPieces: m.pieces, SharedLanes: m.lanes}
	if m.other == nil {
		w.Permutations = m.digests + m.absorbed/keccak.Rate // a full block is permuted at once
	}
	return w
}

// Header takes the 16 bytes of a header's ciphertext and returns its header-mac.
func (m *MAC) Header(header []byte) Tag {
	m.absorbHeader(header)
	m.digest()
	return Tag(m.last[:Size])
}

// Absorb takes the next bytes of a frame's ciphertext, so that a large frame can
// be authenticated in pieces while it is under way.
func (m *MAC) Absorb(ciphertext []byte) {
	if m.shares(len(ciphertext)) {
		m.absorbShared(ciphertext, false)
		return
	}
	m.absorb(ciphertext)
}

// Frame takes what remains of a frame's ciphertext, all of it if Absorb was not
// used, and returns the frame-mac.
func (m *MAC) Frame(ciphertext []byte) Tag {
	if m.shares(len(ciphertext)) {
		m.absorbShared(ciphertext, true)
	} else {
		m.absorb(ciphertext)
		m.finish()
	}
	return Tag(m.last[:Size])
}

// finish leaves the frame-mac in last, once the frame's ciphertext is absorbed.
func (m *MAC) finish() {
	m.digest()
	m.absorbSeed()
	m.digest()
}

// Both takes a header's and its frame's ciphertext and returns both tags, as
// Header and Frame would. For a frame that does not fill a block of the hash
// that takes three permutations of which two run side by side, because the header's
// digest and the frame's do not wait for each other.
func (m *MAC) Both(header, ciphertext []byte) (headerMAC, frameMAC Tag) {
	if m.other != nil || m.shares(len(ciphertext)) {
		headerMAC = m.Header(header)
		return headerMAC, m.Frame(ciphertext)
	}
	m.absorbHeader(header)
	m.sponge.SumWriteSum(&m.header, ciphertext, &m.last)
	m.absorbed += uint64(len(ciphertext))
	m.digests += 2
	m.absorbSeed()
	m.digest()
	return Tag(m.header[:Size]), Tag(m.last[:Size])
}

// absorbHeader absorbs the header-mac-seed.
func (m *MAC) absorbHeader(header []byte) {
	m.block.Encrypt(m.seed[:], m.last[:Size])
	subtle.XORBytes(m.seed[:], m.seed[:], header)
	m.absorb(m.seed[:])
}

// absorbSeed absorbs the frame-mac-seed; last is the digest of the state.
func (m *MAC) absorbSeed() {
	m.block.Encrypt(m.seed[:], m.last[:Size])
	subtle.XORBytes(m.seed[:], m.seed[:], m.last[:Size])
	m.absorb(m.seed[:])
}

func (m *MAC) absorb(p []byte) {
	m.absorbed += uint64(len(p))
	if m.other != nil {
		m.other.Write(p)
		return
	}
	m.sponge.Write(p)
}

// digest sets last to the digest of the running state, which stays as it is.
func (m *MAC) digest() {
	m.digests++
	if m.other != nil {
		m.other.Sum(m.last[:0])
		return
	}
	m.sponge.Sum(&m.last)
}
