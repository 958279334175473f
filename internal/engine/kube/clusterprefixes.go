package kube

import (
	"context"
	"net/netip"
	"reflect"
	"slices"
	"strings"

	corev1 "k8s.io/api/core/v1"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/sallyport/sallyport/internal/engine/kubeovn"
	"github.com/sallyport/sallyport/internal/model/intent"
	"github.com/sallyport/sallyport/internal/model/ownership"
	"github.com/sallyport/sallyport/internal/model/snapshot"
)

// The prefixes of the cluster itself decide whether a new Project is accepted. After that they decide nothing, so they
// are read for new Projects only.

// isNewProject reports whether the shard has a Project but no managed objects yet.
func (in *Inputs) isNewProject() bool {
	ns := in.namespaces[in.Shard.Name]
	return len(in.projects) > 0 && (ns == nil || !belongsToShard(ns, in.Shard.Name)) &&
		!in.ownedObjects[intent.ObjectKey{Kind: intent.Vpc, Name: in.Shard.Name}] &&
		!in.ownedObjects[intent.ObjectKey{Kind: intent.Subnet, Name: ownership.VPCSubnetName(in.Shard.Name)}]
}

// gatherClusterPrefixes adds the subnets of Kube-OVN's default VPC and the nodes.
func (c *Cluster) gatherClusterPrefixes(ctx context.Context, in *Inputs) error {
	if !in.isNewProject() {
		return nil
	}
	if err := c.listInto(ctx, in, &SubnetList{}, c.matchIndex(vpcIndex, kubeovn.ManagementVpc)); err != nil {
		return err
	}
	return c.listInto(ctx, in, &corev1.NodeList{}, nil)
}

// isClusterSubnet reports whether a Subnet belongs to Kube-OVN's default VPC, including the one that joins the nodes.
// External subnets are excluded: they have a VLAN.
func isClusterSubnet(s *Subnet) bool { return s.Spec.Vpc == kubeovn.ManagementVpc && s.Spec.Vlan == "" }

// isClusterSubnetObject reports whether an object is such a Subnet.
func isClusterSubnetObject(o client.Object) bool {
	s, ok := o.(*Subnet)
	return ok && s != nil && isClusterSubnet(s)
}

// reservableAddresses is how many of the last addresses of a Subnet may be those of return ports and of sources of
// packets to nodes. It is rather too large.
const reservableAddresses = 32

// isSameClusterSubnet reports whether nothing that we read in such a Subnet changed. Kube-OVN writes its status for each
// pod that comes or goes; of the addresses in use, only those matter that we may reserve.
func isSameClusterSubnet(was, is client.Object) bool {
	matters := func(o client.Object) any {
		s, ok := o.(*Subnet)
		if !ok || s == nil {
			return nil
		}
		return []any{
			s.Labels, s.Spec, s.DeletionTimestamp != nil, s.Status.IsReady(), s.Status.V4UsingIPs > 0,
			readPodSubnet(s).UsedAtEnd(reservableAddresses),
		}
	}
	return matters(was) != nil && reflect.DeepEqual(matters(was), matters(is))
}

func indexByVPC(o client.Object) []string {
	if !isClusterSubnetObject(o) {
		return nil
	}
	return []string{kubeovn.ManagementVpc}
}

// readClusterPrefixes returns the prefixes of the cluster itself for a new Project.
func (in *Inputs) readClusterPrefixes() []snapshot.PrefixClaim {
	if !in.isNewProject() {
		return nil
	}
	return in.claimedPrefixes()
}

// claimedPrefixes returns the prefixes of the Subnets of Kube-OVN's default VPC, and the addresses of nodes.
func (in *Inputs) claimedPrefixes() (out []snapshot.PrefixClaim) {
	for name, s := range in.subnets {
		for part := range strings.SplitSeq(s.Spec.CIDRBlock, ",") {
			if prefix, err := netip.ParsePrefix(part); err == nil && isClusterSubnet(s) {
				out = append(out, snapshot.PrefixClaim{
					Prefix: prefix.Masked(),
					Owner:  "Subnet " + name + " of Kube-OVN's own VPC",
				})
			}
		}
	}
	for _, n := range in.nodes {
		for _, a := range n.Status.Addresses {
			if address := parseAddr(a.Address); address.IsValid() {
				out = append(out, snapshot.PrefixClaim{
					Prefix: netip.PrefixFrom(address, address.BitLen()),
					Owner:  "node " + n.Name,
				})
			}
		}
	}
	slices.SortFunc(out, func(a, b snapshot.PrefixClaim) int {
		return strings.Compare(a.Owner+a.Prefix.String(), b.Owner+b.Prefix.String())
	})
	return out
}
