package handshake

import (
	"crypto/ecdsa"
	"crypto/elliptic"
	"crypto/rand"
	"crypto/subtle"
	"fmt"
	"io"
	"slices"
)

// party is what both roles have: this end's keys and the values of one handshake.
type party struct {
	curve  elliptic.Curve // of the caller's key; the remote key that we return has the same
	static scalar         // this end's static private key, cleared when the handshake is complete
	public point
	rand   io.Reader

	remote    point // static-pubk of the other end
	ephemeral scalar
	// remoteEphemeral is known to the recipient from auth, to the initiator from ack.
	remoteEphemeral point
	initiatorNonce  [nonceSize]byte
	recipientNonce  [nonceSize]byte

	// Scratch, without meaning between calls. It is here because what is handed to an interface
	// must be on the heap.
	scratch coordinates
	ctr     ctr
	oneTime scalar // private key of the ECIES ephemeral point
	digest  [nonceSize]byte
	pair    [2]byte // of drawPadding
	derivation
}

func (p *party) init(key *ecdsa.PrivateKey, random io.Reader) error {
	if err := setKeys(&p.static, &p.public, key); err != nil {
		return err
	}
	p.curve = key.Curve
	p.rand = random
	if random == nil {
		p.rand = rand.Reader
	}
	return nil
}

// signedDigest sets digest to static-shared-secret ^ initiator-nonce, the message of the signature
// in auth.
func (p *party) signedDigest(remote *point, initiatorNonce []byte) error {
	if err := p.scratch.mult(&p.digest, remote, &p.static); err != nil {
		return err
	}
	subtle.XORBytes(p.digest[:], p.digest[:], initiatorNonce)
	return nil
}

// Initiator is the side that dials: it writes auth and reads ack.
type Initiator struct {
	party
	auth []byte // the packet as sent; nil before WriteAuth
	done bool
}

// NewInitiator returns the dialing side of one handshake with the owner of remote. Keys are checked
// here, as by [CheckKey] and [CheckPublicKey]. A nil rand means crypto/rand; see the package
// documentation for how it is consumed.
func NewInitiator(key *ecdsa.PrivateKey, remote *ecdsa.PublicKey, rand io.Reader) (*Initiator, error) {
	h := new(Initiator)
	if err := h.init(key, remote, rand); err != nil {
		return nil, err
	}
	return h, nil
}

func (h *Initiator) init(key *ecdsa.PrivateKey, remote *ecdsa.PublicKey, rand io.Reader) error {
	if err := setRemote(&h.remote, remote); err != nil {
		return err
	}
	return h.party.init(key, rand)
}

// WriteAuth appends the auth packet to dst. It is called once; after an error, which only rand can
// cause, it may be called again. A second call after success panics.
func (h *Initiator) WriteAuth(dst []byte) ([]byte, error) {
	if h.auth != nil {
		panic("handshake: WriteAuth called twice")
	}
	out, err := h.writeAuth(dst)
	if err != nil {
		return nil, err
	}
	h.auth = slices.Clone(h.auth)
	return out, nil
}

// writeAuth is WriteAuth for a dst that belongs to h from here on.
func (h *Initiator) writeAuth(dst []byte) ([]byte, error) {
	out, err := h.makeAuth(dst)
	if err != nil {
		clear(h.ephemeral[:])
		return nil, &Error{RoleInitiator, StepAuth, err}
	}
	return out, nil
}

func (h *Initiator) makeAuth(dst []byte) ([]byte, error) {
	padding, err := h.drawNonceAndKey(&h.initiatorNonce)
	if err != nil {
		return nil, err
	}
	if err := h.signedDigest(&h.remote, h.initiatorNonce[:]); err != nil {
		return nil, err
	}
	defer clear(h.digest[:])
	// The signature is all that tells the recipient our ephemeral public key, so we need not
	// compute it.
	signature, err := h.scratch.sign(&h.ephemeral, h.digest[:])
	if err != nil {
		return nil, fmt.Errorf("rlpx: signing auth: %w", err)
	}
	defer clear(signature)
	auth := authMessage{signature, h.public[:], h.initiatorNonce[:]}
	out, packet := appendPacket(dst, authSize+padding)
	auth.append(message(packet)[:0])
	if err := h.encrypt(packet, &h.remote); err != nil {
		return nil, err
	}
	h.auth = packet
	return out, nil
}

// drawNonceAndKey reads the first half of a message's randomness; encrypt reads the rest.
func (p *party) drawNonceAndKey(nonce *[nonceSize]byte) (padding int, err error) {
	if _, err := io.ReadFull(p.rand, nonce[:]); err != nil {
		return 0, fmt.Errorf("rlpx: reading randomness: %w", err)
	}
	if err := p.ephemeral.draw(p.rand); err != nil {
		return 0, err
	}
	return drawPadding(p.rand, &p.pair)
}

// ReadAck reads the whole ack packet, size prefix included, and completes the handshake. After an
// error another packet may be tried. Calling it before WriteAuth, or again after success, panics.
func (h *Initiator) ReadAck(packet []byte) (Secrets, error) {
	if h.auth == nil || h.done {
		panic("handshake: ReadAck called out of order")
	}
	return h.readAck(packet, nil)
}

// readAck is ReadAck with room for the plaintext, see driver.read.
func (h *Initiator) readAck(packet, room []byte) (Secrets, error) {
	s, err := h.takeAck(packet, room)
	if err != nil {
		return Secrets{}, &Error{RoleInitiator, StepAck, err}
	}
	h.done = true
	h.wipe()
	return s, nil
}

func (h *Initiator) takeAck(packet, room []byte) (Secrets, error) {
	plaintext, err := h.decrypt(room, packet)
	if err != nil {
		return Secrets{}, err
	}
	defer clear(plaintext)
	ack, err := parseAck(plaintext)
	if err != nil {
		return Secrets{}, err
	}
	if err := h.remoteEphemeral.set(ack.ephemeralKey); err != nil {
		return Secrets{}, fmt.Errorf("%w: recipient-ephemeral-pubk", err)
	}
	h.recipientNonce = [nonceSize]byte(ack.nonce)
	s, authMAC, ackMAC, err := h.secrets(h.auth, packet)
	if err != nil {
		return Secrets{}, err
	}
	s.Remote = h.remote.publicKey(h.curve)
	s.EgressMAC, s.IngressMAC = authMAC, ackMAC
	return s, nil
}

// Responder is the side that listens, the recipient of the specification: it reads auth and writes
// ack.
type Responder struct {
	party
	auth      []byte           // the packet as received; nil before ReadAuth
	remoteKey *ecdsa.PublicKey // remote, as it was returned
	done      bool
}

// NewResponder returns the listening side of one handshake. The key is checked and rand used as in
// NewInitiator.
func NewResponder(key *ecdsa.PrivateKey, rand io.Reader) (*Responder, error) {
	h := new(Responder)
	if err := h.init(key, rand); err != nil {
		return nil, err
	}
	return h, nil
}

// ReadAuth reads the whole auth packet, size prefix included, and returns the static key that the
// initiator claims; nothing proves yet that it is the initiator's. After an error another packet
// may be tried; after success a second call panics.
func (h *Responder) ReadAuth(packet []byte) (remote *ecdsa.PublicKey, err error) {
	if h.auth != nil {
		panic("handshake: ReadAuth called twice")
	}
	return h.readAuth(slices.Clone(packet), nil)
}

// readAuth is ReadAuth for a packet that belongs to h from here on, with room for the plaintext.
func (h *Responder) readAuth(packet, room []byte) (*ecdsa.PublicKey, error) {
	if err := h.takeAuth(packet, room); err != nil {
		return nil, &Error{RoleRecipient, StepAuth, err}
	}
	h.auth = packet
	return h.remoteKey, nil
}

func (h *Responder) takeAuth(packet, room []byte) error {
	plaintext, err := h.decrypt(room, packet)
	if err != nil {
		return err
	}
	defer clear(plaintext)
	auth, err := parseAuth(plaintext)
	if err != nil {
		return err
	}
	if !validSignature(auth.signature) {
		return ErrSignature // before the multiplications
	}
	var remote point
	if err := remote.set(auth.initiatorKey); err != nil {
		return fmt.Errorf("%w: initiator-pubk", err)
	}
	if err := h.signedDigest(&remote, auth.nonce); err != nil {
		return err
	}
	defer clear(h.digest[:])
	if err := h.remoteEphemeral.recoverKey(h.digest[:], auth.signature); err != nil {
		return err
	}
	h.remote = remote
	h.remoteKey = remote.publicKey(h.curve)
	h.initiatorNonce = [nonceSize]byte(auth.nonce)
	return nil
}

// WriteAck appends the ack packet to dst and completes the handshake. It is called once, after
// ReadAuth succeeded; after an error, which only rand can cause, it may be called again. Out of
// this order it panics.
func (h *Responder) WriteAck(dst []byte) ([]byte, Secrets, error) {
	if h.auth == nil || h.done {
		panic("handshake: WriteAck called out of order")
	}
	out, err := h.writeAck(dst)
	if err != nil {
		return nil, Secrets{}, err
	}
	s, err := h.finish(out[len(dst):])
	if err != nil {
		clear(out[len(dst):])
		return nil, Secrets{}, err
	}
	return out, s, nil
}

// writeAck and finish are the two halves of WriteAck. The driver sends the packet between them, so
// that both ends compute at the same time. Nothing that finish does depends on the peer any more.
func (h *Responder) writeAck(dst []byte) ([]byte, error) {
	out, err := h.makeAck(dst)
	if err != nil {
		clear(h.ephemeral[:])
		return nil, &Error{RoleRecipient, StepAck, err}
	}
	return out, nil
}

func (h *Responder) makeAck(dst []byte) ([]byte, error) {
	padding, err := h.drawNonceAndKey(&h.recipientNonce)
	if err != nil {
		return nil, err
	}
	var ephemeral point
	if err := ephemeral.baseMult(&h.ephemeral); err != nil {
		return nil, err
	}
	ack := ackMessage{ephemeral[:], h.recipientNonce[:]}
	out, packet := appendPacket(dst, ackSize+padding)
	ack.append(message(packet)[:0])
	if err := h.encrypt(packet, &h.remote); err != nil {
		return nil, err
	}
	return out, nil
}

// finish derives the secrets from the ack packet of writeAck.
func (h *Responder) finish(packet []byte) (Secrets, error) {
	s, authMAC, ackMAC, err := h.secrets(h.auth, packet)
	if err != nil {
		clear(h.ephemeral[:])
		return Secrets{}, &Error{RoleRecipient, StepAck, err}
	}
	s.Remote = h.remoteKey
	s.EgressMAC, s.IngressMAC = ackMAC, authMAC
	h.done = true
	h.wipe()
	return s, nil
}

// wipe forgets the private keys and the nonces of a handshake that is complete. The scratch is
// cleared by who used it.
func (p *party) wipe() {
	clear(p.static[:])
	clear(p.ephemeral[:])
	clear(p.initiatorNonce[:])
	clear(p.recipientNonce[:])
}
