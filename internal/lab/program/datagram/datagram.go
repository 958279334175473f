// Package datagram is a wildcard packet socket that knows which of its addresses was asked, and answers from that one.
package datagram

import (
	"errors"
	"fmt"
	"net"
	"net/netip"
	"time"

	"golang.org/x/net/ipv4"
	"golang.org/x/net/ipv6"
)

// Conn is a UDP or raw IP socket of one family. One socket of both families would not do: for an IPv4 packet on an
// IPv6 socket, the source address of the answer can't be set.
type Conn struct {
	v4 *ipv4.PacketConn
	v6 *ipv6.PacketConn
}

// New takes over a socket that was opened for "udp4", "udp6", "ip4:…" or "ip6:…".
func New(p net.PacketConn) (*Conn, error) {
	if _, ok := p.(net.Conn); !ok {
		return nil, fmt.Errorf("packet socket is a %T: not the kernel's", p)
	}
	if addrPort(p.LocalAddr()).Addr().Is4() {
		c := &Conn{v4: ipv4.NewPacketConn(p)}
		if err := c.v4.SetControlMessage(ipv4.FlagDst, true); err != nil {
			return nil, fmt.Errorf("ask for destination addresses: %w", err)
		}
		return c, nil
	}
	c := &Conn{v6: ipv6.NewPacketConn(p)}
	if err := c.v6.SetControlMessage(ipv6.FlagDst, true); err != nil {
		return nil, fmt.Errorf("ask for destination addresses: %w", err)
	}
	return c, nil
}

// Packet is one received datagram without its IP header. The port of From is 0 on a raw socket.
type Packet struct {
	Payload []byte
	From    netip.AddrPort
	To      netip.Addr
}

// Read waits for a datagram; its payload is in b.
func (c *Conn) Read(b []byte) (Packet, error) {
	var (
		n    int
		from net.Addr
		to   net.IP
		err  error
	)
	if c.v4 != nil {
		var cm *ipv4.ControlMessage
		if n, cm, from, err = c.v4.ReadFrom(b); cm != nil {
			to = cm.Dst
		}
	} else {
		var cm *ipv6.ControlMessage
		if n, cm, from, err = c.v6.ReadFrom(b); cm != nil {
			to = cm.Dst
		}
	}
	if err != nil {
		return Packet{}, err
	}
	asked, ok := netip.AddrFromSlice(to)
	if !ok {
		return Packet{}, errors.New("datagram without a destination address")
	}
	return Packet{Payload: b[:n], From: addrPort(from), To: asked.Unmap()}, nil
}

// Write sends a datagram; with an invalid from, the kernel chooses the source address.
func (c *Conn) Write(b []byte, from netip.Addr, to netip.AddrPort) error {
	dst := netAddr(to)
	var err error
	if c.v4 != nil {
		_, err = c.v4.WriteTo(b, &ipv4.ControlMessage{Src: from.AsSlice()}, dst)
	} else {
		_, err = c.v6.WriteTo(b, &ipv6.ControlMessage{Src: from.AsSlice()}, dst)
	}
	return err
}

// SetReadDeadline ends a waiting Read at t.
func (c *Conn) SetReadDeadline(t time.Time) error {
	if c.v4 != nil {
		return c.v4.SetReadDeadline(t)
	}
	return c.v6.SetReadDeadline(t)
}

// Close closes the socket.
func (c *Conn) Close() error {
	if c.v4 != nil {
		return c.v4.Close()
	}
	return c.v6.Close()
}

// addrPort is the value of a UDP or raw IP address, an IPv4 one always in its short form.
func addrPort(a net.Addr) netip.AddrPort {
	switch a := a.(type) {
	case *net.UDPAddr:
		p := a.AddrPort()
		return netip.AddrPortFrom(p.Addr().Unmap(), p.Port())
	case *net.IPAddr:
		ip, _ := netip.AddrFromSlice(a.IP)
		return netip.AddrPortFrom(ip.Unmap().WithZone(a.Zone), 0)
	}
	return netip.AddrPort{}
}

// netAddr is the sockaddr of a destination; a raw socket has no port, and the kernel wants 0 there.
func netAddr(to netip.AddrPort) net.Addr {
	if to.Port() == 0 {
		return &net.IPAddr{IP: to.Addr().AsSlice(), Zone: to.Addr().Zone()}
	}
	return net.UDPAddrFromAddrPort(to)
}
