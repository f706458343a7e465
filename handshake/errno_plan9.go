package handshake

import "strings"

// isReset reports whether err says that the remote has reset the connection. Plan 9 has words for
// that and no numbers: what its IP devices report, and what is left of a connection that has hung
// up.
func isReset(err error) bool {
	if err == nil {
		return false
	}
	text := err.Error()
	return strings.Contains(text, "connection reset") || strings.Contains(text, "hungup")
}
