package view

import (
	"fmt"
	"testing"

	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"

	"github.com/sallyport/sallyport/internal/lab/manifest"
	"github.com/sallyport/sallyport/test/e2e/harness"
)

// does is actions that others know, in a lab.
func does(deeds ...harness.Action) func(*faultLab, *testing.T) {
	return func(w *faultLab, t *testing.T) {
		for _, do := range deeds {
			do(t, w.Cluster)
		}
	}
}

// reasoned waits until an object has a reason on a condition.
func reasoned(object, condition, reason string) harness.Action {
	return func(t *testing.T, c *harness.Cluster) {
		kind, namespace, name := harness.Named(object)
		c.Wait(t, kind, namespace, name, func(o *unstructured.Unstructured) bool { return harness.ReasonOf(o, condition) == reason })
	}
}

// service writes a Service of the lab's.
func service(name, annotations, spec string) harness.Action {
	return harness.Other(fmt.Sprintf("{apiVersion: v1, kind: Service, metadata: {name: %s, namespace: hall-ward, annotations: {%s}}, spec: {type: LoadBalancer, %s}}",
		name, annotations, spec))
}

// changed patches the Service shop until the test ends.
func changed(patch, back string) func(*faultLab, *testing.T) {
	return func(w *faultLab, t *testing.T) {
		w.patch(t, "shop", patch)
		t.Cleanup(func() { w.patch(t, "shop", back) })
	}
}

// pinged is who asks for the Service shop.
const (
	pinged = "http://{shop}/"
	dialed = "http://{desk}/"
	calls  = "http://{out}/"
)

// faultsOfRequests are mistakes of tenants: what they ask for can't be, or does not do what they think.
var faultsOfRequests = []fault{
	{
		what: "the network's pool is empty", types: "explain eip/third -n hall-ward", cause: "PoolExhausted", about: "EIp hall-ward/third", sample: true,
		inject: does(harness.Tiny("tiny", "tiny", "198.19.8"), harness.Create("EIp hall-ward/first", "{externalNetworkType: tiny}"),
			harness.Create("EIp hall-ward/second", "{externalNetworkType: tiny}"), harness.Apply("EIp hall-ward/third", "{externalNetworkType: tiny}"),
			reasoned("EIp hall-ward/third", "Programmed", "PoolExhausted")),
	},
	{
		what: "another Service has the port", types: "explain svc/second -n hall-ward", cause: "PortTaken", about: "Service hall-ward/second",
		inject: does(service("second", bindTo("shop"), "selector: {app: b2}, ports: [{port: 80}]"), reasoned("Service hall-ward/second", "Accepted", "PortTaken")),
	},
	{
		what: "the backend is not ready", from: "internet", asks: pinged, types: "trace {out} {shop}:80", cause: "PodsNotReady", about: "Service hall-ward/shop",
		inject: func(w *faultLab, t *testing.T) {
			w.RunServer(t, "slow", "app: slow", "", ", ports: [{containerPort: 80}], readinessProbe: {tcpSocket: {port: 9}, periodSeconds: 1}")
			changed(`{"spec":{"selector":{"app":"slow"}}}`, `{"spec":{"selector":{"app":"till"}}}`)(w, t)
		},
	},
	{
		what: "the selector selects nothing", from: "internet", asks: pinged, types: "trace {out} {shop}:80",
		cause: "SelectorMatchesNothing", about: "Service hall-ward/shop",
		inject: changed(`{"spec":{"selector":{"app":"b9"}}}`, `{"spec":{"selector":{"app":"till"}}}`),
	},
	{
		what: "the target port is wrong", from: "internet", asks: pinged, types: "trace {out} {shop}:80",
		cause: "TargetPortNotDeclared", about: "Service hall-ward/shop", sample: true,
		inject: changed(`{"spec":{"ports":[{"name":"web","port":80,"protocol":"TCP","targetPort":8099}]}}`,
			`{"spec":{"ports":[{"name":"web","port":80,"protocol":"TCP","targetPort":80},{"name":"flows","port":80,"protocol":"UDP","targetPort":80}]}}`),
	},
	{
		what: "a NetworkPolicy drops it", from: "internet", asks: pinged, types: "trace {out} {shop}:80",
		cause: "NetworkPolicyDrops", about: "NetworkPolicy hall-ward/closed", sample: true,
		inject: does(harness.Other("{apiVersion: networking.k8s.io/v1, kind: NetworkPolicy, metadata: {name: closed, namespace: hall-ward}, " +
			"spec: {podSelector: {matchLabels: {app: till}}, policyTypes: [Ingress]}}")),
	},
	{
		what: "a NetworkPolicy lets nothing out", from: "pod/b1", asks: calls, types: "trace --from pod/b1 -n hall-ward {out}:80",
		cause: "NetworkPolicyDrops", about: "NetworkPolicy hall-ward/shut",
		inject: does(harness.Other("{apiVersion: networking.k8s.io/v1, kind: NetworkPolicy, metadata: {name: shut, namespace: hall-ward}, " +
			"spec: {podSelector: {matchLabels: {app: b1}}, policyTypes: [Egress]}}")),
	},
	{
		what: "the client is not in the Service's source ranges", from: "internet", asks: pinged, types: "trace {out} {shop}:80",
		cause: "SourceRangesDrop", about: "Service hall-ward/shop",
		inject: changed(`{"spec":{"loadBalancerSourceRanges":["192.0.2.0/24"]}}`, `{"spec":{"loadBalancerSourceRanges":null}}`),
	},
	{
		what: "the floating IP's pod is gone", from: "internet", asks: dialed, types: "trace {out} {desk}:80", cause: "PodNotFound", about: "FIp hall-ward/desk",
		inject: func(w *faultLab, t *testing.T) {
			w.Remove(t, "Pod", w.Ns, "b2")
			t.Cleanup(func() {
				w.Pods["b2"] = w.RunPod(w.whole, harness.Pod{Namespace: w.Ns, Name: "b2", Node: "node2", Labels: map[string]string{"role": "backend"}})
				w.WaitInForce(t, "FIp", w.Ns, "desk")
			})
		},
	},
	{
		what: "the floating IP names an EIp that is not there", types: "explain fip/lost -n hall-ward", cause: "EIpNotFound", about: "FIp hall-ward/lost",
		inject: does(harness.Apply("FIp hall-ward/lost", "{ipAddress: 10.70.0.90, eip: nowhere}"), reasoned("FIp hall-ward/lost", "ResolvedRefs", "EIpNotFound")),
	},
	{
		what: "the virtual machine does not run", types: "explain fip/vm -n hall-ward", cause: "VMNotFound", about: "FIp hall-ward/vm",
		inject: does(harness.Apply("FIp hall-ward/vm", "{vmTarget: {vmName: halted}}"), reasoned("FIp hall-ward/vm", "ResolvedRefs", "VMNotFound")),
	},
	{
		what: "there is no network of the type", types: "explain eip/gold -n hall-ward", cause: "NetworkNotFound", about: "EIp hall-ward/gold",
		inject: does(harness.Apply("EIp hall-ward/gold", "{externalNetworkType: gold}"), reasoned("EIp hall-ward/gold", "ResolvedRefs", "NetworkNotFound")),
	},
	{
		what: "the address is of another network", types: "explain eip/far -n hall-ward", cause: "AddressOutsideNetwork", about: "EIp hall-ward/far",
		inject: does(harness.Apply("EIp hall-ward/far", "{externalNetworkType: cloud, ipAddress: 192.0.2.9}"), reasoned("EIp hall-ward/far", "Accepted", "AddressOutsideNetwork")),
	},
	{
		what: "somebody has the address", types: "explain eip/late -n hall-ward", cause: "AddressTaken", about: "EIp hall-ward/late",
		inject: does(harness.Apply("EIp hall-ward/late", "{externalNetworkType: public, ipAddress: "+shopAddress+"}"), reasoned("EIp hall-ward/late", "Accepted", "AddressTaken")),
	},
	{
		what: "the project's quota is used up", types: "explain eip/second -n hall-few", cause: "QuotaExceeded", about: "EIp hall-few/second",
		inject: does(harness.Create("Project hall/few", "{cidrBlock: 10.63.0.0/24, egressNetworkType: cloud, eipQuota: 1}"), harness.Create("EIp hall-few/first", "{}"),
			harness.Apply("EIp hall-few/second", "{}"), reasoned("EIp hall-few/second", "Accepted", "QuotaExceeded")),
	},
	{
		what: "the project's addresses are those of an external network", types: "explain project/overlap -n hall", cause: "PrefixOverlaps", about: "Project hall/overlap",
		inject: does(harness.Apply("Project hall/overlap", "{cidrBlock: 91.224.11.0/25, egressNetworkType: cloud}"),
			reasoned("Project hall/overlap", "Accepted", "PrefixOverlaps")),
	},
	{
		what: "no node may hold the egress address", from: "pod/b3", asks: calls, types: "trace --from pod/b3 -n hall-ward {out}:80",
		cause: "NoMatchingNodeFound", about: "EgressIP mail",
		inject: func(w *faultLab, t *testing.T) {
			w.MakeAssignable(t, "node3", false)
			t.Cleanup(func() {
				w.MakeAssignable(t, "node3", true)
				w.Wait(t, "EgressIP", "", "mail", manifest.True("Programmed"))
			})
		},
	},
	{
		what: "an EgressService has no Service", types: "explain egressservice/nobody -n hall-ward", cause: "ServiceNotFound", about: "EgressService hall-ward/nobody",
		inject: does(harness.Other("{apiVersion: k8s.ovn.org/v1, kind: EgressService, metadata: {name: nobody, namespace: hall-ward}, spec: {sourceIPBy: LoadBalancerIP}}"),
			reasoned("EgressService hall-ward/nobody", "ResolvedRefs", "ServiceNotFound")),
	},
	{
		what: "nobody has the address", types: "trace {out} 91.224.11.99:80", cause: "AddressUnknown", about: "Subnet ext-public",
		inject: does(),
	},
	{
		what: "the Service has no such port", types: "trace {out} {shop}:81", cause: "NoSuchPort", about: "Service hall-ward/shop", inject: does(),
	},
	{
		what: "a backend hangs", types: "trace {out} {shop}:80", from: "internet", asks: pinged, cause: "HealthCheckOffline", about: "Service hall-ward/shop",
		inject: func(w *faultLab, t *testing.T) {
			changed(`{"metadata":{"annotations":{"service.nlb.kube-dc.com/health-check":"interval=1,timeout=1,failures=1,successes=1"}}}`,
				`{"metadata":{"annotations":{"service.nlb.kube-dc.com/health-check":null}}}`)(w, t)
			changed(`{"spec":{"selector":{"app":"deaf"}}}`, `{"spec":{"selector":{"app":"till"}}}`)(w, t)
			w.RunPod(t, harness.Pod{Namespace: w.Ns, Name: "deaf", Node: "node3", Image: "lab/idle"})
			harness.Eventually(t, "health checks have found out", func() bool { return w.RunSbctl(t, "--bare", "find", "service_monitor", "status=offline") != "" })
		},
	},
}
