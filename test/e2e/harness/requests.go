package harness

import (
	"fmt"
	"strings"
	"testing"

	"github.com/sallyport/sallyport/internal/lab/manifest"
)

const tinySubnet = `
apiVersion: kubeovn.io/v1
kind: Subnet
metadata: {name: %s, labels: {network.kube-dc.com/external-network-type: %s}}
spec: {protocol: IPv4, cidrBlock: %s.0/29, gateway: %[3]s.1, vlan: ext-third, excludeIps: ["%[3]s.1..%[3]s.3"]}`

// Action is one thing that somebody does.
type Action func(*testing.T, *Cluster)

// Named is the parts of "Kind namespace/name".
func Named(object string) (kind, namespace, name string) {
	kind, rest, _ := strings.Cut(object, " ")
	namespace, name, found := strings.Cut(rest, "/")
	if !found {
		return kind, "", rest
	}
	return kind, namespace, name
}

// Apply writes an object of ours.
func Apply(object, spec string) Action {
	return func(t *testing.T, c *Cluster) {
		kind, namespace, name := Named(object)
		c.WriteObject(t, kind, namespace, name, spec)
	}
}

// Create writes an object of ours and waits until it is in force.
func Create(object, spec string) Action {
	return func(t *testing.T, c *Cluster) {
		kind, namespace, name := Named(object)
		c.WriteObject(t, kind, namespace, name, spec)
		c.Wait(t, kind, namespace, name, IsUpToDate)
	}
}

// Other writes an object of others.
func Other(text string) Action { return func(t *testing.T, c *Cluster) { c.Apply(t, text) } }

// Tiny makes a subnet of a type on the third network's wire, with three addresses: the operator's work.
func Tiny(name, kind, prefix string) Action {
	return func(t *testing.T, c *Cluster) {
		c.Apply(t, fmt.Sprintf(tinySubnet, name, kind, prefix))
		c.Wait(t, "Subnet", "", name, manifest.True("Ready"))
	}
}
