package golden

import (
	"encoding/binary"
	"net/netip"
	"reflect"
	"regexp"
	"slices"
	"strconv"
	"strings"
	"testing"

	"github.com/rogpeppe/go-internal/diff"

	"github.com/sallyport/sallyport/internal/model/ownership"
	"github.com/sallyport/sallyport/internal/model/snapshot"
)

// notMirrored are the cases without a twin in IPv6, and why.
var notMirrored = map[string]string{
	"project-dual-stack":   "has both families",
	"project-dual-network": "has both families",
	"ipv6-default-network": "has both families",
	"ipv6-service":         "has both families",
	"ipv6-refused":         "has both families",
	"project-ipv6-only":    "its networks are IPv4, its pods IPv6",
	"project-malformed":    "shows prefixes that are special in IPv4",
}

// compile does not depend on the family of addresses: each case, with every IPv4 address replaced by an IPv6 address,
// gives the same intent and statuses with the same replacement.
func TestGoldenInIPv6(t *testing.T) {
	mirrored, lines := 0, 0
	for _, g := range loadCases(t) {
		if g.shard == ownership.NodesShard || notMirrored[g.name()] != "" {
			continue
		}
		t.Run(g.name(), func(t *testing.T) {
			want := normalizeText(g.renderMirrored(t, func(w *snapshot.VpcInput) *snapshot.VpcInput { return w }))
			six := g.renderMirrored(t, func(w *snapshot.VpcInput) *snapshot.VpcInput {
				return mirrorValue(reflect.ValueOf(w)).Interface().(*snapshot.VpcInput)
			})
			if rows, _, _ := strings.Cut(six, "\nstatus\n"); strings.Contains(rows, "ip4") {
				t.Errorf("a match of IPv4 in a world of IPv6:\n%s", rows)
			}
			if got := normalizeText(unmirrorText(six)); got != want {
				t.Errorf("IPv6 differs from IPv4:\n%s", diff.Diff("IPv4", []byte(want), "IPv6", []byte(got)))
				return
			}
			mirrored++
			lines += strings.Count(six, "\n")
		})
	}
	t.Logf("%d cases with %d lines are the same in IPv6", mirrored, lines)
}

// renderMirrored compiles a case whose snapshot is changed first.
func (g *goldenCase) renderMirrored(t *testing.T, change func(*snapshot.VpcInput) *snapshot.VpcInput) string {
	t.Helper()
	in, verdicts := g.compileVPC(change(g.buildSnapshot(g.objects)))
	if err := in.Err(); err != nil {
		t.Error(err)
	}
	return printIntent(in, verdicts, g.shard, g.hide)
}

// mirrorBase is the prefix whose last 32 bits are an IPv4 address. Its text is never shortened in the middle.
var mirrorBase = netip.MustParseAddr("fd64:1:1:1:1:1::").As16()

// mirrorAddr returns the IPv6 address for an IPv4 address. The other way round any will do: the cases show that such
// addresses are left out.
func mirrorAddr(a netip.Addr) netip.Addr {
	switch {
	case !a.IsValid():
		return a
	case !a.Is4():
		return netip.MustParseAddr("192.88.99.1")
	}
	out, four := mirrorBase, a.As4()
	copy(out[12:], four[:])
	return netip.AddrFrom16(out)
}

// mirrorPrefix returns the IPv6 prefix for an IPv4 prefix.
func mirrorPrefix(p netip.Prefix) netip.Prefix {
	switch {
	case !p.IsValid():
		return p
	case !p.Addr().Is4():
		return netip.PrefixFrom(mirrorAddr(p.Addr()), 32)
	case p.Bits() == 0:
		return netip.PrefixFrom(netip.IPv6Unspecified(), 0)
	default:
		return netip.PrefixFrom(mirrorAddr(p.Addr()), p.Bits()+96)
	}
}

// mirrorValue returns a deep copy of a value with all addresses replaced, in texts too.
func mirrorValue(v reflect.Value) reflect.Value {
	switch x := v.Interface().(type) {
	case netip.Addr:
		return reflect.ValueOf(mirrorAddr(x))
	case netip.Prefix:
		return reflect.ValueOf(mirrorPrefix(x))
	case netip.AddrPort:
		return reflect.ValueOf(netip.AddrPortFrom(mirrorAddr(x.Addr()), x.Port()))
	}
	out := reflect.New(v.Type()).Elem()
	switch v.Kind() {
	case reflect.String:
		out.SetString(mirrorText(v.String()))
	case reflect.Pointer:
		if !v.IsNil() {
			out.Set(reflect.New(v.Type().Elem()))
			out.Elem().Set(mirrorValue(v.Elem()))
		}
	case reflect.Struct:
		out.Set(v)
		for i := range v.NumField() {
			if v.Type().Field(i).IsExported() {
				out.Field(i).Set(mirrorValue(v.Field(i)))
			}
		}
	case reflect.Slice, reflect.Map:
		mirrorElements(v, out)
	default:
		out.Set(v)
	}
	return out
}

// mirrorElements sets a slice or a map to a copy of another with all addresses replaced.
func mirrorElements(v, out reflect.Value) {
	switch {
	case v.IsNil():
	case v.Kind() == reflect.Slice:
		out.Set(reflect.MakeSlice(v.Type(), 0, v.Len()))
		for i := range v.Len() {
			out.Set(reflect.Append(out, mirrorValue(v.Index(i))))
		}
	default:
		out.Set(reflect.MakeMap(v.Type()))
		for _, key := range v.MapKeys() {
			out.SetMapIndex(mirrorValue(key), mirrorValue(v.MapIndex(key)))
		}
	}
}

var (
	fourText = regexp.MustCompile(`\b(\d+\.\d+\.\d+\.\d+)(/\d+)?(:\d+)?`)
	sixText  = regexp.MustCompile(`((?:fd64[:-]1[:-]1[:-]1[:-]1[:-]1|fdfe[:-]5a11)[:-][0-9a-f:-]*)(/\d+)?`)
	withPort = regexp.MustCompile(`\[(\d+\.\d+\.\d+\.\d+)\](:\d+)`)
	macText  = regexp.MustCompile(`\b0a:5a(:[0-9a-f]{2}){4}\b`)
	number   = regexp.MustCompile(`Logical_Router_Policy \d+`)
)

// mirrorText replaces the addresses in a text.
func mirrorText(text string) string {
	return fourText.ReplaceAllStringFunc(text, func(found string) string {
		parts := fourText.FindStringSubmatch(found)
		a, err := netip.ParseAddr(parts[1])
		switch {
		case err != nil:
			return found
		case parts[2] != "":
			return mirrorPrefix(netip.MustParsePrefix(parts[1] + parts[2])).String()
		case parts[3] != "":
			return "[" + mirrorAddr(a).String() + "]" + parts[3]
		default:
			return mirrorAddr(a).String()
		}
	})
}

// internalPairs are the addresses that compile itself uses inside OVN, by prefix.
var internalPairs = map[netip.Prefix]netip.Addr{
	netip.MustParsePrefix("fd64:1:1:1:1:1::/96"): netip.MustParseAddr("0.0.0.0"),
	netip.MustParsePrefix("fdfe:5a11:9090::/96"): netip.MustParseAddr("169.254.90.0"),
	netip.MustParsePrefix("fdfe:5a11:9091::/96"): netip.MustParseAddr("169.254.91.0"),
	netip.MustParsePrefix("fdfe:5a11:9093::/96"): netip.MustParseAddr("169.254.128.0"),
	netip.MustParsePrefix("fdfe:5a11:d000::/96"): netip.MustParseAddr("240.0.0.0"),
	netip.MustParsePrefix("fdfe:5a11:f000::/96"): netip.MustParseAddr("240.0.0.0"),
}

// unmirrorText puts the IPv4 addresses back, and IPv4's words.
func unmirrorText(text string) string {
	text = macText.ReplaceAllString(text, "MAC")
	text = sixText.ReplaceAllStringFunc(text, func(found string) string {
		parts := sixText.FindStringSubmatch(found)
		dashed := strings.Contains(parts[1], "-")
		a, err := netip.ParseAddr(strings.ReplaceAll(parts[1], "-", ":"))
		if err != nil {
			return found
		}
		out := unmirrorAddr(a).String()
		if dashed {
			out = strings.ReplaceAll(out, ".", "-")
		}
		if parts[2] != "" {
			bits, _ := strconv.Atoi(parts[2][1:])
			out += "/" + strconv.Itoa(bits-96)
		}
		return out
	})
	text = withPort.ReplaceAllString(text, "$1$2")
	text = number.ReplaceAllStringFunc(text, func(found string) string {
		table, digits, _ := strings.Cut(found, " ")
		n, _ := strconv.Atoi(digits)
		if ownership.EgressRouteFirst <= n && n <= ownership.EgressRouteLast { // 96 longer prefixes
			n -= ownership.EgressRoutePriority(96, 0) - ownership.EgressRoutePriority(0, 0)
		}
		return table + " " + strconv.Itoa(n)
	})
	return strings.NewReplacer("::/0", "0.0.0.0/0", ".IPv6", "", "IPv6", "IPv4", "ip6", "ip4", "v6Ip", "v4Ip",
		"ff00::/8", "224.0.0.0/4 255.255.255.255").Replace(text)
}

// unmirrorAddr returns the IPv4 address for an IPv6 address.
func unmirrorAddr(a netip.Addr) netip.Addr {
	for within, base := range internalPairs {
		if within.Contains(a) {
			six, four := a.As16(), base.As4()
			low := binary.BigEndian.Uint32(six[12:]) | binary.BigEndian.Uint32(four[:])
			return netip.AddrFrom4([4]byte(binary.BigEndian.AppendUint32(nil, low)))
		}
	}
	return a
}

// normalizeText sorts lines and the words in them, which are sorted as text and so by family. It removes the MAC
// addresses, which are hashes of names with addresses, and IPv4's broadcast address.
func normalizeText(text string) string {
	text = macText.ReplaceAllString(text, "MAC")
	text = strings.ReplaceAll(text, " && ip4.dst != 255.255.255.255", "")
	var out []string
	for line := range strings.Lines(text) {
		words := strings.FieldsFunc(line, func(r rune) bool { return strings.ContainsRune(" ,{}[]\n", r) })
		slices.Sort(words)
		out = append(out, strings.Join(words, " ")+"\n")
	}
	slices.Sort(out)
	return strings.Join(out, "")
}
