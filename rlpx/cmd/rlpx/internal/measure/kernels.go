package measure

import (
	"fmt"
	"hash"
	"math"
	"time"

	"github.com/ethereum/go-ethereum/crypto"
	"golang.org/x/crypto/sha3"

	"github.com/go-rlpx/transport/internal/keccak"
)

// KernelStates are the numbers of states that a Kernel is timed with.
var KernelStates = [...]int{1, 2, 4, keccak.Lanes}

// kernelBlocks is how many blocks a state takes at once: a frame of 16 KiB.
const kernelBlocks = 120

// A Kernel is a way to compute Keccak: a tier of this library, or another library.
type Kernel struct {
	Name  string
	Ours  bool
	InUse bool // by this process

	tier    keccak.Tier
	newHash func() hash.Hash // of another library
	checked [len(KernelStates)]bool
}

// Kernels returns what this machine can run, other libraries first, and the names of the tiers
// that it lacks.
func Kernels() (kernels []Kernel, lacking []string) {
	kernels = []Kernel{
		{Name: "x/crypto", newHash: sha3.NewLegacyKeccak256},
		{Name: "go-ethereum", newHash: func() hash.Hash { return crypto.NewKeccakState() }},
	}
	for _, tier := range keccak.Tiers() {
		if tier.Available {
			kernels = append(kernels, Kernel{Name: tier.Name, Ours: true, InUse: tier.Chosen, tier: tier})
		} else {
			lacking = append(lacking, tier.Name)
		}
	}
	return kernels, lacking
}

// KernelVariable is the environment variable that chooses the tier of a process.
const KernelVariable = keccak.TierVariable

// Time lets so many states absorb until d has passed, KernelStates[i] of them, and returns the
// nanoseconds that a block of one state took at best. The first time, it compares digests with
// x/crypto's. Nothing else may hash meanwhile.
func (k *Kernel) Time(i int, d time.Duration) (nanoseconds float64, err error) {
	n := KernelStates[i]
	if k.newHash != nil {
		states := make([]hash.Hash, n)
		for i := range states {
			states[i] = k.newHash()
		}
		msg := make([]byte, kernelBlocks*keccak.Rate)
		return perBlock(n, d, func() {
			for _, s := range states {
				_, _ = s.Write(msg) // never fails
			}
		}), nil
	}
	ok := k.tier.Run(func() {
		if !k.checked[i] {
			err = checkKernel(n)
			k.checked[i] = err == nil
		}
		if err != nil {
			return
		}
		states, batch := make([]keccak.State, n), make([]keccak.Lane, n)
		msg := make([]byte, kernelBlocks*keccak.Rate)
		for i := range batch {
			batch[i] = keccak.Lane{S: &states[i], P: msg}
		}
		nanoseconds = perBlock(n, d, func() { keccak.AbsorbLanes(batch) })
	})
	switch {
	case !ok:
		return 0, fmt.Errorf("%s is not available", k.Name)
	case err != nil:
		return 0, fmt.Errorf("%s with %d states: %w", k.Name, n, err)
	}
	return nanoseconds, nil
}

// perBlock calls absorb, which gives kernelBlocks blocks to each of n states, until d has passed.
// The fastest call counts: what makes one slower is others on the machine.
func perBlock(n int, d time.Duration, absorb func()) float64 {
	fastest := time.Duration(math.MaxInt64)
	for start, now := time.Now(), time.Now(); now.Sub(start) < d; {
		absorb()
		before := now
		now = time.Now()
		fastest = min(fastest, now.Sub(before))
	}
	return float64(fastest) / float64(n*kernelBlocks)
}

// checkKernel compares what n states say with x/crypto, each with a message of its own.
func checkKernel(n int) error {
	states, batch := make([]keccak.State, n), make([]keccak.Lane, n)
	for i := range batch {
		msg := make([]byte, (i+1)*keccak.Rate+3*i)
		for at := range msg {
			msg[at] = byte(at*7 + i)
		}
		batch[i] = keccak.Lane{S: &states[i], P: msg}
	}
	keccak.AbsorbLanes(batch)
	for i := range batch {
		want := sha3.NewLegacyKeccak256()
		_, _ = want.Write(batch[i].P) // never fails
		var got [keccak.Size]byte
		states[i].Sum(&got)
		if string(got[:]) != string(want.Sum(nil)) {
			return ErrMismatch
		}
	}
	return nil
}
