package capture

import "time"

const (
	// readSize is how much of a file is read at once.
	readSize = 64 << 10

	// maxBetween is how many bytes may come between two packets. It bounds a single packet, too:
	// 256 KiB is the longest that tcpdump writes.
	maxBetween = 4 << 20

	// maxOther is how many bytes of a pcapng file may be something other than packets: descriptions
	// of interfaces, names of hosts, secrets of TLS. The file reader keeps them.
	maxOther = 64 << 20

	// maxInterfaces is how many interfaces a pcapng section may describe. Each takes some 250
	// bytes.
	maxInterfaces = 4 << 10

	// maxNames is how many names of hosts a pcapng section may hold. Nothing here uses them.
	maxNames = 64 << 10

	// Segments that came out of order wait in pages of 1900 bytes. maxPages is for one connection,
	// and more than the receive window that Linux gives to one; maxPagesTotal for all.
	maxPages      = 4 << 10
	maxPagesTotal = 10 << 10

	// tcpHeader is the size of a TCP header without options.
	tcpHeader = 20

	// maxConnections is how many TCP connections are followed at once. Each takes about 1 KiB.
	maxConnections = 16 << 10

	// A connection of which no SYN was seen may have begun, if segments were captured out of order.
	// Until that is clear, maxWaiting segments of one connection, and maxWaitingTotal of all, are
	// kept.
	maxWaiting      = 4
	maxWaitingTotal = 256

	// maxBeforeSYN is how far before segments that came first a SYN may lie to belong to them.
	maxBeforeSYN = 256 << 10

	// Times are those of the capture. A segment that does not come within lostAfter was not
	// captured: a sender that misses an acknowledgement repeats itself sooner. A connection that is
	// silent for idleAfter has ended: RLPx peers send something every 15 seconds. What ended is
	// remembered for stragglerTime, so that its last segments are not taken for a connection.
	lostAfter     = time.Minute
	idleAfter     = 10 * time.Minute
	stragglerTime = time.Minute
	sweepEvery    = 15 * time.Second

	// maxStep is the most that may pass between two packets by this clock: less than anything waits
	// for.
	maxStep = lostAfter / 2
)
