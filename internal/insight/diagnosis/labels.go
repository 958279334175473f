package diagnosis

import (
	"fmt"
	"slices"
	"strings"

	"github.com/sallyport/sallyport/internal/model/clusterstate"
	"github.com/sallyport/sallyport/internal/model/intent"
	"github.com/sallyport/sallyport/internal/model/logical"
	"github.com/sallyport/sallyport/internal/model/ownership"
	"github.com/sallyport/sallyport/internal/model/state"
)

// checkLabelOverwrites finds foreign ACLs that overwrite the label of a connection. OVN keeps the label and the
// observation point of a sample in the same 32 bits, and the last ACL that decides writes them.
func (p *checker) checkLabelOverwrites() {
	if p.isUnreadable(clusterstate.Kubernetes, clusterstate.Northbound) {
		return
	}
	ports := p.labelledPorts()
	for _, s := range p.Logical.Switches {
		if slices.ContainsFunc(s.Ports, func(x logical.SwitchPort) bool { return ports[x.Name] != "" }) {
			p.reportLabelOverwrites(s.ACLs, "switch "+s.Name, []string{s.Name})
		}
	}
	for _, g := range p.Logical.Groups {
		var switches []string
		for _, port := range g.Ports {
			if s := ports[port]; s != "" && !slices.Contains(switches, s) {
				switches = append(switches, s)
			}
		}
		if len(switches) > 0 {
			p.reportLabelOverwrites(g.ACLs, "port group "+g.Name, switches)
		}
	}
}

// labelledPorts returns the ports of switches on which Sallyport's ACLs label connections, with their switch.
func (p *checker) labelledPorts() map[string]string {
	ours := map[string]bool{}
	for _, g := range p.Logical.Groups {
		if slices.ContainsFunc(g.ACLs, func(x logical.ACL) bool { return isOwnedRow(x.IDs) && x.Label != 0 }) {
			for _, port := range g.Ports {
				ours[port] = true
			}
		}
	}
	out := map[string]string{}
	for _, s := range p.Logical.Switches {
		if !slices.ContainsFunc(s.Ports, func(x logical.SwitchPort) bool { return ours[x.Name] }) {
			continue
		}
		for _, x := range s.Ports {
			out[x.Name] = s.Name
		}
	}
	return out
}

// reportLabelOverwrites reports the ACLs of a switch or port group that overwrite labels of connections to pods on some
// switches.
func (p *checker) reportLabelOverwrites(rules []logical.ACL, holder string, switches []string) {
	for _, x := range rules {
		if !overwritesLabel(x) {
			continue
		}
		var about []state.Ref
		for _, s := range switches {
			if subnet := p.subnets[s]; subnet != nil {
				about = append(about, p.projectsOfShard(subnet.Vpc)...)
			}
			about = append(about, state.Ref{Kind: string(intent.Subnet), Name: s})
		}
		p.report(LabelOverwritten, about,
			"ACL %s of %s has %s: it overwrites the label of connections to pods on switch %s, "+
				"and replies to clients on secondary networks leave through the default network", describeACL(x),
			holder, describeLabelOrSample(x), joinLimited(switches, 3))
	}
}

// overwritesLabel reports whether a foreign ACL can be the last one that writes the label of a connection to a pod. An
// ACL with action pass in a tier other than our first is followed by one of ours. In our first tier, an ACL with a
// lower priority is not reached.
func overwritesLabel(x logical.ACL) bool {
	if isOwnedRow(x.IDs) || x.Direction != string(intent.ToLport) || x.Label == 0 && !x.Sampled {
		return false
	}
	reached := x.Tier != ownership.LabelTier || x.Priority >= ownership.LabelPriority
	switch x.Action {
	case "allow", "allow-related":
		return reached
	case "pass":
		return reached && (x.Tier == ownership.LabelTier || x.Tier == ownership.LabelLastTier)
	default:
		return false
	}
}

func isOwnedRow(ids logical.ExternalIDs) bool { return ids[ownership.RowOwnerKey] != "" }

// describeACL formats an ACL as ovn-nbctl acl-list shows it.
func describeACL(x logical.ACL) string {
	text := fmt.Sprintf("%d %q %s (tier %d, %s)", x.Priority, truncateText(x.Match), x.Action, x.Tier, x.Direction)
	if x.Name != "" {
		text = x.Name + " " + text
	}
	return text
}

// describeLabelOrSample names what overwrites the label.
func describeLabelOrSample(x logical.ACL) string {
	var out []string
	if x.Label != 0 {
		out = append(out, fmt.Sprintf("label %d", x.Label))
	}
	if x.Sampled {
		out = append(out, "a sample")
	}
	return strings.Join(out, " and ")
}
