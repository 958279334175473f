// Package installation is what `sallyport check` reads of a cluster: what an installation of Sallyport needs there, and
// what would be in its way.
package installation

import (
	"slices"
	"time"

	"github.com/sallyport/sallyport/internal/engine/kubeovn"
)

// Part is something that is read on its own, and can fail on its own.
type Part string

// The parts.
const (
	Version     Part = "the version of Kubernetes"
	APIs        Part = "the APIs that the API server serves"
	Workloads   Part = "Deployments and DaemonSets"
	Pods        Part = "pods"
	Nodes       Part = "nodes"
	Subnets     Part = "Kube-OVN's Subnets, Vlans and ProviderNetworks"
	Gateways    Part = "Kube-OVN's ConfigMap for gateways"
	Databases   Part = "the Services of OVN's databases"
	Secrets     Part = "Secrets"
	Definitions Part = "CustomResourceDefinitions"
	Namespaces  Part = "namespaces"
	Permissions Part = "your permissions"
)

// Cluster is what was read.
type Cluster struct {
	Taken      time.Time
	Release    Release // that the chart is or will be installed as
	Kubernetes string  // version of the API server
	// Missing are the APIs of Wanted that are not served.
	Missing []API

	// Engine is Kube-OVN's controller. Controller and Agent are Sallyport's. Nil: there is none.
	Engine, Controller, Agent *Workload
	EngineVersion             kubeovn.Version
	// Namesakes are Deployments in other namespaces that have the name of Sallyport's controller.
	Namesakes []string

	GatewayConfig bool // Kube-OVN has its ConfigMap for gateways
	Nodes         []Node
	Subnets       []Subnet // with the label of external networks
	Databases     []Service
	Secrets       []Secret
	Wanted        []Definition // the CRDs of this version
	Definitions   []Definition // those of the cluster that have the names of ours, or are in our groups
	Namespaces    []Namespace  // of the controller and the agents
	Denied        []Permission
	Unread        []ReadFailure
}

// ReadFailure says that a part could not be read.
type ReadFailure struct {
	Part    Part
	Problem string
}

// FailureOf returns why a part could not be read; empty: it was read.
func (c *Cluster) FailureOf(p Part) string {
	i := slices.IndexFunc(c.Unread, func(u ReadFailure) bool { return u.Part == p })
	if i < 0 {
		return ""
	}
	return c.Unread[i].Problem
}

// IsServed reports whether an API is served.
func (c *Cluster) IsServed(a API) bool { return !slices.Contains(c.Missing, a) }

// API is a resource of a group and version.
type API struct{ GroupVersion, Resource string }

// String prints the resource as kubectl does.
func (a API) String() string { return a.Resource + " (" + a.GroupVersion + ")" }

// APIs that an installation needs, besides those of every cluster.
var (
	AdmissionPolicies = API{"admissionregistration.k8s.io/v1", "validatingadmissionpolicies"}
	PriorityLevels    = API{"flowcontrol.apiserver.k8s.io/v1", "prioritylevelconfigurations"}
	EngineAPIs        = []API{
		{"kubeovn.io/v1", "vpcs"},
		{"kubeovn.io/v1", "subnets"},
		{"kubeovn.io/v1", "vlans"},
		{"kubeovn.io/v1", "provider-networks"},
		{"kubeovn.io/v1", "ovn-eips"},
		{"kubeovn.io/v1", "ovn-fips"},
		{"kubeovn.io/v1", "ovn-snat-rules"},
	}
)

// WantedAPIs are all of them.
func WantedAPIs() []API { return append([]API{AdmissionPolicies, PriorityLevels}, EngineAPIs...) }

// Workload is a Deployment or a DaemonSet.
type Workload struct {
	Namespace, Name string
	Image           string
	Args            []string
	TLS             bool // it connects to OVN's databases with TLS
	Release         Release
	Wanted, Ready   int
	Waiting         []Waiting
	Secrets         []Secret // that it refers to; their content is not read here
}

// Waiting is a pod that does not start.
type Waiting struct{ Pod, Image, Reason string }

// Release is the Helm release that an object belongs to. Zero: none.
type Release struct{ Name, Namespace string }

// String prints the release.
func (r Release) String() string { return r.Name + " in namespace " + r.Namespace }

// Node is a node.
type Node struct {
	Name    string
	Ready   bool
	Gateway bool   // it has the label of nodes that hold gateways
	Chassis string // empty: Kube-OVN does not run on it
}

// Subnet is a Subnet that is an external network by its label.
type Subnet struct {
	Name, Type       string
	Default          bool
	CIDR, Gateway    string
	Ready            bool
	Free             int
	Vlan             string
	VlanExists       bool
	Provider         string // of the Vlan
	ProviderExists   bool
	ProviderReported bool     // Kube-OVN has reported on which nodes the provider network is ready
	ReadyNodes       []string // of the provider network
	ExcludedNodes    []string
}

// Service is the Service of an OVN database.
type Service struct {
	Name   string
	Exists bool
	Ready  int // endpoints
}

// Secret is a Secret that the installation refers to.
type Secret struct {
	Namespace, Name, Purpose string
	Wanted                   []string // keys
	Exists                   bool
	Unread                   string    // why it could not be read
	MissingKeys              []string  // of Wanted
	Expires                  time.Time // of its certificate; zero: not known
	Invalid                  string    // what is wrong with its certificate
}

// Definition is a CustomResourceDefinition.
type Definition struct {
	Name, Group, Kind, Scope string
	Versions                 []string // that are served
	Fields                   []string // of the specs, as VERSION.FIELD.FIELD
	Labelled                 bool     // with the chart's label
	Release                  Release
}

// Namespace is a namespace.
type Namespace struct {
	Name    string
	Exists  bool
	Enforce string // the Pod Security Standard that is enforced
	Agents  bool   // it is the namespace of the agents
}

// Permission is what an installation requires of the user.
type Permission struct{ Verb, Group, Resource, Namespace string }

// String prints the permission as kubectl does.
func (p Permission) String() string {
	out := p.Verb + " " + p.Resource
	if p.Group != "" {
		out += "." + p.Group
	}
	if p.Namespace != "" {
		out += " in namespace " + p.Namespace
	}
	return out
}
