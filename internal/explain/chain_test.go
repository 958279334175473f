package explain_test

import (
	"slices"
	"testing"

	"github.com/sallyport/sallyport/internal/state"
	"github.com/sallyport/sallyport/internal/survey"
)

func TestWhatAnObjectHangsOn(t *testing.T) {
	public, node1, node2 := ref("ExternalNetwork", "", "public"), survey.NodeRef("node1"), survey.NodeRef("node2")
	cloud, router, db := ref("Subnet", "", "ext-cloud"), survey.RouterRef("acme-prod"), survey.PodRef("acme-prod", "db-0")
	for _, c := range []struct {
		of        state.Ref
		on, notOn []state.Ref
	}{
		{fip, []state.Ref{own, project, router, public, node2, db, node1, returning}, []state.Ref{cloud, front, web, gateway}},
		{web, []state.Ref{front, project, router, public, survey.PodRef("acme-prod", "web-1")}, []state.Ref{cloud, mail, db}},
		{front, []state.Ref{web, mail, public, router, survey.PodRef("acme-prod", "web-0")}, []state.Ref{fip, own, db}},
		{project, []state.Ref{gateway, cloud, router, node1}, []state.Ref{public, web, node2}},
		{egress, []state.Ref{node2, public, survey.RouterRef("sallyport-egress"), router, project}, []state.Ref{cloud, node1}},
		{partners, []state.Ref{public, router, node2, returning}, []state.Ref{cloud, front}},
		{db, []state.Ref{node1}, []state.Ref{fip, node2}},
	} {
		got := world().HangsOn(c.of)
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

// While no node holds a port, all that may are to be looked at; of those that stand by nothing depends.
func TestNodesOnTheWay(t *testing.T) {
	s := world()
	s.Cluster.Services = nil // their pods are on nodes, too
	ports := s.Logical.Routers[0].Ports
	for holder, want := range map[string][]string{"c1": {"node1"}, "c2": {"node2", "node1"}, "": {"node2", "node1"}} {
		ports[2].Holder = holder
		var nodes []string
		for _, r := range s.HangsOn(front) {
			if r.Kind == survey.NodeKind {
				nodes = append(nodes, r.Name)
			}
		}
		if !slices.Equal(nodes, want) {
			t.Errorf("held by %q: %v, want %v", holder, nodes, want)
		}
	}
}
