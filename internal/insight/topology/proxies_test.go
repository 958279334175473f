package topology

import (
	"net/netip"
	"testing"

	"github.com/sallyport/sallyport/internal/model/clusterstate"
	"github.com/sallyport/sallyport/internal/model/state"
)

// Labels and external IPs do not make a tenant's Service a proxy of a Gateway in another namespace.
func TestProxiesAreTheGatewaysOwn(t *testing.T) {
	at := netip.MustParseAddr("198.51.100.7")
	g := clusterstate.Gateway{
		Object:    clusterstate.Object{Ref: state.Ref{Namespace: "edge", Name: "eg"}},
		Addresses: []string{at.String()},
	}
	labels := map[string]string{owningGatewayLabel: "eg", owningNamespaceLabel: "edge"}
	for name, c := range map[string]struct {
		namespace string
		service   clusterstate.Service
		want      bool
	}{
		"labels in the gateway's namespace": {
			"edge",
			clusterstate.Service{Object: clusterstate.Object{Labels: labels}},
			true,
		},
		"labels elsewhere": {
			"evil",
			clusterstate.Service{Object: clusterstate.Object{Labels: labels}},
			false,
		},
		"external IPs in the gateway's namespace": {"edge", clusterstate.Service{ExternalIPs: []netip.Addr{at}}, true},
		"external IPs elsewhere":                  {"evil", clusterstate.Service{ExternalIPs: []netip.Addr{at}}, false},
		"the address of a load balancer":          {"proxies", clusterstate.Service{Ingress: []netip.Addr{at}}, true},
		"a cluster address":                       {"proxies", clusterstate.Service{ClusterIP: at}, true},
		"nothing in common":                       {"edge", clusterstate.Service{}, false},
	} {
		c.service.Namespace = c.namespace
		if got := isProxyService(c.service, g); got != c.want {
			t.Errorf("%s: %t, want %t", name, got, c.want)
		}
	}
}
