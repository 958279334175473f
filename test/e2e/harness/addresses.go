package harness

import (
	"fmt"
	"slices"
	"testing"

	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"

	"github.com/sallyport/sallyport/internal/lab/blueprint"
	"github.com/sallyport/sallyport/internal/lab/manifest"
	"github.com/sallyport/sallyport/internal/lab/program"
)

// NetworkTypes are the types of the external networks of the shared lab. For a project on cloud these are the default
// network, a secondary and a third one.
var NetworkTypes = []string{"cloud", "public", "third"}

var (
	// Protocols are the protocols that every path is tested with.
	Protocols = []string{"http", "tcp", "udp", "sctp"}
	// InternetAddress is the address of the host that represents the internet.
	InternetAddress = blueprint.InternetAddresses()[0].String()
)

// ExternalNetwork is a wire with its client and neighbour.
type ExternalNetwork struct{ networkType, Client, ClientAddress, Neighbour, NeighbourAddress string }

// Network returns the external network of a type.
func (c *Cluster) Network(t *testing.T, kind string) ExternalNetwork {
	t.Helper()
	segments := c.Blueprint.Segments()
	i := slices.IndexFunc(segments, func(s blueprint.Segment) bool { return s.Name == "ext-"+kind })
	if i < 0 {
		t.Fatalf("the lab has no network ext-%s", kind)
	}
	x := segments[i]
	return ExternalNetwork{
		kind, x.Client, x.ClientSide[0].Peer.Addr().String(), x.Neighbour,
		x.Neighbours[0].Addr().String(),
	}
}

// ReadField returns a field of an object as text. It is empty if the field or the object does not exist.
func (c *Cluster) ReadField(t *testing.T, kind, namespace, name string, path ...string) string {
	t.Helper()
	o, err := c.Objects.Get(Within(t, Patience), ObjectRef(kind, namespace, name))
	if err != nil {
		t.Fatal(err)
	}
	if o == nil {
		return ""
	}
	value, found, _ := unstructured.NestedFieldNoCopy(o.Object, path...)
	if !found {
		return ""
	}
	return fmt.Sprint(value)
}

// IsUpToDate reports whether an object is Programmed at its current generation.
func IsUpToDate(o *unstructured.Unstructured) bool {
	if !manifest.True("Programmed")(o) {
		return false
	}
	seen, _, _ := unstructured.NestedInt64(o.Object, "status", "observedGeneration")
	return seen == o.GetGeneration()
}

// WaitProgrammedOnNodes waits until an object is Programmed and every node has the resulting flows.
func (c *Cluster) WaitProgrammedOnNodes(t *testing.T, kind, namespace, name string) {
	t.Helper()
	c.WaitForObject(t, kind, namespace, name, IsUpToDate)
	c.SyncFlows(t)
}

// ApplyObject applies an object of kube-dc.com/v1 without waiting.
func (c *Cluster) ApplyObject(t *testing.T, kind, namespace, name, spec string) {
	t.Helper()
	c.Apply(t, fmt.Sprintf("{apiVersion: kube-dc.com/v1, kind: %s, metadata: {name: %s, namespace: %s}, spec: %s}",
		kind, name, namespace, spec))
}

// CreateEIP creates an EIp, waits for it and returns its address.
func (c *Cluster) CreateEIP(t *testing.T, namespace, name, spec string) string {
	t.Helper()
	c.ApplyObject(t, "EIp", namespace, name, spec)
	c.WaitProgrammedOnNodes(t, "EIp", namespace, name)
	return c.ReadField(t, "EIp", namespace, name, "status", "ipAddress")
}

// CreateFIP creates or changes a FIp, waits until it is Programmed and returns its external address.
func (c *Cluster) CreateFIP(t *testing.T, namespace, name, spec string) string {
	t.Helper()
	c.ApplyObject(t, "FIp", namespace, name, spec)
	c.WaitProgrammedOnNodes(t, "FIp", namespace, name)
	return c.ReadField(t, "FIp", namespace, name, "status", "externalIP")
}

// DeleteAndWait deletes an object and waits until it is gone and the nodes have updated their flows.
func (c *Cluster) DeleteAndWait(t *testing.T, kind, namespace, name string) {
	t.Helper()
	text := fmt.Sprintf("{apiVersion: %s, kind: %s, metadata: {name: %s, namespace: %s}}",
		ObjectRef(kind, namespace, name).GVK.GroupVersion(), kind, name, namespace)
	if err := c.Objects.Delete(Within(t, Patience), text); err != nil {
		t.Fatal(err)
	}
	c.SyncFlows(t)
}

// ExpectAnswers runs ExpectAnswer for each protocol and returns the number of protocols.
func (c *Cluster) ExpectAnswers(t *testing.T, where, address, name, saw string) int {
	t.Helper()
	for _, proto := range Protocols {
		c.ExpectAnswer(t, where, proto+"://"+address+":80", name, saw)
	}
	return len(Protocols)
}

// ExpectEgressAs waits until a pod's packets to the internet have a source address, and checks it with each protocol.
// Open vSwitch uses its cached flows for a moment.
func (c *Cluster) ExpectEgressAs(t *testing.T, pod, as string, protocols ...string) {
	t.Helper()
	for _, protocol := range protocols {
		Eventually(t, pod+" leaves as "+as+" by "+protocol, func() bool {
			a, err := c.SendRequest(pod, protocol+"://"+InternetAddress+":80")
			return err == nil && a.Saw.Addr().String() == as
		})
	}
	for _, protocol := range protocols {
		c.ExpectAnswer(t, pod, protocol+"://"+InternetAddress+":80", "internet", as)
	}
}

// Download gets the given number of MiB and fails the test if the size differs.
func (c *Cluster) Download(t *testing.T, where, address string, mib int64) {
	t.Helper()
	a, err := program.Ask(Within(t, Patience), c.NS(where), fmt.Sprintf("http://%s/blob?mb=%d", address, mib))
	if err != nil || a.Size != mib<<20 {
		t.Errorf("got %d bytes, %v; wanted %d MiB", a.Size, err, mib)
	}
}
