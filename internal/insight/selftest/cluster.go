package selftest

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"net/netip"
	"slices"
	"strings"

	"go4.org/netipx"
	corev1 "k8s.io/api/core/v1"
	"sigs.k8s.io/controller-runtime/pkg/client"

	kubedcv1 "github.com/sallyport/sallyport/api/kubedc/v1"
	kubedcv1alpha1 "github.com/sallyport/sallyport/api/kubedc/v1alpha1"
	ovnv1 "github.com/sallyport/sallyport/api/ovn/v1"
	"github.com/sallyport/sallyport/internal/engine/kube"
	"github.com/sallyport/sallyport/internal/insight/preflight"
	"github.com/sallyport/sallyport/internal/model/humanize"
	"github.com/sallyport/sallyport/internal/model/snapshot"
)

// maxShown limits the names in one line, because others decide how many there are.
const maxShown = 5

// projectPrefixes are the candidates for the prefix of the projects. They may all have the same one.
var projectPrefixes = []netip.Prefix{
	netip.MustParsePrefix("10.213.77.0/24"), netip.MustParsePrefix("172.29.213.0/24"),
	netip.MustParsePrefix("192.168.213.0/24"), netip.MustParsePrefix("10.77.213.0/24"),
}

// cluster is what a test uses of a cluster.
type cluster struct {
	nodes      []string // that run the pods
	assignable []string // that may hold egress addresses
	prefix     netip.Prefix
	networks   []*network
}

// network is all external networks of one type, and what the test makes there.
type network struct {
	name       string // the type
	isDefault  bool
	restricted bool // only selected Projects may use it
	isolated   bool // projects can't reach each other's addresses on it
	subnets    []*kube.Subnet

	number        int              // in the names of objects, because types are not names
	server        client.ObjectKey // pod
	client        client.ObjectKey // pod
	clientProject string
	egress        netip.Addr // of the client's project
	fip           netip.Addr // of the server; invalid: not ready
	problem       string     // why nothing is requested; empty: nothing

	// awaitFIP and awaitService return the addresses of the server when they are ready.
	awaitFIP, awaitService func(context.Context) netip.Addr
}

// readCluster chooses networks, nodes and a prefix.
func (r *run) readCluster(ctx context.Context) bool {
	r.ShowProgress("reading the cluster")
	var networks kubedcv1alpha1.ExternalNetworkList
	var subnets kube.SubnetList
	var nodes corev1.NodeList
	if err := errors.Join(r.API.List(ctx, &networks), r.API.List(ctx, &subnets), r.API.List(ctx, &nodes)); err != nil {
		r.fail("Cluster", preflight.Unreadable, "check that Sallyport is installed, and your permissions", "%v", err)
		return false
	}
	r.cluster = &cluster{prefix: choosePrefix(subnets.Items)}
	r.chooseNetworks(groupNetworks(networks.Items, subnets.Items))
	r.chooseNodes(nodes.Items)
	return len(r.cluster.networks) > 0 && len(r.cluster.nodes) > 0
}

// choosePrefix returns the first candidate that overlaps with no Subnet.
func choosePrefix(subnets []kube.Subnet) netip.Prefix {
	for _, candidate := range projectPrefixes {
		taken := slices.ContainsFunc(subnets, func(s kube.Subnet) bool {
			return slices.ContainsFunc(strings.Split(s.Spec.CIDRBlock, ","), func(text string) bool {
				prefix, err := netip.ParsePrefix(text)
				return err == nil && prefix.Overlaps(candidate)
			})
		})
		if !taken {
			return candidate
		}
	}
	return projectPrefixes[0] // the condition of the Project names what it overlaps with
}

// groupNetworks returns the external networks by type, the default one first. A Subnet with a label is a network of its
// own unless an ExternalNetwork names it.
func groupNetworks(networks []kubedcv1alpha1.ExternalNetwork, subnets []kube.Subnet) (out []*network) {
	byType := map[string]*network{}
	add := func(kind string, isDefault bool, s *kube.Subnet) *network {
		if byType[kind] == nil {
			byType[kind] = &network{name: kind, restricted: true}
			out = append(out, byType[kind])
		}
		n := byType[kind]
		n.isDefault = n.isDefault || isDefault
		n.subnets = append(n.subnets, s)
		return n
	}
	for i := range subnets {
		s := &subnets[i]
		named := slices.IndexFunc(networks, func(x kubedcv1alpha1.ExternalNetwork) bool {
			return slices.Contains(x.Spec.Subnets, s.Name)
		})
		kind := s.Labels[kubedcv1.ExternalNetworkTypeLabel]
		switch {
		case named >= 0:
			x := networks[named].Spec
			n := add(string(x.Type), x.Default, s)
			n.restricted = n.restricted && (x.AllowedProjects != nil || x.AllowedNamespaces != nil)
			n.isolated = n.isolated || x.Isolation == kubedcv1alpha1.IsolateTenants
		case kind != "":
			add(kind, s.Labels[kubedcv1.DefaultExternalLabel] == "true", s).restricted = false
		}
	}
	slices.SortFunc(out, func(a, b *network) int { return cmp.Or(a.rank()-b.rank(), strings.Compare(a.name, b.name)) })
	return out
}

// rank returns 0 for the default network, which comes first.
func (n *network) rank() int {
	if n.isDefault {
		return 0
	}
	return 1
}

// chooseNetworks reports the networks that can't be tested, and takes the others.
func (r *run) chooseNetworks(found []*network) {
	for _, n := range found {
		if n.restricted {
			r.skip(n.check("all"), "", "", "only selected Projects may use the network")
			continue
		}
		n.number = len(r.cluster.networks)
		n.clientProject = fmt.Sprintf("client-%d", n.number)
		n.server = client.ObjectKey{Namespace: r.namespace(serverProject), Name: fmt.Sprintf("server-%d", n.number)}
		n.client = client.ObjectKey{Namespace: r.namespace(n.clientProject), Name: "client"}
		r.cluster.networks = append(r.cluster.networks, n)
	}
	if len(found) == 0 {
		r.fail("Networks", "NoExternalNetwork", "kubectl label subnet NAME "+kubedcv1.ExternalNetworkTypeLabel+"=TYPE, or "+
			"create an ExternalNetwork", "there is no external network")
	}
}

// check is the name of a check of a network.
func (n *network) check(what string) string { return n.name + ": " + what }

// chooseNodes takes the nodes that the user names, or two that can run pods.
func (r *run) chooseNodes(nodes []corev1.Node) {
	var able []string
	for i := range nodes {
		n := &nodes[i]
		if !kube.IsNodeReady(n) {
			continue
		}
		if _, assignable := n.Labels[ovnv1.AssignableLabel]; assignable {
			r.cluster.assignable = append(r.cluster.assignable, n.Name)
		}
		if len(r.Nodes) == 0 && isSchedulable(n) || slices.Contains(r.Nodes, n.Name) {
			able = append(able, n.Name)
		}
	}
	slices.Sort(able)
	for _, name := range r.Nodes {
		if !slices.Contains(able, name) {
			r.fail("Nodes", "NodeNotReady", "kubectl get nodes", "node %s does not exist or is not Ready", name)
			return
		}
	}
	if len(r.Nodes) == 0 {
		able = able[:min(2, len(able))]
	}
	r.cluster.nodes = able
	switch len(able) {
	case 0:
		r.fail("Nodes", "NoNode", "kubectl get nodes, or name some with --node",
			"no node is Ready, schedulable and without taints")
	case 1:
		r.pass("Nodes", "%s; paths between nodes are not checked", able[0])
	default:
		r.pass("Nodes", "%s", humanize.JoinLimited(able, maxShown))
	}
}

// isSchedulable reports whether a node runs pods without tolerations.
func isSchedulable(n *corev1.Node) bool {
	return !n.Spec.Unschedulable && !slices.ContainsFunc(n.Spec.Taints, func(t corev1.Taint) bool {
		return t.Effect != corev1.TaintEffectPreferNoSchedule
	})
}

// nodeOf returns the node of a pod. Server and client of a network are on different nodes, if there are two.
func (r *run) nodeOf(n *network, pod client.ObjectKey) string {
	at := n.number
	if pod == n.client {
		at++
	}
	return r.cluster.nodes[at%len(r.cluster.nodes)]
}

// findFreeAddress returns an address of a network that nobody has, as far as Kube-OVN has reported; invalid: there is
// none. It is the highest: Kube-OVN gives the lowest ones first.
func (r *run) findFreeAddress(ctx context.Context, n *network) netip.Addr {
	for _, s := range n.subnets {
		err := r.API.Get(ctx, client.ObjectKeyFromObject(s), s) // the run itself has taken addresses
		prefix, taken := kube.ReadTakenAddresses(s)
		if err != nil || !prefix.IsValid() {
			continue
		}
		for a := netipx.PrefixLastIP(prefix).Prev(); prefix.Addr().Less(a); a = a.Prev() {
			if !slices.ContainsFunc(taken, func(r snapshot.AddressRange) bool { return r.Contains(a) }) {
				return a
			}
		}
	}
	return netip.Addr{}
}
