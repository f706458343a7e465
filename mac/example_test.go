package mac_test

import (
	"crypto/aes"
	"crypto/subtle"
	"fmt"
	"log"

	"golang.org/x/crypto/sha3"

	"github.com/go-rlpx/transport/mac"
)

// One direction of a connection: the sender's egress MAC and the recipient's ingress MAC begin with
// the same state, which the handshake left, and stay the same with every frame.
func Example() {
	block, err := aes.NewCipher(make([]byte, 32)) // the mac-secret
	if err != nil {
		log.Fatal(err)
	}
	egress := mac.New(block, sha3.NewLegacyKeccak256())
	ingress := mac.New(block, sha3.NewLegacyKeccak256())

	header, frame := make([]byte, 16), make([]byte, 160) // encrypted, and padded to 16 bytes
	for range 2 {
		headerMAC, frameMAC := egress.Both(header, frame)

		// The recipient checks the header before it waits for the frame.
		gotHeader := ingress.Header(header)
		gotFrame := ingress.Frame(frame)
		fmt.Println(subtle.ConstantTimeCompare(gotHeader[:], headerMAC[:]), subtle.ConstantTimeCompare(gotFrame[:], frameMAC[:]))
	}
	frame[0] ^= 1 // somebody on the way
	_, sent := egress.Both(header, make([]byte, 160))
	ingress.Header(header)
	got := ingress.Frame(frame)
	fmt.Println(subtle.ConstantTimeCompare(got[:], sent[:]))
	// Output:
	// 1 1
	// 1 1
	// 0
}

// The same frame for several connections is hashed side by side.
func ExampleBatch() {
	block, err := aes.NewCipher(make([]byte, 32))
	if err != nil {
		log.Fatal(err)
	}
	header, ciphertext := make([]byte, 16), make([]byte, 64<<10)
	frames := make([]mac.Frame, 8)
	for i := range frames {
		frames[i] = mac.Frame{MAC: mac.New(block, sha3.NewLegacyKeccak256()), Header: header, Ciphertext: ciphertext}
	}
	mac.Batch(frames)

	_, alone := mac.New(block, sha3.NewLegacyKeccak256()).Both(header, ciphertext)
	for _, f := range frames {
		if f.Tag != alone {
			fmt.Println("another tag")
		}
	}
	fmt.Println(len(frames), "frames")
	// Output: 8 frames
}
