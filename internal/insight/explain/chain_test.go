package explain_test

import (
	"slices"
	"testing"

	"github.com/sallyport/sallyport/internal/model/clusterstate"
	"github.com/sallyport/sallyport/internal/model/state"
)

func TestWhatAnObjectHangsOn(t *testing.T) {
	public, node1, node2 := ref("ExternalNetwork", "", "public"), clusterstate.NodeRef("node1"), clusterstate.NodeRef("node2")
	cloud, router, db := ref("Subnet", "", "ext-cloud"), clusterstate.RouterRef("acme-prod"),
		clusterstate.PodRef("acme-prod", "db-0")
	for _, c := range []struct {
		of        state.Ref
		on, notOn []state.Ref
	}{
		{
			fip,
			[]state.Ref{fipEIP, project, router, public, node2, db, node1, returnPath},
			[]state.Ref{cloud, frontEIP, web, defaultGatewayEIP},
		},
		{
			web,
			[]state.Ref{frontEIP, project, router, public, clusterstate.PodRef("acme-prod", "web-1")},
			[]state.Ref{cloud, mail, db},
		},
		{
			frontEIP,
			[]state.Ref{web, mail, public, router, clusterstate.PodRef("acme-prod", "web-0")},
			[]state.Ref{fip, fipEIP, db},
		},
		{project, []state.Ref{defaultGatewayEIP, cloud, router, node1}, []state.Ref{public, web, node2}},
		{
			egress,
			[]state.Ref{node2, public, clusterstate.RouterRef("sallyport-egress"), router, project},
			[]state.Ref{cloud, node1},
		},
		{partners, []state.Ref{public, router, node2, returnPath}, []state.Ref{cloud, frontEIP}},
		{db, []state.Ref{node1}, []state.Ref{fip, node2}},
	} {
		got := healthySurvey().DependenciesOf(c.of)
		if got[0] != c.of {
			t.Errorf("%s: %v is first, want the object itself", c.of, got[0])
		}
		for _, r := range c.on {
			if !slices.Contains(got, r) {
				t.Errorf("%s does not hang on %s: %v", c.of, r, got)
			}
		}
		for _, r := range c.notOn {
			if slices.Contains(got, r) {
				t.Errorf("%s hangs on %s", c.of, r)
			}
		}
	}
}

// While no node holds a port, the object depends on all candidates. It does not depend on standby nodes.
func TestNodesOnTheWay(t *testing.T) {
	s := healthySurvey()
	s.Cluster.Services = nil // their pods are on nodes too
	ports := s.Logical.Routers[0].Ports
	for holder, want := range map[string][]string{"c1": {"node1"}, "c2": {"node2", "node1"}, "": {"node2", "node1"}} {
		ports[2].Holder = holder
		var nodes []string
		for _, r := range s.DependenciesOf(frontEIP) {
			if r.Kind == clusterstate.NodeKind {
				nodes = append(nodes, r.Name)
			}
		}
		if !slices.Equal(nodes, want) {
			t.Errorf("held by %q: %v, want %v", holder, nodes, want)
		}
	}
}
