// Package shard names the units that the controller reads, compiles and applies separately.
package shard

import "github.com/sallyport/sallyport/internal/model/ownership"

// Kind is what a shard is about. The controller has one way to prepare each.
type Kind uint8

// The kinds. There is a shard for each VPC, and one of each other kind.
const (
	OfVPC       Kind = iota // a project's VPC, or the management VPC
	OfEgress                // all EgressIPs and their addresses
	OfNodePaths             // the NodePaths of all nodes
	OfNetworks              // the status of all ExternalNetworks, and those created from labelled Subnets
)

// Shard is one unit. No two have the same name.
type Shard struct {
	Kind Kind
	// Name is the value of the label kube-dc.com/vpc on what is created for the shard. For a VPC it is the VPC's name.
	Name string
}

// The shards that there is one of.
var (
	Egress    = Shard{OfEgress, ownership.EgressVpc}
	NodePaths = Shard{OfNodePaths, ownership.NodesShard}
	Networks  = Shard{OfNetworks, ownership.NetworksShard}
)

// Named returns the shard with a name.
func Named(name string) Shard {
	for _, s := range []Shard{Egress, NodePaths, Networks} {
		if s.Name == name {
			return s
		}
	}
	return Shard{OfVPC, name}
}

// String returns the name.
func (s Shard) String() string { return s.Name }
