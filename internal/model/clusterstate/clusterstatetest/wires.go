package clusterstatetest

import (
	"fmt"
	"net/netip"

	"github.com/sallyport/sallyport/internal/engine/kubeovn"
	"github.com/sallyport/sallyport/internal/model/intent"
	"github.com/sallyport/sallyport/internal/model/logical"
	"github.com/sallyport/sallyport/internal/model/ownership"
)

// connectRouter connects the project's router to its networks and pods, so that packets can be traced in both
// directions.
func (t *projectBuilder) connectRouter() {
	if len(t.networks) > 1 {
		t.router.Ports = append(t.router.Ports, logical.RouterPort{
			Name:     t.hairpinPortName(),
			Networks: []netip.Prefix{netip.MustParsePrefix("169.254.91.1/24")},
		})
	}
	for i := range t.router.Ports {
		t.router.Ports[i].MAC = intent.DeriveMAC(t.router.Ports[i].Name)
	}
	for i, network := range t.networks {
		t.connectSwitch(network, t.router.Ports[i].Name)
	}
	for i := range t.podSwitch.Ports {
		t.podSwitch.Ports[i].MAC = intent.DeriveMAC(t.podSwitch.Ports[i].Name)
	}
	t.podSwitch.Ports = append(t.podSwitch.Ports, routerSwitchPort(kubeovn.RouterPort(t.ns, t.podSwitch.Name)))
	t.router.Routes = append(t.router.Routes, logical.StaticRoute{
		Prefix: netip.MustParsePrefix("0.0.0.0/0"), NextHop: t.gatewayOfNetwork(t.defaultNetwork),
		IDs: logical.ExternalIDs{"vendor": "kube-ovn"},
	})
	if len(t.networks) > 1 {
		t.podSwitch.Ports = append(t.podSwitch.Ports, routerSwitchPort(t.hairpinPortName()))
		t.router.Policies = append(t.router.Policies, logical.RouterPolicy{
			Priority: 31000, Match: "ip4.dst == " + t.prefix.String(), Action: "allow",
			IDs: logical.ExternalIDs{"vendor": "kube-ovn"},
		})
	}
	for i, network := range t.networks[1:] {
		t.addReturnPath(network, i)
	}
}

// connectSwitch connects a router port to a switch.
func (b *builder) connectSwitch(name, routerPort string) {
	b.addSwitchPort(name, routerSwitchPort(routerPort))
}

func (b *builder) addSwitchPort(name string, p logical.SwitchPort) {
	for i := range b.Logical.Switches {
		if s := &b.Logical.Switches[i]; s.Name == name {
			s.Ports = append(s.Ports, p)
		}
	}
}

func routerSwitchPort(port string) logical.SwitchPort {
	return logical.SwitchPort{Name: "to-" + port, Type: "router", Router: port, MAC: intent.DeriveMAC(port), Up: true}
}

func (t *projectBuilder) hairpinPortName() string {
	return ownership.HairpinRouterPort(t.ns, t.podSwitch.Name)
}

func (b *builder) gatewayOfNetwork(network string) (gateway netip.Addr) {
	for _, s := range b.Cluster.Subnets {
		if s.Name == network {
			gateway = s.Gateways[0]
		}
	}
	return gateway
}

// addReturnPath adds the return path of a secondary network: packets that enter the switch through the return port get
// a connection label, the label of a reply becomes a packet mark, and the mark sends the reply through the hairpin port
// to the return port.
func (t *projectBuilder) addReturnPath(network string, number int) {
	returnPort := ownership.ReturnRouterPort(t.ns, t.podSwitch.Name, network)
	inport, externalPort := t.ns+"-"+t.podSwitch.Name, t.ns+"-"+network
	table, mark, owner := "return-"+network, ownership.NetworkMark(network), t.ownerIDs("ReturnPath", t.ns, network)
	for i := range t.router.Ports {
		if p := &t.router.Ports[i]; p.Name == returnPort || p.Name == externalPort {
			p.Options = map[string]string{"route_table": table}
		}
	}
	hop, gateway := nthAddress(netip.MustParsePrefix("169.254.91.0/24"), 2+number), t.gatewayOfNetwork(network)
	half := func(n int) netip.Prefix { return netip.PrefixFrom(nthAddress(t.prefix, n), t.prefix.Bits()+1) }
	t.router.Routes = append(t.router.Routes,
		logical.StaticRoute{Table: table, Prefix: half(0), Output: returnPort, IDs: owner},
		logical.StaticRoute{Table: table, Prefix: half(128), Output: returnPort, IDs: owner},
		logical.StaticRoute{
			Table: table, Prefix: netip.MustParsePrefix("0.0.0.0/0"), NextHop: gateway, Output: externalPort,
			IDs: owner,
		})
	t.router.Policies = append(t.router.Policies,
		logical.RouterPolicy{
			Priority: ownership.ReturnLeave, Match: fmt.Sprintf("inport == %q", returnPort), Action: "reroute",
			NextHops: []netip.Addr{gateway}, IDs: owner,
		},
		logical.RouterPolicy{
			Priority: ownership.ReturnReply, Match: fmt.Sprintf("inport == %q && pkt.mark == %d", inport, mark),
			Action:   "reroute",
			NextHops: []netip.Addr{hop}, IDs: owner,
		})
	t.router.Policies = sortPolicies(t.router.Policies)
	t.Logical.Static = append(t.Logical.Static,
		logical.MACBinding{Port: t.hairpinPortName(), Address: hop, MAC: intent.DeriveMAC(returnPort)})
	returnLSP := routerSwitchPort(returnPort)
	t.podSwitch.Ports = append(t.podSwitch.Ports, returnLSP)
	marks := func(priority int, match string, mark int) logical.QoS {
		return logical.QoS{
			Priority: priority, Direction: "from-lport", Match: match, Action: map[string]int{"mark": mark}, IDs: owner,
		}
	}
	t.podSwitch.QoS = append(t.podSwitch.QoS,
		marks(120, fmt.Sprintf("inport == %q && pkt.mark == %d", "to-"+t.hairpinPortName(), mark), 0),
		marks(100, fmt.Sprintf("ct.trk && ct_label.label == %d", mark), mark))
	labels := func(tier, priority int, action string) logical.ACL {
		return logical.ACL{
			Tier: tier, Priority: priority, Direction: "to-lport",
			Match:  fmt.Sprintf("inport == %q && ip", returnLSP.Name),
			Action: action, Label: mark, IDs: owner,
		}
	}
	t.Logical.Groups = append(t.Logical.Groups, logical.PortGroup{
		Name: ownership.ReturnPortGroup(t.podSwitch.Name, network), Ports: []string{returnLSP.Name}, IDs: owner,
		ACLs: []logical.ACL{labels(1, 100, "pass"), labels(3, 0, "allow-related")},
	})
}
