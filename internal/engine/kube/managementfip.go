package kube

import (
	"net/netip"
	"slices"

	kubedcv1 "github.com/sallyport/sallyport/api/kubedc/v1"
)

// hasOutboundFIps reports whether FIps of the shard change the source address of their targets' connections.
func (in *Inputs) hasOutboundFIps() bool {
	return slices.ContainsFunc(in.fips, func(f *kubedcv1.FIp) bool { return f.Spec.Outbound })
}

// readPortAddresses returns the addresses of the ports on the management VPC's switches, by namespace, for namespaces with
// FIps.
func (in *Inputs) readPortAddresses() map[string]map[netip.Addr]bool {
	out := map[string]map[netip.Addr]bool{}
	for _, f := range in.fips {
		out[f.Namespace] = map[netip.Addr]bool{}
	}
	for _, p := range in.misplacedPorts {
		if addresses := out[p.Namespace]; addresses != nil && in.isPodSwitch(p.Subnet) {
			for _, a := range externalAddresses(p.Addresses) {
				addresses[a] = true
			}
		}
	}
	return out
}
