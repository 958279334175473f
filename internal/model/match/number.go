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

// uint128 is an unsigned number of 128 bits.
type uint128 struct{ high, low uint64 }

func newUint128(n uint64) uint128 { return uint128{low: n} }

// lowBitsMask returns a number whose lowest n bits are set.
func lowBitsMask(n int) uint128 {
	switch {
	case n >= 128:
		return uint128{^uint64(0), ^uint64(0)}
	case n > 64:
		return uint128{1<<(n-64) - 1, ^uint64(0)}
	case n == 64:
		return uint128{0, ^uint64(0)}
	default:
		return uint128{0, 1<<n - 1}
	}
}

func (w uint128) and(o uint128) uint128 { return uint128{w.high & o.high, w.low & o.low} }

func (w uint128) shiftRight(n int) uint128 {
	if n >= 64 {
		return uint128{0, w.high >> (n - 64)}
	}
	return uint128{w.high >> n, w.low>>n | w.high<<(64-n)}
}

func (w uint128) compare(o uint128) int {
	return cmp.Or(cmp.Compare(w.high, o.high), cmp.Compare(w.low, o.low))
}

// bitLength returns the number of significant bits.
func (w uint128) bitLength() int {
	if w.high != 0 {
		return 64 + bits.Len64(w.high)
	}
	return bits.Len64(w.low)
}

func addressToUint128(a netip.Addr) uint128 {
	if !a.IsValid() {
		return uint128{}
	}
	if a.Is4() {
		b := a.As4()
		return newUint128(uint64(binary.BigEndian.Uint32(b[:])))
	}
	b := a.As16()
	return uint128{binary.BigEndian.Uint64(b[:8]), binary.BigEndian.Uint64(b[8:])}
}

// value is the right side of a comparison: a number, a string, or the name of an address set or port group.
type value struct {
	number, mask uint128
	masked       bool
	text         string
	quoted       bool // it is a string
	set, group   string
	format       literalFormat
}

// literalFormat is the notation of a number. It decides which masks are allowed.
type literalFormat int

const (
	formatDecimal literalFormat = iota
	formatHexadecimal
	formatEthernet
	formatIPv4
	formatIPv6
)

// parseLiteral parses a number, an IP address or a MAC address, with an optional mask.
func parseLiteral(text string) (value, error) {
	text, after, masked := strings.Cut(text, "/")
	out, err := parseUnmasked(text)
	if err != nil || !masked {
		return out, err
	}
	mask, err := parseUnmasked(after)
	if err != nil {
		return value{}, err
	}
	out.masked, out.mask = true, mask.number
	length := mask.number.low
	switch {
	case out.format == mask.format:
	case out.format == formatIPv4 && mask.format == formatDecimal && length <= 32:
		out.mask = prefixMask(int(length), 32)
	case out.format == formatIPv6 && mask.format == formatDecimal && length <= 128:
		out.mask = prefixMask(int(length), 128)
	case out.format == formatDecimal && mask.format == formatHexadecimal && out.number == uint128{}:
	default:
		return value{}, fmt.Errorf("%q and its mask %q have different notations", text, after)
	}
	out.number = out.number.and(out.mask)
	return out, nil
}

// prefixMask returns a mask for numbers of some bits, with the first ones set.
func prefixMask(set, of int) uint128 {
	all, rest := lowBitsMask(of), lowBitsMask(of-set)
	return uint128{all.high &^ rest.high, all.low &^ rest.low}
}

func parseUnmasked(text string) (value, error) {
	if mac, ok := ParseMAC(text); ok {
		return value{number: newUint128(uint64(mac)), format: formatEthernet}, nil
	}
	if hex, is := strings.CutPrefix(strings.ToLower(text), "0x"); is {
		return parseHexNumber(hex)
	}
	if n, err := strconv.ParseUint(text, 10, 64); err == nil && (text == "0" || text[0] != '0' && text[0] != '+') {
		return value{number: newUint128(n), format: formatDecimal}, nil
	}
	a, err := netip.ParseAddr(text)
	if err != nil || a.Zone() != "" {
		return value{}, fmt.Errorf("%q is neither a number nor an address", text)
	}
	if a.Is4() {
		return value{number: addressToUint128(a), format: formatIPv4}, nil
	}
	return value{number: addressToUint128(a), format: formatIPv6}, nil
}

func parseHexNumber(text string) (value, error) {
	if text == "" || len(text) > 32 {
		return value{}, fmt.Errorf("%q is not a hexadecimal number of up to 128 bits", "0x"+text)
	}
	var out uint128
	for _, digit := range text {
		n, err := strconv.ParseUint(string(digit), 16, 4)
		if err != nil {
			return value{}, fmt.Errorf("%q is not a hexadecimal number", "0x"+text)
		}
		out = uint128{out.high<<4 | out.low>>60, out.low<<4 | n}
	}
	return value{number: out, format: formatHexadecimal}, nil
}

// MAC is an Ethernet address.
type MAC uint64

// ParseMAC parses an Ethernet address.
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

// String returns the address as OVN writes it.
func (m MAC) String() string {
	//nolint:gosec // the six bytes of it
	return fmt.Sprintf("%02x:%02x:%02x:%02x:%02x:%02x", byte(m>>40), byte(m>>32), byte(m>>24), byte(m>>16), byte(m>>8),
		byte(m))
}
