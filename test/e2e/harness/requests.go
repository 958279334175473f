package harness

import (
	"fmt"
	"strings"
	"testing"

	"github.com/sallyport/sallyport/internal/lab/manifest"
)

const tinySubnetManifest = `
apiVersion: kubeovn.io/v1
kind: Subnet
metadata: {name: %s, labels: {network.kube-dc.com/external-network-type: %s}}
spec: {protocol: IPv4, cidrBlock: %s.0/29, gateway: %[3]s.1, vlan: ext-third, excludeIps: ["%[3]s.1..%[3]s.3"]}`

// Action is one step of a user.
type Action func(*testing.T, *Cluster)

// ParseObjectName splits "Kind namespace/name".
func ParseObjectName(object string) (kind, namespace, name string) {
	kind, rest, _ := strings.Cut(object, " ")
	namespace, name, found := strings.Cut(rest, "/")
	if !found {
		return kind, "", rest
	}
	return kind, namespace, name
}

// Apply returns an action that applies a Sallyport object.
func Apply(object, spec string) Action {
	return func(t *testing.T, c *Cluster) {
		kind, namespace, name := ParseObjectName(object)
		c.ApplyObject(t, kind, namespace, name, spec)
	}
}

// Create returns an action that applies a Sallyport object and waits until it is Programmed.
func Create(object, spec string) Action {
	return func(t *testing.T, c *Cluster) {
		kind, namespace, name := ParseObjectName(object)
		c.ApplyObject(t, kind, namespace, name, spec)
		c.WaitForObject(t, kind, namespace, name, IsUpToDate)
	}
}

// ApplyManifest returns an action that applies a manifest of any kind.
func ApplyManifest(text string) Action { return func(t *testing.T, c *Cluster) { c.Apply(t, text) } }

// CreateTinySubnet returns an action of an operator: it creates a subnet of a type on the wire of the third network,
// with three addresses.
func CreateTinySubnet(name, kind, prefix string) Action {
	return func(t *testing.T, c *Cluster) {
		c.Apply(t, fmt.Sprintf(tinySubnetManifest, name, kind, prefix))
		c.WaitForObject(t, "Subnet", "", name, manifest.True("Ready"))
	}
}
