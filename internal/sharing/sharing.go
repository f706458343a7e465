// Package sharing is how benchmarks reach into the shared queue of package mac.
package sharing

import "sync/atomic"

// Always makes every long piece wait for company, whether that pays or not: what
// the queue's controller is measured against. It is for benchmarks and tests only.
var Always atomic.Bool
