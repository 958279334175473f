package kube

import (
	"slices"
	"strings"

	"github.com/sallyport/sallyport/internal/model/ownership"
	"github.com/sallyport/sallyport/internal/model/snapshot"
)

// readMisplacedPorts is the misplaced ports, with what the Subnets say that they are on. Tenants can't write Subnets.
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

// attachmentNamespace is the namespace of the NetworkAttachmentDefinition that a Subnet is for, as its provider
// NAME.NAMESPACE.ovn says; empty: it is for none.
func attachmentNamespace(s *Subnet) string {
	if parts := strings.Split(s.Spec.Provider, "."); len(parts) == 3 && parts[2] == "ovn" {
		return parts[1]
	}
	return ""
}
