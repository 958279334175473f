package kube

import (
	"context"
	"net/netip"
	"slices"
	"strings"

	corev1 "k8s.io/api/core/v1"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/sallyport/sallyport/internal/intent"
	"github.com/sallyport/sallyport/internal/kubeovn"
	"github.com/sallyport/sallyport/internal/ownership"
	"github.com/sallyport/sallyport/internal/snapshot"
)

// The prefixes of the cluster itself decide whether a new Project is accepted. Once it is, they decide nothing: so they are read for new ones only.

// isNew says whether there is a Project of the shard, and nothing of ours for it yet.
func (in *Inputs) isNew() bool {
	ns := in.namespaces[in.Shard]
	return len(in.projects) > 0 && (ns == nil || !isOf(ns, in.Shard)) &&
		!in.owned[intent.ObjectKey{Kind: intent.Vpc, Name: in.Shard}] && !in.owned[intent.ObjectKey{Kind: intent.Subnet, Name: ownership.Subnet(in.Shard)}]
}

// gatherPlatform adds the subnets of Kube-OVN's own VPC and the nodes.
func (c *Cluster) gatherPlatform(ctx context.Context, in *Inputs) error {
	if !in.isNew() {
		return nil
	}
	if err := c.add(ctx, in, &SubnetList{}, c.by(vpcIndex, kubeovn.ManagementVpc)); err != nil {
		return err
	}
	return c.add(ctx, in, &corev1.NodeList{}, nil)
}

// ofPlatform says whether a Subnet is of Kube-OVN's own VPC: also the one that joins nodes to it. External ones are on a Vlan.
func ofPlatform(s *Subnet) bool { return s.Spec.Vpc == kubeovn.ManagementVpc && s.Spec.Vlan == "" }

func byVpc(o client.Object) []string {
	if !ofPlatform(o.(*Subnet)) {
		return nil
	}
	return []string{kubeovn.ManagementVpc}
}

// readPlatform reads the prefixes of the cluster itself.
func (in *Inputs) readPlatform() (out []snapshot.Claim) {
	if !in.isNew() {
		return nil
	}
	for name, s := range in.subnets {
		for part := range strings.SplitSeq(s.Spec.CIDRBlock, ",") {
			if prefix, err := netip.ParsePrefix(part); err == nil && ofPlatform(s) {
				out = append(out, snapshot.Claim{Prefix: prefix.Masked(), By: "Subnet " + name + " of Kube-OVN's own VPC"})
			}
		}
	}
	for _, n := range in.nodes {
		for _, a := range n.Status.Addresses {
			if address := parsed(a.Address); address.IsValid() {
				out = append(out, snapshot.Claim{Prefix: netip.PrefixFrom(address, address.BitLen()), By: "node " + n.Name})
			}
		}
	}
	slices.SortFunc(out, func(a, b snapshot.Claim) int { return strings.Compare(a.By+a.Prefix.String(), b.By+b.Prefix.String()) })
	return out
}
