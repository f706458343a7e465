// Package bench holds the benchmarks of this library against go-ethereum's
// p2p/rlpx, both in the same run. It has no API and nothing imports it. What each
// benchmark claims, how to run them fairly and the results are in README.md.
package bench
