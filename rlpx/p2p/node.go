package p2p

import (
	"crypto/ecdsa"
	"encoding/hex"
	"errors"
	"fmt"
	"net"
	"net/netip"
	"net/url"
	"strconv"
	"strings"

	"github.com/ethereum/go-ethereum/crypto"
)

// ErrInvalidNode reports an enode URL that is none, or that does not say where to dial. The error's
// text says what is wrong with it. It is safe to log, whoever wrote the URL.
var ErrInvalidNode = errors.New("p2p: invalid enode URL")

// A Node is what an enode URL says: which node, and where to dial it.
//
//	enode://PUBLIC-KEY@HOST:TCP-PORT?discport=UDP-PORT
//
// The public key is 64 bytes in hexadecimal digits: X and Y of a point on secp256k1. HOST is a DNS
// name, an IPv4 address, or an IPv6 address in brackets. A zone follows an IPv6 address after
// "%25", as in [fe80::1%25eth0]. The discport stands there only if it differs from the TCP port.
type Node struct {
	Key  *ecdsa.PublicKey
	Host string // DNS name or IP address, as in package net: without brackets, a zone after "%"
	TCP  uint16 // where the node listens for RLPx
	UDP  uint16 // where its discovery listens; 0: it has none
}

// ParseNode parses an enode URL. The key is checked to be on the curve. Both ports and the host are
// checked to be what one node can have: an unspecified address (0.0.0.0, ::), a multicast address,
// TCP port 0, or no address at all are refused. Names are not looked up.
//
// As in other implementations, parameters other than discport are ignored.
//
// Every error is ErrInvalidNode.
func ParseNode(text string) (*Node, error) {
	node, err := parseNode(text)
	if err != nil {
		return nil, fmt.Errorf("%w: %w", ErrInvalidNode, err)
	}
	return node, nil
}

// maxNodeURL is several times the length of any enode URL: 128 digits of key, 253 of name.
const maxNodeURL = 2048

func parseNode(text string) (*Node, error) {
	if len(text) > maxNodeURL {
		return nil, fmt.Errorf("%d bytes, limit %d", len(text), maxNodeURL)
	}
	if !strings.HasPrefix(text, "enode://") {
		return nil, errors.New(`it must start with "enode://"`)
	}
	u, err := url.Parse(text)
	if err != nil {
		return nil, urlError(text, err)
	}
	if u.User == nil {
		return nil, errors.New("want KEY@HOST:PORT after enode://, there is no @")
	}
	if u.Path != "" && u.Path != "/" || u.Fragment != "" {
		return nil, errors.New("nothing may follow the port but ?discport=PORT")
	}
	n := new(Node)
	if n.Key, err = parseNodeKey(u.User.String()); err != nil {
		return nil, err
	}
	if n.Host, err = parseNodeHost(u.Hostname(), strings.HasPrefix(u.Host, "[")); err != nil {
		return nil, err
	}
	if u.Port() == "" {
		return nil, errors.New("no port, want HOST:PORT")
	}
	if n.TCP, err = parsePort("port", u.Port()); err != nil {
		return nil, err
	}
	if n.TCP == 0 {
		return nil, errors.New("port 0 cannot be dialed")
	}
	n.UDP = n.TCP
	if udp := u.Query().Get("discport"); udp != "" {
		if n.UDP, err = parsePort("discport", udp); err != nil {
			return nil, err
		}
	}
	return n, nil
}

// urlError says what package url found, without the whole URL in it.
func urlError(text string, err error) error {
	if e, ok := errors.AsType[url.EscapeError](err); ok {
		if strings.Contains(text, "[") {
			return fmt.Errorf(`invalid escape %s; a zone is written as in [fe80::1%%25eth0]`, printable(string(e), printedName))
		}
		return fmt.Errorf("invalid escape %s", printable(string(e), printedName))
	}
	if e, ok := errors.AsType[*url.Error](err); ok {
		err = e.Err
	}
	return errors.New(printable(err.Error(), printedName))
}

func parseNodeKey(text string) (*ecdsa.PublicKey, error) {
	point := make([]byte, 1, 1+IDLength)
	point[0] = 4 // an uncompressed point
	point, err := hex.AppendDecode(point, []byte(text))
	if err != nil {
		return nil, errors.New("the public key is not in hexadecimal digits")
	}
	if len(point) != 1+IDLength {
		return nil, fmt.Errorf("the public key has %d hexadecimal digits, want %d", len(text), 2*IDLength)
	}
	key, err := crypto.UnmarshalPubkey(point)
	if err != nil {
		return nil, errors.New("the public key is no point on the curve")
	}
	return key, nil
}

// parseNodeHost returns the host as Node has it.
func parseNodeHost(host string, brackets bool) (string, error) {
	if host == "" {
		return "", errors.New("no host, want HOST:PORT")
	}
	ip, err := netip.ParseAddr(host)
	if err != nil {
		if brackets || !isDNSName(host) {
			return "", fmt.Errorf("%s is neither an IP address nor a DNS name", printable(host, printedName))
		}
		return host, nil
	}
	ip = ip.Unmap()
	bare := ip.WithZone("") // with a zone, no address counts as unspecified
	switch {
	case ip.Is6() && !brackets:
		return "", errors.New("an IPv6 address stands in brackets, as in [::1]:30303")
	case bare.IsUnspecified():
		return "", fmt.Errorf("%v is a placeholder, not the address of a node", bare)
	case bare.IsMulticast(), bare == netip.AddrFrom4([4]byte{255, 255, 255, 255}):
		return "", fmt.Errorf("%v is not the address of one node", bare)
	case !isZone(ip.Zone()):
		return "", fmt.Errorf("impossible zone %s", printable(ip.Zone(), printedName))
	}
	return ip.String(), nil
}

// isDNSName reports whether host can be a DNS name. The last label is no number: systems take
// names such as "127.1" or "0x7f000001" for IPv4 addresses.
func isDNSName(host string) bool {
	labels := strings.Split(strings.TrimSuffix(host, "."), ".")
	for _, label := range labels {
		if len(label) == 0 || len(label) > 63 || label[0] == '-' || label[len(label)-1] == '-' {
			return false
		}
		for i := range len(label) {
			if c := label[i]; !isAlphanumeric(c) && c != '-' && c != '_' {
				return false
			}
		}
	}
	last := labels[len(labels)-1]
	_, err := strconv.ParseUint(last, 0, 64)
	return len(host) <= 253 && strings.Trim(last, "0123456789") != "" && err != nil
}

// isZone reports whether zone can be the zone of an IPv6 address: a network interface's name or
// number.
func isZone(zone string) bool {
	for i := range len(zone) {
		if c := zone[i]; c <= ' ' || c > '~' || strings.IndexByte(`%/[]`, c) >= 0 {
			return false
		}
	}
	return true
}

func isAlphanumeric(c byte) bool {
	return '0' <= c && c <= '9' || 'a' <= c && c <= 'z' || 'A' <= c && c <= 'Z'
}

func parsePort(what, text string) (uint16, error) {
	port, err := strconv.ParseUint(text, 10, 16)
	if err != nil {
		return 0, fmt.Errorf("%s %s is no number from 0 to 65535", what, printable(text, printedName))
	}
	return uint16(port), nil
}

// String returns the enode URL of n, which ParseNode parses if n is valid.
func (n *Node) String() string {
	u := url.URL{Scheme: "enode", Host: n.Addr()}
	if id := nodeID(n.Key); id != nil {
		u.User = url.User(hex.EncodeToString(id))
	}
	if n.UDP != n.TCP {
		u.RawQuery = "discport=" + strconv.Itoa(int(n.UDP))
	}
	return u.String()
}

// Addr returns the address of n for a dialer, such as "10.0.0.1:30303" or "[fe80::1%eth0]:30303".
func (n *Node) Addr() string {
	return net.JoinHostPort(n.Host, strconv.Itoa(int(n.TCP)))
}
