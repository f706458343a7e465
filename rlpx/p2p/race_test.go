//go:build race

package p2p

import "time"

// stress is how long everything is done at once.
const stress = 5 * time.Second

const raceEnabled = true
