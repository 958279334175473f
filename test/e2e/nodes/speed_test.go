package nodes

import (
	"context"
	"errors"
	"fmt"
	"net/netip"
	"os"
	"os/exec"
	"strings"
	"testing"
	"time"

	kubedcv1alpha1 "github.com/sallyport/sallyport/api/kubedc/v1alpha1"
	"github.com/sallyport/sallyport/internal/agent"
	"github.com/sallyport/sallyport/internal/engine/kernel"
	"github.com/sallyport/sallyport/internal/lab/netns"
	"github.com/sallyport/sallyport/internal/model/nodepath"
	"github.com/sallyport/sallyport/test/e2e/harness"
	"github.com/sallyport/sallyport/test/show"
)

// forwardingNode is a node between a client and a server, in namespaces without a link to the machine's network.
// Clients connect through eth1 to addresses that are each translated to a cluster address; the server behind br0 has
// all cluster addresses. The default route of the node is through eth0, where there is no host. On a plain node it is
// through eth1, so that no method is needed.
type forwardingNode struct {
	method               kubedcv1alpha1.NodeMethod // empty: a plain node
	services             int
	client, node, server netns.NS
	applier              *agent.Applier
}

// nodeMethods are the methods that this machine's kernel supports: it has no VRF.
var nodeMethods = []kubedcv1alpha1.NodeMethod{
	kubedcv1alpha1.NodeConnection, kubedcv1alpha1.NodeStatic,
	kubedcv1alpha1.NodeSourceRule, kubedcv1alpha1.NodeMark,
}

// clusterAddress and externalAddress return the addresses of Service i.
func clusterAddress(i int) string { return fmt.Sprintf("10.96.%d.%d", i/250, 1+i%250) }

func externalAddress(i int) string { return fmt.Sprintf("100.64.%d.%d", i/250, 1+i%250) }

// TestAgent3Speed measures how much each method writes and how long that takes, for few and many Services, and how it
// affects the forwarding rate of the node.
func TestAgent3Speed(t *testing.T) {
	harness.RunQuietly(t)
	item := agentItems.Item(t, 3)
	for _, method := range nodeMethods {
		t.Run("writing "+string(method), func(t *testing.T) {
			var lines []string
			entries := map[int]string{}
			for _, size := range show.ChooseSize([]int{10, 1000, 10000}, []int{10, 1000}) {
				p := newForwardingNode(t, method, size)
				toll := p.measureProgramming(t)
				entries[size] = toll.entries
				lines = append(lines, fmt.Sprintf(
					"%d Services: %s, from nothing %.0f ms, nothing new %.0f ms, one more %.0f ms",
					size, toll.entries, harness.Milliseconds(toll.first), harness.Milliseconds(toll.same),
					harness.Milliseconds(toll.more)))
			}
			item.AddFigure("%s: %s", method, strings.Join(lines, "; "))
			constant := method == kubedcv1alpha1.NodeConnection || method == kubedcv1alpha1.NodeStatic
			if constant && entries[10] != entries[1000] {
				t.Errorf("10 Services take %s, and 1000 take %s", entries[10], entries[1000])
			}
		})
	}
	t.Run("among many interfaces", func(t *testing.T) {
		p := newForwardingNode(t, kubedcv1alpha1.NodeConnection, 10)
		for i := range 200 { // as on a node with 200 pods
			if err := netns.Veth(netns.End{NS: p.node, Name: fmt.Sprintf("pod%d", i)},
				netns.End{NS: p.server, Name: fmt.Sprintf("pod%d", i)}, 1500); err != nil {
				t.Fatal(err)
			}
		}
		toll := p.measureProgramming(t)
		item.AddFigure("Connection beside 200 interfaces of pods: from nothing %.0f ms, nothing new %.0f ms",
			harness.Milliseconds(toll.first), harness.Milliseconds(toll.same))
	})
	t.Run("packets", func(t *testing.T) { compareThroughput(t, item) })
}

// TestAgent1SourcesChecked shows that every method works with every rp_filter setting of the node.
func TestAgent1SourcesChecked(t *testing.T) {
	item := agentItems.Item(t, 1)
	settings := []string{"0", "1", "2"}
	for _, method := range nodeMethods {
		for _, all := range settings {
			for _, own := range settings {
				p := newForwardingNode(t, method, 10)
				if err := p.node.Sysctl(map[string]string{
					"ipv4/conf/all/rp_filter":  all,
					"ipv4/conf/eth1/rp_filter": own,
				}); err != nil {
					t.Fatal(err)
				}
				p.startServers(t)
				p.applyMethod(t, p.services)
				if !p.answersWithin(t, harness.Patience) {
					t.Errorf("%s: no answer with rp_filter %s for all interfaces and %s on eth1", method, all, own)
				}
			}
		}
	}
	if !t.Failed() {
		item.AddFigure("with rp_filter 0, 1 and 2, for all interfaces and on the interface: %d methods answer",
			len(nodeMethods))
	}
}

// programmingCost is the cost of applying a method.
type programmingCost struct {
	entries           string
	first, same, more time.Duration
}

// measureProgramming applies the method from an empty state, again without a change, and with one more Service, several
// times.
func (p *forwardingNode) measureProgramming(t *testing.T) programmingCost {
	t.Helper()
	var out programmingCost
	var first, same, more []time.Duration
	timed := func(services int) (*agent.Report, time.Duration) {
		begun := time.Now()
		return p.applyMethod(t, services), time.Since(begun)
	}
	for range 3 {
		report, took := timed(p.services)
		first = append(first, took)
		w := report.Want
		out.entries = fmt.Sprintf("%d rules, %d routes, %d nft", len(w.Rules), len(w.Routes), len(w.Nft))
		for range 3 {
			again, took := timed(p.services)
			if same = append(same, took); len(again.Changes) > 0 {
				t.Fatalf("a second time, there is something to do: %s", again.Changes[0])
			}
		}
		_, took = timed(p.services + 1)
		more = append(more, took)
		p.applyMethod(t, -1)
	}
	out.first, out.same, out.more = harness.MedianDuration(first), harness.MedianDuration(same),
		harness.MedianDuration(more)
	return out
}

// applyMethod applies the method for a number of Services; -1 means no network at all.
func (p *forwardingNode) applyMethod(t *testing.T, services int) (report *agent.Report) {
	t.Helper()
	spec := nodepath.NetworkSpec{
		Name: "outer", Number: 1, Interface: "eth1", Gateways: []string{"192.0.2.1"}, Method: p.method,
		Clients: []string{"198.51.100.0/24"},
	}
	for i := range services {
		spec.Services = append(spec.Services, clusterAddress(i))
	}
	path := nodepath.Spec{Networks: []nodepath.NetworkSpec{spec}}
	if services < 0 {
		path.Networks = nil
	}
	err := p.node.Do(func() (err error) {
		report, err = p.applier.Apply(t.Context(), path)
		return err
	})
	if err != nil {
		t.Fatal(err)
	}
	for _, f := range report.Failures {
		t.Fatal(f)
	}
	for _, n := range report.Networks {
		if n.Problem != "" {
			t.Fatal(n.Problem)
		}
	}
	return report
}

// newForwardingNode creates the node without applying the method.
func newForwardingNode(t *testing.T, method kubedcv1alpha1.NodeMethod, services int) *forwardingNode {
	t.Helper()
	p := &forwardingNode{method: method, services: services}
	for _, ns := range []*netns.NS{&p.client, &p.node, &p.server} {
		made, err := netns.Create(fmt.Sprintf("speed-%d-%d", os.Getpid(), namespaceCount))
		if err != nil {
			t.Fatal(err)
		}
		namespaceCount++
		t.Cleanup(func() { _ = made.Delete() })
		*ns = made
	}
	dir := t.TempDir()
	if err := errors.Join(p.createLinks(), p.addRoutes(), p.node.Do(func() (err error) {
		p.applier, err = agent.NewApplier(dir, kernel.SysctlRoot, "")
		return errors.Join(err, addServiceDNAT(t.Context()))
	})); err != nil {
		t.Fatal(err)
	}
	t.Cleanup(p.applier.Close)
	return p
}

// namespaceCount makes the names of the namespaces unique.
var namespaceCount int

func (p *forwardingNode) createLinks() error {
	on := func(ns netns.NS, name string, addresses ...string) netns.End {
		end := netns.End{NS: ns, Name: name}
		for _, a := range addresses {
			end.Addresses = append(end.Addresses, netip.MustParsePrefix(a))
		}
		return end
	}
	return errors.Join(
		netns.Veth(on(p.client, "eth0", "192.0.2.1/24"), on(p.node, "eth1", "192.0.2.2/24"), 1500),
		netns.Veth(on(p.node, "eth0", "203.0.113.2/24"), on(p.node, "far0"), 1500),
		netns.Veth(on(p.node, "br0", "10.1.0.1/24"), on(p.server, "eth0", "10.1.0.2/24"), 1500),
		p.client.AddAddresses("lo", netip.MustParsePrefix("198.51.100.7/32")),
		p.server.AddAddresses("lo", netip.MustParsePrefix("10.96.0.1/16")), // on lo, the whole prefix is local
	)
}

func (p *forwardingNode) addRoutes() error {
	outside := netns.Route{Via: netip.MustParseAddr("203.0.113.1")}
	if p.method == "" {
		outside.Via = netip.MustParseAddr("192.0.2.1")
	}
	return errors.Join(
		p.client.AddRoutes(netns.Route{
			Dst: netip.MustParsePrefix("100.64.0.0/16"), Via: netip.MustParseAddr("192.0.2.2"),
			Src: netip.MustParseAddr("198.51.100.7"),
		}),
		p.node.AddRoutes(outside, netns.Route{
			Dst: netip.MustParsePrefix("10.96.0.0/16"),
			Via: netip.MustParseAddr("10.1.0.2"),
		}),
		p.server.AddRoutes(netns.Route{Via: netip.MustParseAddr("10.1.0.1")}),
		p.node.Sysctl(map[string]string{"ipv4/ip_forward": "1"}),
		// use the address of the wire in ARP: the client also acts as a router
		p.client.Sysctl(map[string]string{"ipv4/conf/all/arp_announce": "2"}),
	)
}

// addServiceDNAT translates external addresses to cluster addresses in the current namespace, as kube-proxy would.
func addServiceDNAT(ctx context.Context) error {
	out, err := exec.CommandContext(ctx, "nft", `add table ip balancer
		add chain ip balancer outer { type nat hook prerouting priority -100; }
		add rule ip balancer outer dnat ip prefix to ip daddr map { 100.64.0.0/16 : 10.96.0.0/16 }`).CombinedOutput()
	if err != nil {
		return fmt.Errorf("nft: %w: %s", err, out)
	}
	return nil
}
