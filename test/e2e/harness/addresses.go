package harness

import (
	"fmt"
	"slices"
	"testing"
	"time"

	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"

	"github.com/sallyport/sallyport/internal/lab/blueprint"
	"github.com/sallyport/sallyport/internal/lab/manifest"
	"github.com/sallyport/sallyport/internal/lab/program"
)

// NetworkTypes are the types of external networks of the shared lab.
// of a project on cloud: the default, a secondary and a third one
var NetworkTypes = []string{"cloud", "public", "third"}

var (
	// Protocols are those that everything is asked by.
	Protocols = []string{"http", "tcp", "udp", "sctp"}
	// InternetAddress is the host that stands for the internet.
	InternetAddress = blueprint.InternetAddresses()[0].String()
)

// ExternalNetwork is a wire, with who is there.
type ExternalNetwork struct{ networkType, Client, ClientAddress, Neighbour, NeighbourAddress string }

// Network is the external network of a type.
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

// ReadField is a field of an object as text; empty when it is not there.
func (c *Cluster) ReadField(t *testing.T, kind, namespace, name string, path ...string) string {
	t.Helper()
	o, err := c.Objects.Get(Within(t, time.Minute), ObjectRef(kind, namespace, name))
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

// IsUpToDate holds when an object is in force as it is written now, not as it was before.
func IsUpToDate(o *unstructured.Unstructured) bool {
	if !manifest.True("Programmed")(o) {
		return false
	}
	seen, _, _ := unstructured.NestedInt64(o.Object, "status", "observedGeneration")
	return seen == o.GetGeneration()
}

// WaitProgrammedOnNodes waits until an object is in force and every node has what OVN made of it.
func (c *Cluster) WaitProgrammedOnNodes(t *testing.T, kind, namespace, name string) {
	t.Helper()
	c.WaitForObject(t, kind, namespace, name, IsUpToDate)
	c.SyncFlows(t)
}

// ApplyObject applies an object of ours without waiting for anything.
func (c *Cluster) ApplyObject(t *testing.T, kind, namespace, name, spec string) {
	t.Helper()
	c.Apply(t, fmt.Sprintf("{apiVersion: kube-dc.com/v1, kind: %s, metadata: {name: %s, namespace: %s}, spec: %s}",
		kind, name, namespace, spec))
}

// CreateEIP makes an EIp and returns its address.
func (c *Cluster) CreateEIP(t *testing.T, namespace, name, spec string) string {
	t.Helper()
	c.ApplyObject(t, "EIp", namespace, name, spec)
	c.WaitProgrammedOnNodes(t, "EIp", namespace, name)
	return c.ReadField(t, "EIp", namespace, name, "status", "ipAddress")
}

// CreateFIP makes a FIp, or changes it, and returns its external address when it is in force.
func (c *Cluster) CreateFIP(t *testing.T, namespace, name, spec string) string {
	t.Helper()
	c.ApplyObject(t, "FIp", namespace, name, spec)
	c.WaitProgrammedOnNodes(t, "FIp", namespace, name)
	return c.ReadField(t, "FIp", namespace, name, "status", "externalIP")
}

// DeleteAndWait deletes an object of ours and waits until it is gone and every node knows.
func (c *Cluster) DeleteAndWait(t *testing.T, kind, namespace, name string) {
	t.Helper()
	text := fmt.Sprintf("{apiVersion: %s, kind: %s, metadata: {name: %s, namespace: %s}}",
		ObjectRef(kind, namespace, name).GVK.GroupVersion(), kind, name, namespace)
	if err := c.Objects.Delete(Within(t, time.Minute), text); err != nil {
		t.Fatal(err)
	}
	c.SyncFlows(t)
}

// ExpectAnswers asks by each protocol, and returns how many ways that were.
func (c *Cluster) ExpectAnswers(t *testing.T, where, address, name, saw string) int {
	t.Helper()
	for _, proto := range Protocols {
		c.ExpectAnswer(t, where, proto+"://"+address+":80", name, saw)
	}
	return len(Protocols)
}

// Download gets so many MiB.
func (c *Cluster) Download(t *testing.T, where, address string, mib int64) {
	t.Helper()
	a, err := program.Ask(Within(t, 20*time.Second), c.NS(where), fmt.Sprintf("http://%s/blob?mb=%d", address, mib))
	if err != nil || a.Size != mib<<20 {
		t.Errorf("got %d bytes, %v; wanted %d MiB", a.Size, err, mib)
	}
}
