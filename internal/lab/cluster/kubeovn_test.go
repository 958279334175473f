package cluster

import (
	"net/netip"
	"slices"
	"testing"

	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"

	"github.com/sallyport/sallyport/internal/lab/blueprint"
	"github.com/sallyport/sallyport/internal/lab/manifest"
)

// described are the objects of a lab by kind and name.
func described(t *testing.T, b blueprint.Blueprint) map[string]*unstructured.Unstructured {
	t.Helper()
	if err := b.Check(); err != nil {
		t.Fatal(err)
	}
	objects, err := manifest.Parse(KubeOVN{Blueprint: b}.objects())
	if err != nil {
		t.Fatal(err)
	}
	out := map[string]*unstructured.Unstructured{}
	for _, o := range objects {
		out[o.GetKind()+" "+o.GetName()] = o
	}
	return out
}

func network(name string, prefixes ...string) blueprint.Network {
	n := blueprint.Network{Name: name}
	for _, p := range prefixes {
		n.Prefixes = append(n.Prefixes, netip.MustParsePrefix(p))
	}
	return n
}

func lab(networks ...blueprint.Network) blueprint.Blueprint {
	return blueprint.Blueprint{Nodes: 3, Gateways: 2, Raft: 1, Networks: networks}
}

// field is a field of an object as text; anything else than a string would be refused by the API server.
func field(o *unstructured.Unstructured, path ...string) string {
	if o == nil {
		return "no object"
	}
	text, found, err := unstructured.NestedString(o.Object, path...)
	if !found || err != nil {
		return "no text"
	}
	return text
}

const gatewayNodes = "ConfigMap ovn-external-gw-config"

func TestGatewayNodesAreListedWhereThereAreAny(t *testing.T) {
	for gateways, want := range map[int]string{0: "no object", 1: "node3", 2: "node2,node3"} {
		b := lab(network("one", "198.51.100.0/24"))
		b.Gateways = gateways
		if got := field(described(t, b)[gatewayNodes], "data", "external-gw-nodes"); got != want {
			t.Errorf("%d gateways: %s, want %s", gateways, got, want)
		}
	}
}

func TestSubnetOfEachFamily(t *testing.T) {
	for _, c := range []struct{ prefixes, want []string }{
		{[]string{"198.51.100.0/24"}, []string{"IPv4", "198.51.100.0/24", "198.51.100.1"}},
		{[]string{"2001:db8:1::/64"}, []string{"IPv6", "2001:db8:1::/64", "2001:db8:1::1"}},
		{
			[]string{"198.51.100.0/24", "2001:db8:1::/64"},
			[]string{"Dual", "198.51.100.0/24,2001:db8:1::/64", "198.51.100.1,2001:db8:1::1"},
		},
	} {
		subnet := described(t, lab(network("one", c.prefixes...)))["Subnet one"]
		got := []string{
			field(subnet, "spec", "protocol"), field(subnet, "spec", "cidrBlock"),
			field(subnet, "spec", "gateway"),
		}
		excluded, _, err := unstructured.NestedStringSlice(subnet.Object, "spec", "excludeIps")
		if !slices.Equal(got, c.want) || err != nil || len(excluded) != len(c.prefixes) {
			t.Errorf("%q, want %q; excluded are %q, %v", got, c.want, excluded, err)
		}
	}
}

func TestOneNetworkIsTheDefault(t *testing.T) {
	for _, want := range []string{"n0", "n1", "n2", ""} {
		b := lab(network("n0", "198.51.100.0/24"), network("n1", "192.168.50.0/24"), network("n2", "192.168.60.0/24"))
		var labelled []string
		for i, n := range b.Networks {
			b.Networks[i].Default = n.Name == want
		}
		for name, o := range described(t, b) {
			if field(o, "metadata", "labels", "network.kube-dc.com/default-external") == "true" {
				labelled = append(labelled, name)
			}
		}
		if want == "" {
			want = "n2" // the last, when none is marked
		}
		if !slices.Equal(labelled, []string{"Subnet " + want}) {
			t.Errorf("%s should be the default, the label is on %q", want, labelled)
		}
	}
}

// Some names are numbers or truth values to YAML.
func TestNamesStayText(t *testing.T) {
	for name, kind := range map[string]string{
		"ext-public": "public", "ext-1": "1", "ext-1e3": "1e3", "ext-on": "on", "no": "no", "null": "null",
	} {
		objects := described(t, lab(network(name, "198.51.100.0/24")))
		for _, c := range [][]string{
			{"Subnet", kind, "metadata", "labels", "network.kube-dc.com/external-network-type"},
			{"Subnet", name, "spec", "vlan"},
			{"Vlan", name, "spec", "provider"},
			{"ProviderNetwork", name, "spec", "defaultInterface"},
		} {
			if got := field(objects[c[0]+" "+name], c[2:]...); got != c[1] {
				t.Errorf("%s %s has %v: %s, want %s", c[0], name, c[2:], got, c[1])
			}
		}
	}
}
