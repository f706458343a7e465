// Package interop holds tests of this transport against foreign implementations
// that run for real: a geth node and go-ethereum's devp2p tool as processes, its
// p2p.Server in this process, and its own p2p package with this transport under
// it; and @ethereumjs/devp2p under Node.js. There is nothing to import.
//
// It is a module of its own, because the peers' dependencies are many and the
// library's are few. The peers' versions are pinned by its go.mod, the programs
// as tools. Everything stays on the loopback interface and in temporary
// directories, and ends with the test that started it.
//
// README.md says what is run, what it needs and how long it takes, and has the
// matrix of what passed, which the tests write. They also record sessions, for
// package rlpx to replay.
package interop
