module github.com/go-rlpx/transport/internal/keccak/_asm

go 1.26.0

require (
	github.com/mmcloughlin/avo v0.6.0
	golang.org/x/sys v0.47.0
)

require (
	golang.org/x/mod v0.41.0 // indirect
	golang.org/x/sync v0.23.0 // indirect
	golang.org/x/tools v0.49.0 // indirect
)
