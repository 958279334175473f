package surveytest

import (
	"net/netip"

	"github.com/sallyport/sallyport/internal/intent"
	"github.com/sallyport/sallyport/internal/logical"
)

// wire connects the project's router with its networks and its pods, so that packets can be followed on its default network. Replies of the
// others would need all that a return path consists of.
func (t *tenant) wire() {
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
	for _, s := range t.Cluster.Subnets {
		if s.Name == t.network {
			t.router.Routes = append(t.router.Routes, logical.Route{
				Prefix: netip.MustParsePrefix("0.0.0.0/0"), NextHop: s.Gateways[0], IDs: logical.IDs{"vendor": "kube-ovn"},
			})
		}
	}
}

func routerPort(port string) logical.SwitchPort {
	return logical.SwitchPort{Name: "to-" + port, Type: "router", Router: port, MAC: intent.MAC(port), Up: true}
}
