package rlpx

import "sync"

// crew counts goroutines, for one that ends them and waits. It does not wait for those that call
// out to the user of the package, who may be the one that waits.
type crew struct {
	mu   sync.Mutex
	n    int
	idle chan struct{} // closed when n becomes 0, nil while nobody waits
}

func (c *crew) add(n int) {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.n += n
	if c.n == 0 && c.idle != nil {
		close(c.idle)
		c.idle = nil
	}
}

// start calls f in a goroutine that counts. Once wait may be called, only those that count call it.
func (c *crew) start(f func()) {
	c.add(1)
	go func() {
		defer c.add(-1)
		f()
	}()
}

// outside takes a goroutine out of the count, for a callback, until back is called. A nil crew has
// nothing to count.
func (c *crew) outside() (back func()) {
	if c == nil {
		return func() {}
	}
	c.add(-1)
	return func() { c.add(1) }
}

// wait returns when nobody counts.
func (c *crew) wait() {
	c.mu.Lock()
	if c.n == 0 {
		c.mu.Unlock()
		return
	}
	if c.idle == nil {
		c.idle = make(chan struct{})
	}
	idle := c.idle
	c.mu.Unlock()
	<-idle
}
