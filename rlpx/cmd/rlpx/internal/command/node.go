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
	"github.com/ethereum/go-ethereum/p2p/enr"

	"github.com/go-rlpx/transport/rlpx/p2p"
)

// target is a node to dial: its addresses, in the order in which they are tried.
type target []*p2p.Node

// parseTarget parses an enode URL or a node record ("enr:...").
func parseTarget(text string) (t target, err error) {
	switch {
	case strings.HasPrefix(text, "enr:"):
		if t, err = parseRecord(text); err != nil {
			err = fmt.Errorf("invalid node record: %w", err)
		}
		return t, err
	case strings.HasPrefix(text, "enode://"):
		node, err := p2p.ParseNode(text)
		if err != nil {
			return nil, err
		}
		return target{node}, nil
	default:
		return nil, fmt.Errorf(`%q is no node: it must start with "enode://" or "enr:"`, printable(text, 64))
	}
}

// parseRecord parses a node record. A record may have an address of each family, with a port for
// both or one for each. Every family with an address and a port is tried: which of them can be
// reached from here is not known.
func parseRecord(text string) (target, error) {
	node, err := enode.Parse(enode.ValidSchemes, text)
	if err != nil {
		return nil, err
	}
	key := node.Pubkey()
	if key == nil {
		return nil, errors.New("the record has no secp256k1 key")
	}
	var tcp enr.TCP
	var tcp6 enr.TCP6
	if err := node.Load(&tcp); err != nil && !enr.IsNotFound(err) {
		return nil, err
	}
	if err := node.Load(&tcp6); enr.IsNotFound(err) {
		tcp6 = enr.TCP6(tcp)
	} else if err != nil {
		return nil, err
	}
	var t target
	var ip4, ip6 netip.Addr
	var unusable []string
	for _, family := range []struct {
		name  string
		entry enr.Entry
		ip    *netip.Addr
		port  *uint16
	}{
		{"IPv4", (*enr.IPv4Addr)(&ip4), &ip4, (*uint16)(&tcp)},
		{"IPv6", (*enr.IPv6Addr)(&ip6), &ip6, (*uint16)(&tcp6)},
	} {
		if err := node.Load(family.entry); enr.IsNotFound(err) {
			continue
		} else if err != nil {
			return nil, err
		}
		at := p2p.Node{Key: key, Host: family.ip.String(), TCP: *family.port}
		if parsed, err := p2p.ParseNode(at.String()); err == nil {
			t = append(t, parsed)
		} else {
			why := strings.TrimPrefix(err.Error(), p2p.ErrInvalidNode.Error()+": ")
			unusable = append(unusable, family.name+": "+why)
		}
	}
	switch {
	case len(t) > 0:
		return t, nil
	case len(unusable) > 0:
		return nil, errors.New(strings.Join(unusable, "; "))
	default:
		return nil, errors.New("the record has no address")
	}
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

// node describes the node with the given key at this endpoint. Where the endpoint is every address
// of this machine, it is given the one that works from here.
func (at endpoint) node(key *ecdsa.PublicKey) *p2p.Node {
	host := at.host
	ip, err := netip.ParseAddr(host)
	switch {
	case err == nil && ip.WithZone("") == netip.IPv6Unspecified():
		host = "::1"
	case host == "", err == nil && ip.Unmap().IsUnspecified():
		host = "127.0.0.1"
	}
	return &p2p.Node{Key: key, Host: host, TCP: at.port, UDP: at.port}
}
