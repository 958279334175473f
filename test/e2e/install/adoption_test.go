package install

import (
	"context"
	"fmt"
	"slices"
	"strings"
	"testing"
	"time"

	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"

	"github.com/sallyport/sallyport/internal/lab/manifest"
	"github.com/sallyport/sallyport/test/e2e/harness"
	"github.com/sallyport/sallyport/test/show"
)

// oldVPC is a VPC as kube-dc or an operator wrote it for Kube-OVN, with floating IPs on two networks. Nothing of it belongs
// to a Project.
type oldVPC struct {
	*harness.Cluster
	org, name string // of the Project that it is to become
	prefix    string // the first three numbers of its addresses
	floating  int
}

func (v *oldVPC) vpc() string         { return v.org + "-" + v.name }
func (v *oldVPC) pod(i int) string    { return fmt.Sprintf("p%d", i) }
func (v *oldVPC) target(i int) string { return fmt.Sprintf("%s.%d", v.prefix, 10+i) }
func (v *oldVPC) isPublic(i int) bool { return i%2 == 1 }
func (v *oldVPC) network(i int) string {
	return map[bool]string{true: "ext-public", false: "ext-cloud"}[v.isPublic(i)]
}
func (v *oldVPC) ovnEip(i int) string { return fmt.Sprintf("eip-%s-a%d", v.vpc(), i) }
func (v *oldVPC) address(t *testing.T, i int) string {
	return v.ReadField(t, "OvnEip", "", v.ovnEip(i), "status", "v4Ip")
}

// create writes the objects, and waits until Kube-OVN has.
func (v *oldVPC) create(t *testing.T) {
	t.Helper()
	vpc := v.vpc()
	policies := fmt.Sprintf(`{priority: 500, match: "ip4.src == %s.0/24", action: reroute, nextHopIP: 100.65.0.1}`, v.prefix)
	for i := range v.floating {
		if v.isPublic(i) { // as kube-dc routes replies
			policies += fmt.Sprintf(`, {priority: 30000, match: "ip4.src == %s", action: reroute, nextHopIP: 91.224.11.1}`, v.target(i))
		}
	}
	v.ApplyWithoutCleanup(t, fmt.Sprintf(`
{apiVersion: v1, kind: Namespace, metadata: {name: %[1]s}}
---
{apiVersion: kubeovn.io/v1, kind: Vpc, metadata: {name: %[1]s}, spec: {namespaces: [%[1]s]}}
---
{apiVersion: kubeovn.io/v1, kind: Subnet, metadata: {name: %[1]s-default}, spec: {vpc: %[1]s, protocol: IPv4, cidrBlock: %[2]s.0/24, gateway: %[2]s.1, namespaces: [%[1]s]}}
---
{apiVersion: kubeovn.io/v1, kind: OvnEip, metadata: {name: %[1]s-ext-cloud}, spec: {externalSubnet: ext-cloud, type: lrp}}
---
{apiVersion: kubeovn.io/v1, kind: OvnEip, metadata: {name: %[1]s-ext-public}, spec: {externalSubnet: ext-public, type: lrp}}`, vpc, v.prefix))
	v.WaitForObject(t, "Subnet", "", vpc+"-default", manifest.True("Ready"))
	v.WaitForObject(t, "OvnEip", "", vpc+"-ext-public", isWrittenByKubeOVN)
	v.WaitForObject(t, "OvnEip", "", vpc+"-ext-cloud", isWrittenByKubeOVN)
	v.WaitForObject(t, "ServiceAccount", vpc, "default", manifest.Exists)
	v.ApplyWithoutCleanup(t, fmt.Sprintf(`
apiVersion: kubeovn.io/v1
kind: Vpc
metadata: {name: %[1]s}
spec:
  namespaces: [%[1]s]
  enableExternal: true
  extraExternalSubnets: [ext-cloud, ext-public]
  staticRoutes: [{cidr: 0.0.0.0/0, nextHopIP: 100.65.0.1, policy: policyDst}]
  policyRoutes: [%[2]s]
---
{apiVersion: kubeovn.io/v1, kind: OvnSnatRule, metadata: {name: %[1]s}, spec: {ovnEip: %[1]s-ext-cloud, vpcSubnet: %[1]s-default}}`,
		vpc, policies))
	v.WaitForObject(t, "OvnSnatRule", "", vpc, isWrittenByKubeOVN)
	for i := range v.floating {
		v.createFloatingIP(t, i)
	}
}

// createFloatingIP writes an OvnFip to a pod, with the names of kube-dc or with others.
func (v *oldVPC) createFloatingIP(t *testing.T, i int) {
	t.Helper()
	v.RunPod(t, harness.Pod{Namespace: v.vpc(), Name: v.pod(i), Node: fmt.Sprintf("node%d", 1+i%3), Address: v.target(i)})
	v.ApplyWithoutCleanup(t, fmt.Sprintf(`
{apiVersion: kubeovn.io/v1, kind: OvnEip, metadata: {name: %[1]s}, spec: {externalSubnet: %[2]s, type: nat}}`, v.ovnEip(i), v.network(i)))
	v.WaitForObject(t, "OvnEip", "", v.ovnEip(i), isWrittenByKubeOVN)
	target := fmt.Sprintf("vpc: %s, v4Ip: %s", v.vpc(), v.target(i))
	if i%3 == 2 {
		target = fmt.Sprintf("ipType: ip, ipName: %s.%s", v.pod(i), v.vpc())
	}
	v.ApplyWithoutCleanup(t, fmt.Sprintf(`
{apiVersion: kubeovn.io/v1, kind: OvnFip, metadata: {name: %[1]s}, spec: {ovnEip: %[2]s, %[3]s}}`, v.ovnFip(i), v.ovnEip(i), target))
	v.WaitForObject(t, "OvnFip", "", v.ovnFip(i), isWrittenByKubeOVN)
}

func (v *oldVPC) ovnFip(i int) string {
	if i%2 == 0 {
		return fmt.Sprintf("%s-a%d", v.vpc(), i)
	}
	return fmt.Sprintf("%s.floating%d", v.name, i)
}

// adopt runs the command and returns its output.
func (v *oldVPC) adopt(t *testing.T, args string) string {
	t.Helper()
	return harness.RunBash(t, t.TempDir(), v.ShellEnv(t), "eval \"$(sallyport lab env)\"\nsallyport adopt "+args+" || echo exit code $?")
}

// identities returns what must not change: UIDs of Kube-OVN's objects, UUIDs of NAT rows, MAC addresses of router ports.
func (v *oldVPC) identities(t *testing.T) string {
	t.Helper()
	var out []string
	add := func(kind, name string) {
		out = append(out, kind+" "+name+" "+v.ReadField(t, kind, "", name, "metadata", "uid"))
	}
	for _, kind := range []string{"Vpc", "Namespace", "OvnSnatRule"} {
		add(kind, v.vpc())
	}
	add("Subnet", v.vpc()+"-default")
	for i := range v.floating {
		add("OvnEip", v.ovnEip(i))
		add("OvnFip", v.ovnFip(i))
		out = append(out, v.address(t, i)+" "+v.RunNbctl(t, "--columns=_uuid,external_ip,logical_ip,type", "find", "NAT", "external_ip="+v.address(t, i)))
	}
	for _, network := range []string{"ext-cloud", "ext-public"} {
		out = append(out, v.RunNbctl(t, "--columns=_uuid,mac,networks", "find", "Logical_Router_Port", "name="+v.vpc()+"-"+network))
	}
	return strings.Join(out, "\n")
}

// createKubeDCObjects writes the Project, and the EIp and FIp of a floating IP, as kube-dc leaves them when it is stopped.
func (v *oldVPC) createKubeDCObjects(t *testing.T, i int) {
	t.Helper()
	v.ApplyWithoutCleanup(t, fmt.Sprintf(`
{apiVersion: kube-dc.com/v1, kind: Project, metadata: {name: %[2]s, namespace: %[1]s, finalizers: [project.kube-dc.com/finalizer]}, spec: {cidrBlock: %[3]s.0/24, egressNetworkType: cloud}}
---
{apiVersion: kube-dc.com/v1, kind: EIp, metadata: {name: default-gw, namespace: %[1]s-%[2]s, finalizers: [eip.kube-dc.com/finalizer]}, spec: {childRef: %[1]s-%[2]s-ext-cloud}}
---
{apiVersion: kube-dc.com/v1, kind: EIp, metadata: {name: fip-desk-mmpqr, namespace: %[1]s-%[2]s, finalizers: [eip.kube-dc.com/finalizer]}, spec: {externalNetworkType: public}}
---
{apiVersion: kube-dc.com/v1, kind: FIp, metadata: {name: desk, namespace: %[1]s-%[2]s}, spec: {ipAddress: %[4]s, externalNetworkType: public}}`,
		v.org, v.name, v.prefix, v.target(i)))
	// kube-dc's status
	harness.RunBash(t, t.TempDir(), v.ShellEnv(t), fmt.Sprintf(`eval "$(sallyport lab env)"
kubectl -n %[1]s patch eips.kube-dc.com fip-desk-mmpqr --subresource=status --type=merge -p '{"status":{"ipAddress":"%[2]s","ovnEIpRef":"%[3]s"}}'
kubectl -n %[1]s patch fips.kube-dc.com desk --subresource=status --type=merge -p '{"status":{"externalIP":"%[2]s","ovnFip":"%[4]s"}}'`,
		v.vpc(), v.address(t, i), v.ovnEip(i), v.ovnFip(i)))
	// without the command, Sallyport refuses what is not its own
	v.WaitForObject(t, "Project", v.org, v.name, func(o *unstructured.Unstructured) bool {
		return harness.FalseReason(o, "Accepted") == "NamespaceTaken"
	})
}

// requester opens new connections, one after the other.
type requester struct {
	stop context.CancelFunc
	done chan struct{}

	answers int
	failed  []string
}

func (v *oldVPC) startRequests(addresses []string) *requester {
	ctx, cancel := context.WithCancel(context.Background())
	r := &requester{stop: cancel, done: make(chan struct{})}
	go func() {
		defer close(r.done)
		for i := 0; ctx.Err() == nil; i++ {
			if _, err := v.SendRequest("internet", "http://"+addresses[i%len(addresses)]); err != nil {
				r.failed = append(r.failed, err.Error())
			} else {
				r.answers++
			}
		}
	}()
	return r
}

func (r *requester) end() (answers int, failed []string) {
	r.stop()
	<-r.done
	return r.answers, r.failed
}

// TestDay7Adopted adopts a VPC of kube-dc, under open connections through each of its addresses.
func TestDay7Adopted(t *testing.T) {
	item := dayItems.Item(t, 7)
	c := harness.SharedSallyport(t)
	c.CreateOrganization(t, "old")
	v := &oldVPC{Cluster: c, org: "old", name: "web", prefix: "10.61.0", floating: show.ChooseSize(7, 3)}
	v.create(t)
	v.createKubeDCObjects(t, 1)
	port := v.createPortTranslation(t)
	c.SyncFlows(t)
	var addresses []string
	var streams []*harness.Stream
	for i := range v.floating {
		addresses = append(addresses, v.address(t, i))
		c.ExpectAnswer(t, "internet", "http://"+v.address(t, i), v.pod(i), harness.InternetAddress)
		streams = append(streams, c.StartStream(t, "internet", v.address(t, i)))
		// connections of the pods themselves, by the default network or by that of their floating IP
		streams = append(streams, c.StartStream(t, v.pod(i)+"."+v.vpc(), harness.InternetAddress))
	}
	streams = append(streams, c.StartStream(t, "internet", port))
	harness.ExpectStreamsContinue(t, "before", streams...)
	before := v.identities(t)
	plan := v.adopt(t, "old/web")
	harness.ExpectContains(t, plan, "take over  Subnet old-web-default", "outbound", "eip: fip-desk-mmpqr",
		"Project old/web", "leave      OvnDnatRule old-web-port")
	if now := v.identities(t); now != before || strings.Contains(c.ReadField(t, "Vpc", "", v.vpc(), "metadata"), "adopt") {
		t.Errorf("the dry run changed something:\n%s\nbefore:\n%s", now, before)
	}
	v.offerSome(t)
	untouched := c.ReadField(t, "OvnDnatRule", "", "old-web-port", "metadata", "resourceVersion")
	harness.ResetGaps(streams...)
	c.ResetDrops(t)

	requests := v.startRequests(addresses)
	begun := time.Now()
	out := v.adopt(t, "old/web --apply")
	took := time.Since(begun)
	c.SyncFlows(t)
	silence := harness.ExpectStreamsContinue(t, "while everything was adopted", streams...)
	answers, failed := requests.end()
	c.ExpectNoDrops(t)
	harness.ExpectContains(t, out, "adopted: Project old/web owns these objects")
	if len(failed) > 0 || answers == 0 {
		t.Errorf("%d new connections failed, %d did not: %v", len(failed), answers, failed)
	}
	v.checkAdopted(t, before)
	if now := c.ReadField(t, "OvnDnatRule", "", "old-web-port", "metadata", "resourceVersion"); now != untouched {
		t.Error("the OvnDnatRule, which can't be adopted, was written to")
	}
	item.AddFigure("%d objects of Kube-OVN, one floating IP with objects of kube-dc, adopted under %d streams (in and out, two networks) and "+
		"%d new connections in %.1f s: 0 connections lost, 0 packets dropped by routers outside, longest silence %.2f s; "+
		"UIDs, UUIDs of NAT rows, addresses and MAC addresses unchanged; 1 OvnDnatRule left, which answers as before",
		strings.Count(out, "take over  "), len(streams), answers, took.Seconds(), silence.Seconds())
	c.DeleteAndWait(t, "OvnDnatRule", "", "old-web-port")
	c.DeleteAndWait(t, "OvnEip", "", "old-web-port")
	c.DeleteAndWait(t, "Project", "old", "web")
	v.checkDeleted(t)
}

// offerSome leaves what a run that was interrupted leaves.
func (v *oldVPC) offerSome(t *testing.T) {
	t.Helper()
	harness.RunBash(t, t.TempDir(), v.ShellEnv(t), fmt.Sprintf(`eval "$(sallyport lab env)"
kubectl label ovn-eip/%[1]s ovn-fip/%[2]s vpc/%[3]s subnet/%[3]s-default network.kube-dc.com/adopt=%[3]s
kubectl annotate ovn-eip/%[1]s kube-dc.com/asked-by=EIp/%[3]s/fip-desk-mmpqr
kubectl annotate ovn-fip/%[2]s kube-dc.com/asked-by=FIp/%[3]s/desk`, v.ovnEip(1), v.ovnFip(1), v.vpc()))
}

// createPortTranslation writes an OvnDnatRule, which Sallyport has no object for, and returns its address and port.
func (v *oldVPC) createPortTranslation(t *testing.T) string {
	t.Helper()
	name := v.vpc() + "-port"
	v.ApplyWithoutCleanup(t, fmt.Sprintf(`
{apiVersion: kubeovn.io/v1, kind: OvnEip, metadata: {name: %[1]s}, spec: {externalSubnet: ext-cloud, type: nat}}`, name))
	v.WaitForObject(t, "OvnEip", "", name, isWrittenByKubeOVN)
	v.ApplyWithoutCleanup(t, fmt.Sprintf(`
{apiVersion: kubeovn.io/v1, kind: OvnDnatRule, metadata: {name: %[1]s}, spec: {ovnEip: %[1]s, vpc: %[2]s, v4Ip: %[3]s, internalPort: "80", externalPort: "2280", protocol: tcp}}`,
		name, v.vpc(), v.target(0)))
	v.WaitForObject(t, "OvnDnatRule", "", name, isWrittenByKubeOVN)
	return v.ReadField(t, "OvnEip", "", name, "status", "v4Ip") + ":2280"
}

// checkAdopted checks that every address answers, that nothing was written anew, and that nothing is left to do.
func (v *oldVPC) checkAdopted(t *testing.T, before string) {
	t.Helper()
	for i := range v.floating {
		v.ExpectAnswers(t, "internet", v.address(t, i), v.pod(i), harness.InternetAddress)
	}
	if now := v.identities(t); now != before {
		t.Errorf("something was written anew:\n%s\nbefore:\n%s", now, before)
	}
	if again := v.adopt(t, "old/web"); !strings.Contains(again, "nothing is left to take over") {
		t.Errorf("a second run finds\n%s", again)
	}
}

// checkDeleted checks that nothing is left of the VPC.
func (v *oldVPC) checkDeleted(t *testing.T) {
	t.Helper()
	left := []string{"Vpc " + v.vpc(), "Namespace " + v.vpc(), "OvnSnatRule " + v.vpc(), "Subnet " + v.vpc() + "-default"}
	for i := range v.floating {
		left = append(left, "OvnEip "+v.ovnEip(i), "OvnFip "+v.ovnFip(i))
	}
	for _, object := range left {
		if kind, _, name := harness.ParseObjectName(object); v.ReadField(t, kind, "", name, "metadata", "uid") != "" {
			t.Errorf("%s is left after the deletion of its Project", object)
		}
	}
	if slices.Contains(strings.Fields(v.RunNbctl(t, "--bare", "--columns=name", "list", "Logical_Router")), v.vpc()) {
		t.Error("the router is left after the deletion of its Project")
	}
}

// TestAdoptRefuses tries to adopt a Vpc that no Project can have as it is. It stays untouched. In the control, one thing
// is changed.
func TestAdoptRefuses(t *testing.T) {
	c := harness.SharedSallyport(t)
	c.CreateOrganization(t, "odd")
	v := &oldVPC{Cluster: c, org: "odd", name: "net", prefix: "10.62.0"}
	v.create(t)
	version := func() string { // without status, which Kube-OVN writes
		out := ""
		for _, object := range []string{"Vpc odd-net", "Subnet odd-net-default", "OvnEip odd-net-ext-cloud", "OvnSnatRule odd-net"} {
			kind, _, name := harness.ParseObjectName(object)
			for _, field := range []string{"uid", "generation", "labels", "annotations"} {
				out += c.ReadField(t, kind, "", name, "metadata", field) + " "
			}
		}
		return out
	}
	c.WaitForObject(t, "Namespace", "", "odd-net", manifest.Exists)
	before := version()
	out := v.adopt(t, "odd/net --apply") // connected to a network without an address to adopt
	harness.ExpectContains(t, out, "would be disconnected from ext-public", "nothing of it is changed", "exit code 1")
	if now := version(); now != before || c.ReadField(t, "Project", "odd", "net", "metadata", "uid") != "" {
		t.Errorf("the Vpc and its Subnet have versions %s, before %s; or a Project exists", now, before)
	}
	harness.ExpectContains(t, v.adopt(t, "odd/other --apply"), "there is no Vpc odd-other", "exit code 1")
	harness.ExpectContains(t, v.adopt(t, "--apply"), "needs the Projects", "exit code 1")

	harness.RunBash(t, t.TempDir(), v.ShellEnv(t), `eval "$(sallyport lab env)"
kubectl patch vpc odd-net --type=merge -p '{"spec":{"extraExternalSubnets":["ext-cloud"]}}'
kubectl delete --ignore-not-found ovn-eip odd-net-ext-public`)
	c.WaitForObject(t, "Vpc", "", "odd-net", func(o *unstructured.Unstructured) bool {
		attached, _, _ := unstructured.NestedStringSlice(o.Object, "status", "extraExternalSubnets")
		return slices.Equal(attached, []string{"ext-cloud"})
	})
	harness.ExpectContains(t, v.adopt(t, "odd/net --apply"), "adopted: Project odd/net owns these objects")
	c.DeleteAndWait(t, "Project", "odd", "net")
	v.checkDeleted(t)
}

// isWrittenByKubeOVN holds if Kube-OVN has finished an OvnEip, OvnFip, OvnSnatRule or OvnDnatRule.
func isWrittenByKubeOVN(o *unstructured.Unstructured) bool {
	ready, _, _ := unstructured.NestedBool(o.Object, "status", "ready")
	return ready
}
