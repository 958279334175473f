package e2e

import (
	"fmt"
	"slices"
	"strings"
	"testing"

	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"

	"github.com/sallyport/sallyport/internal/lab/manifest"
)

// dualStack: a project with both families inside has IPv4 outside.
func (s *stage) dualStack(t *testing.T) string {
	ns := s.project(t, "packets", "dual", "10.36.0.0/24,fd00:36::/64", "cloud")
	s.run(t, pod{namespace: ns, name: "a", node: "node1", address: "10.36.0.11,fd00:36::11"})
	s.run(t, pod{namespace: ns, name: "b", node: "node3", address: "10.36.0.12,fd00:36::12"})
	external := s.field(t, "Project", "packets", "dual", "status", "externalIP")
	s.sync(t)
	s.resetDrops(t)
	ways := s.everyWay(t, "a."+ns, "10.36.0.12", "b", "10.36.0.11")
	ways += s.everyWay(t, "a."+ns, "[fd00:36::12]", "b", "fd00:36::11")
	ways += s.everyWay(t, "b."+ns, "[fd00:36::11]", "a", "fd00:36::12")
	ways += s.everyWay(t, "a."+ns, theInternet, "internet", external)
	for _, kind := range []string{"cloud", "public"} {
		x := s.network(t, kind)
		address := s.fip(t, ns, kind, fmt.Sprintf("{podTarget: {podName: %s}, externalNetworkType: %s}", map[string]string{"cloud": "a", "public": "b"}[kind], kind))
		ways += s.everyWay(t, x.client, address, map[string]string{"cloud": "a", "public": "b"}[kind], x.clientAddress)
	}
	s.noDrops(t)
	return fmt.Sprintf("%d ways: IPv6 between pods on two nodes; IPv4 as well, its way out, and floating IPs on two networks; no drops", ways)
}

// noIPv6Outside shows what we say about IPv6 on an external network, and beside it the reason with Kube-OVN alone.
func (s *stage) noIPv6Outside(t *testing.T) string {
	unsupported := func(o *unstructured.Unstructured) bool { return reasonOf(o, "ResolvedRefs") == "NetworkNotSupported" }
	s.apply(t, `
apiVersion: kubeovn.io/v1
kind: Subnet
metadata: {name: six-only, labels: {network.kube-dc.com/external-network-type: six}}
spec: {protocol: IPv6, cidrBlock: "2001:db8:18:1::/64", gateway: "2001:db8:18:1::1", vlan: ext-dual}`)
	s.write(t, "EIp", s.cloud, "four-and-six", "{externalNetworkType: dual}")
	s.write(t, "EIp", s.cloud, "six", "{externalNetworkType: six}")
	s.write(t, "Project", "packets", "six", "{cidrBlock: 10.37.0.0/24, egressNetworkType: dual}")
	s.wait(t, "EIp", s.cloud, "four-and-six", unsupported)
	s.wait(t, "EIp", s.cloud, "six", unsupported)
	s.wait(t, "Project", "packets", "six", unsupported)

	before := len(readFile(t, s.Log("kube-ovn-controller")))
	s.apply(t, `
apiVersion: kubeovn.io/v1
kind: OvnEip
metadata: {name: six-probe}
spec: {externalSubnet: ext-dual, type: nat}
---
apiVersion: kubeovn.io/v1
kind: OvnEip
metadata: {name: six-only-probe}
spec: {externalSubnet: six-only, type: nat}
---
apiVersion: kubeovn.io/v1
kind: OvnEip
metadata: {name: four-probe}
spec: {externalSubnet: ext-third, type: nat}
---
{apiVersion: kubeovn.io/v1, kind: Vpc, metadata: {name: six-probe}, spec: {enableExternal: true, extraExternalSubnets: [ext-dual]}}
---
{apiVersion: kubeovn.io/v1, kind: Vpc, metadata: {name: four-probe}, spec: {enableExternal: true, extraExternalSubnets: [ext-third]}}`)
	ready := manifest.Field("true", "status", "ready")
	s.wait(t, "OvnEip", "", "four-probe", ready) // control: the same without IPv6
	s.wait(t, "OvnEip", "", "four-probe-ext-third", ready)
	probes := []string{"six-probe", "six-only-probe", "six-probe-ext-dual"}
	s.until(t, "Kube-OVN to say what is wrong", func() bool {
		log := readFile(t, s.Log("kube-ovn-controller"))[before:]
		return !slices.ContainsFunc(probes, func(name string) bool { return !refused(log, name) })
	})
	for _, name := range probes {
		if s.field(t, "OvnEip", "", name, "status", "ready") == "true" {
			t.Errorf("Kube-OVN has made OvnEip %s on a network with IPv6: the condition NetworkNotSupported is not needed any more", name)
		}
	}
	if port := s.nbctl(t, "--bare", "--columns=name", "find", "logical_router_port", "name=six-probe-ext-dual"); port != "" {
		t.Errorf("Kube-OVN has connected a VPC to a network with IPv6: the condition NetworkNotSupported is not needed any more")
	}
	return "refused with NetworkNotSupported; measured: Kube-OVN 1.16.2 writes the IPv6 address into a label, which Kubernetes refuses (ADR 8)"
}

// refused says whether Kube-OVN has reported that the API server refuses an OvnEip for an IPv6 address in a label.
func refused(log, name string) bool {
	for line := range strings.Lines(log) {
		if strings.Contains(line, "'"+name+"'") && strings.Contains(line, "metadata.labels: Invalid value") && strings.Contains(line, "2001:db8:18:") {
			return true
		}
	}
	return false
}

// condition is a condition of an object.
func condition(o *unstructured.Unstructured, kind string) map[string]any {
	if o == nil {
		return nil
	}
	conditions, _, _ := unstructured.NestedSlice(o.Object, "status", "conditions")
	for _, raw := range conditions {
		if c, ok := raw.(map[string]any); ok && c["type"] == kind {
			return c
		}
	}
	return nil
}

// reasonOf is the reason of a condition that is False; empty when it is not.
func reasonOf(o *unstructured.Unstructured, kind string) string {
	c := condition(o, kind)
	if c == nil || c["status"] != "False" {
		return ""
	}
	reason, _ := c["reason"].(string)
	return reason
}
