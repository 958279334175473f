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
	"github.com/sallyport/sallyport/internal/intent"
	"github.com/sallyport/sallyport/internal/kube"
	"github.com/sallyport/sallyport/internal/ownership"
	"github.com/sallyport/sallyport/test/e2e/harness"
)

// claim is an object that says it is in force, when we heard it, and the rows that have to be there.
type claim struct {
	kind, name string
	at         time.Time
	rows       []string
}

// claims is everything that was said by objects of one organization.
type claims struct {
	*harness.Cluster
	organization string

	mu   sync.Mutex
	all  []claim
	last map[string]string // what each object said last
	way  map[string]string // namespace → type of its default network
}

// listen begins to write down what the Projects, EIps and FIps of an organization say from now on.
func listen(t *testing.T, c *harness.Cluster, organization string) *claims {
	t.Helper()
	ctrllog.SetLogger(logr.Discard()) // or it complains
	s := &claims{Cluster: c, organization: organization, last: map[string]string{}, way: map[string]string{}}
	api, err := client.NewWithWatch(c.RESTConfig(t), client.Options{Scheme: kube.Scheme()})
	if err != nil {
		t.Fatal(err)
	}
	for _, list := range []client.ObjectList{&kubedcv1.ProjectList{}, &kubedcv1.EIpList{}, &kubedcv1.FIpList{}} {
		if err := api.List(harness.Within(t, time.Minute), list); err != nil {
			t.Fatal(err)
		}
		events, err := api.Watch(t.Context(), list, &client.ListOptions{Raw: &metav1.ListOptions{ResourceVersion: list.GetResourceVersion()}})
		if err != nil {
			t.Fatal(err)
		}
		go func() {
			for e := range events.ResultChan() {
				if o, ok := e.Object.(client.Object); ok && e.Type != watch.Deleted {
					s.hear(o, time.Now())
				}
			}
		}()
	}
	return s
}

// hear writes down what an object says, if it says something new.
func (s *claims) hear(o client.Object, at time.Time) {
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
		s.way[o.Namespace+"-"+o.Name] = string(o.Spec.EgressNetworkType)
		kind, status, conditions, rows = "Project", o.Status, o.Status.Conditions, func() []string { return s.ofProject(o) }
	case *kubedcv1.EIp:
		kind, status, conditions, rows = "EIp", o.Status, o.Status.Conditions, func() []string { return []string{o.Namespace + "-" + o.Status.ExternalNetwork} }
	case *kubedcv1.FIp:
		kind, status, conditions, rows = "FIp", o.Status, o.Status.Conditions, func() []string { return s.ofFIp(o) }
	}
	name := o.GetNamespace() + "/" + o.GetName()
	raw, _ := json.Marshal(status)
	news := s.last[kind+name] != string(raw)
	s.last[kind+name] = string(raw)
	if news && meta.IsStatusConditionTrue(conditions, kubedcv1.ConditionProgrammed) {
		s.all = append(s.all, claim{kind: kind, name: name, at: at, rows: rows()})
	}
}

// ofProject is the rows of a project: the port of its way out, SNAT, two policies and the link that one of them leads to.
func (s *claims) ofProject(o *kubedcv1.Project) []string {
	ns := o.Namespace + "-" + o.Name
	inport := fmt.Sprintf("inport == %q && ", ns+"-"+ns+"-default")
	kind, prefix := s.network(o.Status.ExternalIP)
	return []string{
		ns + "-ext-" + kind,
		fmt.Sprintf("snat %s %s", o.Status.ExternalIP, o.Spec.CIDRBlock),
		fmt.Sprintf("%d %sip4.src == %s && ip4.dst != %s", ownership.WayOut, inport, o.Spec.CIDRBlock, o.Spec.CIDRBlock),
		fmt.Sprintf("%d %sip4.dst == %s", ownership.WayOutOnLink, inport, prefix),
		ownership.OnLinkPort(ns),
	}
}

// ofFIp is the rows of a floating IP: the translation, and on another network than the project's default the leg.
func (s *claims) ofFIp(o *kubedcv1.FIp) []string {
	out := []string{fmt.Sprintf("dnat_and_snat %s %s", o.Status.ExternalIP, o.Status.ResolvedTargetIP)}
	kind, prefix := s.network(o.Status.ExternalIP)
	if kind == s.way[o.Namespace] {
		return out
	}
	set := ownership.LegTargets(o.Namespace+"-default", "ext-"+kind)
	return append(append(out, ofLegTo(o.Namespace, "ext-"+kind, prefix)...), fmt.Sprintf("set %s with %s", set, o.Status.ResolvedTargetIP))
}

// ofLegTo is the rows of a project's leg to a network.
func ofLegTo(vpc, network, prefix string) []string {
	subnet := vpc + "-default"
	port, socket, table := ownership.LegRouterPort(vpc, subnet, network), ownership.LegSwitchPort(vpc, subnet, network), ownership.ReturnTable(network)
	by := fmt.Sprintf("of ReturnPath/%s/%s", vpc, network)
	return []string{
		port + " with table " + table,
		fmt.Sprintf("switch port %s to %s", socket, port),
		fmt.Sprintf("binding %s %s", ownership.TurnRouterPort(vpc, subnet), intent.MAC(port)),
		ownership.TurnRouterPort(vpc, subnet),
		fmt.Sprintf("switch port %s to %s", ownership.TurnSwitchPort(vpc, subnet), ownership.TurnRouterPort(vpc, subnet)),
		fmt.Sprintf("marking 110 of ReturnPath/%s/turn", vpc), fmt.Sprintf("marking 115 of ReturnPath/%s/turn", vpc),
		fmt.Sprintf("%s-%s with table %s", vpc, network, table),
		fmt.Sprintf("route %s 0.0.0.0/0 %s", table, by), fmt.Sprintf("route %s 10.61.0.0/17 %s", table, by), fmt.Sprintf("route %s 10.61.128.0/17 %s", table, by),
		fmt.Sprintf("group %s of 1", ownership.LegGroup(subnet, network)), "rule 1 pass " + by, "rule 3 allow-related " + by,
		"marking 120 " + by, "marking 110 " + by, "marking 100 " + by, "marking 96 " + by, "marking 95 " + by, "marking 90 " + by,
		fmt.Sprintf("%d inport == %q && pkt.mark == %d", ownership.ReturnReply, vpc+"-"+subnet, ownership.Mark(network)),
		fmt.Sprintf("%d inport == %q && ip4.dst != %s", ownership.ReturnLeave, port, prefix),
		fmt.Sprintf("%d pkt.mark == %d", ownership.ReturnForged, ownership.MarkForged),
	}
}

// network is the type and the prefix of the network that an address is on.
func (s *claims) network(address string) (kind, prefix string) {
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

// list is everything that was said so far.
func (s *claims) list() []claim {
	s.mu.Lock()
	defer s.mu.Unlock()
	return slices.Clone(s.all)
}

// about is what one object said.
func (s *claims) about(object string) []claim {
	s.mu.Lock()
	defer s.mu.Unlock()
	return slices.DeleteFunc(slices.Clone(s.all), func(c claim) bool { return c.kind+" "+c.name != object })
}
