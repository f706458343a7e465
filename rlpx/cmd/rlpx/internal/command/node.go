package command

import (
	"crypto/ecdsa"
	"errors"
	"fmt"
	"net"
	"net/netip"
	"strconv"
	"strings"

	"github.com/ethereum/go-ethereum/p2p/enode"
)

// target is a node to dial.
type target struct {
	key  *ecdsa.PublicKey
	addr string // host:port
}

// parseTarget parses an enode URL or a node record ("enr:...").
func parseTarget(text string) (target, error) {
	node, err := enode.Parse(enode.ValidSchemes, text)
	if err != nil {
		if !strings.HasPrefix(text, "enode://") && !strings.HasPrefix(text, "enr:") {
			err = errors.New(`it must start with "enode://" or "enr:"`)
		}
		return target{}, fmt.Errorf("%q is no node URL: %w", printable(text, 64), err)
	}
	t := target{key: node.Pubkey()}
	if t.key == nil {
		return target{}, errors.New("the node record has no secp256k1 key")
	}
	host := node.Hostname()
	if ip := node.IPAddr(); host == "" && ip.IsValid() {
		host = ip.String()
	}
	switch {
	case host == "":
		return target{}, fmt.Errorf("the node URL of %s has no address to dial", shortID(t.key))
	case host != printable(host, len(host)), strings.Contains(host, ":") && !isIP(host):
		return target{}, fmt.Errorf("the node URL of %s has an impossible host name: %s", shortID(t.key), printable(host, 64))
	case node.TCP() == 0:
		return target{}, fmt.Errorf("the node URL of %s has no TCP port to dial", shortID(t.key))
	}
	t.addr = net.JoinHostPort(host, strconv.Itoa(node.TCP()))
	return t, nil
}

func isIP(host string) bool {
	_, err := netip.ParseAddr(host)
	return err == nil
}

// endpoint is where a node of ours is reached.
type endpoint struct {
	host string
	port uint16
}

// parseAddr parses HOST:PORT.
func parseAddr(text string) (endpoint, error) {
	host, service, err := net.SplitHostPort(text)
	if err != nil {
		return endpoint{}, err
	}
	port, err := strconv.ParseUint(service, 10, 16)
	if err != nil {
		return endpoint{}, fmt.Errorf("%q is no port number", service)
	}
	return endpoint{host, uint16(port)}, nil
}

// node describes the node with the given key at this endpoint. Where the endpoint is every address of this machine, it
// is given the one that works from here.
func (at endpoint) node(key *ecdsa.PublicKey) *enode.Node {
	port := int(at.port)
	ip, err := netip.ParseAddr(at.host)
	switch {
	case err == nil && ip.IsUnspecified() && ip.Is6():
		ip = netip.IPv6Loopback()
	case at.host == "", err == nil && ip.IsUnspecified():
		ip = netip.AddrFrom4([4]byte{127, 0, 0, 1})
	case err != nil:
		return enode.NewV4(key, nil, port, port).WithHostname(at.host)
	}
	return enode.NewV4(key, ip.AsSlice(), port, port)
}
