package harness

import (
	"cmp"
	"fmt"
	"net"
	"strings"
	"sync"
	"testing"
	"time"

	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"

	"github.com/sallyport/sallyport/internal/lab/manifest"
	"github.com/sallyport/sallyport/internal/lab/program"
	"github.com/sallyport/sallyport/test/show"
)

// RunServerPod starts a pod. spec and container are additional fields of the pod and of its container.
func (h *BackendProject) RunServerPod(t *testing.T, name, labels, spec, container string) {
	t.Helper()
	h.Apply(t, fmt.Sprintf(`
apiVersion: v1
kind: Pod
metadata: {name: %s, namespace: %s, labels: {%s}}
spec: {nodeName: node2%s, containers: [{name: main, image: lab/echo%s}]}`, name, h.Namespace, labels, spec, container))
	h.WaitForObject(t, "Pod", h.Namespace, name, manifest.Field("Running", "status", "phase"))
}

// BackendProject is a project with three backends b1, b2 and b3, one on each node, and the pod cli, which is no
// backend.
type BackendProject struct {
	*Cluster
	Namespace     string
	Pods          map[string]string // addresses by name
	SyncMarks     int               // number of ports used by waitServicesSynced of theme loadbalancer
	answeredFlows sync.Map          // see SendTrackedRequest
}

// SendTrackedRequest sends a request, and reports whether the same backend has already answered the same client port.
func (h *BackendProject) SendTrackedRequest(where, target string) (a program.Answer, again bool, err error) {
	if a, err = h.Cluster.SendRequest(where, target); err != nil {
		return a, false, err
	}
	_, again = h.answeredFlows.LoadOrStore(fmt.Sprintf("%s from %s by %s", target, a.Saw, a.Name), true)
	return a, again, nil
}

// SendRequest sends a request and records its flow as SendTrackedRequest does.
func (h *BackendProject) SendRequest(where, target string) (program.Answer, error) {
	a, _, err := h.SendTrackedRequest(where, target)
	return a, err
}

// NewBackendProject creates the project and its pods.
func (c *Cluster) NewBackendProject(t *testing.T, name, cidr string) *BackendProject {
	t.Helper()
	c.CreateOrganization(t, "hall")
	h := &BackendProject{Cluster: c, Pods: map[string]string{}}
	h.Namespace = c.CreateProject(t, "hall", name, cidr, "cloud")
	for i, node := range []string{"node1", "node2", "node3"} {
		name := fmt.Sprintf("b%d", i+1)
		h.Pods[name] = c.RunPod(t, Pod{
			Namespace: h.Namespace,
			Name:      name,
			Node:      node,
			Labels:    map[string]string{"role": "backend"},
		})
	}
	h.Pods["cli"] = c.RunPod(t, Pod{Namespace: h.Namespace, Name: "cli", Node: "node2"})
	return h
}

// BackendSelector selects all three backends.
const BackendSelector = "{role: backend}"

// HTTPPort is the port list of a Service with TCP port 80.
const HTTPPort = "[{port: 80}]"

// ServiceSpec describes a Service of type LoadBalancer. Empty fields are omitted.
type ServiceSpec struct {
	Name, Selector, Ports string
	Annotations           string // "key: value, …"
	ExtraFields           string // ", field: value…"
}

func (h *BackendProject) serviceManifest(w ServiceSpec) string {
	return fmt.Sprintf("{apiVersion: v1, kind: Service, metadata: {name: %s, namespace: %s, annotations: {%s}}, "+
		"spec: {type: LoadBalancer, selector: %s, ports: %s%s}}",
		w.Name, h.Namespace, w.Annotations, cmp.Or(w.Selector, BackendSelector), cmp.Or(w.Ports, HTTPPort),
		w.ExtraFields)
}

// ApplyService applies a Service without waiting.
func (h *BackendProject) ApplyService(t *testing.T, w ServiceSpec) {
	t.Helper()
	h.Apply(t, h.serviceManifest(w))
}

// CreateService creates a Service, waits until it is Programmed, and returns its address.
func (h *BackendProject) CreateService(t *testing.T, w ServiceSpec) string {
	t.Helper()
	h.ApplyService(t, w)
	t.Cleanup(func() { h.DeleteAndWait(t, "Service", h.Namespace, w.Name) })
	h.WaitServiceProgrammed(t, w.Name)
	return h.ServiceAddress(t, w.Name)
}

// WaitServiceProgrammed waits until a Service is Programmed and every node has its flows.
func (h *BackendProject) WaitServiceProgrammed(t *testing.T, name string) {
	t.Helper()
	h.WaitForObject(t, "Service", h.Namespace, name, manifest.True("Programmed"))
	h.SyncFlows(t)
}

// ServiceAddress returns the address in the status of a Service, or an empty string.
func (h *BackendProject) ServiceAddress(t *testing.T, name string) string {
	t.Helper()
	o, err := h.Objects.Get(Within(t, Patience), ObjectRef("Service", h.Namespace, name))
	if err != nil || o == nil {
		t.Fatalf("Service %s: %v", name, err)
	}
	return IngressIP(o)
}

// IngressIP returns the first address in the status of a Service, or an empty string.
func IngressIP(o *unstructured.Unstructured) string {
	list, _, _ := unstructured.NestedSlice(o.Object, "status", "loadBalancer", "ingress")
	for _, i := range list {
		ip, _ := i.(map[string]any)["ip"].(string)
		return ip
	}
	return ""
}

// WaitServiceCondition waits until the message of a condition of a Service, such as "Accepted=False PortTaken",
// contains a text.
func (h *BackendProject) WaitServiceCondition(t *testing.T, name, condition, text string) {
	t.Helper()
	h.WaitForObject(t, "Service", h.Namespace, name, func(o *unstructured.Unstructured) bool {
		list, _, _ := unstructured.NestedSlice(o.Object, "status", "conditions")
		for _, item := range list {
			c, _ := item.(map[string]any)
			message, _ := c["message"].(string)
			if fmt.Sprintf("%s=%s %s", c["type"], c["status"], c["reason"]) == condition &&
				strings.Contains(message, text) {
				return true
			}
		}
		return false
	})
}

// Patience is how long a test waits for something that comes in a second on an idle machine. CI's machine can stand still
// for minutes. A test that is about how long something takes has a limit of its own, and runs alone.
const Patience = 4 * time.Minute

// TimeLimit returns the limit that a test compares a measured time with. The limit itself holds at full size, where the
// machine has nothing else to do. CI's machine may be several times slower for minutes: there the limit is five times
// as long and a second more, which still tells what works from what does not.
func TimeLimit(atFullSize time.Duration) time.Duration {
	return show.ChooseSize(atFullSize, 5*atFullSize+time.Second)
}

// ToolTimeout is Patience for OVN's programs.
var ToolTimeout = fmt.Sprintf("--timeout=%.0f", Patience.Seconds())

// Eventually fails the test unless the condition holds within Patience, and returns how long it took.
func Eventually(t *testing.T, what string, holds func() bool) time.Duration {
	t.Helper()
	begun := time.Now()
	for time.Since(begun) < Patience {
		if holds() {
			return time.Since(begun)
		}
		<-time.After(20 * time.Millisecond)
	}
	t.Errorf("not within %s: %s", Patience, what)
	return time.Since(begun)
}

// AskBackendName sends a line on a connection and returns the name of the backend that answers, or an empty string.
func AskBackendName(conn net.Conn) string {
	buffer := make([]byte, 1500)
	for err := error(nil); err == nil; _, err = conn.Read(buffer) { // late answers to earlier lines
		_ = conn.SetDeadline(time.Now().Add(time.Millisecond))
	}
	if err := conn.SetDeadline(time.Now().Add(200 * time.Millisecond)); err != nil {
		return ""
	}
	if _, err := conn.Write([]byte("hello\n")); err != nil {
		return ""
	}
	n, err := conn.Read(buffer)
	if err != nil {
		return ""
	}
	name, _, _ := strings.Cut(string(buffer[:n]), " saw ")
	return name
}

// ExpectBackends sends requests until each wanted backend, and no other, has answered, and returns the number of
// requests.
func (h *BackendProject) ExpectBackends(t *testing.T, where, target, saw string, wanted ...string) int {
	t.Helper()
	left := map[string]bool{}
	for _, name := range wanted {
		left[name] = true
	}
	for n := 1; n <= 60; n++ {
		a, err := h.requestAnswer(where, target)
		if err != nil {
			t.Errorf("%s → %s: %v", where, target, err)
			return n
		}
		if saw != "" && a.Saw.Addr().String() != saw {
			t.Errorf("%s → %s: %s saw %s, wanted %s", where, target, a.Name, a.Saw.Addr(), saw)
		}
		if _, known := left[a.Name]; !known {
			t.Errorf("%s → %s: %s answered, wanted one of %v", where, target, a.Name, wanted)
		}
		left[a.Name] = false
		if !anyTrue(left) {
			return n
		}
	}
	t.Errorf("%s → %s: 60 answers, and not one from some of %v", where, target, left)
	return 60
}

func anyTrue(m map[string]bool) bool {
	for _, v := range m {
		if v {
			return true
		}
	}
	return false
}
