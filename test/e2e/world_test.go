package e2e

import (
	"bytes"
	"context"
	"fmt"
	"os"
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
	"github.com/sallyport/sallyport/internal/lab/parts"
	"github.com/sallyport/sallyport/internal/lab/program"
)

// cluster is a running lab with clients for it.
type cluster struct {
	*lab.Lab
	blueprint blueprint.Blueprint
	objects   *manifest.Client
	client    kubernetes.Interface
	parts     parts.Set
}

var sharedLab struct {
	once sync.Once
	lab  *cluster
	err  error
}

// shared is the lab that tests use side by side: each works in namespaces and VPCs of its own.
func shared(t *testing.T) *cluster {
	t.Helper()
	sharedLab.once.Do(func() {
		b, err := blueprint.Load("testdata/shared.yaml")
		if err == nil {
			sharedLab.lab, err = up(fmt.Sprintf("e2e-%d", os.Getpid()), b)
		}
		sharedLab.err = err
	})
	if sharedLab.err != nil {
		t.Fatalf("start the shared lab: %v", sharedLab.err)
	}
	return sharedLab.lab
}

// own is a lab for one test alone.
func own(t *testing.T, suffix string, b blueprint.Blueprint) *cluster {
	t.Helper()
	name := fmt.Sprintf("e2e-%d-%s", os.Getpid(), suffix)
	c, err := up(name, b)
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

func up(name string, b blueprint.Blueprint) (*cluster, error) {
	ctx, cancel := context.WithTimeout(context.Background(), 20*time.Minute)
	defer cancel()
	l, err := lab.Up(ctx, lab.Options{Name: name, Blueprint: b, Progress: func(line string) { fmt.Println(line) }})
	if err != nil {
		return nil, err
	}
	return attach(l, b)
}

// attach makes clients for a running lab.
func attach(l *lab.Lab, b blueprint.Blueprint) (*cluster, error) {
	c := &cluster{Lab: l, blueprint: b}
	config, err := clientcmd.BuildConfigFromFlags("", l.Kubeconfig())
	if err != nil {
		return nil, err
	}
	config.QPS = -1
	if c.objects, err = manifest.New(config); err != nil {
		return nil, err
	}
	if c.client, err = kubernetes.NewForConfig(config); err != nil {
		return nil, err
	}
	c.parts, err = parts.Ensure(context.Background(), func(string) {})
	return c, err
}

func within(t *testing.T, limit time.Duration) context.Context {
	t.Helper()
	ctx, cancel := context.WithTimeout(context.Background(), limit)
	t.Cleanup(cancel)
	return ctx
}

// apply applies manifests that go again with the test.
func (c *cluster) apply(t *testing.T, text string) {
	t.Helper()
	if err := c.objects.Apply(within(t, time.Minute), text); err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		ctx, cancel := context.WithTimeout(context.Background(), time.Minute)
		defer cancel()
		if err := c.objects.Delete(ctx, text); err != nil {
			t.Errorf("clean up: %v", err)
		}
	})
}

func (c *cluster) wait(t *testing.T, kind, namespace, name string, holds manifest.Condition) {
	t.Helper()
	if err := c.objects.Wait(within(t, time.Minute), ref(kind, namespace, name), holds); err != nil {
		t.Fatal(err)
	}
}

func ready(o *unstructured.Unstructured) bool { return manifest.True("Ready")(o) }

func ref(kind, namespace, name string) manifest.Ref {
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
	case "VirtualMachineInstance":
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

// namespace makes a namespace whose pods belong to the given subnet, and removes it after the test.
func (c *cluster) namespace(t *testing.T, name, subnet string) {
	t.Helper()
	if err := c.objects.Apply(within(t, time.Minute), fmt.Sprintf("{apiVersion: v1, kind: Namespace, metadata: {name: %s}}", name)); err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { // without waiting: Kubernetes takes five seconds for it, and names are not used twice
		if err := c.client.CoreV1().Namespaces().Delete(context.Background(), name, metav1.DeleteOptions{}); err != nil {
			t.Errorf("delete namespace %s: %v", name, err)
		}
	})
	c.wait(t, "ServiceAccount", name, "default", manifest.Exists)
	if subnet == "" {
		subnet = "ovn-default"
	}
	c.wait(t, "Namespace", "", name, func(o *unstructured.Unstructured) bool {
		return o != nil && strings.Split(o.GetAnnotations()["ovn.kubernetes.io/logical_switch"], ",")[0] == subnet
	})
}

// vpc makes a VPC with one subnet "<name>-net" for the namespace of the same name; cidr may have a prefix of each family.
func (c *cluster) vpc(t *testing.T, name, cidr string) {
	t.Helper()
	protocol := map[bool]string{true: "Dual", false: "IPv4"}[strings.Contains(cidr, ",")]
	c.apply(t, fmt.Sprintf(`
{apiVersion: kubeovn.io/v1, kind: Vpc, metadata: {name: %[1]s}, spec: {namespaces: [%[1]s]}}
---
apiVersion: kubeovn.io/v1
kind: Subnet
metadata: {name: %[1]s-net}
spec: {vpc: %[1]s, protocol: %[2]s, cidrBlock: "%[3]s", namespaces: [%[1]s]}`, name, protocol, cidr))
	c.wait(t, "Subnet", "", name+"-net", manifest.True("Ready"))
	c.namespace(t, name, name+"-net")
}

// pod is a pod of a test.
type pod struct {
	namespace, name, node string
	address               string // a fixed one, or what Kube-OVN gives
	image                 string
	command               []string // instead of the image's program
	labels, annotations   map[string]string
}

// run starts a pod, waits until it is ready and returns its address.
func (c *cluster) run(t *testing.T, p pod) string {
	t.Helper()
	if p.image == "" {
		p.image = "lab/echo"
	}
	annotations := map[string]any{}
	for k, v := range p.annotations {
		annotations[k] = v
	}
	if p.address != "" {
		annotations["ovn.kubernetes.io/ip_address"] = p.address
	}
	labels := map[string]any{"app": p.name}
	for k, v := range p.labels {
		labels[k] = v
	}
	container := map[string]any{"name": "main", "image": p.image}
	if len(p.command) > 0 {
		var words []any
		for _, word := range p.command {
			words = append(words, word)
		}
		container["command"] = words
	}
	object := &unstructured.Unstructured{Object: map[string]any{
		"apiVersion": "v1", "kind": "Pod",
		"metadata": map[string]any{"name": p.name, "namespace": p.namespace, "annotations": annotations, "labels": labels},
		"spec":     map[string]any{"nodeName": p.node, "containers": []any{container}},
	}}
	raw, err := object.MarshalJSON()
	if err != nil {
		t.Fatal(err)
	}
	c.apply(t, string(raw))
	c.wait(t, "Pod", p.namespace, p.name, manifest.True("Ready"))
	got, err := c.objects.Get(within(t, time.Minute), ref("Pod", p.namespace, p.name))
	if err != nil {
		t.Fatal(err)
	}
	address, _, _ := unstructured.NestedString(got.Object, "status", "podIP")
	return address
}

// patience is how long a test waits for an answer: long enough for a connection's second SYN, a second after the first.
const patience = 2 * time.Second

// ask asks once, from where to target, and returns what was answered or why nothing was.
func (c *cluster) ask(where, target string) (program.Answer, error) {
	ctx, cancel := context.WithTimeout(context.Background(), patience)
	defer cancel()
	return program.Ask(ctx, c.NS(where), target)
}

// answers fails the test unless target answers, asked from where, as name and having seen the address saw ("" for any).
func (c *cluster) answers(t *testing.T, where, target, name, saw string) {
	t.Helper()
	var a program.Answer
	var err error
	for range 3 { // a packet can be lost while a neighbour is being asked for; a wrong path stays wrong
		if a, err = c.ask(where, target); err == nil {
			break
		}
	}
	if err != nil {
		t.Errorf("%s → %s: %v; wanted %s to answer", where, target, err, name)
		return
	}
	if a.Name != name || (saw != "" && a.Saw.Addr().String() != saw) {
		t.Errorf("%s → %s: got %q; wanted %s to see %s", where, target, a.Text, name, saw)
	}
}

// silent fails the test when target answers, asked from where.
func (c *cluster) silent(t *testing.T, where, target string) {
	t.Helper()
	if a, err := c.ask(where, target); err == nil {
		t.Errorf("%s → %s: got %q; wanted no answer", where, target, a.Text)
	}
}

// tool runs one of the lab's programs in the lab's own namespace.
func (c *cluster) tool(t *testing.T, name string, args ...string) string {
	t.Helper()
	cmd, err := c.Command("", "lab", append([]string{c.parts.Program(name)}, args...)...)
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

func (c *cluster) vsctl(t *testing.T, node string, args ...string) string {
	t.Helper()
	return c.tool(t, "ovs-vsctl", append([]string{"--db=unix:" + filepath.Join(c.Dir, "data", node, "db.sock")}, args...)...)
}

func (c *cluster) sync(t *testing.T) {
	t.Helper()
	c.tool(t, "ovn-nbctl", "--db=unix:"+filepath.Join(c.Dir, "data/ovn/nb1.sock"), "--timeout=30", "--wait=hv", "sync")
}

func readFile(t *testing.T, path string) string {
	t.Helper()
	raw, err := os.ReadFile(path)
	if err != nil {
		t.Fatal(err)
	}
	return string(raw)
}

// fakes counts the fake nodes that are ready and the addresses that fake pods have.
func (c *cluster) fakes(t *testing.T) (nodes, addresses int) {
	t.Helper()
	list, err := c.client.CoreV1().Nodes().List(within(t, time.Minute), metav1.ListOptions{})
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
	pods, err := c.client.CoreV1().Pods(daemon.FakeNamespace).List(within(t, time.Minute), metav1.ListOptions{})
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
