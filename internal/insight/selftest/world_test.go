package selftest_test

import (
	"context"
	"errors"
	"fmt"
	"net/netip"
	"slices"
	"strings"
	"testing"
	"time"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/client/fake"
	"sigs.k8s.io/controller-runtime/pkg/client/interceptor"

	kubedcv1 "github.com/sallyport/sallyport/api/kubedc/v1"
	kubedcv1alpha1 "github.com/sallyport/sallyport/api/kubedc/v1alpha1"
	ovnv1 "github.com/sallyport/sallyport/api/ovn/v1"
	"github.com/sallyport/sallyport/internal/engine/kube"
	"github.com/sallyport/sallyport/internal/engine/kubeovn"
	"github.com/sallyport/sallyport/internal/insight/selftest"
)

// world is a cluster in memory in which everything works. Tests break it.
type world struct {
	networks []kubedcv1alpha1.ExternalNetwork
	subnets  []*kube.Subnet
	nodes    []*corev1.Node
	others   []client.Object

	silent     bool              // the controller writes no status, and lets nothing go
	refused    map[string]string // reasons of conditions, by kind/name
	forbidden  string            // a kind that the user may not create
	waiting    string            // why pods do not run
	unanswered string            // a part of URLs that nothing answers
	server     string            // another name of who answers
	source     netip.Addr        // another address that servers see
	created    func(n int)       // is called before each creation

	api       client.Client
	creations int
	addresses map[string]netip.Addr // of pods' projects, and of FIps and Services by URL the server's pod
	servers   map[string]string
	egress    netip.Addr // of the EgressIP
}

func newWorld() *world {
	w := &world{refused: map[string]string{}, addresses: map[string]netip.Addr{}, servers: map[string]string{}}
	for i, name := range []string{"public", "cloud"} {
		s := &kube.Subnet{ObjectMeta: metav1.ObjectMeta{Name: "ext-" + name}}
		s.Labels = map[string]string{kubedcv1.ExternalNetworkTypeLabel: name}
		if name == "cloud" {
			s.Labels[kubedcv1.DefaultExternalLabel] = "true"
		}
		s.Spec = kubeovn.SubnetSpec{
			CIDRBlock: fmt.Sprintf("198.51.%d.0/24", i), Gateway: fmt.Sprintf("198.51.%d.1", i),
			ExcludeIps: []string{fmt.Sprintf("198.51.%d.254", i)},
		}
		s.Status.V4UsingIPRange = fmt.Sprintf("198.51.%[1]d.2-198.51.%[1]d.9,198.51.%[1]d.250-198.51.%[1]d.253", i)
		w.subnets = append(w.subnets, s)
	}
	for _, name := range []string{"node1", "node2", "node3"} {
		n := &corev1.Node{ObjectMeta: metav1.ObjectMeta{Name: name, Labels: map[string]string{ovnv1.AssignableLabel: ""}}}
		n.Status.Conditions = []corev1.NodeCondition{{Type: corev1.NodeReady, Status: corev1.ConditionTrue}}
		w.nodes = append(w.nodes, n)
	}
	w.nodes[0].Spec.Taints = []corev1.Taint{{Key: "a", Effect: corev1.TaintEffectNoSchedule}}
	return w
}

// start makes the API of the world.
func (w *world) start() {
	objects := slices.Clone(w.others)
	for i := range w.networks {
		objects = append(objects, &w.networks[i])
	}
	for _, s := range w.subnets {
		objects = append(objects, s)
	}
	for _, n := range w.nodes {
		objects = append(objects, n)
	}
	w.api = fake.NewClientBuilder().WithScheme(kube.Scheme()).WithObjects(objects...).
		WithStatusSubresource(&kubedcv1.Project{}, &kubedcv1.FIp{}, &corev1.Service{}, &corev1.Pod{}, &ovnv1.EgressIP{}).
		WithInterceptorFuncs(interceptor.Funcs{Create: w.create}).Build()
}

// create creates an object, and its status as controllers and kubelets would.
func (w *world) create(ctx context.Context, api client.WithWatch, o client.Object, options ...client.CreateOption) error {
	if w.created != nil {
		w.created(w.creations)
	}
	if err := ctx.Err(); err != nil {
		return err
	}
	key, err := kube.KeyOf(o)
	if err != nil {
		return err
	}
	if string(key.Kind) == w.forbidden {
		return errors.New("forbidden")
	}
	w.creations++
	if w.silent && key.Kind == "Project" {
		o.SetFinalizers([]string{"kube-dc.com/sallyport"})
	}
	if err := api.Create(ctx, o, options...); err != nil || w.silent {
		return err
	}
	w.setStatus(o, w.refused[string(key.Kind)+"/"+key.Name])
	if key.Kind == "Namespace" {
		return nil
	}
	return api.Status().Update(ctx, o)
}

// setStatus sets the status of a new object.
func (w *world) setStatus(o client.Object, reason string) {
	conditions := []metav1.Condition{{Type: "Programmed", Status: metav1.ConditionTrue, Reason: "Programmed"}}
	if reason != "" {
		conditions = []metav1.Condition{
			{Type: "Accepted", Status: metav1.ConditionTrue, Reason: "Accepted"},
			{Type: "Programmed", Status: metav1.ConditionFalse, Reason: reason, Message: "a message"},
		}
	}
	address := netip.AddrFrom4([4]byte{198, 51, 100, byte(w.creations)})
	switch o := o.(type) {
	case *kubedcv1.Project:
		o.Status.Conditions, o.Status.ExternalIP = conditions, address.String()
		w.addresses[o.Namespace+"-"+o.Name] = address
	case *kubedcv1.FIp:
		o.Status.Conditions, o.Status.ExternalIP = conditions, address.String()
		w.servers[fmt.Sprintf("http://%s:8080", address)] = o.Namespace + "/" + o.Spec.PodTarget.PodName
	case *corev1.Service:
		o.Status.Conditions, o.Status.LoadBalancer.Ingress = conditions, []corev1.LoadBalancerIngress{{IP: address.String()}}
		w.servers[fmt.Sprintf("http://%s:80", address)] = o.Namespace + "/" + o.Spec.Selector["app"]
	case *ovnv1.EgressIP:
		o.Status.Conditions, w.egress = conditions, netip.MustParseAddr(o.Spec.EgressIPs[0])
	case *corev1.Pod:
		if w.waiting == "" {
			o.Status.Conditions = []corev1.PodCondition{{Type: corev1.PodReady, Status: corev1.ConditionTrue}}
			return
		}
		o.Status.ContainerStatuses = []corev1.ContainerStatus{{
			State: corev1.ContainerState{Waiting: &corev1.ContainerStateWaiting{Reason: w.waiting}},
		}}
	}
}

// ask answers the request of a pod.
func (w *world) ask(_ context.Context, pod client.ObjectKey, url string) (string, error) {
	source := w.addresses[pod.Namespace]
	if w.egress.IsValid() {
		source = w.egress
	}
	return w.answer(url, source)
}

func (w *world) answer(url string, source netip.Addr) (string, error) {
	if w.source.IsValid() {
		source = w.source
	}
	server := w.servers[url]
	if w.server != "" {
		server = w.server
	}
	if server == "" || w.unanswered != "" && strings.Contains(url, w.unanswered) {
		return "", errors.New("i/o timeout")
	}
	return fmt.Sprintf("%s saw %s\n", server, source), nil
}

// newTester returns a tester of the world, whose runs have the given id.
func (w *world) newTester(id string) *selftest.Tester {
	return &selftest.Tester{
		API: w.api, Ask: w.ask, NewID: func() string { return id }, Now: time.Now, ShowProgress: func(string) {},
		RunCommand: func(_ context.Context, argv []string) (string, error) {
			if argv[0] != "curl" {
				return "", errors.New("no such command")
			}
			return w.answer(argv[len(argv)-1], netip.MustParseAddr("203.0.113.10"))
		},
	}
}

// listLeft returns the objects of the kinds that runs create.
func (w *world) listLeft(t *testing.T) (left []string) {
	t.Helper()
	for _, list := range []client.ObjectList{
		&corev1.NamespaceList{}, &kubedcv1.ProjectList{}, &corev1.PodList{}, &corev1.ServiceList{}, &kubedcv1.FIpList{}, &ovnv1.EgressIPList{},
	} {
		if err := w.api.List(context.Background(), list); err != nil {
			t.Fatal(err)
		}
		for _, o := range extract(t, list) {
			left = append(left, fmt.Sprintf("%T %s/%s", o, o.GetNamespace(), o.GetName()))
		}
	}
	return left
}
