package compile

import (
	"fmt"
	"net/netip"
	"slices"
	"strings"

	kubedcv1 "github.com/sallyport/sallyport/api/kubedc/v1"
	"github.com/sallyport/sallyport/internal/intent"
	"github.com/sallyport/sallyport/internal/kubeovn"
	"github.com/sallyport/sallyport/internal/ownership"
	"github.com/sallyport/sallyport/internal/snapshot"
	"github.com/sallyport/sallyport/internal/state"
)

// DefaultEIp is the EIp that stands for a project's way out.
const DefaultEIp = kubedcv1.DefaultGatewayEIp

// project is the Project that has the shard.
type project struct {
	snapshot.Project
	key                         intent.ObjectKey
	accepted, resolved, waiting intent.Finding
	tolerated, partly           intent.Finding
	// isolated is about misplaced pods, of which there are so many.
	isolated  intent.Finding
	misplaced int
	// way is the subnet of the project's default network. The management VPC has none; its pods only reach the hosts on one.
	way, reach *snapshot.External
}

func (p *project) ref() state.Ref { return p.key.Ref() }

// alive says whether the project's objects should be there.
func (p *project) alive() bool { return p != nil && p.accepted.OK() && !p.Deleting }

// claimProject gives the shard to the oldest Project. The others are refused; all are when Kube-OVN itself has it.
func (c *compiler) claimProject() {
	if c.w.Management != nil {
		c.manage()
	}
	for _, p := range inOrder(c.w.Projects, func(p snapshot.Project) snapshot.Meta { return p.Meta }) {
		key := intent.ObjectKey{Kind: intent.Project, Namespace: p.Namespace, Name: p.Name}
		if c.project != nil {
			c.others = append(c.others, intent.Verdict{Object: key, Generation: p.Generation, Facts: intent.ProjectFacts{}, Accepted: intent.Finding{
				Reason: intent.NameTaken, Message: fmt.Sprintf("another Project has namespace %s already; choose another name", c.w.Shard),
			}})
			continue
		}
		c.project = &project{Project: p, key: key}
	}
	if c.project == nil || c.w.Management != nil {
		return
	}
	c.project.accepted = c.acceptProject()
	if c.project.accepted.OK() {
		c.project.accepted, c.project.waiting = c.projectQuota()
	}
	if c.project.accepted.OK() {
		c.project.way, c.project.resolved = c.wayOut()
		c.project.tolerated = c.tolerate(c.project.way, c.w.Shard)
	}
}

func (c *compiler) acceptProject() intent.Finding {
	p := c.project
	if p.Malformed != "" {
		return intent.Finding{Reason: intent.Malformed, Message: string(p.Malformed)}
	}
	if reserved := c.reserved(); !reserved.OK() {
		return reserved
	}
	if len(c.subnet()) > 63 { // Kube-OVN writes the subnet's name into labels
		return intent.Finding{Reason: intent.Malformed, Message: fmt.Sprintf(
			"the namespace would be called %s, which is longer than 55 characters; choose a shorter name", c.w.Shard)}
	}
	if ns := c.w.Namespace; ns.Exists && !ns.Ours {
		return intent.Finding{Reason: intent.NamespaceTaken, Message: fmt.Sprintf(
			"namespace %s exists and was not made for this project; choose another name, or delete the namespace", c.w.Shard)}
	}
	return c.acceptPrefixes()
}

// reserved says whether the project's VPC would have a name that is not for projects: one of our own or of Kube-OVN's, or that of an
// external subnet, unless the project was there first.
func (c *compiler) reserved() intent.Finding {
	vpc := c.project.Namespace + "-" + c.project.Name
	external := slices.ContainsFunc(c.w.Externals, func(x snapshot.External) bool { return x.Subnet == vpc })
	if !ownership.Reserved(vpc) && (!external || c.w.Namespace.Exists && c.w.Namespace.Ours) {
		return intent.Finding{}
	}
	return intent.Finding{Reason: intent.NameReserved, Message: fmt.Sprintf(
		"the VPC would be called %s, which is reserved; choose another name", vpc)}
}

// wayOut is the subnet of the project's default network: the one that it uses already, then the network's usual one.
func (c *compiler) wayOut() (*snapshot.External, intent.Finding) {
	p := c.project
	found := c.networks(func(x snapshot.External) bool { return x.Type == p.Network })
	if len(found) == 0 {
		return nil, c.noNetwork("type", p.Network)
	}
	used, _ := strings.CutPrefix(c.w.Engine.Snat.OvnEip, c.w.Shard+"-")
	before := func(x *snapshot.External) bool { // what it was when somebody deleted rule and port
		e := c.named(c.w.Shard, DefaultEIp)
		return e != nil && e.Child == c.port(x.Subnet)
	}
	admitted := slices.DeleteFunc(slices.Clone(found), func(x *snapshot.External) bool {
		had := before(x) && c.w.Engine.Objects[c.inside(intent.EIp, DefaultEIp)] // and not an EIp that a tenant has called so
		return !c.admits(x, c.w.Shard) && x.Subnet != used && !c.ported(x.Subnet) && !had
	})
	if len(admitted) == 0 {
		return nil, c.notAllowed(found[0], c.w.Shard)
	}
	usable := slices.DeleteFunc(slices.Clone(admitted), func(x *snapshot.External) bool { return x.Dual })
	if len(usable) == 0 {
		return nil, dual(admitted[0])
	}
	room := func(x *snapshot.External) bool {
		return x.Free > 0 || c.w.Engine.OvnEips[c.port(x.Subnet)].Address.IsValid()
	}
	return pick(usable,
		func(x *snapshot.External) bool { return x.Subnet == used },
		func(x *snapshot.External) bool { return before(x) && room(x) },
		func(x *snapshot.External) bool { return c.ported(x.Subnet) && room(x) },
		func(x *snapshot.External) bool { return x.Default && room(x) },
	), intent.Finding{}
}

// subnet is the name of the project's subnet, which is also that of its logical switch.
func (c *compiler) subnet() string { return ownership.Subnet(c.w.Shard) }

// inport is the router's port to the project's subnet. Kube-OVN names it.
func (c *compiler) inport() string { return c.w.Shard + "-" + c.subnet() }

// prefix4 is the project's IPv4 prefix.
func (p *project) prefix4() netip.Prefix {
	for _, prefix := range p.Prefixes {
		if prefix.Addr().Is4() {
			return prefix
		}
	}
	return netip.Prefix{}
}

func (c *compiler) buildProject() {
	if !c.project.alive() || c.w.Management != nil {
		return
	}
	p, by := c.project, c.project.ref()
	meta := intent.Meta{Labels: ownership.Labels(c.w.Shard)}
	home := intent.Meta{Labels: ownership.Labels(c.w.Shard)}
	home.Labels["kube-dc.com/project"] = p.Name
	c.in.Object(c.key(intent.Namespace, c.w.Shard), intent.NewObject(home, nil), by)
	if !c.vpcLeaves() {
		c.in.Object(c.key(intent.Vpc, c.w.Shard), intent.NewObject(meta, kubeovn.VpcSpec{Namespaces: []string{c.w.Shard}}), by)
	}
	// Kube-OVN refuses a Subnet until it has made its Vpc, and writes a status and an event each time it tries again.
	if !c.vpcLeaves() && !c.subnetLeaves() && (c.w.Engine.Vpc.Ready || c.w.Engine.Subnet.Exists) {
		c.in.Object(c.key(intent.Subnet, c.subnet()), intent.NewObject(meta, c.subnetSpec()), by)
	}
	if c.ending(c.w.Shard) {
		return // nothing can be made in it until it is gone
	}
	c.in.Object(c.inside(intent.Attachment, "default"), intent.NewObject(meta, kubeovn.AttachmentSpec{Config: intent.Canonical(map[string]string{
		"cniVersion": "0.3.1", "name": c.subnet(), "type": "kube-ovn",
		"server_socket": "/run/openvswitch/kube-ovn-daemon.sock", "provider": "default." + c.w.Shard + ".ovn",
	})}), by)
}

func (c *compiler) subnetSpec() kubeovn.SubnetSpec {
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
	spec.ExcludeIps = c.excluded(gateways)
	spec.CIDRBlock, spec.Gateway = strings.Join(prefixes, ","), strings.Join(gateways, ",")
	if len(p.Prefixes) > 1 {
		spec.Protocol = "Dual"
	} else if !p.prefix4().IsValid() {
		spec.Protocol = "IPv6"
	}
	return spec
}

// key names a cluster-wide object.
func (c *compiler) key(kind intent.Kind, name string) intent.ObjectKey {
	return intent.ObjectKey{Kind: kind, Name: name}
}

// inside names an object in the project's namespace.
func (c *compiler) inside(kind intent.Kind, name string) intent.ObjectKey {
	return intent.ObjectKey{Kind: kind, Namespace: c.w.Shard, Name: name}
}

func (p *project) verdict(c *compiler) intent.Verdict {
	var facts intent.ProjectFacts
	if p.accepted.OK() {
		facts = intent.ProjectFacts{Namespace: c.w.Shard, Vpc: c.w.Shard, Subnet: c.subnet()}
	}
	if p.way != nil {
		facts.ExternalIP = c.w.Engine.OvnEips[c.port(p.way.Subnet)].Address
	}
	for _, e := range c.eips {
		if e.Child == "" && e.accepted.OK() {
			facts.EIpsUsed++
		}
	}
	facts.Misplaced = p.misplaced
	v := intent.Verdict{
		Object: p.key, Generation: p.Generation, Facts: facts, Tolerated: p.tolerated, Isolated: p.isolated, Partly: p.partly,
		Accepted: p.accepted, Resolved: p.resolved, Waiting: first(deleting(p.Deleting), p.waiting),
	}
	if p.Deleting {
		v.Held = c.leftovers()
	}
	return v
}
