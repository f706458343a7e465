package handshake

import (
	"crypto/ecdsa"
	"crypto/subtle"
	"hash"

	"golang.org/x/crypto/sha3"
)

const secretSize = 32

// Secrets is what a handshake yields. It belongs to the caller; nothing here keeps a reference.
type Secrets struct {
	AES, MAC []byte // aes-secret and mac-secret, 32 bytes each

	// The two MAC states, x/crypto's legacy Keccak-256, each seeded with a nonce and a whole
	// handshake packet: size prefix, ciphertext, padding and tag.
	EgressMAC, IngressMAC hash.Hash

	// Remote is the static public key of the other end, on the curve of the caller's own key. At
	// the recipient it is what the initiator claims, and proven only by the first frame whose MAC
	// verifies.
	Remote *ecdsa.PublicKey

	InitiatorNonce, RecipientNonce [nonceSize]byte

	// EphemeralX is the X coordinate of the ECIES ephemeral point of the auth packet, its bytes 3
	// to 34. It is in the clear on the wire, so it tells which session of a capture the secrets
	// belong to.
	EphemeralX [coordinateSize]byte
}

// wipe forgets secrets that nobody is given.
func (s *Secrets) wipe() {
	clear(s.AES)
	clear(s.MAC)
	for _, state := range []hash.Hash{s.EgressMAC, s.IngressMAC} {
		if state != nil {
			state.Reset()
		}
	}
	*s = Secrets{}
}

// derivation is the scratch of party.secrets.
type derivation struct {
	ephemeralKey [coordinateSize]byte
	mixed        [secretSize]byte
}

// secrets derives the secrets from two complete packets. It leaves Remote to the caller, and which
// MAC state is which: that of auth is egress for the initiator, that of ack for the recipient. The
// names and the order are those of the specification:
//
//	ephemeral-key = ecdh.agree(ephemeral-privkey, remote-ephemeral-pubk)
//	shared-secret = keccak256(ephemeral-key ‖ keccak256(nonce ‖ initiator-nonce))
//	aes-secret    = keccak256(ephemeral-key ‖ shared-secret)
//	mac-secret    = keccak256(ephemeral-key ‖ aes-secret)
//	mac of auth   = keccak256.init((mac-secret ^ recipient-nonce) ‖ auth)
//	mac of ack    = keccak256.init((mac-secret ^ initiator-nonce) ‖ ack)
func (p *party) secrets(auth, ack []byte) (s Secrets, authMAC, ackMAC hash.Hash, err error) {
	d := &p.derivation
	defer func() { *d = derivation{} }()
	if err := p.scratch.mult(&d.ephemeralKey, &p.remoteEphemeral, &p.ephemeral); err != nil {
		return Secrets{}, nil, nil, err
	}
	keys := make([]byte, 2*secretSize)
	s = Secrets{
		AES:            keys[:secretSize:secretSize],
		MAC:            keys[secretSize:],
		InitiatorNonce: p.initiatorNonce,
		RecipientNonce: p.recipientNonce,
		EphemeralX:     [coordinateSize]byte(auth[offsetR+1:]),
	}
	h := sha3.NewLegacyKeccak256() // reset before it becomes the MAC of auth
	keccak256 := func(dst, a, b []byte) {
		h.Reset()
		h.Write(a)
		h.Write(b)
		h.Sum(dst[:0])
	}
	keccak256(d.mixed[:], p.recipientNonce[:], p.initiatorNonce[:])
	keccak256(d.mixed[:], d.ephemeralKey[:], d.mixed[:]) // shared-secret
	keccak256(s.AES, d.ephemeralKey[:], d.mixed[:])
	keccak256(s.MAC, d.ephemeralKey[:], s.AES)

	h.Reset()
	authMAC = seedMAC(h, &d.mixed, s.MAC, p.recipientNonce[:], auth)
	ackMAC = seedMAC(sha3.NewLegacyKeccak256(), &d.mixed, s.MAC, p.initiatorNonce[:], ack)
	return s, authMAC, ackMAC, nil
}

// seedMAC feeds an empty h with mac-secret ^ nonce and the packet.
func seedMAC(h hash.Hash, scratch *[secretSize]byte, macSecret, nonce, packet []byte) hash.Hash {
	subtle.XORBytes(scratch[:], macSecret, nonce)
	h.Write(scratch[:])
	h.Write(packet)
	return h
}
