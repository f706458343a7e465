// Package keylog reads the key logs that rlpx.Config.KeyLogWriter writes.
//
// A key log is text. Each line holds the secrets of one session:
//
//	RLPX <x> <aes-secret> <mac-secret> <initiator-nonce> <recipient-nonce>
//
// where x is the X coordinate of the ephemeral point of the session's auth packet, which is in the
// clear on the wire, and every field is 32 bytes in hexadecimal. Blank lines and lines that begin
// with # are ignored, so that a log can be annotated, and a line may be there twice, as when both
// ends of a session write to one file.
//
// Logs are found cut off, with lines glued together, and with lines of other programs. What is
// good in them is used, and the rest is counted.
//
// Nothing of a line goes into an error: it may be a secret, also where it is malformed.
package keylog
