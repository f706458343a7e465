package handshake_test

import (
	"bytes"
	"context"
	"fmt"
	"log"
	"net"

	"github.com/ethereum/go-ethereum/crypto"

	"github.com/go-rlpx/transport/handshake"
)

// The state machines alone, for a program that moves the packets itself.
func Example() {
	aliceKey, _ := crypto.GenerateKey()
	bobKey, _ := crypto.GenerateKey()

	alice, err := handshake.NewInitiator(aliceKey, &bobKey.PublicKey, nil)
	if err != nil {
		log.Fatal(err)
	}
	bob, err := handshake.NewResponder(bobKey, nil)
	if err != nil {
		log.Fatal(err)
	}
	auth, err := alice.WriteAuth(nil)
	if err != nil {
		log.Fatal(err)
	}
	claimed, err := bob.ReadAuth(auth)
	if err != nil {
		log.Fatal(err)
	}
	ack, bobSecrets, err := bob.WriteAck(nil)
	if err != nil {
		log.Fatal(err)
	}
	aliceSecrets, err := alice.ReadAck(ack)
	if err != nil {
		log.Fatal(err)
	}
	fmt.Println("bob was dialled by alice:", claimed.Equal(&aliceKey.PublicKey))
	fmt.Println("same secrets:", bytes.Equal(aliceSecrets.AES, bobSecrets.AES) && bytes.Equal(aliceSecrets.MAC, bobSecrets.MAC))
	// Output:
	// bob was dialled by alice: true
	// same secrets: true
}

// Both sides over a connection, which is left where the first frame begins.
func ExampleInitiate() {
	ctx := context.Background()
	aliceKey, _ := crypto.GenerateKey()
	bobKey, _ := crypto.GenerateKey()
	a, b := net.Pipe()
	defer a.Close()
	defer b.Close()

	answered := make(chan error)
	go func() {
		_, err := handshake.Respond(ctx, b, bobKey, nil, nil)
		answered <- err
	}()
	secrets, err := handshake.Initiate(ctx, a, aliceKey, &bobKey.PublicKey, nil)
	fmt.Println(err, <-answered)
	fmt.Println(len(secrets.AES), len(secrets.MAC), secrets.Remote.Equal(&bobKey.PublicKey))
	// Output:
	// <nil> <nil>
	// 32 32 true
}
