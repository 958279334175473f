package kubeovn

import "strings"

// Names that Kube-OVN gives to what it writes to OVN and to Kubernetes. This file is the only place that knows them.

// nodePortPrefix begins the name of the switch port by which a node is connected to the join subnet.
const nodePortPrefix = "node-"

// RouterPort returns the name of a VPC router's port on a subnet. The OvnEip that holds the address of such a port on
// an external subnet has the same name.
func RouterPort(vpc, subnet string) string { return vpc + "-" + subnet }

// RouterSwitchPort returns the name of the switch port that leads from a subnet to the router of a VPC.
func RouterSwitchPort(subnet, vpc string) string { return subnet + "-" + vpc }

// SubnetOfRouterPort returns the subnet that a port of a VPC's router is on, told from its name.
func SubnetOfRouterPort(vpc, port string) (string, bool) { return strings.CutPrefix(port, vpc+"-") }

// VpcOfRouterPort returns the VPC whose router has a port on a subnet, told from the port's name.
func VpcOfRouterPort(port, subnet string) (string, bool) { return strings.CutSuffix(port, "-"+subnet) }

// PodPort returns the name of the switch port of a pod's first interface.
func PodPort(pod, namespace string) string { return pod + "." + namespace }

// IsPodPort reports whether a switch port is one of a pod: Kube-OVN appends the provider to the names of further
// interfaces.
func IsPodPort(port, pod, namespace string) bool {
	first := PodPort(pod, namespace)
	return port == first || strings.HasPrefix(port, first+".")
}

// NodePort returns the name of the switch port that connects a node to the join subnet.
func NodePort(node string) string { return nodePortPrefix + node }

// NodeOfPort returns the node that a switch port of the join subnet connects.
func NodeOfPort(port string) (string, bool) { return strings.CutPrefix(port, nodePortPrefix) }
