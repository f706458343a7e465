package p2p

import (
	"context"
	"errors"
	"net"
	"testing"
	"testing/synctest"
	"time"

	"github.com/ethereum/go-ethereum/crypto"

	"github.com/go-rlpx/transport/rlpx"
)

// The encrypted handshake and Hello have one deadline together, for either role: a peer that takes
// most of the time for the first has only the rest for the second.
func TestCase_D4_OneDeadlineForBothHandshakes(t *testing.T) {
	const timeout, spent = 4 * time.Second, 3 * time.Second
	for _, role := range []string{"initiator", "recipient"} {
		t.Run(role, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				keyA, _ := crypto.GenerateKey()
				keyB, _ := crypto.GenerateKey()
				a, b := net.Pipe()
				ours := rlpx.Client(a, &keyB.PublicKey, &rlpx.Config{Key: keyA, HandshakeTimeout: timeout})
				theirs := rlpx.Server(b, &rlpx.Config{Key: keyB, HandshakeTimeout: time.Hour})
				if role == "recipient" {
					ours = rlpx.Server(a, &rlpx.Config{Key: keyA, HandshakeTimeout: timeout})
					theirs = rlpx.Client(b, &keyA.PublicKey, &rlpx.Config{Key: keyB, HandshakeTimeout: time.Hour})
				}
				start := time.Now()
				go func() {
					time.Sleep(spent)
					theirs.HandshakeContext(t.Context())
					for { // and never says Hello
						if _, _, _, err := theirs.Read(); err != nil {
							return
						}
					}
				}()
				if _, err := ours.HandshakeContext(t.Context()); err != nil {
					t.Fatal(err)
				}
				if _, err := Handshake(t.Context(), ours, nil); !errors.Is(err, context.DeadlineExceeded) {
					t.Error(err)
				}
				if took := time.Since(start); took < timeout || took > timeout+timeout/10 {
					t.Errorf("both took %v, want %v", took, timeout)
				}
			})
		})
	}
}
