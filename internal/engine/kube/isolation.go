package kube

import (
	"slices"
	"strings"

	"github.com/sallyport/sallyport/internal/model/ownership"
	"github.com/sallyport/sallyport/internal/model/snapshot"
)

// readMisplacedPorts returns the misplaced ports with facts from the Subnets they are in. Tenants cannot write Subnets.
func (in *Inputs) readMisplacedPorts() []snapshot.PodPort {
	var out []snapshot.PodPort
	for _, p := range in.misplacedPorts {
		if s := in.subnets[p.Subnet]; s != nil {
			p.AttachmentNamespace = attachmentNamespace(s)
			p.Allowed = s.Spec.Vpc == p.Namespace || slices.Contains(s.Spec.Namespaces, p.Namespace) ||
				p.AttachmentNamespace == p.Namespace
			if shard := ownerShard(s); shard != "" && s.Name == ownership.VPCSubnetName(shard) {
				p.Project = shard
			}
		}
		out = append(out, p)
	}
	return out
}

// attachmentNamespace returns the namespace of the NetworkAttachmentDefinition that a Subnet is for, from its provider
// NAME.NAMESPACE.ovn, or an empty string if it is for none.
func attachmentNamespace(s *Subnet) string {
	if parts := strings.Split(s.Spec.Provider, "."); len(parts) == 3 && parts[2] == "ovn" {
		return parts[1]
	}
	return ""
}
