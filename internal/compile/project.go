package compile

import (
	"fmt"
	"slices"
	"strings"

	kubedcv1 "github.com/sallyport/sallyport/api/kubedc/v1"
	"github.com/sallyport/sallyport/internal/engine/kubeovn"
	"github.com/sallyport/sallyport/internal/model/intent"
	"github.com/sallyport/sallyport/internal/model/ownership"
	"github.com/sallyport/sallyport/internal/model/snapshot"
	"github.com/sallyport/sallyport/internal/model/state"
)

// defaultEIPName is the EIp that represents a project's default egress address.
const defaultEIPName = kubedcv1.DefaultGatewayEIp

// project is the Project that owns the shard.
type project struct {
	snapshot.Project
	key                         intent.ObjectKey
	accepted, resolved, waiting intent.Finding
	tolerated, partly           intent.Finding
	// isolated is the finding on misplaced pods, and misplaced their number.
	isolated  intent.Finding
	misplaced int
	// defaultNetwork is the subnet of the project's default network. The management VPC has none; accessNetwork is the
	// network whose hosts its pods can reach.
	defaultNetwork, accessNetwork *snapshot.ExternalSubnet
}

func (p *project) ref() state.Ref { return p.key.Ref() }

// isActive reports whether the project's objects should exist.
func (p *project) isActive() bool { return p != nil && p.accepted.OK() && !p.Deleting }

// selectProject makes the oldest Project the owner of the shard and refuses the others. It refuses all of them if the
// shard is Kube-OVN's default VPC.
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
					Message: fmt.Sprintf("another Project already owns namespace %s; choose another name", c.w.Shard),
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
	if len(c.subnetName()) > 63 { // Kube-OVN uses the subnet's name as a label value
		return intent.Finding{Reason: intent.Malformed, Message: fmt.Sprintf(
			"namespace name %s would be longer than 55 characters; choose a shorter name", c.w.Shard)}
	}
	if ns := c.w.Namespace; ns.Exists && !ns.Owned {
		return intent.Finding{Reason: intent.NamespaceTaken, Message: fmt.Sprintf(
			"namespace %s exists and was not created for this project; choose another name, or delete the namespace",
			c.w.Shard)}
	}
	if taken := c.checkEngineObjects(); !taken.OK() {
		return taken
	}
	return c.checkPrefixes()
}

// checkEngineObjects refuses a new project whose Vpc or Subnet exists and belongs to others. Their router would get rows
// of this project.
func (c *compiler) checkEngineObjects() intent.Finding {
	key := c.clusterKey(intent.Vpc, c.w.Shard)
	switch {
	case c.w.Namespace.Owned: // the project was accepted before
		return intent.Finding{}
	case c.w.Engine.ForeignVpc:
	case c.w.Engine.ForeignSubnet:
		key = c.clusterKey(intent.Subnet, ownership.VPCSubnetName(c.w.Shard))
	default:
		return intent.Finding{}
	}
	return intent.Finding{Reason: intent.NameReserved, Message: fmt.Sprintf(
		"%s %s exists and was not created for this project; choose another name, or ask the operator to adopt it",
		key.Kind, key.Name)}
}

// checkNameReserved refuses a project whose VPC would have a reserved name: one that Sallyport or Kube-OVN uses, or
// that of an external subnet, unless the project is older.
func (c *compiler) checkNameReserved() intent.Finding {
	vpc := c.project.Namespace + "-" + c.project.Name
	external := slices.ContainsFunc(c.w.ExternalSubnets, func(x snapshot.ExternalSubnet) bool {
		return x.Subnet == vpc
	})
	if !ownership.IsReservedVPC(vpc) && (!external || c.w.Namespace.Exists && c.w.Namespace.Owned) {
		return intent.Finding{}
	}
	return intent.Finding{Reason: intent.NameReserved, Message: fmt.Sprintf(
		"VPC name %s is reserved; choose another name", vpc)}
}

// chooseDefaultNetwork returns the subnet of the project's default network: the current one if there is one, then the
// network's default.
func (c *compiler) chooseDefaultNetwork() (*snapshot.ExternalSubnet, intent.Finding) {
	p := c.project
	found := c.findExternals(func(x snapshot.ExternalSubnet) bool { return x.Type == p.NetworkType })
	if len(found) == 0 {
		return nil, c.networkNotFound("type", p.NetworkType)
	}
	used, _ := kubeovn.SubnetOfRouterPort(c.w.Shard, c.w.Engine.SnatRule.OvnEip)
	before := func(x *snapshot.ExternalSubnet) bool { // the previous one, if the SNAT rule and the port were deleted
		e := c.lookupEIP(c.w.Shard, defaultEIPName)
		return e != nil && e.ExistingOvnEip == c.externalPortName(x.Subnet)
	}
	admitted := slices.DeleteFunc(slices.Clone(found), func(x *snapshot.ExternalSubnet) bool {
		// and not an EIp of the same name that a tenant created
		had := before(x) && c.w.Engine.OwnedObjects[c.namespacedKey(intent.EIp, defaultEIPName)]
		return !c.admitsNamespace(x, c.w.Shard) && x.Subnet != used && !c.hasExternalPort(x.Subnet) && !had
	})
	if len(admitted) == 0 {
		return nil, c.networkNotAllowed(found[0], c.w.Shard)
	}
	usable := slices.DeleteFunc(slices.Clone(admitted), func(x *snapshot.ExternalSubnet) bool { return x.Unsupported })
	if len(usable) == 0 {
		return nil, networkNotSupported(admitted[0])
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

// subnetName returns the name of the project's subnet, which is also that of its logical switch.
func (c *compiler) subnetName() string {
	if c.subnet != nil {
		return c.subnet.Name
	}
	return ownership.VPCSubnetName(c.w.Shard)
}

// internalPortName returns the name of the router's port to the project's subnet. Kube-OVN defines it.
func (c *compiler) internalPortName() string { return kubeovn.RouterPort(c.w.Shard, c.subnetName()) }

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
	// Kube-OVN refuses a Subnet until it has created its Vpc, and writes a status and an event on each retry.
	if !c.isVPCTerminating() && !c.isSubnetTerminating() && (c.w.Engine.Vpc.Ready || c.w.Engine.Subnet.Exists) {
		c.out.AddObject(c.clusterKey(intent.Subnet, c.subnetName()), intent.NewObject(meta, c.buildSubnetSpec()), by)
	}
	if c.isTerminating(c.w.Shard) {
		return // nothing can be created in a terminating namespace
	}
	c.out.AddObject(c.namespacedKey(intent.NetworkAttachment, "default"),
		intent.NewObject(meta, kubeovn.AttachmentSpec{Config: intent.CanonicalJSON(map[string]string{
			"cniVersion": "0.3.1", "name": c.subnetName(), "type": "kube-ovn",
			"server_socket": "/run/openvswitch/kube-ovn-daemon.sock", "provider": "default." + c.w.Shard + ".ovn",
		})}), by)
}

func (c *compiler) buildSubnetSpec() kubeovn.SubnetSpec {
	p := c.project
	spec := kubeovn.SubnetSpec{Vpc: c.w.Shard, Namespaces: []string{c.w.Shard}, Protocol: kubeovn.SubnetProtocol(p.Prefixes)}
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
	return spec
}

// clusterKey returns the key of a cluster-scoped object.
func (c *compiler) clusterKey(kind intent.Kind, name string) intent.ObjectKey {
	return intent.ObjectKey{Kind: kind, Name: name}
}

// namespacedKey returns the key of an object in the project's namespace.
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
	if limit := c.eipLimit(c.w.Shard); p.accepted.OK() && limit.IsSet {
		facts.EIpQuota = limit.Max
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
