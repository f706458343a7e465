module github.com/go-rlpx/transport

go 1.26.0

require (
	github.com/ethereum/go-ethereum v1.17.10
	github.com/golang/snappy v1.0.1-0.20260716114414-9ae09f520e93
	github.com/gopacket/gopacket v1.7.7
	github.com/holiman/uint256 v1.3.2
	github.com/schollz/progressbar/v3 v3.11.0
	github.com/urfave/cli/v3 v3.14.0
	golang.org/x/crypto v0.55.0
	golang.org/x/sys v0.47.0
	golang.org/x/term v0.45.0
)

require (
	github.com/ProjectZKM/Ziren/crates/go-runtime/zkvm_runtime v0.0.0-20251001021608-1fe7b43fc4d6 // indirect
	github.com/decred/dcrd/dcrec/secp256k1/v4 v4.0.1 // indirect
	github.com/mattn/go-runewidth v0.0.13 // indirect
	github.com/mitchellh/colorstring v0.0.0-20190213212951-d06e56a500db // indirect
	github.com/rivo/uniseg v0.2.0 // indirect
	github.com/syndtr/goleveldb v1.0.1-0.20210819022825-2ae1ddf74ef7 // indirect
	golang.org/x/net v0.58.0 // indirect
)
