package handshake

import (
	"crypto/ecdsa"
	"fmt"
)

// CheckKey returns [ErrInvalidPrivateKey] for a private key that no handshake can use: one that is
// nil, out of range, or without a point of secp256k1 as its public key. That the public key belongs
// to the private one is not checked.
func CheckKey(key *ecdsa.PrivateKey) error {
	var (
		static scalar
		public point
	)
	defer clear(static[:])
	return setKeys(&static, &public, key)
}

// CheckPublicKey returns [ErrInvalidPublicKey] for a remote's key that no handshake can use: one
// that is nil, or no point of secp256k1 in canonical form.
func CheckPublicKey(key *ecdsa.PublicKey) error {
	var remote point
	return setRemote(&remote, key)
}

// setKeys takes over both halves of a key of the caller's. After an error static is zero.
func setKeys(static *scalar, public *point, key *ecdsa.PrivateKey) error {
	if err := static.setKey(key); err != nil {
		return err
	}
	if err := public.setKey(&key.PublicKey); err != nil {
		clear(static[:])
		return fmt.Errorf("%w: its public key is no point of secp256k1", ErrInvalidPrivateKey)
	}
	return nil
}

// setRemote takes over the key of the other end as the caller has it.
func setRemote(remote *point, key *ecdsa.PublicKey) error {
	if err := remote.setKey(key); err != nil {
		return fmt.Errorf("%w (the remote's)", err)
	}
	return nil
}
