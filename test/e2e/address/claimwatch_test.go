package address

import (
	"encoding/json"
	"fmt"
	"net/netip"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/go-logr/logr"
	"k8s.io/apimachinery/pkg/api/meta"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/watch"
	"sigs.k8s.io/controller-runtime/pkg/client"
	ctrllog "sigs.k8s.io/controller-runtime/pkg/log"

	kubedcv1 "github.com/sallyport/sallyport/api/kubedc/v1"
	"github.com/sallyport/sallyport/internal/engine/kube"
	"github.com/sallyport/sallyport/internal/model/intent"
	"github.com/sallyport/sallyport/internal/model/ownership"
	"github.com/sallyport/sallyport/test/e2e/harness"
)

// claim is an object that reports Programmed, the time, and the rows that must exist.
type claim struct {
	kind, name string
	at         time.Time
	rows       []string
}

// claimRecorder records the claims of all objects of one organization.
type claimRecorder struct {
	*harness.Cluster
	organization string

	mu             sync.Mutex
	all            []claim
	lastStatus     map[string]string // last status of each object
	defaultNetwork map[string]string // namespace → type of its default network
}

// recordClaims starts to record the statuses of the Projects, EIps and FIps of an organization.
func recordClaims(t *testing.T, c *harness.Cluster, organization string) *claimRecorder {
	t.Helper()
	ctrllog.SetLogger(logr.Discard()) // otherwise controller-runtime logs a warning
	s := &claimRecorder{
		Cluster:        c,
		organization:   organization,
		lastStatus:     map[string]string{},
		defaultNetwork: map[string]string{},
	}
	api, err := client.NewWithWatch(c.RESTConfig(t), client.Options{Scheme: kube.Scheme()})
	if err != nil {
		t.Fatal(err)
	}
	for _, list := range []client.ObjectList{&kubedcv1.ProjectList{}, &kubedcv1.EIpList{}, &kubedcv1.FIpList{}} {
		if err := api.List(harness.Within(t, harness.Patience), list); err != nil {
			t.Fatal(err)
		}
		events, err := api.Watch(t.Context(), list,
			&client.ListOptions{Raw: &metav1.ListOptions{ResourceVersion: list.GetResourceVersion()}})
		if err != nil {
			t.Fatal(err)
		}
		go func() {
			for e := range events.ResultChan() {
				if o, ok := e.Object.(client.Object); ok && e.Type != watch.Deleted {
					s.recordStatus(o, time.Now())
				}
			}
		}()
	}
	return s
}

// recordStatus records the status of an object if it has changed.
func (s *claimRecorder) recordStatus(o client.Object, at time.Time) {
	if !strings.HasPrefix(o.GetNamespace()+"-", s.organization+"-") {
		return
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	var kind string
	var status any
	var conditions []metav1.Condition
	var rows func() []string
	switch o := o.(type) {
	case *kubedcv1.Project:
		s.defaultNetwork[o.Namespace+"-"+o.Name] = string(o.Spec.EgressNetworkType)
		kind, status, conditions, rows = "Project", o.Status, o.Status.Conditions, func() []string {
			return s.projectRows(o)
		}
	case *kubedcv1.EIp:
		kind, status, conditions, rows = "EIp", o.Status, o.Status.Conditions, func() []string {
			return []string{o.Namespace + "-" + o.Status.ExternalNetwork}
		}
	case *kubedcv1.FIp:
		kind, status, conditions, rows = "FIp", o.Status, o.Status.Conditions, func() []string { return s.fipRows(o) }
	}
	name := o.GetNamespace() + "/" + o.GetName()
	raw, _ := json.Marshal(status)
	news := s.lastStatus[kind+name] != string(raw)
	s.lastStatus[kind+name] = string(raw)
	if news && meta.IsStatusConditionTrue(conditions, kubedcv1.ConditionProgrammed) {
		s.all = append(s.all, claim{kind: kind, name: name, at: at, rows: rows()})
	}
}

// projectRows returns the rows of a project: the router port of its default egress, SNAT, two policies and the on-link
// loopback port that one of them uses.
func (s *claimRecorder) projectRows(o *kubedcv1.Project) []string {
	ns := o.Namespace + "-" + o.Name
	inport := fmt.Sprintf("inport == %q && ", ns+"-"+ns+"-default")
	kind, prefix := s.networkOf(o.Status.ExternalIP)
	return []string{
		ns + "-ext-" + kind,
		fmt.Sprintf("snat %s %s", o.Status.ExternalIP, o.Spec.CIDRBlock),
		fmt.Sprintf("%d %sip4.src == %s && ip4.dst != %s", ownership.DefaultEgress, inport, o.Spec.CIDRBlock,
			o.Spec.CIDRBlock),
		fmt.Sprintf("%d %sip4.dst == %s", ownership.DefaultEgressOnLink, inport, prefix),
		ownership.OnLinkLoopbackPort(ns),
	}
}

// fipRows returns the rows of a floating IP: the NAT row and, on a secondary network, the return port.
func (s *claimRecorder) fipRows(o *kubedcv1.FIp) []string {
	out := []string{fmt.Sprintf("dnat_and_snat %s %s", o.Status.ExternalIP, o.Status.ResolvedTargetIP)}
	kind, prefix := s.networkOf(o.Status.ExternalIP)
	if kind == s.defaultNetwork[o.Namespace] {
		return out
	}
	set := ownership.ReturnTargetSet(o.Namespace+"-default", "ext-"+kind)
	return append(append(out, returnPortRows(o.Namespace, "ext-"+kind, prefix)...),
		fmt.Sprintf("set %s with %s", set, o.Status.ResolvedTargetIP))
}

// returnPortRows returns the rows of a project's return port for a network.
func returnPortRows(vpc, network, prefix string) []string {
	subnet := vpc + "-default"
	port, socket, table := ownership.ReturnRouterPort(vpc, subnet, network),
		ownership.ReturnSwitchPort(vpc, subnet, network), ownership.ReturnRouteTable(network)
	by := fmt.Sprintf("of ReturnPath/%s/%s", vpc, network)
	return []string{
		port + " with table " + table,
		fmt.Sprintf("switch port %s to %s", socket, port),
		fmt.Sprintf("binding %s %s", ownership.HairpinRouterPort(vpc, subnet), intent.DeriveMAC(port)),
		ownership.HairpinRouterPort(vpc, subnet),
		fmt.Sprintf("switch port %s to %s", ownership.HairpinSwitchPort(vpc, subnet),
			ownership.HairpinRouterPort(vpc, subnet)),
		fmt.Sprintf("marking 110 of ReturnPath/%s/turn", vpc), fmt.Sprintf("marking 115 of ReturnPath/%s/turn", vpc),
		fmt.Sprintf("%s-%s with table %s", vpc, network, table),
		fmt.Sprintf("route %s 0.0.0.0/0 %s", table, by), fmt.Sprintf("route %s 10.61.0.0/17 %s", table, by),
		fmt.Sprintf("route %s 10.61.128.0/17 %s", table, by),
		fmt.Sprintf("group %s of 1", ownership.ReturnPortGroup(subnet, network)), "rule 1 pass " + by,
		"rule 3 allow-related " + by,
		"marking 120 " + by, "marking 110 " + by, "marking 100 " + by, "marking 96 " + by, "marking 95 " + by,
		"marking 90 " + by,
		fmt.Sprintf("%d inport == %q && pkt.mark == %d", ownership.ReturnReply, vpc+"-"+subnet,
			ownership.NetworkMark(network)),
		fmt.Sprintf("%d inport == %q && ip4.dst != %s", ownership.ReturnLeave, port, prefix),
		fmt.Sprintf("%d pkt.mark == %d", ownership.ReturnForged, ownership.ForgedMark),
	}
}

// networkOf returns the type and the prefix of the network of an address.
func (s *claimRecorder) networkOf(address string) (kind, prefix string) {
	a, err := netip.ParseAddr(address)
	if err != nil {
		return "none", "none"
	}
	for _, n := range s.Blueprint.Networks {
		if n.Prefixes[0].Contains(a) {
			return strings.TrimPrefix(n.Name, "ext-"), n.Prefixes[0].String()
		}
	}
	return "none", "none"
}

// allClaims returns all claims so far.
func (s *claimRecorder) allClaims() []claim {
	s.mu.Lock()
	defer s.mu.Unlock()
	return slices.Clone(s.all)
}

// claimsOf returns the claims of one object.
func (s *claimRecorder) claimsOf(object string) []claim {
	s.mu.Lock()
	defer s.mu.Unlock()
	return slices.DeleteFunc(slices.Clone(s.all), func(c claim) bool { return c.kind+" "+c.name != object })
}
