package tenancy

import (
	"context"
	"fmt"
	"maps"
	"math/rand/v2"
	"net/netip"
	"os"
	"reflect"
	"slices"
	"strconv"
	"strings"
	"testing"
	"time"

	"golang.org/x/sync/errgroup"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"

	"github.com/sallyport/sallyport/test/e2e/harness"
	"github.com/sallyport/sallyport/test/show"
)

const (
	maxLiveObjects = 200 // objects of the random attacker at a time
	randomKinds    = "Service EndpointSlice EIp FIp EgressRoute EgressService Pod"
	// a stream has a line every 100 ms; a lost packet adds the time of a retransmission
	maxStreamGap = time.Second
)

// runRandomAttacker writes random objects as a user with all permissions in evil-x, and compares the victims before and
// after.
func runRandomAttacker(t *testing.T, f *attackFixture) {
	t.Helper()
	item := tenancyItems.Item(t, 3)
	seed := randomSeed(t)
	who := f.actor(t, tenantOwner)
	f.controller.ResetPeakMemory(t) // earlier attacks sent 200,000 endpoints
	idle, _ := f.controller.MemoryUsage(t)
	// OVN 25.03.0 interrupts streams when a MAC binding ages (docs/concepts/return-path.md)
	for _, v := range f.victims {
		f.RunNbctl(t, "set", "logical_router", v.namespace, "options:mac_binding_age_threshold=0")
	}
	streams := f.startStreams(t)
	// between two hosts outside: its gaps are the machine's
	control := f.StartStream(t, f.public.Client, harness.InternetAddress)
	before := f.readVictimRows(t)
	f.ResetDrops(t)
	harness.ResetGaps(append(streams, control)...)

	total := show.ChooseSize(10000, 400)
	accepted := f.writeRandomObjects(t, who, rand.New(rand.NewPCG(seed, 0)), total)
	silence := harness.ExpectStreamsContinue(t, "the victims' streams", streams...)
	if machine := control.LongestGap(); silence > maxStreamGap+machine {
		t.Errorf("a victim's stream was silent for %v; a stream that does not cross OVN for %v", silence, machine)
	}
	for _, v := range f.victims {
		f.ExpectAnswer(t, f.public.Client, "http://"+v.fip, "shop", f.public.ClientAddress)
		f.ExpectAnswer(t, f.public.Client, "http://"+v.lb, "shop", f.public.ClientAddress)
	}
	f.expectNoVictimDrops(t, "the random attacker")
	f.expectNoVictimAddresses(t)
	changed := changedRows(before, f.readVictimRows(t))
	for _, row := range changed {
		t.Error(row)
	}
	_, most := f.controller.MemoryUsage(t)
	if most > 2*idle {
		t.Errorf("the controller used up to %d MiB; %d MiB before the attack", most, idle)
	}
	if accepted == 0 {
		t.Error("no object was accepted: this shows nothing")
	}
	item.AddFigure("seed %d: %d random objects, %d accepted by the API server; longest silence of a victim's stream %v; %d foreign rows changed; "+
		"controller %d MiB, at most %d MiB", seed, total, accepted, silence.Round(time.Millisecond), len(changed), idle,
		most)
}

// randomSeed returns SALLYPORT_SEED, or a new seed each time at full size.
func randomSeed(t *testing.T) uint64 {
	t.Helper()
	if text := os.Getenv("SALLYPORT_SEED"); text != "" {
		seed, err := strconv.ParseUint(text, 10, 64)
		if err != nil {
			t.Fatal(err)
		}
		return seed
	}
	return show.ChooseSize(rand.Uint64(), 1)
}

// writeRandomObjects writes objects as the actor, deletes the oldest when there are many, and all at the end. It
// returns the number that the API server accepted.
func (f *attackFixture) writeRandomObjects(t *testing.T, who actor, r *rand.Rand, total int) (accepted int) {
	t.Helper()
	ctx, cancel := context.WithTimeout(t.Context(), 60*time.Minute)
	defer cancel()
	var live []*unstructured.Unstructured
	remove := func(objects []*unstructured.Unstructured) {
		group, ctx := errgroup.WithContext(ctx)
		group.SetLimit(8)
		for _, o := range objects {
			group.Go(func() error {
				raw, err := o.MarshalJSON()
				if err == nil {
					err = f.Objects.Delete(ctx, string(raw))
				}
				return err
			})
		}
		if err := group.Wait(); err != nil {
			t.Error(err)
		}
	}
	for n := range total {
		o := f.randomObject(r, n)
		if err := who.objects.ApplyObject(ctx, o); err == nil {
			accepted++
			live = append(live, o)
		}
		if len(live) == maxLiveObjects {
			remove(live[:maxLiveObjects/2])
			live = slices.Clone(live[maxLiveObjects/2:])
		}
	}
	f.expectOwnSubnet(t)
	remove(live)
	return accepted
}

// expectOwnSubnet fails the test if a pod of the attacker has an address outside its project.
func (f *attackFixture) expectOwnSubnet(t *testing.T) {
	t.Helper()
	pods, err := f.Client.CoreV1().Pods("evil-x").List(harness.Within(t, harness.Patience), metav1.ListOptions{})
	if err != nil {
		t.Fatal(err)
	}
	for _, pod := range pods.Items {
		for _, ip := range pod.Status.PodIPs {
			if address, err := netip.ParseAddr(ip.IP); err != nil || !attackerPrefix.Contains(address) {
				t.Errorf("pod %s of evil-x has the address %s", pod.Name, ip.IP)
			}
		}
	}
}

// randomObject returns an object in the attacker's namespace with fields and annotations that refer to the victims.
func (f *attackFixture) randomObject(r *rand.Rand, n int) *unstructured.Unstructured {
	kind := pickRandom(r, strings.Fields(randomKinds))
	ref := harness.ObjectRef(kind, "evil-x", fmt.Sprintf("r%d", n))
	o := &unstructured.Unstructured{Object: map[string]any{}}
	o.SetGroupVersionKind(ref.GVK)
	o.SetNamespace(ref.Namespace)
	o.SetName(ref.Name)
	if r.IntN(2) == 0 {
		o.SetAnnotations(f.randomPairs(r, hostileAnnotations))
	}
	if r.IntN(4) == 0 {
		o.SetLabels(f.randomPairs(r, hostileLabels))
	}
	switch kind {
	case "EndpointSlice":
		labels := o.GetLabels()
		if labels == nil {
			labels = map[string]string{}
		}
		labels["kubernetes.io/service-name"] = fmt.Sprintf("r%d", n-r.IntN(5))
		o.SetLabels(labels)
		maps.Copy(o.Object, f.randomEndpointSlice(r))
	default:
		o.Object["spec"] = f.randomSpec(r, kind)
	}
	return o
}

var (
	hostileAnnotations = []string{
		"service.nlb.kube-dc.com/bind-on-eip", "service.nlb.kube-dc.com/bind-on-default-gw-eip",
		"service.nlb.kube-dc.com/health-check",
		"network.kube-dc.com/external-network-type", "ovn.kubernetes.io/logical_switch", "ovn.kubernetes.io/ip_address",
		"ovn.kubernetes.io/mac_address",
		"ovn.kubernetes.io/vpc", "ovn.kubernetes.io/port_security", "k8s.v1.cni.cncf.io/networks",
		"v1.multus-cni.io/default-network",
		"k8s.ovn.org/egress-service", "kube-dc.com/eip-quota", "kube-dc.com/origin",
	}
	hostileLabels = []string{
		"app.kubernetes.io/managed-by", "kube-dc.com/vpc", "kube-dc.com/project", "app",
		"kubernetes.io/service-name",
	}
)

// randomText returns something of a victim, something that breaks out of a syntax, or something harmless.
func (f *attackFixture) randomText(r *rand.Rand) string {
	v := pickRandom(r, f.victims)
	return pickRandom(r, []string{
		v.namespace, v.namespace + "-default", v.namespace + "/shop", "acme-web/default-gw", v.pod, v.fip, v.lb,
		"ext-public", "ovn-default", "join", "ovn-cluster",
		"sallyport", "true", "public", "cloud", "", "x y=z", `a" || ip4 || "`,
		"10.30.0.1=shop." + v.namespace + ":10.30.0.1", "\x1b[2J", "../../etc",
		strings.Repeat("x", 300), "${jndi}", "a,b;c", "{\"a\":1}", "0.0.0.0/0", "255.255.255.255", "default-gw", "shop",
	})
}

func (f *attackFixture) randomPairs(r *rand.Rand, keys []string) map[string]string {
	out := map[string]string{}
	for range 1 + r.IntN(3) {
		out[pickRandom(r, keys)] = f.randomText(r)
	}
	return out
}

// randomSpec returns the spec of an object of a kind.
func (f *attackFixture) randomSpec(r *rand.Rand, kind string) map[string]any {
	v := pickRandom(r, f.victims)
	switch kind {
	case "Service":
		spec := map[string]any{"type": "LoadBalancer", "ports": []any{map[string]any{"port": int64(1 + r.IntN(1000))}}}
		switch r.IntN(4) {
		case 0:
			spec["loadBalancerIP"] = pickRandom(r, []string{v.fip, v.lb, "91.224.11.1", "91.224.11.2", "10.30.0.1"})
		case 1:
			spec["externalIPs"] = []any{pickRandom(r, []string{v.fip, v.lb, v.pod})}
		case 2:
			spec["selector"] = map[string]any{"app": pickRandom(r, []string{"shop", "mallory"})}
		}
		return spec
	case "EIp":
		return pickRandom(r, []map[string]any{
			{
				"externalNetworkType": "public",
				"ipAddress":           pickRandom(r, []string{v.fip, v.lb, "91.224.11.2", "91.224.11.200"}),
			},
			{"childRef": pickRandom(r, []string{
				"eip-" + v.namespace + "-shop", v.namespace + "-ext-cloud",
				"evil-x-ext-cloud",
			})},
			{"externalNetworkType": f.randomText(r)},
			{},
		})
	case "FIp":
		return pickRandom(r, []map[string]any{
			{"ipAddress": v.pod, "externalNetworkType": "public"},
			{
				"podTarget":           map[string]any{"podName": pickRandom(r, []string{"shop", "mallory"})},
				"externalNetworkType": "public",
			},
			{"ipAddress": "10.66.0.2", "eip": pickRandom(r, []string{"default-gw", "shop"})},
		})
	case "EgressRoute":
		return map[string]any{"destinations": []any{pickRandom(r,
			[]string{v.pod + "/32", "0.0.0.0/0", "203.0.113.0/24"})}, "externalNetworkType": "public"}
	case "Pod":
		return map[string]any{
			"nodeName":   "node3",
			"containers": []any{map[string]any{"name": "main", "image": "lab/echo"}},
		}
	default:
		return map[string]any{"sourceIPBy": "LoadBalancerIP"}
	}
}

// randomEndpointSlice returns the content of a manually written EndpointSlice.
func (f *attackFixture) randomEndpointSlice(r *rand.Rand) map[string]any {
	v := pickRandom(r, f.victims)
	endpoint := map[string]any{"addresses": []any{pickRandom(r,
		[]string{v.pod, "10.66.0.2", "10.30.0.1", "91.224.11.2", "172.22.0.1"})}}
	if r.IntN(2) == 0 {
		endpoint["targetRef"] = map[string]any{
			"kind":      "Pod",
			"name":      f.randomText(r),
			"namespace": pickRandom(r, []string{"evil-x", v.namespace}),
		}
	}
	return map[string]any{
		"addressType": "IPv4",
		"endpoints":   []any{endpoint},
		"ports":       []any{map[string]any{"port": int64(80), "name": ""}},
	}
}

func pickRandom[T any](r *rand.Rand, of []T) T { return of[r.IntN(len(of))] }

// expectNoVictimAddresses fails the test if a row of the attacker's VPC contains an address of a victim.
func (f *attackFixture) expectNoVictimAddresses(t *testing.T) {
	t.Helper()
	for _, table := range []string{
		"NAT", "Load_Balancer", "Logical_Router_Static_Route", "Logical_Router_Policy",
		"ACL",
	} {
		for _, row := range f.ReadNBTable(t, table, "") {
			text := fmt.Sprint(row)
			if !strings.Contains(text, "evil-x") {
				continue
			}
			for _, v := range f.victims {
				for _, address := range []string{v.fip, v.lb, v.pod} {
					if strings.Contains(text, address+" ") || strings.Contains(text, address+":") ||
						strings.Contains(text, address+"]") {
						t.Errorf("a row of evil-x in %s has the victim's address %s: %s", table, address, text)
					}
				}
			}
		}
	}
}

// readVictimRows returns every northbound row that does not mention the attacker's namespaces, by table and UUID.
func (f *attackFixture) readVictimRows(t *testing.T) map[string]map[string]any {
	t.Helper()
	out := map[string]map[string]any{}
	for _, table := range []string{
		"Logical_Router", "Logical_Router_Port", "Logical_Router_Policy", "Logical_Router_Static_Route", "NAT",
		"Load_Balancer", "Load_Balancer_Health_Check",
		"Logical_Switch", "Logical_Switch_Port", "ACL", "QoS", "DHCP_Options", "HA_Chassis_Group", "Gateway_Chassis",
	} {
		for _, row := range f.ReadNBTable(t, table, "") {
			if text := fmt.Sprint(row); !strings.Contains(text, "evil") && strings.Contains(text, "acme") {
				out[fmt.Sprintf("%s %v", table, row["_uuid"])] = row
			}
		}
	}
	return out
}

// changedRows lists the rows that were deleted or changed.
func changedRows(before, after map[string]map[string]any) (out []string) {
	for key, was := range before {
		is, found := after[key]
		if !found {
			out = append(out, fmt.Sprintf("%s is gone: %v", key, was))
			continue
		}
		for column, value := range was {
			if !reflect.DeepEqual(value, is[column]) {
				out = append(out, fmt.Sprintf("%s: %s was %v and is %v", key, column, value, is[column]))
			}
		}
	}
	slices.Sort(out)
	return out
}
