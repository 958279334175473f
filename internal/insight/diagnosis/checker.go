package diagnosis

import (
	"cmp"
	"fmt"
	"net/netip"
	"slices"
	"strings"
	"time"

	"github.com/sallyport/sallyport/internal/model/clusterstate"
	"github.com/sallyport/sallyport/internal/model/intent"
	"github.com/sallyport/sallyport/internal/model/logical"
	"github.com/sallyport/sallyport/internal/model/state"
)

// checker examines one cluster.
type checker struct {
	*clusterstate.State
	now      time.Time // by the clock of the cluster
	findings []*Finding
	objects  map[state.Ref]*clusterstate.Object
	nodes    map[string]*clusterstate.Node
	chassis  map[string]*logical.Chassis // by name
	subnets  map[string]*clusterstate.Subnet
	networks map[string]*clusterstate.Network
}

// checks are all checks, in order. Some look at the findings of earlier ones.
var checks = []func(*checker){
	(*checker).checkReadFailures, (*checker).checkCertificates, (*checker).checkControlPlane, (*checker).checkSwitches,
	(*checker).checkPropagation, (*checker).checkUnattended,
	(*checker).checkNodeReadiness, (*checker).checkNodeChassis, (*checker).checkGatewayChassis, (*checker).checkDrainedGateways, (*checker).checkAgents,
	(*checker).checkClocks,
	(*checker).checkOpenVSwitch, (*checker).checkLinks, (*checker).checkMTUs, (*checker).checkRPFilters,
	(*checker).checkReplyRoutes, (*checker).checkConntrack, (*checker).checkSNATPorts,
	(*checker).checkConnections,
	(*checker).checkGateways, (*checker).checkNeighbours,
	(*checker).checkDrift, (*checker).checkForeignRows, (*checker).checkLabelOverwrites, (*checker).checkLeaks,
	(*checker).checkDefaultNetworks, (*checker).checkAddressPools, (*checker).checkAddressClashes, (*checker).checkPrefixOverlaps,
	(*checker).checkServices, (*checker).checkPorts, (*checker).checkServiceMonitors, (*checker).checkFloatingIPs, (*checker).checkEgressIPs,
	(*checker).checkConditions,
}

// CheckCluster returns all problems of a cluster, the worst first.
func CheckCluster(s *clusterstate.State) []Finding {
	p := newChecker(s)
	for _, check := range checks {
		check(p)
	}
	out := make([]Finding, 0, len(p.findings))
	for _, f := range p.findings {
		out = append(out, *f)
	}
	Sort(out)
	return out
}

// newChecker builds the indexes that the checks use.
func newChecker(s *clusterstate.State) *checker {
	p := &checker{
		State: s, objects: map[state.Ref]*clusterstate.Object{}, nodes: map[string]*clusterstate.Node{},
		chassis: map[string]*logical.Chassis{},
		subnets: map[string]*clusterstate.Subnet{}, networks: map[string]*clusterstate.Network{},
	}
	for _, o := range p.managedObjects() {
		p.objects[o.Ref] = o
	}
	for i := range s.Cluster.Nodes {
		p.nodes[s.Cluster.Nodes[i].Name] = &s.Cluster.Nodes[i]
	}
	for i := range s.Logical.Chassis {
		p.chassis[s.Logical.Chassis[i].Name] = &s.Logical.Chassis[i]
	}
	for i := range s.Cluster.Subnets {
		p.subnets[s.Cluster.Subnets[i].Name] = &s.Cluster.Subnets[i]
	}
	for i := range s.Cluster.Networks {
		p.networks[s.Cluster.Networks[i].Name] = &s.Cluster.Networks[i]
	}
	p.now = p.clusterTime()
	return p
}

// managedObjects returns the objects for which the controller writes conditions.
func (p *checker) managedObjects() (out []*clusterstate.Object) {
	c := &p.Cluster
	for i := range c.Projects {
		out = append(out, &c.Projects[i].Object)
	}
	for i := range c.EIps {
		out = append(out, &c.EIps[i].Object)
	}
	for i := range c.FIps {
		out = append(out, &c.FIps[i].Object)
	}
	for i := range c.Services {
		if c.Services[i].Ours {
			out = append(out, &c.Services[i].Object)
		}
	}
	for i := range c.EgressIPs {
		out = append(out, &c.EgressIPs[i].Object)
	}
	for i := range c.EgressServices {
		out = append(out, &c.EgressServices[i].Object)
	}
	for i := range c.EgressRoutes {
		out = append(out, &c.EgressRoutes[i].Object)
	}
	for i := range c.NodePaths {
		out = append(out, &c.NodePaths[i].Object)
	}
	for i := range c.Networks {
		if c.Networks[i].Kind == string(intent.ExternalNetwork) {
			out = append(out, &c.Networks[i].Object)
		}
	}
	return out
}

// maxLocalClockSkew is the difference between the local clock and the cluster's from which the cluster's clock is used.
const maxLocalClockSkew = time.Minute

// clusterTime returns the time according to the cluster's clocks, which also write the leases. A wrong local clock
// would make live nodes and controllers look dead.
func (p *checker) clusterTime() time.Time {
	var newest time.Time
	for _, n := range p.Cluster.Nodes {
		if n.Ready && n.Heartbeat.After(newest) {
			newest = n.Heartbeat
		}
	}
	if newest.IsZero() || p.Taken.Sub(newest).Abs() < maxLocalClockSkew {
		return p.Taken
	}
	return newest
}

// report adds a finding with the severity and the remedy of its code.
func (p *checker) report(code string, about []state.Ref, format string, args ...any) *Finding {
	c := codesByName[code]
	f := &Finding{
		Code:        code,
		Severity:    c.Severity,
		About:       about,
		Message:     fmt.Sprintf(format, args...),
		Remediation: c.Remediation,
		CauseRank:   c.causeRank,
	}
	p.findings = append(p.findings, f)
	return f
}

// isUnreadable reports whether one of the systems could not be read. Then nothing can be concluded from what is missing
// in the survey.
func (p *checker) isUnreadable(systems ...string) bool {
	return slices.ContainsFunc(p.Unread, func(u clusterstate.ReadFailure) bool { return slices.Contains(systems, u.System) })
}

// nodeOfChassis returns the node of a chassis, or nil.
func (p *checker) nodeOfChassis(chassis string) *clusterstate.Node {
	for i := range p.Cluster.Nodes {
		if n := &p.Cluster.Nodes[i]; n.Chassis == chassis {
			return n
		}
	}
	if c := p.chassis[chassis]; c != nil {
		return p.nodes[c.Host]
	}
	return nil
}

// chassisOfNode returns the chassis of a node, by the node's annotation or by host name, or nil.
func (p *checker) chassisOfNode(n *clusterstate.Node) *logical.Chassis {
	if c := p.chassis[n.Chassis]; c != nil {
		return c
	}
	for i := range p.Logical.Chassis {
		if c := &p.Logical.Chassis[i]; c.Host == n.Name {
			return c
		}
	}
	return nil
}

// externalSubnetRefs returns the objects of a finding about an external subnet: the subnet and its network.
func (p *checker) externalSubnetRefs(s *clusterstate.Subnet) []state.Ref {
	refs := []state.Ref{s.Ref}
	if n := p.networks[s.Network]; n != nil && n.Ref != s.Ref {
		refs = append(refs, n.Ref)
	}
	return refs
}

// objectsWithAddress returns the API objects that have an external address.
func (p *checker) objectsWithAddress(a netip.Addr) (refs []state.Ref) {
	for _, e := range p.Cluster.EIps {
		if e.Address == a {
			refs = append(refs, e.Ref)
		}
	}
	for _, f := range p.Cluster.FIps {
		if f.External == a {
			refs = append(refs, f.Ref)
		}
	}
	for _, s := range p.Cluster.Services {
		if slices.Contains(s.Ingress, a) || slices.Contains(s.ExternalIPs, a) {
			refs = append(refs, s.Ref)
		}
	}
	for _, e := range p.Cluster.EgressIPs {
		if slices.Contains(e.Addresses, a.String()) {
			refs = append(refs, e.Ref)
		}
	}
	for _, x := range p.Cluster.Projects {
		if x.Address == a {
			refs = append(refs, x.Ref)
		}
	}
	return refs
}

func isPodFinished(pod *clusterstate.Pod) bool {
	return pod.Phase == "Succeeded" || pod.Phase == "Failed"
}

// joinLimited joins the sorted, distinct entries with commas, and counts those beyond the limit.
func joinLimited(list []string, most int) string {
	list = slices.Compact(slices.Sorted(slices.Values(list)))
	if len(list) > most {
		return fmt.Sprintf("%s and %d more", strings.Join(list[:most], ", "), len(list)-most)
	}
	return strings.Join(list, ", ")
}

// uniqueRefs removes empty and repeated refs, and keeps the order.
func uniqueRefs(refs ...state.Ref) (out []state.Ref) {
	for _, r := range refs {
		if r != (state.Ref{}) && !slices.Contains(out, r) {
			out = append(out, r)
		}
	}
	return out
}

func sortedKeys[T any](m map[string]T) []string {
	out := make([]string, 0, len(m))
	for k := range m {
		out = append(out, k)
	}
	slices.SortFunc(out, cmp.Compare)
	return out
}
