package compile

import (
	"fmt"
	"net/netip"
	"slices"
	"strings"

	kubedcv1 "github.com/sallyport/sallyport/api/kubedc/v1"
	"github.com/sallyport/sallyport/internal/engine/kubeovn"
	"github.com/sallyport/sallyport/internal/model/intent"
	"github.com/sallyport/sallyport/internal/model/ownership"
	"github.com/sallyport/sallyport/internal/model/snapshot"
	"github.com/sallyport/sallyport/internal/model/state"
)

// defaultEIPName is the EIp that stands for a project's way out.
const defaultEIPName = kubedcv1.DefaultGatewayEIp

// project is the Project that has the shard.
type project struct {
	snapshot.Project
	key                         intent.ObjectKey
	accepted, resolved, waiting intent.Finding
	tolerated, partly           intent.Finding
	// isolated is about misplaced pods, of which there are so many.
	isolated  intent.Finding
	misplaced int
	// defaultNetwork is the subnet of the project's default network. The management VPC has none; its pods only reach
	// the hosts on one.
	defaultNetwork, accessNetwork *snapshot.ExternalSubnet
}

func (p *project) ref() state.Ref { return p.key.Ref() }

// isActive says whether the project's objects should be there.
func (p *project) isActive() bool { return p != nil && p.accepted.OK() && !p.Deleting }

// selectProject gives the shard to the oldest Project. The others are refused; all are when Kube-OVN itself has it.
func (c *compiler) selectProject() {
	if c.w.Management != nil {
		c.adoptManagementVPC()
	}
	for _, p := range sortByAge(c.w.Projects, func(p snapshot.Project) snapshot.Meta { return p.Meta }) {
		key := intent.ObjectKey{Kind: intent.Project, Namespace: p.Namespace, Name: p.Name}
		if c.project != nil {
			c.refusedProjects = append(c.refusedProjects, intent.Verdict{
				Object: key, Generation: p.Generation,
				Facts: intent.ProjectFacts{}, Accepted: intent.Finding{
					Reason:  intent.NameTaken,
					Message: fmt.Sprintf("another Project has namespace %s already; choose another name", c.w.Shard),
				},
			})
			continue
		}
		c.project = &project{Project: p, key: key}
	}
	if c.project == nil || c.w.Management != nil {
		return
	}
	c.project.accepted = c.checkProject()
	if c.project.accepted.OK() {
		c.project.accepted, c.project.waiting = c.checkProjectQuota()
	}
	if c.project.accepted.OK() {
		c.project.defaultNetwork, c.project.resolved = c.chooseDefaultNetwork()
		c.project.tolerated = c.checkStillAllowed(c.project.defaultNetwork, c.w.Shard)
	}
}

func (c *compiler) checkProject() intent.Finding {
	p := c.project
	if p.Malformed != "" {
		return intent.Finding{Reason: intent.Malformed, Message: string(p.Malformed)}
	}
	if reserved := c.checkNameReserved(); !reserved.OK() {
		return reserved
	}
	if len(c.subnetName()) > 63 { // Kube-OVN writes the subnet's name into labels
		return intent.Finding{Reason: intent.Malformed, Message: fmt.Sprintf(
			"the namespace would be called %s, which is longer than 55 characters; choose a shorter name", c.w.Shard)}
	}
	if ns := c.w.Namespace; ns.Exists && !ns.Owned {
		return intent.Finding{Reason: intent.NamespaceTaken, Message: fmt.Sprintf(
			"namespace %s exists and was not made for this project; choose another name, or delete the namespace",
			c.w.Shard)}
	}
	return c.checkPrefixes()
}

// checkNameReserved says whether the project's VPC would have a name that is not for projects: one of our own or of
// Kube-OVN's, or that of an external subnet, unless the project was there first.
func (c *compiler) checkNameReserved() intent.Finding {
	vpc := c.project.Namespace + "-" + c.project.Name
	external := slices.ContainsFunc(c.w.ExternalSubnets, func(x snapshot.ExternalSubnet) bool {
		return x.Subnet == vpc
	})
	if !ownership.IsReservedVPC(vpc) && (!external || c.w.Namespace.Exists && c.w.Namespace.Owned) {
		return intent.Finding{}
	}
	return intent.Finding{Reason: intent.NameReserved, Message: fmt.Sprintf(
		"the VPC would be called %s, which is reserved; choose another name", vpc)}
}

// defaultEgressIP is the subnet of the project's default network: the one that it uses already, then the network's
// usual one.
func (c *compiler) chooseDefaultNetwork() (*snapshot.ExternalSubnet, intent.Finding) {
	p := c.project
	found := c.findExternals(func(x snapshot.ExternalSubnet) bool { return x.Type == p.NetworkType })
	if len(found) == 0 {
		return nil, c.networkNotFound("type", p.NetworkType)
	}
	used, _ := kubeovn.SubnetOfRouterPort(c.w.Shard, c.w.Engine.SnatRule.OvnEip)
	before := func(x *snapshot.ExternalSubnet) bool { // what it was when somebody deleted rule and port
		e := c.lookupEIP(c.w.Shard, defaultEIPName)
		return e != nil && e.ExistingOvnEip == c.externalPortName(x.Subnet)
	}
	admitted := slices.DeleteFunc(slices.Clone(found), func(x *snapshot.ExternalSubnet) bool {
		// and not an EIp that a tenant has called so
		had := before(x) && c.w.Engine.OwnedObjects[c.namespacedKey(intent.EIp, defaultEIPName)]
		return !c.admitsNamespace(x, c.w.Shard) && x.Subnet != used && !c.hasExternalPort(x.Subnet) && !had
	})
	if len(admitted) == 0 {
		return nil, c.networkNotAllowed(found[0], c.w.Shard)
	}
	usable := slices.DeleteFunc(slices.Clone(admitted), func(x *snapshot.ExternalSubnet) bool { return x.HasIPv6 })
	if len(usable) == 0 {
		return nil, networkIsDual(admitted[0])
	}
	room := func(x *snapshot.ExternalSubnet) bool {
		return x.Free > 0 || c.w.Engine.OvnEips[c.externalPortName(x.Subnet)].Address.IsValid()
	}
	return pickPreferred(usable,
		func(x *snapshot.ExternalSubnet) bool { return x.Subnet == used },
		func(x *snapshot.ExternalSubnet) bool { return before(x) && room(x) },
		func(x *snapshot.ExternalSubnet) bool { return c.hasExternalPort(x.Subnet) && room(x) },
		func(x *snapshot.ExternalSubnet) bool { return x.Default && room(x) },
	), intent.Finding{}
}

// subnetName is the name of the project's subnet, which is also that of its logical switch.
func (c *compiler) subnetName() string { return ownership.VPCSubnetName(c.w.Shard) }

// internalPortName is the router's port to the project's subnet. Kube-OVN names it.
func (c *compiler) internalPortName() string { return kubeovn.RouterPort(c.w.Shard, c.subnetName()) }

// ipv4Prefix is the project's IPv4 prefix.
func (p *project) ipv4Prefix() netip.Prefix {
	for _, prefix := range p.Prefixes {
		if prefix.Addr().Is4() {
			return prefix
		}
	}
	return netip.Prefix{}
}

func (c *compiler) emitProject() {
	if !c.project.isActive() || c.w.Management != nil {
		return
	}
	p, by := c.project, c.project.ref()
	meta := intent.Meta{Labels: ownership.ManagedLabels(c.w.Shard)}
	home := intent.Meta{Labels: ownership.ManagedLabels(c.w.Shard)}
	home.Labels["kube-dc.com/project"] = p.Name
	c.out.AddObject(c.clusterKey(intent.Namespace, c.w.Shard), intent.NewObject(home, nil), by)
	if !c.isVPCTerminating() {
		c.out.AddObject(c.clusterKey(intent.Vpc, c.w.Shard),
			intent.NewObject(meta, kubeovn.VpcSpec{Namespaces: []string{c.w.Shard}}), by)
	}
	// Kube-OVN refuses a Subnet until it has made its Vpc, and writes a status and an event each time it tries again.
	if !c.isVPCTerminating() && !c.isSubnetTerminating() && (c.w.Engine.Vpc.Ready || c.w.Engine.Subnet.Exists) {
		c.out.AddObject(c.clusterKey(intent.Subnet, c.subnetName()), intent.NewObject(meta, c.buildSubnetSpec()), by)
	}
	if c.isTerminating(c.w.Shard) {
		return // nothing can be made in it until it is gone
	}
	c.out.AddObject(c.namespacedKey(intent.NetworkAttachment, "default"),
		intent.NewObject(meta, kubeovn.AttachmentSpec{Config: intent.CanonicalJSON(map[string]string{
			"cniVersion": "0.3.1", "name": c.subnetName(), "type": "kube-ovn",
			"server_socket": "/run/openvswitch/kube-ovn-daemon.sock", "provider": "default." + c.w.Shard + ".ovn",
		})}), by)
}

func (c *compiler) buildSubnetSpec() kubeovn.SubnetSpec {
	p := c.project
	spec := kubeovn.SubnetSpec{Vpc: c.w.Shard, Namespaces: []string{c.w.Shard}, Protocol: "IPv4"}
	var prefixes, gateways []string
	for _, prefix := range p.Prefixes {
		gateway := prefix.Masked().Addr().Next()
		if i := slices.IndexFunc(p.Gateways, prefix.Contains); i >= 0 {
			gateway = p.Gateways[i]
		}
		prefixes, gateways = append(prefixes, prefix.Masked().String()), append(gateways, gateway.String())
	}
	spec.ExcludeIps = c.buildExcludeIPs(gateways)
	spec.CIDRBlock, spec.Gateway = strings.Join(prefixes, ","), strings.Join(gateways, ",")
	if len(p.Prefixes) > 1 {
		spec.Protocol = "Dual"
	} else if !p.ipv4Prefix().IsValid() {
		spec.Protocol = "IPv6"
	}
	return spec
}

// clusterKey names a cluster-wide object.
func (c *compiler) clusterKey(kind intent.Kind, name string) intent.ObjectKey {
	return intent.ObjectKey{Kind: kind, Name: name}
}

// namespacedKey names an object in the project's namespace.
func (c *compiler) namespacedKey(kind intent.Kind, name string) intent.ObjectKey {
	return intent.ObjectKey{Kind: kind, Namespace: c.w.Shard, Name: name}
}

func (p *project) buildVerdict(c *compiler) intent.Verdict {
	var facts intent.ProjectFacts
	if p.accepted.OK() {
		facts = intent.ProjectFacts{Namespace: c.w.Shard, Vpc: c.w.Shard, Subnet: c.subnetName()}
	}
	if p.defaultNetwork != nil {
		facts.ExternalIP = c.w.Engine.OvnEips[c.externalPortName(p.defaultNetwork.Subnet)].Address
	}
	for _, e := range c.eips {
		if e.ExistingOvnEip == "" && e.accepted.OK() {
			facts.EIpsUsed++
		}
	}
	facts.Misplaced = p.misplaced
	v := intent.Verdict{
		Object: p.key, Generation: p.Generation, Facts: facts, Tolerated: p.tolerated, Isolated: p.isolated,
		Partly:   p.partly,
		Accepted: p.accepted, Resolved: p.resolved, Waiting: firstProblem(deletingFinding(p.Deleting), p.waiting),
	}
	if p.Deleting {
		v.Held = c.checkLeftovers()
	}
	return v
}
