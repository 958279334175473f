package compile

import (
	"fmt"
	"slices"
	"strings"

	"github.com/sallyport/sallyport/internal/model/intent"
	"github.com/sallyport/sallyport/internal/model/match"
	"github.com/sallyport/sallyport/internal/model/ownership"
	"github.com/sallyport/sallyport/internal/model/snapshot"
	"github.com/sallyport/sallyport/internal/model/state"
)

// isolateMisplaced reports pods on switches where they do not belong, and drops their packets unless the operator chose
// Report. Kube-OVN attaches a pod to any network that the pod's annotation names. Whoever could write such an
// annotation passed admission, or there is no admission policy.
//
// Pods on a project's switch are handled by that project's shard, pods on any other switch by the shard of the pod's
// project. So exactly one shard handles each port.
func (c *compiler) isolateMisplaced() {
	if c.project == nil || c.w.Management != nil || !c.project.accepted.OK() || c.w.Engine.RouterPorts == nil {
		return
	}
	var foreign, stray []snapshot.PodPort
	for _, p := range c.w.Engine.MisplacedPorts {
		switch {
		case p.Allowed || slices.Contains(c.w.Config.TrustedNamespaces, p.Namespace) ||
			slices.Contains(c.w.Config.AttachmentNamespaces, p.AttachmentNamespace):
		case p.Subnet == c.subnetName():
			foreign = append(foreign, p)
		case p.Project == "": // otherwise the shard of the Subnet's project handles it
			stray = append(stray, p)
		}
	}
	ports := slices.Concat(foreign, stray)
	if len(ports) == 0 {
		return
	}
	c.project.misplaced, c.project.isolated = len(ports), c.misplacedFinding(foreign, stray)
	if c.w.Config.Isolation != snapshot.IsolationReport {
		c.emitDropACLs(ports)
	}
}

// emitDropACLs adds the ACLs that drop all packets from and to ports.
func (c *compiler) emitDropACLs(ports []snapshot.PodPort) {
	names := make([]string, 0, len(ports))
	for _, p := range ports {
		names = append(names, p.Name)
	}
	slices.Sort(names)
	group := ownership.IsolationPortGroup(c.subnetName())
	c.out.AddRow(c.w.Shard, intent.PortGroup{Name: group, Ports: strings.Join(names, " ")}, c.isolationRef())
	for direction, packets := range map[intent.Direction]match.Expr{
		intent.FromLport: match.InPortGroup(group), intent.ToLport: match.OutPortGroup(group),
	} {
		c.out.AddRow(c.w.Shard, intent.ACL{
			PortGroup: group, Direction: direction, Tier: ownership.IsolationTier,
			Priority: ownership.IsolationPriority,
			Match:    packets.String(), Action: "drop",
		}, c.isolationRef())
	}
}

// isolationRef is the origin of the rows. It is not the Project, so that the actions of others do not make the Project
// unready.
func (c *compiler) isolationRef() state.Ref { return intent.IsolationRef(c.w.Shard) }

// misplacedFinding returns the finding on misplaced pods.
func (c *compiler) misplacedFinding(foreign, stray []snapshot.PodPort) intent.Finding {
	out := intent.Finding{Reason: intent.ForeignPod}
	var parts []string
	if len(foreign) > 0 {
		parts = append(parts, fmt.Sprintf("on the project's network %s: %s", c.subnetName(), listPods(foreign)))
	} else {
		out.Reason = intent.StrayPod
	}
	if len(stray) > 0 {
		parts = append(parts, "outside the project's network: "+listPods(stray))
	}
	what := "; packets of such pods are dropped"
	if c.w.Config.Isolation == snapshot.IsolationReport {
		what = "; packets of such pods are NOT dropped (--isolation=Report)"
	}
	out.Message = strings.Join(parts, "; ") + what +
		"; delete the pod and check who can create such pods, or ask the operator to allow it"
	return out
}

// maxListedPods is the number of pods that a message names.
const maxListedPods = 3

// listPods names pods and their ports, at most maxListedPods.
func listPods(ports []snapshot.PodPort) string {
	var out []string
	for _, p := range ports {
		out = append(out, fmt.Sprintf("pod %s/%s (port %s on %s)", p.Namespace, p.Pod, p.Name, p.Subnet))
	}
	slices.Sort(out)
	if more := len(out) - maxListedPods; more > 0 {
		return fmt.Sprintf("%s and %d more", strings.Join(out[:maxListedPods], ", "), more)
	}
	return strings.Join(out, ", ")
}
