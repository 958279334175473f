package address

import (
	"fmt"
	"slices"
	"strings"
	"testing"

	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"

	"github.com/sallyport/sallyport/internal/lab/manifest"
	"github.com/sallyport/sallyport/test/e2e/harness"
)

// checkDualStack shows that a dual-stack project has IPv4 outside.
func (s *projectPair) checkDualStack(t *testing.T) string {
	ns := s.CreateProject(t, "packets", "dual", "10.36.0.0/24,fd00:36::/64", "cloud")
	s.RunPod(t, harness.Pod{Namespace: ns, Name: "a", Node: "node1", Address: "10.36.0.11,fd00:36::11"})
	s.RunPod(t, harness.Pod{Namespace: ns, Name: "b", Node: "node3", Address: "10.36.0.12,fd00:36::12"})
	external := s.ReadField(t, "Project", "packets", "dual", "status", "externalIP")
	s.SyncFlows(t)
	s.ResetDrops(t)
	ways := s.ExpectAnswers(t, "a."+ns, "10.36.0.12", "b", "10.36.0.11")
	ways += s.ExpectAnswers(t, "a."+ns, "[fd00:36::12]", "b", "fd00:36::11")
	ways += s.ExpectAnswers(t, "b."+ns, "[fd00:36::11]", "a", "fd00:36::12")
	ways += s.ExpectAnswers(t, "a."+ns, harness.InternetAddress, "internet", external)
	for _, kind := range []string{"cloud", "public"} {
		x := s.Network(t, kind)
		address := s.CreateFIP(t, ns, kind, fmt.Sprintf("{podTarget: {podName: %s}, externalNetworkType: %s}",
			map[string]string{"cloud": "a", "public": "b"}[kind], kind))
		ways += s.ExpectAnswers(t, x.Client, address, map[string]string{"cloud": "a", "public": "b"}[kind],
			x.ClientAddress)
	}
	s.ExpectNoDrops(t)
	return fmt.Sprintf("%d ways: IPv6 between pods on two nodes; IPv4 as well, its way out, and floating IPs on two networks; no drops", ways)
}

// checkNoExternalIPv6 shows our conditions for IPv6 on an external network, and the cause with Kube-OVN alone.
func (s *projectPair) checkNoExternalIPv6(t *testing.T) string {
	unsupported := func(o *unstructured.Unstructured) bool {
		return harness.FalseReason(o, "ResolvedRefs") == "NetworkNotSupported"
	}
	s.Apply(t, `
apiVersion: kubeovn.io/v1
kind: Subnet
metadata: {name: six-only, labels: {network.kube-dc.com/external-network-type: six}}
spec: {protocol: IPv6, cidrBlock: "2001:db8:18:1::/64", gateway: "2001:db8:18:1::1", vlan: ext-dual}`)
	s.ApplyObject(t, "EIp", s.cloud, "four-and-six", "{externalNetworkType: dual}")
	s.ApplyObject(t, "EIp", s.cloud, "six", "{externalNetworkType: six}")
	s.ApplyObject(t, "Project", "packets", "six", "{cidrBlock: 10.37.0.0/24, egressNetworkType: dual}")
	s.WaitForObject(t, "EIp", s.cloud, "four-and-six", unsupported)
	s.WaitForObject(t, "EIp", s.cloud, "six", unsupported)
	s.WaitForObject(t, "Project", "packets", "six", unsupported)

	before := len(harness.ReadFile(t, s.Log("kube-ovn-controller")))
	s.Apply(t, `
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
	s.WaitForObject(t, "OvnEip", "", "four-probe", ready) // control: the same without IPv6
	s.WaitForObject(t, "OvnEip", "", "four-probe-ext-third", ready)
	probes := []string{"six-probe", "six-only-probe", "six-probe-ext-dual"}
	s.PollUntil(t, "Kube-OVN to say what is wrong", func() bool {
		log := harness.ReadFile(t, s.Log("kube-ovn-controller"))[before:]
		return !slices.ContainsFunc(probes, func(name string) bool { return !isIPv6LabelRefused(log, name) })
	})
	for _, name := range probes {
		if s.ReadField(t, "OvnEip", "", name, "status", "ready") == "true" {
			t.Errorf("Kube-OVN has made OvnEip %s on a network with IPv6: the condition NetworkNotSupported is not needed any more", name)
		}
	}
	if port := s.RunNbctl(t, "--bare", "--columns=name", "find", "logical_router_port",
		"name=six-probe-ext-dual"); port != "" {
		t.Errorf("Kube-OVN has connected a VPC to a network with IPv6: the condition NetworkNotSupported is not needed any more")
	}
	return "refused with NetworkNotSupported; measured: Kube-OVN 1.16.2 writes the IPv6 address into a label, which Kubernetes refuses (ADR 8)"
}

// isIPv6LabelRefused reports whether Kube-OVN has logged that the API server refuses an OvnEip because of an IPv6
// address in a label.
func isIPv6LabelRefused(log, name string) bool {
	for line := range strings.Lines(log) {
		if strings.Contains(line, "'"+name+"'") && strings.Contains(line, "metadata.labels: Invalid value") &&
			strings.Contains(line, "2001:db8:18:") {
			return true
		}
	}
	return false
}
