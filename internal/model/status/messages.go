package status

import (
	"fmt"
	"strings"

	"github.com/sallyport/sallyport/internal/model/humanize"
	"github.com/sallyport/sallyport/internal/model/intent"
)

// maxNamed is the number of objects or addresses that a message or a column names.
const maxNamed = 3

// describeProgrammed returns the message of a true Programmed condition, and so of its Event: what was done, with the
// address.
func describeProgrammed(v intent.Verdict) string {
	switch f := v.Facts.(type) {
	case intent.ProjectFacts:
		if f.ExternalIP.IsValid() {
			return fmt.Sprintf("pods of namespace %s leave with %s", f.Namespace, f.ExternalIP)
		}
	case intent.EIpFacts:
		if f.Address.IsValid() {
			return fmt.Sprintf("%s of %s is reserved%s", f.Address, f.Network, usedBy(f.Holders))
		}
	case intent.FIpFacts:
		if f.External.IsValid() && f.Target.IsValid() {
			return fmt.Sprintf("%s leads to %s%s", f.External, f.Target, describeOutbound(f))
		}
	case intent.ServiceFacts:
		if f.Address.IsValid() {
			return "served at " + f.Address.String() + secondAddress(f)
		}
	case intent.EgressIPFacts:
		var all []string
		for _, i := range f.Items {
			all = append(all, fmt.Sprintf("%s on %s", i.Address, i.Node))
		}
		return humanize.JoinLimited(all, maxNamed)
	case intent.EgressPolicyFacts:
		if f.Address.IsValid() {
			return fmt.Sprintf("leaves through %s with %s", f.Network, f.Address)
		}
	}
	return ""
}

func describeOutbound(f intent.FIpFacts) string {
	if f.Outbound {
		return ", which leaves with it too"
	}
	return ""
}

func usedBy(holders []intent.ObjectKey) string {
	if len(holders) == 0 {
		return ""
	}
	return " and used by " + describeHolders(holders)
}

// describeHolders returns the kinds and names of the objects that use an EIp.
func describeHolders(holders []intent.ObjectKey) string {
	var all []string
	for _, h := range holders {
		all = append(all, string(h.Kind)+" "+h.Name)
	}
	return strings.TrimSpace(humanize.JoinLimited(all, maxNamed))
}

// formatQuota returns a number and its limit.
func formatQuota(used, quota int) string {
	if quota == 0 {
		return fmt.Sprint(used)
	}
	return fmt.Sprintf("%d/%d", used, quota)
}

// secondAddress returns a Service's address of the other family as the end of a sentence.
func secondAddress(f intent.ServiceFacts) string {
	if !f.SecondAddress.IsValid() {
		return ""
	}
	return " and " + f.SecondAddress.String()
}
