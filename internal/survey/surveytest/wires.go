package surveytest

import (
	"fmt"
	"net/netip"
	"slices"

	"github.com/sallyport/sallyport/internal/intent"
	"github.com/sallyport/sallyport/internal/logical"
	"github.com/sallyport/sallyport/internal/ownership"
)

// wire connects the project's router with its networks and its pods, so that packets can be followed there and back.
func (t *tenant) wire() {
	if len(t.on) > 1 {
		t.router.Ports = append(t.router.Ports, logical.RouterPort{Name: t.turn(), Networks: []netip.Prefix{netip.MustParsePrefix("169.254.91.1/24")}})
	}
	for i := range t.router.Ports {
		t.router.Ports[i].MAC = intent.MAC(t.router.Ports[i].Name)
	}
	for i, network := range t.on {
		for j := range t.Logical.Switches {
			if s := &t.Logical.Switches[j]; s.Name == network {
				s.Ports = append(s.Ports, routerPort(t.router.Ports[i].Name))
			}
		}
	}
	for i := range t.pods.Ports {
		t.pods.Ports[i].MAC = intent.MAC(t.pods.Ports[i].Name)
	}
	t.pods.Ports = append(t.pods.Ports, routerPort(t.ns+"-"+t.pods.Name))
	t.router.Routes = append(t.router.Routes, logical.Route{
		Prefix: netip.MustParsePrefix("0.0.0.0/0"), NextHop: t.gatewayOf(t.network), IDs: logical.IDs{"vendor": "kube-ovn"},
	})
	if len(t.on) > 1 {
		t.pods.Ports = append(t.pods.Ports, routerPort(t.turn()))
		t.router.Policies = append(t.router.Policies, logical.Policy{
			Priority: 31000, Match: "ip4.dst == " + t.prefix.String(), Action: "allow", IDs: logical.IDs{"vendor": "kube-ovn"},
		})
	}
	for i, network := range t.on[1:] {
		t.leg(network, i)
	}
}

func routerPort(port string) logical.SwitchPort {
	return logical.SwitchPort{Name: "to-" + port, Type: "router", Router: port, MAC: intent.MAC(port), Up: true}
}

func (t *tenant) turn() string { return ownership.TurnRouterPort(t.ns, t.pods.Name) }

func (t *tenant) gatewayOf(network string) (gateway netip.Addr) {
	for _, s := range t.Cluster.Subnets {
		if s.Name == network {
			gateway = s.Gateways[0]
		}
	}
	return gateway
}

// leg is what leads replies back to a network that is not the default one: what came in by the leg is labelled, the label becomes a mark, and
// the mark leads by the turn to the leg.
func (t *tenant) leg(network string, number int) {
	leg, inport, outer := ownership.LegRouterPort(t.ns, t.pods.Name, network), t.ns+"-"+t.pods.Name, t.ns+"-"+network
	table, mark, owner := "return-"+network, ownership.Mark(network), t.owner("ReturnPath", t.ns, network)
	for i := range t.router.Ports {
		if p := &t.router.Ports[i]; p.Name == leg || p.Name == outer {
			p.Options = map[string]string{"route_table": table}
		}
	}
	hop, gateway := host(netip.MustParsePrefix("169.254.91.0/24"), 2+number), t.gatewayOf(network)
	half := func(n int) netip.Prefix { return netip.PrefixFrom(host(t.prefix, n), t.prefix.Bits()+1) }
	t.router.Routes = append(t.router.Routes,
		logical.Route{Table: table, Prefix: half(0), Output: leg, IDs: owner},
		logical.Route{Table: table, Prefix: half(128), Output: leg, IDs: owner},
		logical.Route{Table: table, Prefix: netip.MustParsePrefix("0.0.0.0/0"), NextHop: gateway, Output: outer, IDs: owner})
	t.router.Policies = append(t.router.Policies,
		logical.Policy{
			Priority: ownership.ReturnLeave, Match: fmt.Sprintf("inport == %q", leg), Action: "reroute", NextHops: []netip.Addr{gateway}, IDs: owner,
		},
		logical.Policy{
			Priority: ownership.ReturnReply, Match: fmt.Sprintf("inport == %q && pkt.mark == %d", inport, mark), Action: "reroute",
			NextHops: []netip.Addr{hop}, IDs: owner,
		})
	slices.SortStableFunc(t.router.Policies, func(a, b logical.Policy) int { return b.Priority - a.Priority })
	t.Logical.Static = append(t.Logical.Static, logical.Neighbour{Port: t.turn(), Address: hop, MAC: intent.MAC(leg)})
	door := routerPort(leg)
	t.pods.Ports = append(t.pods.Ports, door)
	marks := func(priority int, match string, mark int) logical.QoS {
		return logical.QoS{Priority: priority, Direction: "from-lport", Match: match, Action: map[string]int{"mark": mark}, IDs: owner}
	}
	t.pods.QoS = append(t.pods.QoS,
		marks(120, fmt.Sprintf("inport == %q && pkt.mark == %d", "to-"+t.turn(), mark), 0),
		marks(100, fmt.Sprintf("ct.trk && ct_label.label == %d", mark), mark))
	labels := func(tier, priority int, action string) logical.ACL {
		return logical.ACL{
			Tier: tier, Priority: priority, Direction: "to-lport", Match: fmt.Sprintf("inport == %q && ip", door.Name), Action: action, Label: mark, IDs: owner,
		}
	}
	t.Logical.Groups = append(t.Logical.Groups, logical.Group{
		Name: ownership.LegGroup(t.pods.Name, network), Ports: []string{door.Name}, IDs: owner,
		ACLs: []logical.ACL{labels(1, 100, "pass"), labels(3, 0, "allow-related")},
	})
}
