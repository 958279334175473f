package match

import (
	"net/netip"
	"testing"

	"github.com/sallyport/sallyport/internal/model/ipfamily"
)

// What is built is what Parse reads, in both families.
func TestBuiltMatchesAreParsed(t *testing.T) {
	four, six := Prefix(netip.MustParsePrefix("10.0.0.0/24")), Prefix(netip.MustParsePrefix("fd00::/64"))
	one := Addr(netip.MustParseAddr("192.0.2.7"))
	for want, e := range map[string]Expr{
		`inport == "a-b" && ip4.src == 10.0.0.0/24 && ip4.dst != 10.0.0.0/24`: All(InPort("a-b"), From(four),
			NotTo(four)),
		`outport == "x" && ip6.src == $set && ip6.dst == fd00::/64`: All(OutPort("x"),
			From(AddressSet(ipfamily.V6, "set")), To(six)),
		`ip4.src != 192.0.2.7`:                NotFrom(one),
		`ip4.dst == {10.0.0.0/24, 192.0.2.7}`: To(AnyOf(one, four, one)),
		`ip4.dst == 192.0.2.7 && tcp.dst == {443, 80}`: All(Expr{}, To(one),
			ToPorts("tcp", []string{"443", "80"})),
		`ct.trk && ct.rpl && ct_label.label == 5 && pkt.mark == 7`: All(Tracked(), Reply(), Labelled(5),
			Marked(7)),
		`ct.trk && ct.new && tcp.src < 32768 && tcp.flags == 0/2`: All(Tracked(), NewConnection(),
			TCPFromPortBelow(32768), TCPWithoutSYN()),
		`eth.mcast && ip4 && !ip4.mcast && ip4.dst != 255.255.255.255`: All(MulticastFrame(),
			UnicastPacket(ipfamily.V4)),
		`eth.mcast && ip6 && !ip6.mcast`: All(MulticastFrame(), UnicastPacket(ipfamily.V6)),
		`inport == @g && ip`:             All(InPortGroup("g"), IP()),
		`outport == @g && eth.dst == 0a:00:00:00:00:01`: All(OutPortGroup("g"),
			ToMAC("0a:00:00:00:00:01")),
		// A user may write an IPv4-mapped prefix. The family must be that of the text, or OVN would ignore the rule.
		`ip6.src == ::ffff:10.0.0.0/104`: From(Prefix(netip.MustParsePrefix("::ffff:10.0.0.0/104"))),
	} {
		if e.String() != want {
			t.Errorf("built %s, want %s", e, want)
		}
		if _, err := Parse(e.String()); err != nil {
			t.Error(err)
		}
	}
}
