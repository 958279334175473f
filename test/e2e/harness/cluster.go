package harness

import (
	"bytes"
	"context"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"sync"
	"testing"
	"time"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/client-go/kubernetes"
	"k8s.io/client-go/tools/clientcmd"

	"github.com/sallyport/sallyport/internal/lab"
	"github.com/sallyport/sallyport/internal/lab/blueprint"
	"github.com/sallyport/sallyport/internal/lab/daemon"
	"github.com/sallyport/sallyport/internal/lab/manifest"
	"github.com/sallyport/sallyport/internal/lab/netns"
	"github.com/sallyport/sallyport/internal/lab/parts"
	"github.com/sallyport/sallyport/internal/lab/proc"
	"github.com/sallyport/sallyport/internal/lab/program"
)

// LoadTopology reads a topology file from testdata.
func LoadTopology(t *testing.T, file string) blueprint.Blueprint {
	t.Helper()
	b, err := blueprint.Load(filepath.Join("../testdata", file))
	if err != nil {
		t.Fatal(err)
	}
	return b
}

// StartSallyport starts a lab for one test and runs Sallyport in it.
func StartSallyport(t *testing.T, name string, b blueprint.Blueprint) *Cluster {
	t.Helper()
	c := StartLab(t, name, b)
	c.InstallSallyport(t)
	ctl := c.NewController(t, t.TempDir())
	ctl.StartForTest(t)
	return c
}

// RunInNetns runs a program of this machine in a network namespace.
func RunInNetns(ns netns.NS, argv ...string) error {
	return ns.Do(func() error {
		out, err := exec.Command(argv[0], argv[1:]...).CombinedOutput()
		if err != nil {
			return fmt.Errorf("%s: %w: %s", strings.Join(argv, " "), err, out)
		}
		return nil
	})
}

// Cluster is a running lab with clients for it.
type Cluster struct {
	*lab.Lab
	Blueprint blueprint.Blueprint
	Objects   *manifest.Client
	Client    kubernetes.Interface
	Parts     parts.Set

	settled sync.Once // the first gateway ports are where they stay
}

var sharedLab struct {
	once sync.Once
	lab  *Cluster
	err  error
}

// SharedLab returns the lab that tests share. Each test works in namespaces and VPCs of its own.
func SharedLab(t *testing.T) *Cluster {
	t.Helper()
	runBesideOthers(t)
	sharedLab.once.Do(func() {
		b, err := blueprint.Load("../testdata/shared.yaml")
		if err == nil {
			sharedLab.lab, err = BringUpLab(fmt.Sprintf("e2e-%d", os.Getpid()), b)
		}
		sharedLab.err = err
	})
	if sharedLab.err != nil {
		t.Fatalf("start the shared lab: %v", sharedLab.err)
	}
	return sharedLab.lab
}

// StartLab starts a lab for one test.
func StartLab(t *testing.T, suffix string, b blueprint.Blueprint) *Cluster {
	t.Helper()
	runBesideOthers(t)
	name := fmt.Sprintf("e2e-%d-%s", os.Getpid(), suffix)
	c, err := BringUpLab(name, b)
	if err != nil {
		t.Fatalf("start lab: %v", err)
	}
	t.Cleanup(func() {
		if err := lab.Down(context.Background(), name); err != nil {
			t.Errorf("end lab: %v", err)
		}
	})
	return c
}

// BringUpLab starts a lab. The caller must end it.
func BringUpLab(name string, b blueprint.Blueprint) (*Cluster, error) {
	ctx, cancel := context.WithTimeout(context.Background(), 20*time.Minute)
	defer cancel()
	l, err := lab.Up(ctx, lab.Options{
		Name: name, Blueprint: b, Images: lab.ImagesBeside(controllerProgram),
		Progress: func(line string) { fmt.Println(line) },
	})
	if err != nil {
		return nil, err
	}
	return AttachToLab(l, b)
}

// AttachToLab creates clients for a running lab.
func AttachToLab(l *lab.Lab, b blueprint.Blueprint) (*Cluster, error) {
	c := &Cluster{Lab: l, Blueprint: b}
	config, err := clientcmd.BuildConfigFromFlags("", l.Kubeconfig())
	if err != nil {
		return nil, err
	}
	config.QPS = -1
	if c.Objects, err = manifest.New(config); err != nil {
		return nil, err
	}
	if c.Client, err = kubernetes.NewForConfig(config); err != nil {
		return nil, err
	}
	c.Parts, err = parts.Ensure(context.Background(), func(string) {})
	return c, err
}

// Within returns a context that ends after the limit, or with the test.
func Within(t *testing.T, limit time.Duration) context.Context {
	t.Helper()
	ctx, cancel := context.WithTimeout(context.Background(), limit)
	t.Cleanup(cancel)
	return ctx
}

// Apply applies manifests and deletes their objects at the end of the test.
func (c *Cluster) Apply(t *testing.T, text string) {
	t.Helper()
	if err := c.Objects.Apply(Within(t, Patience), text); err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		ctx, cancel := context.WithTimeout(context.Background(), Patience)
		defer cancel()
		if err := c.Objects.Delete(ctx, text); err != nil {
			t.Errorf("clean up: %v", err)
		}
	})
}

// WaitForObject waits until the condition holds for an object.
func (c *Cluster) WaitForObject(t *testing.T, kind, namespace, name string, holds manifest.Condition) {
	t.Helper()
	if err := c.Objects.Wait(Within(t, Patience), ObjectRef(kind, namespace, name), holds); err != nil {
		t.Fatal(err)
	}
}

// IsReady reports whether the condition Ready of an object is true.
func IsReady(o *unstructured.Unstructured) bool { return manifest.True("Ready")(o) }

// ObjectRef returns a reference to an object of one of the kinds that tests use.
func ObjectRef(kind, namespace, name string) manifest.Ref {
	gv := schema.GroupVersion{Version: "v1"}
	switch kind {
	case "Vpc", "Subnet", "OvnEip", "OvnFip", "OvnSnatRule", "OvnDnatRule", "SwitchLBRule", "Vip":
		gv.Group = "kubeovn.io"
	case "Project", "EIp", "FIp":
		gv.Group = "kube-dc.com"
	case "EgressIP", "EgressService":
		gv.Group = "k8s.ovn.org"
	case "ExternalNetwork", "EgressRoute", "NodePath":
		gv = schema.GroupVersion{Group: "kube-dc.com", Version: "v1alpha1"}
	case "VirtualMachine", "VirtualMachineInstance", "VirtualMachineInstanceMigration":
		gv.Group = "kubevirt.io"
	case "CustomResourceDefinition":
		gv.Group = "apiextensions.k8s.io"
	case "Deployment":
		gv.Group = "apps"
	case "Backend":
		gv = schema.GroupVersion{Group: "gateway.envoyproxy.io", Version: "v1alpha1"}
	case "EndpointSlice":
		gv.Group = "discovery.k8s.io"
	}
	return manifest.Ref{GVK: gv.WithKind(kind), Namespace: namespace, Name: name}
}

// CreateNamespace creates a namespace, waits until Kube-OVN has assigned the subnet to it (ovn-default if empty), and
// deletes the namespace after the test.
func (c *Cluster) CreateNamespace(t *testing.T, name, subnet string) {
	t.Helper()
	if err := c.Objects.Apply(Within(t, Patience),
		fmt.Sprintf("{apiVersion: v1, kind: Namespace, metadata: {name: %s}}", name)); err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { // without waiting: Kubernetes takes five seconds, and names are not reused
		if err := c.Client.CoreV1().Namespaces().Delete(context.Background(), name,
			metav1.DeleteOptions{}); err != nil {
			t.Errorf("delete namespace %s: %v", name, err)
		}
	})
	c.WaitForObject(t, "ServiceAccount", name, "default", manifest.Exists)
	if subnet == "" {
		subnet = "ovn-default"
	}
	c.WaitForObject(t, "Namespace", "", name, belongsToSubnet(subnet))
}

// belongsToSubnet returns a condition that holds if a subnet is the default subnet of a namespace.
func belongsToSubnet(subnet string) manifest.Condition {
	return func(o *unstructured.Unstructured) bool {
		return o != nil && strings.Split(o.GetAnnotations()["ovn.kubernetes.io/logical_switch"], ",")[0] == subnet
	}
}

// CreateVPC creates a VPC with one subnet "<name>-net" for the namespace of the same name. cidr may contain one prefix
// of each family.
func (c *Cluster) CreateVPC(t *testing.T, name, cidr string) {
	t.Helper()
	protocol := map[bool]string{true: "Dual", false: "IPv4"}[strings.Contains(cidr, ",")]
	c.Apply(t, fmt.Sprintf(`
{apiVersion: kubeovn.io/v1, kind: Vpc, metadata: {name: %[1]s}, spec: {namespaces: [%[1]s]}}
---
apiVersion: kubeovn.io/v1
kind: Subnet
metadata: {name: %[1]s-net}
spec: {vpc: %[1]s, protocol: %[2]s, cidrBlock: "%[3]s", namespaces: [%[1]s]}`, name, protocol, cidr))
	c.WaitForObject(t, "Subnet", "", name+"-net", manifest.True("Ready"))
	c.CreateNamespace(t, name, name+"-net")
}

// Pod is a pod of a test.
type Pod struct {
	Namespace, Name, Node string
	Address               string // empty: allocated by Kube-OVN
	Image                 string
	Command               []string // instead of the image's program
	Labels, Annotations   map[string]string
}

// RunPod starts a pod, waits until it is ready and returns its address.
func (c *Cluster) RunPod(t *testing.T, p Pod) string {
	t.Helper()
	if p.Image == "" {
		p.Image = "lab/echo"
	}
	annotations := map[string]any{}
	for k, v := range p.Annotations {
		annotations[k] = v
	}
	if p.Address != "" {
		annotations["ovn.kubernetes.io/ip_address"] = p.Address
	}
	labels := map[string]any{"app": p.Name}
	for k, v := range p.Labels {
		labels[k] = v
	}
	container := map[string]any{"name": "main", "image": p.Image, "imagePullPolicy": "IfNotPresent"}
	if len(p.Command) > 0 {
		var words []any
		for _, word := range p.Command {
			words = append(words, word)
		}
		container["command"] = words
	}
	object := &unstructured.Unstructured{Object: map[string]any{
		"apiVersion": "v1", "kind": "Pod",
		"metadata": map[string]any{
			"name":        p.Name,
			"namespace":   p.Namespace,
			"annotations": annotations,
			"labels":      labels,
		},
		"spec": map[string]any{"nodeName": p.Node, "containers": []any{container}},
	}}
	raw, err := object.MarshalJSON()
	if err != nil {
		t.Fatal(err)
	}
	c.Apply(t, string(raw))
	if err := c.Objects.Wait(Within(t, Patience), ObjectRef("Pod", p.Namespace, p.Name), manifest.True("Ready")); err != nil {
		t.Fatalf("%v\nKube-OVN's log ends with\n%s", err, proc.Tail(c.Log("kube-ovn-controller")))
	}
	got, err := c.Objects.Get(Within(t, Patience), ObjectRef("Pod", p.Namespace, p.Name))
	if err != nil {
		t.Fatal(err)
	}
	address, _, _ := unstructured.NestedString(got.Object, "status", "podIP")
	return address
}

// AnswerTimeout limits how long a test waits for an answer. It allows for one retransmitted SYN, a second after the
// first.
const AnswerTimeout = 2 * time.Second

// SendRequest sends one request from a place to a target and returns the answer or the error.
func (c *Cluster) SendRequest(where, target string) (program.Answer, error) {
	return c.sendRequestWithin(AnswerTimeout, where, target)
}

func (c *Cluster) sendRequestWithin(limit time.Duration, where, target string) (program.Answer, error) {
	ctx, cancel := context.WithTimeout(context.Background(), limit)
	defer cancel()
	return program.Ask(ctx, c.NS(where), target)
}

// requestAnswer sends a request that should be answered, again and again for 20 s: a datagram can be lost during ARP
// resolution, and a wrong path fails every time. A connection gets time for its own retransmissions, because the upstream
// routers drop what arrives late for a connection that the client has given up.
func (c *Cluster) requestAnswer(where, target string) (a program.Answer, err error) {
	limit := AnswerTimeout
	if !strings.HasPrefix(target, "udp:") {
		limit *= 3
	}
	for begun := time.Now(); ; {
		a, err = c.sendRequestWithin(limit, where, target)
		if err == nil || time.Since(begun) > 10*AnswerTimeout {
			return a, err
		}
		<-time.After(AnswerTimeout / 10) // a refusal comes at once
	}
}

// ExpectAnswer sends a request from a place to a target. It fails the test unless the server has the given name and saw
// the client address saw ("" for any).
func (c *Cluster) ExpectAnswer(t *testing.T, where, target, name, saw string) {
	t.Helper()
	a, err := c.requestAnswer(where, target)
	if err != nil {
		t.Errorf("%s → %s: %v; wanted %s to answer", where, target, err, name)
		return
	}
	if a.Name != name || (saw != "" && a.Saw.Addr().String() != saw) {
		t.Errorf("%s → %s: got %q; wanted %s to see %s", where, target, a.Text, name, saw)
	}
}

// ExpectSilence fails the test if a request from a place to the target is answered.
func (c *Cluster) ExpectSilence(t *testing.T, where, target string) {
	t.Helper()
	if err := program.CheckTarget(target); err != nil {
		t.Errorf("%s would be silent in any case: %v", target, err)
	}
	if a, err := c.SendRequest(where, target); err == nil {
		t.Errorf("%s → %s: got %q; wanted no answer", where, target, a.Text)
	}
}

// RunTool runs one of the lab's programs in the lab's own namespace and returns its output.
func (c *Cluster) RunTool(t *testing.T, name string, args ...string) string {
	t.Helper()
	cmd, err := c.Command("", "lab", append([]string{c.Parts.Program(name)}, args...)...)
	if err != nil {
		t.Fatal(err)
	}
	var stderr bytes.Buffer
	cmd.Stderr = &stderr
	out, err := cmd.Output()
	if err != nil {
		t.Fatalf("%s %s: %v\n%s", name, strings.Join(args, " "), err, stderr.String())
	}
	return strings.TrimSpace(string(out))
}

// RunVsctl runs ovs-vsctl on the Open vSwitch of a node.
func (c *Cluster) RunVsctl(t *testing.T, node string, args ...string) string {
	t.Helper()
	return c.RunTool(t, "ovs-vsctl", append([]string{"--db=unix:" + filepath.Join(c.Dir, "data", node, "db.sock")},
		args...)...)
}

// ReadFile returns the content of a file, or fails the test.
func ReadFile(t *testing.T, path string) string {
	t.Helper()
	raw, err := os.ReadFile(path)
	if err != nil {
		t.Fatal(err)
	}
	return string(raw)
}

// CountFakeObjects counts the fake nodes that are Ready and the addresses of running fake pods.
func (c *Cluster) CountFakeObjects(t *testing.T) (nodes, addresses int) {
	t.Helper()
	list, err := c.Client.CoreV1().Nodes().List(Within(t, Patience), metav1.ListOptions{})
	if err != nil {
		t.Fatal(err)
	}
	for _, n := range list.Items {
		for _, condition := range n.Status.Conditions {
			if condition.Type == corev1.NodeReady && condition.Status == corev1.ConditionTrue {
				nodes++
			}
		}
	}
	pods, err := c.Client.CoreV1().Pods(daemon.FakeNamespace).List(Within(t, Patience), metav1.ListOptions{})
	if err != nil {
		t.Fatal(err)
	}
	seen := map[string]bool{}
	for _, p := range pods.Items {
		if p.Status.Phase == corev1.PodRunning && p.Status.PodIP != "" {
			seen[p.Status.PodIP] = true
		}
	}
	return nodes, len(seen)
}
