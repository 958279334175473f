package match

import (
	"cmp"
	"encoding/binary"
	"fmt"
	"math/bits"
	"net/netip"
	"strconv"
	"strings"
)

// wide is a number of up to 128 bits.
type wide struct{ high, low uint64 }

func small(n uint64) wide { return wide{low: n} }

// ones is a number whose lowest n bits are set.
func ones(n int) wide {
	switch {
	case n >= 128:
		return wide{^uint64(0), ^uint64(0)}
	case n > 64:
		return wide{1<<(n-64) - 1, ^uint64(0)}
	case n == 64:
		return wide{0, ^uint64(0)}
	default:
		return wide{0, 1<<n - 1}
	}
}

func (w wide) and(o wide) wide { return wide{w.high & o.high, w.low & o.low} }

// right is the number without its lowest n bits.
func (w wide) right(n int) wide {
	if n >= 64 {
		return wide{0, w.high >> (n - 64)}
	}
	return wide{w.high >> n, w.low>>n | w.high<<(64-n)}
}

func (w wide) compare(o wide) int {
	return cmp.Or(cmp.Compare(w.high, o.high), cmp.Compare(w.low, o.low))
}

// length is how many bits it takes.
func (w wide) length() int {
	if w.high != 0 {
		return 64 + bits.Len64(w.high)
	}
	return bits.Len64(w.low)
}

func ofAddress(a netip.Addr) wide {
	if !a.IsValid() {
		return wide{}
	}
	if a.Is4() {
		b := a.As4()
		return small(uint64(binary.BigEndian.Uint32(b[:])))
	}
	b := a.As16()
	return wide{binary.BigEndian.Uint64(b[:8]), binary.BigEndian.Uint64(b[8:])}
}

// value is what a field is compared with: a number, a text, or a name for several.
type value struct {
	number, mask wide
	masked       bool
	text         string
	quoted       bool // it is a text
	set, group   string
	kind         kind
}

// kind is how a number was written. It decides which masks it may have.
type kind int

const (
	decimal kind = iota
	hexadecimal
	ethernet
	ipv4
	ipv6
)

// number reads a number, an address or a MAC address, with or without a mask.
func number(text string) (value, error) {
	text, after, masked := strings.Cut(text, "/")
	out, err := plain(text)
	if err != nil || !masked {
		return out, err
	}
	mask, err := plain(after)
	if err != nil {
		return value{}, err
	}
	out.masked, out.mask = true, mask.number
	length := mask.number.low
	switch {
	case out.kind == mask.kind:
	case out.kind == ipv4 && mask.kind == decimal && length <= 32:
		out.mask = leading(int(length), 32)
	case out.kind == ipv6 && mask.kind == decimal && length <= 128:
		out.mask = leading(int(length), 128)
	case out.kind == decimal && mask.kind == hexadecimal && out.number == wide{}:
	default:
		return value{}, fmt.Errorf("%q and its mask %q are not written alike", text, after)
	}
	out.number = out.number.and(out.mask)
	return out, nil
}

// leading is a number of so many bits, of which the first are set.
func leading(set, of int) wide {
	all, rest := ones(of), ones(of-set)
	return wide{all.high &^ rest.high, all.low &^ rest.low}
}

func plain(text string) (value, error) {
	if mac, ok := ParseMAC(text); ok {
		return value{number: small(uint64(mac)), kind: ethernet}, nil
	}
	if hex, is := strings.CutPrefix(strings.ToLower(text), "0x"); is {
		return hexNumber(hex)
	}
	if n, err := strconv.ParseUint(text, 10, 64); err == nil && (text == "0" || text[0] != '0' && text[0] != '+') {
		return value{number: small(n), kind: decimal}, nil
	}
	a, err := netip.ParseAddr(text)
	if err != nil || a.Zone() != "" {
		return value{}, fmt.Errorf("%q is no number and no address", text)
	}
	if a.Is4() {
		return value{number: ofAddress(a), kind: ipv4}, nil
	}
	return value{number: ofAddress(a), kind: ipv6}, nil
}

func hexNumber(text string) (value, error) {
	if text == "" || len(text) > 32 {
		return value{}, fmt.Errorf("%q is no hexadecimal number of up to 128 bits", "0x"+text)
	}
	var out wide
	for _, digit := range text {
		n, err := strconv.ParseUint(string(digit), 16, 4)
		if err != nil {
			return value{}, fmt.Errorf("%q is no hexadecimal number", "0x"+text)
		}
		out = wide{out.high<<4 | out.low>>60, out.low<<4 | n}
	}
	return value{number: out, kind: hexadecimal}, nil
}

// MAC is an Ethernet address.
type MAC uint64

// ParseMAC reads an Ethernet address.
func ParseMAC(text string) (MAC, bool) {
	parts := strings.Split(text, ":")
	if len(text) != 17 || len(parts) != 6 {
		return 0, false
	}
	var out MAC
	for _, part := range parts {
		n, err := strconv.ParseUint(part, 16, 8)
		if err != nil || len(part) != 2 || part[0] == '+' {
			return 0, false
		}
		out = out<<8 | MAC(n)
	}
	return out, true
}

// String is the address as OVN writes it.
func (m MAC) String() string {
	//nolint:gosec // the six bytes of it
	return fmt.Sprintf("%02x:%02x:%02x:%02x:%02x:%02x", byte(m>>40), byte(m>>32), byte(m>>24), byte(m>>16), byte(m>>8), byte(m))
}
