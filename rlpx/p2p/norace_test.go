//go:build !race

package p2p

import "time"

// stress is how long everything is done at once. It is for the race detector.
const stress = time.Second

const raceEnabled = false
