package trace

import (
	"slices"
	"testing"

	"github.com/sallyport/sallyport/internal/insight/diagnosis"
	"github.com/sallyport/sallyport/internal/model/clusterstate"
	"github.com/sallyport/sallyport/internal/model/logical"
	"github.com/sallyport/sallyport/internal/model/state"
)

func codesOf(all []diagnosis.Finding) (out []string) {
	for _, f := range all {
		out = append(out, f.Code)
	}
	return out
}

func newFinding(code string, root int, refs ...state.Ref) diagnosis.Finding {
	return diagnosis.Finding{Code: code, Severity: diagnosis.Error, CauseRank: root, About: refs}
}

// A lost reply is a consequence of the missing row. A NetworkPolicy that drops is the cause itself, whatever else is
// wrong.
func TestCausesInOrder(t *testing.T) {
	s := shopSurvey()
	s.Logical.Switch(pods).QoS = nil
	missing := newFinding(diagnosis.RowMissing, 2, state.Ref{Kind: "FIp", Namespace: shop, Name: "front"})
	elsewhere := newFinding(diagnosis.NodeNotReady, 3, clusterstate.NodeRef("node9"))
	got := codesOf(traceOnePath(t, s, queryFromClient(internet, floatingIP+":80")).Causes(s,
		[]diagnosis.Finding{missing, elsewhere}))
	if !slices.Equal(got, []string{diagnosis.RowMissing, ReplyLeavesElsewhere}) {
		t.Errorf("a lost reply is because of %v", got)
	}
	s = shopSurvey()
	addNetworkPolicy(s, "198.51.100.0/24")
	got = codesOf(traceOnePath(t, s, queryFromClient(internet, floatingIP+":80")).Causes(s,
		[]diagnosis.Finding{missing}))
	if !slices.Equal(got, []string{NetworkPolicyDrops, diagnosis.RowMissing}) {
		t.Errorf("what a NetworkPolicy drops is because of %v", got)
	}
}

// A Service that shares the pod with a floating IP is not the cause when its pods are not ready: their node is.
func TestCausesOfOthers(t *testing.T) {
	s := shopSurvey()
	web := clusterstate.PodRef(shop, "web")
	s.Cluster.Pods[0].Node, s.Cluster.FIps[0].Pod = "node1", "web"
	s.Logical.Switch(pods).Ports = slices.DeleteFunc(s.Logical.Switch(pods).Ports, func(p logical.SwitchPort) bool {
		return p.Name == "web."+shop
	})
	other := state.Ref{Kind: "Service", Namespace: shop, Name: "web"}
	notReady := newFinding(diagnosis.PodsNotReady, 1, other, web)
	down := newFinding(diagnosis.NodeNotReady, 3, clusterstate.NodeRef("node1"))
	got := codesOf(traceOnePath(t, s, queryFromClient(internet, floatingIP+":80")).Causes(s, []diagnosis.Finding{notReady, down}))
	if !slices.Contains(got, diagnosis.NodeNotReady) || slices.Contains(got, diagnosis.PodsNotReady) {
		t.Errorf("because of %v", got)
	}
}

// For a path that is answered according to the rows, only what forwards or receives its packets can be the cause: not
// problems elsewhere, nor a condition.
func TestCausesOfWhatIsWell(t *testing.T) {
	s := shopSurvey()
	p := traceOnePath(t, s, queryFromClient(internet, floatingIP+":80"))
	undeclared := newFinding(diagnosis.TargetPortNotDeclared, 1, state.Ref{Kind: "FIp", Namespace: shop, Name: "front"})
	undeclared.Severity = diagnosis.Warning
	got := codesOf(p.Causes(s, []diagnosis.Finding{
		newFinding(diagnosis.RowMissing, 2, state.Ref{Kind: "FIp", Namespace: shop, Name: "front"}),
		newFinding(diagnosis.ChassisBehind, 2, clusterstate.NodeRef("node1")),
		newFinding(diagnosis.ChassisBehind, 2, clusterstate.NodeRef("node2")), // not on its path
		newFinding(diagnosis.NorthdBehind, 2, diagnosis.ClusterRef), undeclared,
	}))
	if !slices.Equal(got, []string{diagnosis.ChassisBehind, diagnosis.NorthdBehind, diagnosis.TargetPortNotDeclared}) {
		t.Errorf("because of %v", got)
	}
}

// An address that is requested but missing in OVN, one that is only reserved, and one that nothing has give different
// codes.
func TestWhoseAddress(t *testing.T) {
	s := shopSurvey()
	s.Logical.Router(shop).NATs = s.Logical.Router(shop).NATs[1:]
	p := traceOnePath(t, s, queryFromClient(internet, floatingIP+":80"))
	assertVerdict(t, p, Dropped, NotInForce)
	if !isAbout(p, "FIp acme-shop/front") {
		t.Errorf("about %v", p.About)
	}
	s = shopSurvey()
	s.Cluster.EIps = []clusterstate.EIp{{Object: object("EIp", shop, "spare"), Address: addr("198.51.100.40")}}
	assertVerdict(t, traceOnePath(t, s, queryFromClient(internet, "198.51.100.40:80")), Dropped, AddressUnused)
	assertVerdict(t, traceOnePath(t, s, queryFromClient(internet, "198.51.100.41:80")), Dropped, AddressUnknown)

	s = shopSurvey()
	s.Cluster.Services[0].Ports = []clusterstate.ServicePort{{Port: 443, Protocol: "TCP"}}
	assertVerdict(t, traceOnePath(t, s, queryFromClient(internet, loadBalancerIP+":443")), Dropped, NotInForce)
	s.Logical.Router(shop).Balancers = append(s.Logical.Router(shop).Balancers, logical.LoadBalancer{
		Protocol: "tcp", VIPs: []logical.VIP{{
			Address:  addrPort(loadBalancerIP + ":443"),
			Backends: webBalancer().VIPs[0].Backends[:1],
		}},
	})
	assertVerdict(t, traceOnePath(t, s, queryFromClient(internet, loadBalancerIP+":443")), Delivered, "")
}
