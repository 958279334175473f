package preflight

import (
	"net/netip"
	"slices"
	"strings"

	kubedcv1 "github.com/sallyport/sallyport/api/kubedc/v1"
	"github.com/sallyport/sallyport/internal/engine/kubeovn"
	"github.com/sallyport/sallyport/internal/model/humanize"
	"github.com/sallyport/sallyport/internal/model/installation"
	"github.com/sallyport/sallyport/internal/model/ipfamily"
)

func checkExternalNetworks(r *run) {
	if len(r.Subnets) == 0 {
		r.warn("NoExternalNetwork", "kubectl label subnet NAME "+kubedcv1.ExternalNetworkTypeLabel+"=TYPE "+
			kubedcv1.DefaultExternalLabel+"=true, or create an ExternalNetwork after the installation",
			"no Subnet has the label %s", kubedcv1.ExternalNetworkTypeLabel)
		return
	}
	var defaults, names []string
	for _, s := range r.Subnets {
		names = append(names, s.Name+" ("+s.Type+")")
		if s.Default {
			defaults = append(defaults, s.Name)
		}
		r.checkSubnet(s)
	}
	switch {
	case len(defaults) == 0:
		r.warn("NoDefaultNetwork",
			"kubectl label subnet NAME "+kubedcv1.DefaultExternalLabel+"=true, or name a type in every request",
			"no Subnet has the label %s=true", kubedcv1.DefaultExternalLabel)
	case len(defaults) > 1 && !r.areOfOneType(defaults):
		r.fail("SeveralDefaultNetworks", "kubectl label subnet NAME "+kubedcv1.DefaultExternalLabel+"-",
			"Subnets of different types have the label %s=true: %s", kubedcv1.DefaultExternalLabel,
			humanize.JoinLimited(defaults, maxShown))
	}
	r.passIfClean("%s", humanize.JoinLimited(names, maxShown))
}

// areOfOneType reports whether Subnets are of one type.
func (r *run) areOfOneType(names []string) bool {
	types := map[string]bool{}
	for _, s := range r.Subnets {
		if slices.Contains(names, s.Name) {
			types[s.Type] = true
		}
	}
	return len(types) == 1
}

// checkSubnet checks one external Subnet.
func (r *run) checkSubnet(s installation.Subnet) {
	look := "kubectl describe subnet " + s.Name
	prefixes, problem := parsePrefixes(s.CIDR)
	switch {
	case problem != "":
		r.fail("SubnetMalformed", look, "Subnet %s: %s", s.Name, problem)
	case !slices.ContainsFunc(prefixes, isExternalFamily):
		r.fail("SubnetWithoutIPv4", "use a Subnet with an IPv4 prefix", "Subnet %s has no IPv4 prefix", s.Name)
	case len(prefixes) > 1:
		r.warn("SubnetWithIPv6",
			"use a Subnet with an IPv4 prefix only: requests for addresses of this one are refused",
			"Subnet %s has an IPv6 prefix, which Kube-OVN does not support on external networks", s.Name)
	case !isGatewayInside(s.Gateway, prefixes):
		r.fail("SubnetGatewayOutside", "set spec.gateway to the router of the network",
			"Subnet %s: the gateway %s is not in %s", s.Name,
			humanize.Quote(s.Gateway), s.CIDR)
	}
	switch {
	case s.Vlan == "":
		r.fail("SubnetWithoutVlan", "set spec.vlan to a Vlan of a ProviderNetwork", "Subnet %s is not on a VLAN",
			s.Name)
	case !s.VlanExists:
		r.fail("VlanMissing", "create the Vlan", "Subnet %s: there is no Vlan %s", s.Name, humanize.QuoteName(s.Vlan))
	case !s.ProviderExists:
		r.fail("ProviderNetworkMissing", "create the ProviderNetwork", "Subnet %s: there is no ProviderNetwork %s",
			s.Name,
			humanize.QuoteName(s.Provider))
	case !s.Ready:
		r.fail("SubnetNotReady", look, "Subnet %s is not Ready", s.Name)
	case s.Free == 0:
		r.warn("SubnetFull", "free addresses, or add a second Subnet of the same type",
			"Subnet %s has no free addresses", s.Name)
	}
}

func isExternalFamily(p netip.Prefix) bool { return ipfamily.Of(p.Addr()) == kubeovn.ExternalFamily }

// parsePrefixes parses the prefixes of a Subnet, or says what is wrong.
func parsePrefixes(cidr string) (out []netip.Prefix, problem string) {
	for text := range strings.SplitSeq(cidr, ",") {
		p, err := netip.ParsePrefix(strings.TrimSpace(text))
		if err != nil {
			return nil, "cidrBlock " + humanize.Quote(cidr) + " is not a prefix"
		}
		out = append(out, p)
	}
	return out, ""
}

// isGatewayInside reports whether the first gateway is an address of one of the prefixes.
func isGatewayInside(gateway string, prefixes []netip.Prefix) bool {
	first, _, _ := strings.Cut(gateway, ",")
	address, err := netip.ParseAddr(strings.TrimSpace(first))
	return err == nil && slices.ContainsFunc(prefixes, func(p netip.Prefix) bool { return p.Contains(address) })
}

// checkProviderNetworks checks that gateway nodes are connected to the external networks.
func checkProviderNetworks(r *run) {
	var seen, unreported []string
	for _, s := range r.Subnets {
		if !s.ProviderExists || slices.Contains(seen, s.Provider) {
			continue
		}
		seen = append(seen, s.Provider)
		for _, n := range r.Nodes {
			if n.Gateway && slices.Contains(s.ExcludedNodes, n.Name) {
				r.fail("GatewayNodeExcluded", "remove the node from spec.excludeNodes, or take the label "+kubeovn.GatewayLabel+
					" off the node", "ProviderNetwork %s excludes the gateway node %s", s.Provider, n.Name)
				continue
			}
			if n.Gateway && s.ProviderReported && !slices.Contains(s.ReadyNodes, n.Name) {
				r.fail("ProviderNetworkNotReady", "check the interface of the ProviderNetwork on the node: kubectl describe provider-network "+
					s.Provider, "ProviderNetwork %s is not ready on gateway node %s: OVN has no bridge to the network there",
					s.Provider, n.Name)
			}
		}
		if !s.ProviderReported {
			unreported = append(unreported, s.Provider)
		}
	}
	switch {
	case len(seen) == 0:
		r.skip("", "", "no external network has one")
	case len(unreported) > 0 && len(r.results) == 0:
		r.skip("", "kubectl get provider-networks; check the bridge and the interface on each gateway node",
			"Kube-OVN does not report on which nodes it is ready: %s", humanize.JoinLimited(unreported, maxShown))
	default:
		r.passIfClean("ready on all gateway nodes: %s", humanize.JoinLimited(seen, maxShown))
	}
}
