//go:build race

package rlpx

const raceEnabled = true
