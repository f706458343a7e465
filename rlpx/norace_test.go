//go:build !race

package rlpx

const raceEnabled = false
