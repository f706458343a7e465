package p2p

// Message codes of the base protocol.
const (
	HelloCode      uint64 = 0x00
	DisconnectCode uint64 = 0x01
	PingCode       uint64 = 0x02
	PongCode       uint64 = 0x03

	// BaseLength is the number of codes that the base protocol reserves, and so the code of message
	// 0 of the first shared capability.
	BaseLength uint64 = 0x10
)

// Versions of the base protocol, as announced in Hello.
const (
	// Version is the version of the base protocol that this package speaks.
	Version uint64 = 5

	// SnappyVersion is the lowest version whose messages after Hello are compressed (EIP-706).
	// Nothing else depends on the version.
	SnappyVersion uint64 = 5
)

// Bounds on messages of the base protocol.
const (
	// HelloLimit is the largest Hello payload in bytes, code not counted. It is the limit that
	// go-ethereum applies, so that what it accepts is accepted here. Before Hello is through, a
	// peer may be anybody: nothing larger is worth a buffer.
	HelloLimit = 2 << 10

	// MaxCaps is the largest number of capabilities in a Hello. Nodes on the public networks
	// announce fewer than 20; HelloLimit alone would let through more than 600, each of which costs
	// several times its wire size once decoded.
	MaxCaps = 100

	// MaxCapName is the longest name in bytes that the specification allows for a capability.
	MaxCapName = 8

	// IDLength is the size of a node key in bytes: an uncompressed secp256k1 public key without its
	// 0x04 prefix.
	IDLength = 64

	// baseLimit is the largest message of the base protocol after Hello, in plain bytes. Larger
	// ones are of nobody who means well.
	baseLimit = 2 << 10

	// maxMessageSize is the protocol's own limit.
	maxMessageSize = 1<<24 - 1

	// disconnectLimit is how many bytes of a Disconnect payload are looked at, compressed or not.
	// The reason is within the first three; the rest is room for longer list forms. The last
	// message of a peer is not worth more.
	disconnectLimit = 100
)
