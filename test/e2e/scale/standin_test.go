package scale

import (
	"context"
	"encoding/json"
	"fmt"
	"net/netip"
	"slices"
	"sync"
	"testing"
	"time"

	"github.com/ovn-kubernetes/libovsdb/client"
	"github.com/ovn-kubernetes/libovsdb/ovsdb"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/client-go/dynamic"
	"k8s.io/client-go/dynamic/dynamicinformer"
	"k8s.io/client-go/tools/cache"
	"k8s.io/client-go/util/workqueue"

	"github.com/sallyport/sallyport/internal/engine/kubeovn"
	"github.com/sallyport/sallyport/internal/engine/ovn/nb"
	"github.com/sallyport/sallyport/internal/lab/manifest"
	"github.com/sallyport/sallyport/internal/model/ownership"
	"github.com/sallyport/sallyport/test/e2e/harness"
)

// kubeOVNStandIn takes the place of Kube-OVN's controller, which handles about forty objects in a second. It does what
// Sallyport waits for: it gives addresses, creates routers, switches and the ports between them, and writes statuses.
// It writes no translations and no routes, so that Sallyport writes all of them itself, and it repairs and deletes
// nothing.
type kubeOVNStandIn struct {
	api    dynamic.Interface
	nb     client.Client
	queue  workqueue.TypedRateLimitingInterface[manifest.Ref]
	stores map[string]cache.Store // objects by kind

	workers sync.WaitGroup
	stop    func() // called again it does nothing

	mu          sync.Mutex
	nextAddress int             // number of the next external address
	created     map[string]bool // routers, switches and ports that exist, by name
	failed      map[manifest.Ref]error
}

// standInKinds are the kinds that it handles, each with what it does for one object. They return false if something
// else has to exist first.
var standInKinds = map[string]func(*kubeOVNStandIn, context.Context, *unstructured.Unstructured) (bool, error){
	"Vpc":         (*kubeOVNStandIn).handleVpc,
	"Subnet":      (*kubeOVNStandIn).handleSubnet,
	"OvnEip":      (*kubeOVNStandIn).handleOvnEip,
	"OvnFip":      (*kubeOVNStandIn).handleOvnFip,
	"OvnSnatRule": (*kubeOVNStandIn).handleOvnSnatRule,
}

// startStandIn runs it until the test ends.
func startStandIn(t *testing.T, f *harness.ScaleFixture, nextAddress int) *kubeOVNStandIn {
	t.Helper()
	ctx, stop := context.WithCancel(t.Context())
	s := &kubeOVNStandIn{
		api: f.API, nb: f.NewNBClient(t, "Logical_Router", &nb.LogicalRouter{}),
		queue: workqueue.NewTypedRateLimitingQueue(workqueue.NewTypedItemExponentialFailureRateLimiter[manifest.Ref](
			20*time.Millisecond, time.Second)),
		stores: map[string]cache.Store{}, nextAddress: nextAddress, created: map[string]bool{},
		failed: map[manifest.Ref]error{},
	}
	if err := s.nb.Connect(harness.Within(t, harness.Patience)); err != nil {
		t.Fatal(err)
	}
	informers := dynamicinformer.NewDynamicSharedInformerFactory(f.API, 0)
	for kind := range standInKinds {
		informer := informers.ForResource(harness.ResourceForRef(harness.ObjectRef(kind, "", ""))).Informer()
		if err := informer.SetTransform(harness.TrimObject); err != nil {
			t.Fatal(err)
		}
		add := func(o any) {
			if u, is := o.(*unstructured.Unstructured); is {
				s.queue.Add(harness.ObjectRef(kind, "", u.GetName()))
			}
		}
		s.stores[kind] = informer.GetStore()
		if _, err := informer.AddEventHandler(cache.ResourceEventHandlerFuncs{
			AddFunc: add, UpdateFunc: func(_, o any) { add(o) },
		}); err != nil {
			t.Fatal(err)
		}
	}
	informers.Start(ctx.Done())
	informers.WaitForCacheSync(harness.Within(t, maxSimulatedStart).Done())
	for range 8 {
		s.workers.Go(func() { s.work(ctx) })
	}
	s.stop = sync.OnceFunc(func() {
		s.queue.ShutDown()
		s.workers.Wait()
		stop()
		s.nb.Close()
	})
	t.Cleanup(func() {
		s.stop()
		if t.Failed() {
			s.mu.Lock()
			defer s.mu.Unlock()
			t.Logf("the stand-in for Kube-OVN failed for %d objects: %v", len(s.failed), s.failed)
		}
	})
	return s
}

func (s *kubeOVNStandIn) work(ctx context.Context) {
	for {
		ref, done := s.queue.Get()
		if done {
			return
		}
		finished, err := s.handle(ctx, ref)
		s.mu.Lock()
		if delete(s.failed, ref); err != nil {
			s.failed[ref] = err
		}
		s.mu.Unlock()
		if finished && err == nil {
			s.queue.Forget(ref)
		} else {
			s.queue.AddRateLimited(ref)
		}
		s.queue.Done(ref)
	}
}

func (s *kubeOVNStandIn) handle(ctx context.Context, ref manifest.Ref) (bool, error) {
	o, there, err := s.stores[ref.GVK.Kind].GetByKey(ref.Name)
	if u, is := o.(*unstructured.Unstructured); there && is && err == nil && u.GetDeletionTimestamp() == nil {
		return standInKinds[ref.GVK.Kind](s, ctx, u)
	}
	return true, err
}

// handleVpc creates a router, and its ports on external subnets as soon as their addresses are given.
func (s *kubeOVNStandIn) handleVpc(ctx context.Context, o *unstructured.Unstructured) (bool, error) {
	spec, status := decodeObject[kubeovn.VpcSpec, kubeovn.VpcStatus](o)
	name := o.GetName()
	if name == kubeovn.ManagementVpc {
		return true, nil
	}
	s.rememberVpc(name, status)
	if err := s.create(ctx, "router "+name, ovsdb.Operation{
		Op: ovsdb.OperationInsert, Table: "Logical_Router",
		Row: ovsdb.Row{"name": name, "external_ids": toOVSMap("vendor", "kube-ovn")},
	}); err != nil {
		return false, err
	}
	var attached []string
	for _, subnet := range spec.ExtraExternalSubnets {
		made, err := s.createExternalPort(ctx, name, subnet)
		if err != nil {
			return false, err
		}
		if made {
			attached = append(attached, subnet)
		}
	}
	want := kubeovn.VpcStatus{
		Standby: true, Router: name, EnableExternal: spec.EnableExternal, ExtraExternalSubnets: attached,
	}
	if !status.Standby || !slices.Equal(status.ExtraExternalSubnets, attached) {
		if err := s.writeStatus(ctx, o, want); err != nil {
			return false, err
		}
	}
	return len(attached) == len(spec.ExtraExternalSubnets), nil
}

// rememberVpc learns from a status what a stand-in before this one has created.
func (s *kubeOVNStandIn) rememberVpc(name string, status kubeovn.VpcStatus) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.created["router "+name] = s.created["router "+name] || status.Standby
	for _, subnet := range status.ExtraExternalSubnets {
		s.created["port "+kubeovn.RouterPort(name, subnet)] = true
	}
}

// createExternalPort connects a router to an external subnet, and returns whether the address of the port is given.
func (s *kubeOVNStandIn) createExternalPort(ctx context.Context, vpc, subnet string) (bool, error) {
	eip, there := s.find("OvnEip", kubeovn.RouterPort(vpc, subnet))
	network, isNetwork := s.find("Subnet", subnet)
	if !there || !isNetwork {
		return false, nil
	}
	_, status := decodeObject[kubeovn.OvnEipSpec, kubeovn.OvnEipStatus](eip)
	of, _ := decodeObject[kubeovn.SubnetSpec, kubeovn.SubnetStatus](network)
	if !status.Ready {
		return false, nil
	}
	return true, s.createPorts(ctx, vpc, subnet, status.MacAddress, withBits(status.V4Ip, of.CIDRBlock))
}

// handleSubnet creates the switch of a project and connects it to the router.
func (s *kubeOVNStandIn) handleSubnet(ctx context.Context, o *unstructured.Unstructured) (bool, error) {
	spec, status := decodeObject[kubeovn.SubnetSpec, kubeovn.SubnetStatus](o)
	name := o.GetName()
	if status.IsReady() {
		return true, nil
	}
	s.mu.Lock()
	hasRouter := s.created["router "+spec.Vpc]
	s.mu.Unlock()
	if !hasRouter {
		return false, nil
	}
	if err := s.create(ctx, "switch "+name, ovsdb.Operation{
		Op: ovsdb.OperationInsert, Table: "Logical_Switch",
		Row: ovsdb.Row{"name": name, "external_ids": toOVSMap("vendor", "kube-ovn")},
	}); err != nil {
		return false, err
	}
	if err := s.createPorts(ctx, spec.Vpc, name, "0a:00:00:00:00:01", withBits(spec.Gateway, spec.CIDRBlock)); err != nil {
		return false, err
	}
	for _, namespace := range spec.Namespaces { // Sallyport admits pods there from then on
		if err := s.annotateNamespace(ctx, namespace, name); err != nil {
			return false, err
		}
	}
	return true, s.writeStatus(ctx, o, kubeovn.SubnetStatus{
		Conditions:     []kubeovn.Condition{{Type: kubeovn.ConditionReady, Status: "True", Reason: "StandIn"}},
		V4AvailableIPs: 200,
	})
}

// annotateNamespace writes the Subnet of the pods of a namespace on it.
func (s *kubeOVNStandIn) annotateNamespace(ctx context.Context, namespace, subnet string) error {
	_, err := s.api.Resource(harness.ResourceForRef(harness.ObjectRef("Namespace", "", ""))).Patch(ctx, namespace,
		types.MergePatchType, fmt.Appendf(nil, `{"metadata": {"annotations": {%q: %q}}}`, kubeovn.LogicalSwitchAnnotation,
			subnet), metav1.PatchOptions{})
	return err
}

// handleOvnEip gives the address that is asked for, or the next one.
func (s *kubeOVNStandIn) handleOvnEip(ctx context.Context, o *unstructured.Unstructured) (bool, error) {
	spec, status := decodeObject[kubeovn.OvnEipSpec, kubeovn.OvnEipStatus](o)
	if status.Ready {
		return true, nil
	}
	address := spec.V4Ip
	if address == "" {
		s.mu.Lock()
		next := s.nextAddress
		s.nextAddress++
		s.mu.Unlock()
		address = externalAddress(next).String()
	}
	return true, s.writeStatus(ctx, o, kubeovn.OvnEipStatus{
		Ready: true, Addresses: kubeovn.Addresses{V4Ip: address}, Type: spec.Type,
		MacAddress: standInMAC(netip.MustParseAddr(address)),
	})
}

func (s *kubeOVNStandIn) handleOvnFip(ctx context.Context, o *unstructured.Unstructured) (bool, error) {
	spec, status := decodeObject[kubeovn.OvnFipSpec, kubeovn.OvnFipStatus](o)
	address, given := s.findAddress(spec.OvnEip)
	if status.Ready || !given {
		return status.Ready, nil
	}
	return true, s.writeStatus(ctx, o, kubeovn.OvnFipStatus{
		Ready: true, Vpc: spec.Vpc, V4Eip: address, Addresses: spec.Addresses,
	})
}

func (s *kubeOVNStandIn) handleOvnSnatRule(ctx context.Context, o *unstructured.Unstructured) (bool, error) {
	spec, status := decodeObject[kubeovn.OvnSnatRuleSpec, kubeovn.OvnSnatRuleStatus](o)
	address, given := s.findAddress(spec.OvnEip)
	subnet, there := s.find("Subnet", spec.VpcSubnet)
	if status.Ready || !given || !there {
		return status.Ready, nil
	}
	of, _ := decodeObject[kubeovn.SubnetSpec, kubeovn.SubnetStatus](subnet)
	return true, s.writeStatus(ctx, o, kubeovn.OvnSnatRuleStatus{
		Ready: true, Vpc: of.Vpc, V4Eip: address, V4IpCidr: of.CIDRBlock,
	})
}

// standInMAC returns the MAC address of an external address.
func standInMAC(a netip.Addr) string {
	b := a.As4()
	return fmt.Sprintf("0a:01:%02x:%02x:%02x:%02x", b[0], b[1], b[2], b[3])
}

// createPorts creates a router port and the switch port that leads to it.
func (s *kubeOVNStandIn) createPorts(ctx context.Context, vpc, subnet, mac, network string) error {
	port, peer := kubeovn.RouterPort(vpc, subnet), kubeovn.RouterSwitchPort(subnet, vpc)
	vendor := toOVSMap("vendor", "kube-ovn")
	return s.create(ctx, "port "+port,
		ovsdb.Operation{Op: ovsdb.OperationInsert, Table: "Logical_Router_Port", UUIDName: "port", Row: ovsdb.Row{
			"name": port, "mac": mac, "networks": toOVSSet(network), "external_ids": vendor,
		}},
		addReference("Logical_Router", vpc, "port"),
		ovsdb.Operation{Op: ovsdb.OperationInsert, Table: "Logical_Switch_Port", UUIDName: "peer", Row: ovsdb.Row{
			"name": peer, "type": "router", "addresses": toOVSSet("router"), "external_ids": vendor,
			"options": toOVSMap("router-port", port),
		}},
		addReference("Logical_Switch", subnet, "peer"),
	)
}

// create runs a transaction unless it was run before.
func (s *kubeOVNStandIn) create(ctx context.Context, what string, operations ...ovsdb.Operation) error {
	s.mu.Lock()
	done := s.created[what]
	s.created[what] = true
	s.mu.Unlock()
	if done {
		return nil
	}
	err := s.transact(ctx, operations...)
	if err != nil {
		s.mu.Lock()
		delete(s.created, what)
		s.mu.Unlock()
		err = fmt.Errorf("%s: %w", what, err)
	}
	return err
}

func (s *kubeOVNStandIn) transact(ctx context.Context, operations ...ovsdb.Operation) error {
	results, err := s.nb.Transact(ctx, operations...)
	if err == nil {
		_, err = ovsdb.CheckOperationResults(results, operations)
	}
	return err
}

func (s *kubeOVNStandIn) find(kind, name string) (*unstructured.Unstructured, bool) {
	o, there, err := s.stores[kind].GetByKey(name)
	u, is := o.(*unstructured.Unstructured)
	return u, there && is && err == nil
}

// findAddress returns the address of an OvnEip.
func (s *kubeOVNStandIn) findAddress(ovnEip string) (string, bool) {
	o, there := s.find("OvnEip", ovnEip)
	if !there {
		return "", false
	}
	_, status := decodeObject[kubeovn.OvnEipSpec, kubeovn.OvnEipStatus](o)
	return status.V4Ip, status.Ready
}

func (s *kubeOVNStandIn) writeStatus(ctx context.Context, o *unstructured.Unstructured, status any) error {
	raw, err := json.Marshal(map[string]any{"status": status})
	if err != nil {
		return err
	}
	resource := harness.ResourceForRef(harness.ObjectRef(o.GetKind(), "", ""))
	_, err = s.api.Resource(resource).Patch(ctx, o.GetName(), types.MergePatchType, raw, metav1.PatchOptions{}, "status")
	return err
}

// createPodPorts creates the switch ports of pods in one transaction. Pods are named by number, and so are their
// addresses.
func (s *kubeOVNStandIn) createPodPorts(ctx context.Context, namespace string, first, count int) error {
	var operations []ovsdb.Operation
	subnet := ownership.VPCSubnetName(namespace)
	for n := first; n < first+count; n++ {
		id := fmt.Sprintf("pod%d", n)
		operations = append(operations, ovsdb.Operation{
			Op: ovsdb.OperationInsert, Table: "Logical_Switch_Port", UUIDName: id,
			Row: ovsdb.Row{
				"name":      kubeovn.PodPort(simulatedPod(n), namespace),
				"addresses": toOVSSet(fmt.Sprintf("0a:02:00:00:00:%02x %s", n, simulatedPodAddress(n))),
				"external_ids": toOVSMap("vendor", "kube-ovn", "ls", subnet, "pod",
					namespace+"/"+simulatedPod(n)),
			},
		}, addReference("Logical_Switch", subnet, id))
	}
	return s.transact(ctx, operations...)
}

// addReference adds a new row to the ports of a router or switch.
func addReference(table, name, uuidName string) ovsdb.Operation {
	return ovsdb.Operation{
		Op: ovsdb.OperationMutate, Table: table,
		Where: []ovsdb.Condition{ovsdb.NewCondition("name", ovsdb.ConditionEqual, name)},
		Mutations: []ovsdb.Mutation{*ovsdb.NewMutation("ports", ovsdb.MutateOperationInsert,
			ovsdb.OvsSet{GoSet: []any{ovsdb.UUID{GoUUID: uuidName}}})},
	}
}

func toOVSMap(pairs ...string) ovsdb.OvsMap {
	out := map[any]any{}
	for i := 0; i < len(pairs); i += 2 {
		out[pairs[i]] = pairs[i+1]
	}
	return ovsdb.OvsMap{GoMap: out}
}

func toOVSSet(text string) ovsdb.OvsSet { return ovsdb.OvsSet{GoSet: []any{text}} }

// withBits returns an address with the length of a prefix.
func withBits(address, prefix string) string {
	return fmt.Sprintf("%s/%d", address, netip.MustParsePrefix(prefix).Bits())
}

// decodeObject returns the spec and the status of an object.
func decodeObject[Spec, Status any](o *unstructured.Unstructured) (spec Spec, status Status) {
	var both struct {
		Spec   Spec   `json:"spec"`
		Status Status `json:"status"`
	}
	raw, err := o.MarshalJSON()
	if err == nil {
		err = json.Unmarshal(raw, &both)
	}
	if err != nil {
		panic(err) // the API server checks objects by the types of these fields
	}
	return both.Spec, both.Status
}
