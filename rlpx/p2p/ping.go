package p2p

// AppendPing appends the payload of a Ping to dst: an empty list.
//
// There is nothing to decode in a Ping or Pong. Peers send an empty list, an empty string, nothing
// at all or more, and each is as good as the other.
//
// Send no more than one a second. Clients such as reth take five at once and one more each second,
// and end the session of a peer that sends more.
func AppendPing(dst []byte) []byte { return append(dst, 0xc0) }

// AppendPong appends the payload of a Pong to dst, the same for every Ping: an empty list.
func AppendPong(dst []byte) []byte { return append(dst, 0xc0) }
