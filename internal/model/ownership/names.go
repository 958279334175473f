package ownership

import "github.com/sallyport/sallyport/internal/engine/kubeovn"

// OvnEipNames returns the names that the OvnEip of an EIp may have, the usual one first. The usual names of acme/web-db
// and acme-web/db are the same. The second names differ: a namespace has no dot in its name, so the part before the
// first dot is the namespace.
func OvnEipNames(namespace, name string) []string {
	return []string{"eip-" + namespace + "-" + name, "eip-" + namespace + "." + name}
}

// OvnFipNames returns the names that the OvnFip of a FIp may have, in the same way.
func OvnFipNames(namespace, name string) []string {
	return []string{namespace + "-" + name, namespace + "." + name}
}

// IsReservedVPC reports whether a VPC can't belong to a project: it is ours or Kube-OVN's, or has the name of one of
// Kube-OVN's Subnets.
func IsReservedVPC(vpc string) bool {
	switch vpc {
	case EgressVpc, NodesShard, NetworksShard, kubeovn.ManagementVpc, kubeovn.ManagementSubnet, kubeovn.JoinSubnet:
		return true
	default:
		return false
	}
}
