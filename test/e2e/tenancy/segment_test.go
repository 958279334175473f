package tenancy

import (
	"fmt"
	"net/netip"
	"slices"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"

	"github.com/sallyport/sallyport/test/e2e/harness"
)

// sharedAddress is the address on the network public that all projects may reach.
const sharedAddress = "91.224.11.90"

// segmentFixture is the clients and targets on the network public while isolation is switched on and off.
type segmentFixture struct {
	*attackFixture
	addresses        []string            // of two victims
	ownTargets       map[string][]string // by client: its own addresses, which answer it
	answered, silent atomic.Int32
}

// checkSegmentIsolation switches isolation of tenants on the network public on and off, and sends requests from
// everywhere.
func checkSegmentIsolation(t *testing.T, f *attackFixture) {
	t.Helper()
	item := tenancyItems.Item(t, 4)
	f.excludeAddress(t, sharedAddress)
	f.startAskingPods(t)
	streams := f.startStreams(t)
	harness.ResetGaps(streams...)
	web, pay := f.victims[0], f.victims[1]
	s := &segmentFixture{
		attackFixture: f, addresses: []string{web.fip, web.lb, pay.fip, pay.lb},
		ownTargets: map[string][]string{
			"mallory.evil-x": nil, // leaves through the network public, with the project's address there
			"fixed.evil-x":   nil, // leaves with an EgressIP on public, through another node
			"usual.evil-x":   nil, // leaves through the network cloud and the routers of both networks
			"mate.acme-web":  {web.lb},
			"mate.acme-pay":  {pay.lb},
		},
	}
	s.expectReachability(t, false)
	f.setPublicIsolation(t, "Tenants", "")
	s.expectReachability(t, true)
	s.checkSharedAddress(t)
	s.expectReachability(t, true)
	f.setPublicIsolation(t, "None", "")
	s.expectReachability(t, false)
	silence := harness.ExpectStreamsContinue(t, "the victims' streams", streams...)
	item.AddFigure("%d attacks on pools and quotas; on a network with isolation Tenants %d connections of other projects got no answer; %d of their own, of outsiders, "+
		"to a shared address and without isolation did; longest silence of a stream %v",
		len(poolAttacks), s.silent.Load(), s.answered.Load(), silence.Round(time.Millisecond))
}

// expectReachability sends requests from every client to every target in parallel.
func (s *segmentFixture) expectReachability(t *testing.T, isolated bool) {
	t.Helper()
	var all sync.WaitGroup
	defer all.Wait()
	answers := func(asker, target, name, saw string) {
		s.answered.Add(1)
		all.Go(func() { s.ExpectAnswer(t, asker, target, name, saw) })
	}
	for asker, own := range s.ownTargets {
		for _, target := range s.targetsFor(asker) {
			address := netip.MustParseAddrPort(target[strings.LastIndex(target, "/")+1:]).Addr().String()
			if !isolated || slices.Contains(own, address) {
				answers(asker, target, "shop", "")
				continue
			}
			s.silent.Add(1)
			all.Go(func() { s.ExpectSilence(t, asker, target) })
		}
		answers(asker, "http://"+harness.InternetAddress, "internet", "")
	}
	for _, a := range s.addresses { // outsiders are not tenants
		answers(s.public.Client, "http://"+a, "shop", s.public.ClientAddress)
		answers(s.public.Neighbour, "http://"+a, "shop", s.public.NeighbourAddress)
		answers("internet", "http://"+a, "shop", harness.InternetAddress)
	}
}

// targetsFor returns the targets of a client: load balancers have only the port of their Service, and pods cannot reach
// floating IPs of their own project on a secondary network.
func (s *segmentFixture) targetsFor(asker string) (out []string) {
	_, namespace, _ := strings.Cut(asker, ".")
	for _, v := range s.victims[:2] {
		out = append(out, "http://"+v.lb+":80")
		if v.namespace != namespace {
			out = append(out, "http://"+v.fip+":80", "udp://"+v.fip+":80")
		}
	}
	return out
}

// checkSharedAddress gives a Service an address that all may reach. Only the namespace that it is granted to gets it.
func (s *segmentFixture) checkSharedAddress(t *testing.T) {
	t.Helper()
	s.setPublicIsolation(t, "Tenants", fmt.Sprintf(", sharedAddresses: [{address: %s, namespace: acme-web}]",
		sharedAddress))
	who := s.actor(t, tenantEditor)
	who.MustApply(t, s.attackFixture, eipManifest("evil-x", "shared",
		fmt.Sprintf("{externalNetworkType: public, ipAddress: %s}", sharedAddress)))
	s.expectReason(t, harness.ObjectRef("EIp", "evil-x", "shared"), "Accepted", "AddressReserved")
	s.Apply(t, fmt.Sprintf(`{apiVersion: v1, kind: Service, metadata: {name: shared, namespace: acme-web, annotations: {network.kube-dc.com/external-network-type: public}},
  spec: {type: LoadBalancer, loadBalancerIP: %s, selector: {app: shop}, ports: [{port: 80}]}}`, sharedAddress))
	s.WaitProgrammedOnNodes(t, "Service", "acme-web", "shared")
	s.SyncFlows(t)
	for asker := range s.ownTargets {
		s.ExpectAnswer(t, asker, "http://"+sharedAddress, "shop", "")
		s.answered.Add(1)
	}
}

// excludeAddress adds an address to excludeIps of the Subnet of the network public.
func (f *attackFixture) excludeAddress(t *testing.T, address string) {
	t.Helper()
	o, err := f.Objects.Get(harness.Within(t, harness.Patience), harness.ObjectRef("Subnet", "", "ext-public"))
	if err != nil {
		t.Fatal(err)
	}
	excluded, _, err := unstructured.NestedStringSlice(o.Object, "spec", "excludeIps")
	if err != nil {
		t.Fatal(err)
	}
	if err := unstructured.SetNestedStringSlice(o.Object, append(excluded, address), "spec", "excludeIps"); err != nil {
		t.Fatal(err)
	}
	o.SetManagedFields(nil)
	o.SetResourceVersion("")
	if err := f.Objects.ApplyObject(harness.Within(t, harness.Patience), o); err != nil {
		t.Fatal(err)
	}
}

// startAskingPods starts the client pods. Those of the attacker use three paths: mallory leaves with the project's
// address on the network public, fixed with an EgressIP there, and usual through the default network.
func (f *attackFixture) startAskingPods(t *testing.T) {
	t.Helper()
	for _, p := range []harness.Pod{
		{Namespace: "evil-x", Name: "fixed", Node: "node1"},
		{Namespace: "evil-x", Name: "usual", Node: "node1"},
		{Namespace: "acme-web", Name: "mate", Node: "node1"},
		{Namespace: "acme-pay", Name: "mate", Node: "node1"},
	} {
		f.RunPod(t, p)
	}
	f.Apply(t, `{apiVersion: kube-dc.com/v1alpha1, kind: EgressRoute, metadata: {name: segment, namespace: evil-x},
  spec: {destinations: [91.224.11.0/24], externalNetworkType: public, podSelector: {matchLabels: {app: mallory}}}}`)
	f.WaitProgrammedOnNodes(t, "EgressRoute", "evil-x", "segment")
	f.SetEgressAssignable(t, "node1", true)
	t.Cleanup(func() { f.SetEgressAssignable(t, "node1", false) })
	f.Apply(t, `{apiVersion: k8s.ovn.org/v1, kind: EgressIP, metadata: {name: segment}, spec: {egressIPs: [91.224.11.91],
  namespaceSelector: {matchLabels: {kubernetes.io/metadata.name: evil-x}}, podSelector: {matchLabels: {app: fixed}}}}`)
	f.WaitProgrammedOnNodes(t, "EgressIP", "", "segment")
}

// setPublicIsolation sets the isolation of the network public, and waits until all nodes have the flows.
func (f *attackFixture) setPublicIsolation(t *testing.T, isolation, more string) {
	t.Helper()
	f.Apply(t, fmt.Sprintf("{apiVersion: kube-dc.com/v1alpha1, kind: ExternalNetwork, metadata: {name: segment}, spec: {type: public, subnets: [ext-public], isolation: %s%s}}",
		isolation, more))
	f.WaitProgrammedOnNodes(t, "ExternalNetwork", "", "segment")
	wanted := 0
	if isolation == "Tenants" {
		wanted = 4 // the attacker's router and those of the victims
	}
	f.PollUntil(t, fmt.Sprintf("at least %d routers have rules", wanted), func() bool {
		have := 0
		for _, row := range f.ReadNBTable(t, "acl", "priority") {
			if fmt.Sprint(row["priority"]) == "110" {
				have++
			}
		}
		return wanted == 0 && have == 0 || wanted > 0 && have >= wanted
	})
	f.SyncFlows(t)
	f.ResetDrops(t)
}
