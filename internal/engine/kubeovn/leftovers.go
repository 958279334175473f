package kubeovn

import "strings"

// LoadBalancerNames are the names of the load balancers that Kube-OVN makes for each Vpc. It removes them when it
// starts, not with the Vpc.
func LoadBalancerNames(vpc string) []string {
	var out []string
	for _, protocol := range []string{"sctp", "tcp", "udp"} {
		out = append(out, "vpc-"+vpc+"-"+protocol+"-load", "vpc-"+vpc+"-"+protocol+"-sess-load")
	}
	return out
}

// AddressSetNames are the names of the address sets that Kube-OVN makes for each Vpc. It never removes them.
func AddressSetNames(vpc string) []string {
	name := strings.ReplaceAll(vpc, "-", ".") + ".u2o_overlay_cidrs."
	return []string{name + "ip4", name + "ip6"}
}

// LoadBalancerVpc is the Vpc that a load balancer was made for; empty: for none.
func LoadBalancerVpc(loadBalancer string) string {
	name, isVpcs := strings.CutPrefix(loadBalancer, "vpc-")
	name, isLoad := strings.CutSuffix(name, "-load")
	for _, protocol := range []string{"-sctp", "-tcp", "-udp"} {
		if vpc, found := strings.CutSuffix(strings.TrimSuffix(name, "-sess"), protocol); found && isVpcs && isLoad {
			return vpc
		}
	}
	return ""
}

// AddressSetVpcKey is the key in the external_ids of an address set that names the Vpc it was made for.
const AddressSetVpcKey = "vpc"
