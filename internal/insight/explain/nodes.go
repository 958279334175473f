package explain

import (
	"fmt"
	"net/netip"
	"slices"
	"strings"

	"github.com/sallyport/sallyport/internal/model/clusterstate"
	"github.com/sallyport/sallyport/internal/model/humanize"
	"github.com/sallyport/sallyport/internal/model/intent"
)

// collectNodeFacts adds the state of the nodes on the path, according to Kubernetes, OVN, their NodePaths and agents.
func (e *explainer) collectNodeFacts() {
	for _, r := range e.dependencies {
		switch r.Kind {
		case clusterstate.NodeKind:
			if n := e.s.Cluster.Node(r.Name); n != nil {
				e.out.Nodes = append(e.out.Nodes, Fact{n.Name, e.formatNodeState(n)})
			} else {
				e.out.Nodes = append(e.out.Nodes, Fact{r.Name, "the node " + e.s.DescribeAbsence(clusterstate.Kubernetes)})
			}
		case string(intent.NodePath):
			for _, o := range e.s.Cluster.NodePaths {
				if o.Ref == r {
					e.out.Nodes = append(e.out.Nodes, Fact{r.Name, formatNodePath(o)})
				}
			}
		}
	}
}

func (e *explainer) formatNodeState(n *clusterstate.Node) string {
	said := []string{map[bool]string{true: "ready", false: "not ready"}[n.Ready]}
	said = append(said, e.formatChassisState(n))
	asked, inspected := e.s.Inspected[n.Name]
	if inspected && asked.Problem != "" {
		said = append(said, "did not answer: "+asked.Problem)
	}
	if asked.Switch.Problem != "" {
		said = append(said, "Open vSwitch: "+asked.Switch.Problem)
	}
	if c := asked.Switch.Controller; c != "" && c != "connected" {
		said = append(said, "ovn-controller is "+c)
	}
	for _, u := range asked.Usage {
		if e.ownsAddress(u.Address) {
			said = append(said, fmt.Sprintf("%s of %s", humanize.Pluralize(u.Connections, "connection", "connections"),
				u.Address))
		}
	}
	return strings.Join(said, "; ")
}

func (e *explainer) formatChassisState(n *clusterstate.Node) string {
	for _, c := range e.s.Logical.Chassis {
		if e.s.NodeOfChassis(c.Name) != n.Name {
			continue
		}
		if behind := e.s.Logical.Progress.Asked - c.Seen; behind > 0 && c.Seen > 0 {
			return fmt.Sprintf("its chassis is %s behind OVN", humanize.Pluralize(behind, "change", "changes"))
		}
		return "has a chassis"
	}
	return "has no chassis"
}

func formatNodePath(o clusterstate.NodePath) string {
	var wrong []string
	for _, c := range o.Conditions {
		if c.Status == "False" {
			wrong = append(wrong, strings.TrimSuffix(c.Type+" is false: "+c.Reason+": "+c.Message, ": "))
		}
	}
	if len(wrong) > 0 {
		return "NodePath: " + strings.Join(wrong, "; ")
	}
	return "NodePath: programmed for networks " + humanize.JoinLimited(slices.Sorted(slices.Values(o.Networks)), 6)
}

// healthyState returns the state of an object without findings.
func (e *explainer) healthyState() string {
	c := &e.s.Cluster
	switch e.ref.Kind {
	case clusterstate.NodeKind:
		if n := c.Node(e.ref.Name); n != nil && !n.Ready {
			return "is not ready"
		}
		return "is ready"
	case clusterstate.PodKind:
		if p := c.Pod(e.ref); p != nil && !p.Ready {
			return "is not ready"
		}
		return "is ready"
	case string(intent.Service):
		if v := c.Service(e.ref); v != nil && !v.Ours {
			return "is handled by another controller"
		}
	case string(intent.Subnet):
		if n := c.Subnet(e.ref.Name); n != nil && !n.Ready {
			return "is not ready"
		}
		return "is ready"
	}
	if len(e.out.Conditions) == 0 {
		return "has no conditions yet; check that the controller is running"
	}
	return "is in force"
}

// parseAddresses parses addresses and skips invalid ones.
func parseAddresses(list []string) []netip.Addr {
	var out []netip.Addr
	for _, word := range list {
		if a, err := netip.ParseAddr(word); err == nil {
			out = append(out, a)
		}
	}
	return out
}
