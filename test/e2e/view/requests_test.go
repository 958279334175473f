package view

import (
	"fmt"
	"testing"

	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"

	"github.com/sallyport/sallyport/internal/lab/manifest"
	"github.com/sallyport/sallyport/test/e2e/harness"
)

// applyActions runs actions in a lab.
func applyActions(deeds ...harness.Action) func(*faultFixture, *testing.T) {
	return func(w *faultFixture, t *testing.T) {
		for _, do := range deeds {
			do(t, w.Cluster)
		}
	}
}

// waitReason waits until a condition of an object has a reason.
func waitReason(object, condition, reason string) harness.Action {
	return func(t *testing.T, c *harness.Cluster) {
		kind, namespace, name := harness.ParseObjectName(object)
		c.WaitForObject(t, kind, namespace, name, func(o *unstructured.Unstructured) bool {
			return harness.FalseReason(o, condition) == reason
		})
	}
}

// applyLoadBalancer applies a Service of the lab.
func applyLoadBalancer(name, annotations, spec string) harness.Action {
	return harness.ApplyManifest(fmt.Sprintf(
		"{apiVersion: v1, kind: Service, metadata: {name: %s, namespace: hall-ward, annotations: {%s}}, spec: {type: LoadBalancer, %s}}",
		name, annotations, spec))
}

// patchShop patches the Service shop until the test ends.
func patchShop(patch, back string) func(*faultFixture, *testing.T) {
	return func(w *faultFixture, t *testing.T) {
		w.patchService(t, "shop", patch)
		t.Cleanup(func() { w.patchService(t, "shop", back) })
	}
}

// shopURL is who asks for the Service shop.
const (
	shopURL     = "http://{shop}/"
	deskURL     = "http://{desk}/"
	internetURL = "http://{out}/"
)

// requestFaults are mistakes of tenants: requests that are impossible, or that have another effect than intended.
var requestFaults = []fault{
	{
		what: "the network's pool is empty", command: "explain eip/third -n hall-ward", wantCode: "PoolExhausted",
		wantAbout: "EIp hall-ward/third", inCI: true,
		inject: applyActions(harness.CreateTinySubnet("tiny", "tiny", "198.19.8"),
			harness.Create("EIp hall-ward/first", "{externalNetworkType: tiny}"),
			harness.Create("EIp hall-ward/second", "{externalNetworkType: tiny}"),
			harness.Apply("EIp hall-ward/third", "{externalNetworkType: tiny}"),
			waitReason("EIp hall-ward/third", "Programmed", "PoolExhausted")),
	},
	{
		what: "another Service has the port", command: "explain svc/second -n hall-ward", wantCode: "PortTaken",
		wantAbout: "Service hall-ward/second",
		inject: applyActions(applyLoadBalancer("second", bindToEIP("shop"), "selector: {app: b2}, ports: [{port: 80}]"),
			waitReason("Service hall-ward/second", "Accepted", "PortTaken")),
	},
	{
		what: "the backend is not ready", from: "internet", target: shopURL, command: "trace {out} {shop}:80",
		wantCode: "PodsNotReady", wantAbout: "Service hall-ward/shop",
		inject: func(w *faultFixture, t *testing.T) {
			w.RunServerPod(t, "slow", "app: slow", "",
				", ports: [{containerPort: 80}], readinessProbe: {tcpSocket: {port: 9}, periodSeconds: 1}")
			patchShop(`{"spec":{"selector":{"app":"slow"}}}`, `{"spec":{"selector":{"app":"till"}}}`)(w, t)
		},
	},
	{
		what: "the selector selects nothing", from: "internet", target: shopURL, command: "trace {out} {shop}:80",
		wantCode: "SelectorMatchesNothing", wantAbout: "Service hall-ward/shop",
		inject: patchShop(`{"spec":{"selector":{"app":"b9"}}}`, `{"spec":{"selector":{"app":"till"}}}`),
	},
	{
		what: "the target port is wrong", from: "internet", target: shopURL, command: "trace {out} {shop}:80",
		wantCode: "NothingListens", wantAbout: "Service hall-ward/shop", inCI: true,
		inject: patchShop(`{"spec":{"ports":[{"name":"web","port":80,"protocol":"TCP","targetPort":8099}]}}`,
			`{"spec":{"ports":[{"name":"web","port":80,"protocol":"TCP","targetPort":80},{"name":"flows","port":80,"protocol":"UDP","targetPort":80}]}}`),
	},
	{
		what: "a NetworkPolicy drops it", from: "internet", target: shopURL, command: "trace {out} {shop}:80",
		wantCode: "NetworkPolicyDrops", wantAbout: "NetworkPolicy hall-ward/closed", inCI: true,
		inject: applyActions(harness.ApplyManifest(
			"{apiVersion: networking.k8s.io/v1, kind: NetworkPolicy, metadata: {name: closed, namespace: hall-ward}, " +
				"spec: {podSelector: {matchLabels: {app: till}}, policyTypes: [Ingress]}}")),
	},
	{
		what: "a NetworkPolicy lets nothing out", from: "pod/b1", target: internetURL,
		command:  "trace --from pod/b1 -n hall-ward {out}:80",
		wantCode: "NetworkPolicyDrops", wantAbout: "NetworkPolicy hall-ward/shut",
		inject: applyActions(harness.ApplyManifest(
			"{apiVersion: networking.k8s.io/v1, kind: NetworkPolicy, metadata: {name: shut, namespace: hall-ward}, " +
				"spec: {podSelector: {matchLabels: {app: b1}}, policyTypes: [Egress]}}")),
	},
	{
		what: "the client is not in the Service's source ranges", from: "internet", target: shopURL,
		command:  "trace {out} {shop}:80",
		wantCode: "SourceRangesDrop", wantAbout: "Service hall-ward/shop",
		inject: patchShop(`{"spec":{"loadBalancerSourceRanges":["192.0.2.0/24"]}}`,
			`{"spec":{"loadBalancerSourceRanges":null}}`),
	},
	{
		what: "the floating IP's pod is gone", from: "internet", target: deskURL, command: "trace {out} {desk}:80",
		wantCode: "PodNotFound", wantAbout: "FIp hall-ward/desk",
		inject: func(w *faultFixture, t *testing.T) {
			w.DeleteAndWait(t, "Pod", w.Namespace, "b2")
			t.Cleanup(func() {
				w.Pods["b2"] = w.RunPod(w.parent, harness.Pod{
					Namespace: w.Namespace,
					Name:      "b2",
					Node:      "node2",
					Labels:    map[string]string{"role": "backend"},
				})
				w.WaitProgrammedOnNodes(t, "FIp", w.Namespace, "desk")
			})
		},
	},
	{
		what: "the floating IP names an EIp that is not there", command: "explain fip/lost -n hall-ward",
		wantCode: "EIpNotFound", wantAbout: "FIp hall-ward/lost",
		inject: applyActions(harness.Apply("FIp hall-ward/lost", "{ipAddress: 10.70.0.90, eip: nowhere}"),
			waitReason("FIp hall-ward/lost", "ResolvedRefs", "EIpNotFound")),
	},
	{
		what: "the virtual machine does not run", command: "explain fip/vm -n hall-ward", wantCode: "VMNotFound",
		wantAbout: "FIp hall-ward/vm",
		inject: applyActions(harness.Apply("FIp hall-ward/vm", "{vmTarget: {vmName: halted}}"),
			waitReason("FIp hall-ward/vm", "ResolvedRefs", "VMNotFound")),
	},
	{
		what: "there is no network of the type", command: "explain eip/gold -n hall-ward", wantCode: "NetworkNotFound",
		wantAbout: "EIp hall-ward/gold",
		inject: applyActions(harness.Apply("EIp hall-ward/gold", "{externalNetworkType: gold}"),
			waitReason("EIp hall-ward/gold", "ResolvedRefs", "NetworkNotFound")),
	},
	{
		what: "the address is of another network", command: "explain eip/far -n hall-ward",
		wantCode: "AddressOutsideNetwork", wantAbout: "EIp hall-ward/far",
		inject: applyActions(harness.Apply("EIp hall-ward/far", "{externalNetworkType: cloud, ipAddress: 192.0.2.9}"),
			waitReason("EIp hall-ward/far", "Accepted", "AddressOutsideNetwork")),
	},
	{
		what: "somebody has the address", command: "explain eip/late -n hall-ward", wantCode: "AddressTaken",
		wantAbout: "EIp hall-ward/late",
		inject: applyActions(harness.Apply("EIp hall-ward/late", "{externalNetworkType: public, ipAddress: "+
			shopAddress+"}"), waitReason("EIp hall-ward/late", "Accepted", "AddressTaken")),
	},
	{
		what: "the project's quota is used up", command: "explain eip/second -n hall-few", wantCode: "QuotaExceeded",
		wantAbout: "EIp hall-few/second",
		inject: applyActions(harness.Create("Project hall/few",
			"{cidrBlock: 10.63.0.0/24, egressNetworkType: cloud, eipQuota: 1}"),
			harness.Create("EIp hall-few/first", "{}"),
			harness.Apply("EIp hall-few/second", "{}"), waitReason("EIp hall-few/second", "Accepted", "QuotaExceeded")),
	},
	{
		what: "the project's addresses are those of an external network", command: "explain project/overlap -n hall",
		wantCode: "PrefixOverlaps", wantAbout: "Project hall/overlap",
		inject: applyActions(harness.Apply("Project hall/overlap",
			"{cidrBlock: 91.224.11.0/25, egressNetworkType: cloud}"),
			waitReason("Project hall/overlap", "Accepted", "PrefixOverlaps")),
	},
	{
		what: "no node may hold the egress address", from: "pod/b3", target: internetURL,
		command:  "trace --from pod/b3 -n hall-ward {out}:80",
		wantCode: "NoMatchingNodeFound", wantAbout: "EgressIP mail",
		inject: func(w *faultFixture, t *testing.T) {
			w.SetEgressAssignable(t, "node3", false)
			t.Cleanup(func() {
				w.SetEgressAssignable(t, "node3", true)
				w.WaitForObject(t, "EgressIP", "", "mail", manifest.True("Programmed"))
			})
		},
	},
	{
		what: "an EgressService has no Service", command: "explain egressservice/nobody -n hall-ward",
		wantCode: "ServiceNotFound", wantAbout: "EgressService hall-ward/nobody",
		inject: applyActions(harness.ApplyManifest(
			"{apiVersion: k8s.ovn.org/v1, kind: EgressService, metadata: {name: nobody, namespace: hall-ward}, spec: {sourceIPBy: LoadBalancerIP}}"),
			waitReason("EgressService hall-ward/nobody", "ResolvedRefs", "ServiceNotFound")),
	},
	{
		what: "nobody has the address", command: "trace {out} 91.224.11.99:80", wantCode: "AddressUnknown",
		wantAbout: "Subnet ext-public",
		inject:    applyActions(),
	},
	{
		what: "the Service has no such port", command: "trace {out} {shop}:81", wantCode: "NoSuchPort",
		wantAbout: "Service hall-ward/shop", inject: applyActions(),
	},
	{
		what: "a backend hangs", command: "trace {out} {shop}:80", from: "internet", target: shopURL,
		wantCode: "HealthCheckOffline", wantAbout: "Service hall-ward/shop",
		inject: func(w *faultFixture, t *testing.T) {
			patchShop(`{"metadata":{"annotations":{"service.nlb.kube-dc.com/health-check":"interval=1,timeout=1,failures=1,successes=1"}}}`,
				`{"metadata":{"annotations":{"service.nlb.kube-dc.com/health-check":null}}}`)(w, t)
			patchShop(`{"spec":{"selector":{"app":"deaf"}}}`, `{"spec":{"selector":{"app":"till"}}}`)(w, t)
			w.RunPod(t, harness.Pod{Namespace: w.Namespace, Name: "deaf", Node: "node3", Image: "lab/idle"})
			harness.Eventually(t, "health checks have found out", func() bool {
				return w.RunSbctl(t, "--bare", "find", "service_monitor", "status=offline") != ""
			})
		},
	},
}
