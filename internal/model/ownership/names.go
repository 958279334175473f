package ownership

import "github.com/sallyport/sallyport/internal/engine/kubeovn"

// OvnEipNames are the names that the OvnEip of an EIp may have, the usual one first. The usual ones of acme/web-db and
// acme-web/db are the same. The others can't be: a namespace has no dot in its name, so what comes before the first one
// is the namespace.
func OvnEipNames(namespace, name string) []string {
	return []string{"eip-" + namespace + "-" + name, "eip-" + namespace + "." + name}
}

// OvnFipNames are the names that the OvnFip of a FIp may have, in the same way.
func OvnFipNames(namespace, name string) []string {
	return []string{namespace + "-" + name, namespace + "." + name}
}

// IsReservedVPC says whether a VPC can't be a project's: it is ours or Kube-OVN's own, or has the name of a Subnet of
// Kube-OVN's.
func IsReservedVPC(vpc string) bool {
	switch vpc {
	case EgressVpc, NodesShard, kubeovn.ManagementVpc, kubeovn.ManagementSubnet, kubeovn.JoinSubnet:
		return true
	default:
		return false
	}
}
