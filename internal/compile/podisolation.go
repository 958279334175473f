package compile

import (
	"fmt"
	"slices"
	"strings"

	"github.com/sallyport/sallyport/internal/model/intent"
	"github.com/sallyport/sallyport/internal/model/ownership"
	"github.com/sallyport/sallyport/internal/model/snapshot"
	"github.com/sallyport/sallyport/internal/model/state"
)

// isolateMisplaced reports pods that are on networks where they do not belong, and drops their packets if the operator
// wants that. Kube-OVN puts a pod on any network that an annotation of the pod names. Whoever could write that has
// passed admission, or there is none.
//
// On a project's switch the project's own shard sees to it; on any other, that of the pod's project. So one shard does
// it for each port.
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
		case p.Project == "": // or its project's shard does it
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

// emitDropACLs wants the rules that drop what ports send and get. There are no rows while there are no such ports.
func (c *compiler) emitDropACLs(ports []snapshot.PodPort) {
	names := make([]string, 0, len(ports))
	for _, p := range ports {
		names = append(names, p.Name)
	}
	slices.Sort(names)
	group := ownership.IsolationPortGroup(c.subnetName())
	c.out.AddRow(c.w.Shard, intent.PortGroup{Name: group, Ports: strings.Join(names, " ")}, c.isolationRef())
	for direction, port := range map[intent.Direction]string{intent.FromLport: "inport", intent.ToLport: "outport"} {
		c.out.AddRow(c.w.Shard, intent.ACL{
			PortGroup: group, Direction: direction, Tier: ownership.IsolationTier,
			Priority: ownership.IsolationPriority,
			Match:    fmt.Sprintf("%s == @%s", port, group), Action: "drop",
		}, c.isolationRef())
	}
}

// isolationRef asks for the rows. It is not the Project: what somebody else does must not make that unready.
func (c *compiler) isolationRef() state.Ref { return intent.IsolationRef(c.w.Shard) }

// misplacedFinding is the finding on pods that are where they do not belong.
func (c *compiler) misplacedFinding(foreign, stray []snapshot.PodPort) intent.Finding {
	out := intent.Finding{Reason: intent.ForeignPod}
	var parts []string
	if len(foreign) > 0 {
		parts = append(parts, fmt.Sprintf("on the project's network %s is %s", c.subnetName(), listPods(foreign)))
	} else {
		out.Reason = intent.StrayPod
	}
	if len(stray) > 0 {
		parts = append(parts, "outside the project's network is "+listPods(stray))
	}
	what := "; packets of such pods are dropped"
	if c.w.Config.Isolation == snapshot.IsolationReport {
		what = "; packets of such pods are NOT dropped (--isolation=Report)"
	}
	out.Message = strings.Join(parts, "; ") + what +
		"; delete the pod and check who may create it, or let the operator allow it"
	return out
}

// maxListedPods is how many pods a message names.
const maxListedPods = 3

// listPods names pods, and where they are: all of them if they are few.
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
