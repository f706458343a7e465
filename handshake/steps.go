package handshake

// Steps are callbacks of the driver, for those who want to know how far a handshake has come or to
// decide when it may go on. Any of them may be nil. They are called on the goroutine of the
// handshake, which waits for them; one that waits must itself look at the handshake's context.
type Steps struct {
	// Received is called when the last byte of a packet has been read, before anything is computed
	// from it. The step is StepAuth or StepAck, the size that of the packet in bytes, with its
	// prefix. An error ends the handshake without an answer and is wrapped in the error of the
	// driver.
	Received func(step string, size int) error

	// Sending is called when a packet is complete, before the call of Write for it.
	Sending func(step string, size int)

	// Sent is called when that call has taken all of the packet.
	Sent func(step string, size int)
}

func (steps *Steps) received(step string, size int) error {
	if steps.Received == nil {
		return nil
	}
	return steps.Received(step, size)
}

func (steps *Steps) sending(step string, size int) {
	if steps.Sending != nil {
		steps.Sending(step, size)
	}
}

func (steps *Steps) sent(step string, size int) {
	if steps.Sent != nil {
		steps.Sent(step, size)
	}
}
