package compile

import (
	"fmt"
	"math/rand/v2"
	"net/netip"
	"reflect"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/sallyport/sallyport/internal/engine/kubeovn"
	"github.com/sallyport/sallyport/internal/model/intent"
	"github.com/sallyport/sallyport/internal/model/ipfamily"
	"github.com/sallyport/sallyport/internal/model/ownership"
	"github.com/sallyport/sallyport/internal/model/snapshot"
)

// Hairpin ports of two subnets never have the same network, whatever the names of the subnets are, and each has room for
// the next hops of all return ports.
func TestHairpinNetworks(t *testing.T) {
	for _, f := range []ipfamily.Family{ipfamily.V4, ipfamily.V6} {
		taken, seen := map[netip.Addr]bool{}, map[netip.Prefix]bool{}
		for i := range 2048 {
			network := chooseHairpinNetwork(f, "subnet-"+string(rune('a'+i%26))+string(rune('a'+i/26%26))+string(rune('a'+i/676)), taken)
			if seen[network.Masked()] || !internalByFamily[f].otherNextHops.Contains(network.Addr()) ||
				network.Addr() != network.Masked().Addr().Next() {
				t.Fatalf("subnet %d has %s", i, network)
			}
			seen[network.Masked()] = true
			if last := addressAt(network, 2+maxReturnPorts-1); !network.Contains(last) {
				t.Fatalf("%s is not in %s", last, network)
			}
		}
		chooseHairpinNetwork(f, "one-more", taken) // ends
	}
}

// managementSubnetsFixture returns the management VPC with the Subnets gates and builds, and an EgressIP that selects
// 10.16.0.2 and the namespace of gates. Its only pod there is 10.50.0.2.
func managementSubnetsFixture(change func(*snapshot.VpcInput, *snapshot.Selection)) *snapshot.VpcInput {
	return managementEgressFixture(func(w *snapshot.VpcInput, s *snapshot.Selection) {
		for name, prefix := range map[string]string{"gates": "10.50.0.0/24", "builds": "10.60.0.0/24"} {
			w.Management.Subnets = append(w.Management.Subnets, snapshot.PodSubnet{
				Name: name, Prefixes: []netip.Prefix{netip.MustParsePrefix(prefix)},
			})
			w.Management.InsidePrefixes = append(w.Management.InsidePrefixes, netip.MustParsePrefix(prefix))
			w.Engine.RouterPorts[kubeovn.RouterPort(w.Shard, name)] = true
		}
		s.Subnets, s.Pods = []string{"gates"}, append(s.Pods, addr("10.50.0.2"))
		w.PodAddresses = append(w.PodAddresses, addr("10.50.0.2"))
		if change != nil {
			change(w, s)
		}
	})
}

// listPolicyPorts returns the input ports of the router policies with a priority.
func listPolicyPorts(in *intent.Intent, priority int) (out []string) {
	for _, row := range in.Rows {
		if p, is := row.Value.(intent.LogicalRouterPolicy); is && p.Priority == priority {
			_, from, _ := strings.Cut(p.Match, `inport == "ovn-cluster-`)
			name, _, _ := strings.Cut(from, `"`)
			out = append(out, name)
		}
	}
	slices.Sort(out)
	return out
}

// An EgressIP has a policy for each Subnet of the namespaces and pods that it selects. If it fails closed, pods that are
// not classified are dropped on every Subnet: nobody knows where the next selected pod will be.
func TestEgressOnOtherSubnets(t *testing.T) {
	all := []string{"builds", "gates", "ovn-default"}
	for name, c := range map[string]struct {
		change             func(*snapshot.VpcInput, *snapshot.Selection)
		redirected, closed []string
	}{
		"a namespace of gates": {nil, []string{"gates", "ovn-default"}, all},
		"its last pod has ended": {func(_ *snapshot.VpcInput, s *snapshot.Selection) {
			s.Pods = nil
		}, []string{"gates", "ovn-default"}, all},
		"a pod chose builds": {func(_ *snapshot.VpcInput, s *snapshot.Selection) {
			s.Pods = append(s.Pods, addr("10.60.0.9"))
		}, all, all},
		"fails open": {func(_ *snapshot.VpcInput, s *snapshot.Selection) {
			s.FailOpen = true
		}, []string{"gates", "ovn-default"}, nil},
		"gates is not connected": {func(w *snapshot.VpcInput, _ *snapshot.Selection) {
			delete(w.Engine.RouterPorts, "ovn-cluster-gates")
		}, []string{"ovn-default"}, []string{"builds", "ovn-default"}},
		"gates has IPv6 only": {func(w *snapshot.VpcInput, s *snapshot.Selection) {
			for i := range w.Management.Subnets {
				if w.Management.Subnets[i].Name == "gates" {
					w.Management.Subnets[i].Prefixes = []netip.Prefix{netip.MustParsePrefix("fd00:50::/64")}
				}
			}
			s.Pods = nil
		}, []string{"ovn-default"}, []string{"builds", "ovn-default"}},
	} {
		in, _ := Shard(managementSubnetsFixture(c.change))
		if err := in.Err(); err != nil {
			t.Errorf("%s: %v", name, err)
		}
		redirected := listPolicyPorts(in, ownership.ManagementEgressIP)
		closed := listPolicyPorts(in, ownership.ManagementFailClosed)
		if !slices.Equal(redirected, c.redirected) || !slices.Equal(closed, c.closed) {
			t.Errorf("%s: redirected on %v, want %v; closed on %v, want %v", name, redirected, c.redirected, closed, c.closed)
		}
		var dropped []string
		for _, row := range in.Rows {
			if a, is := row.Value.(intent.ACL); is && a.Action == "drop" {
				_, from, _ := strings.Cut(a.Match, `outport == "`)
				port, _, _ := strings.Cut(from, "-ovn-cluster")
				dropped = append(dropped, port)
			}
		}
		slices.Sort(dropped)
		if !slices.Equal(dropped, c.closed) {
			t.Errorf("%s: unclassified pods are dropped on %v, want %v", name, dropped, c.closed)
		}
	}
}

// Each Subnet with redirected pods has ports for replies through nodes, in networks that no other port of the router has.
func TestNodeReturnOnOtherSubnets(t *testing.T) {
	in, _ := Shard(managementSubnetsFixture(nil))
	checkDistinctNetworks(t, in)
	networks, ports := map[netip.Prefix]string{}, map[string]bool{}
	for _, row := range in.Rows {
		if p, is := row.Value.(intent.LogicalRouterPort); is {
			networks[p.Network.Masked()], ports[p.Name] = p.Name, true
		}
	}
	for subnet, want := range map[string]bool{"ovn-default": true, "gates": true, "builds": false} {
		for _, port := range []string{
			ownership.HairpinRouterPort(kubeovn.ManagementVpc, subnet), ownership.NodeReturnRouterPort(kubeovn.ManagementVpc, subnet),
		} {
			if ports[port] != want {
				t.Errorf("%s exists: %t, want %t", port, ports[port], want)
			}
		}
	}
	for _, row := range in.Rows {
		policy, is := row.Value.(intent.LogicalRouterPolicy)
		if !is || policy.Priority != ownership.ReturnReply {
			continue
		}
		on := findNetwork(networks, addr(policy.NextHops))
		if !strings.HasSuffix(on, "-return") || !strings.Contains(policy.Match, strings.TrimSuffix(on, "-return")+`"`) {
			t.Errorf("%s leads to %s", policy.Match, on)
		}
	}
}

// findNetwork returns the name of the network that contains an address.
func findNetwork(networks map[netip.Prefix]string, a netip.Addr) string {
	for network, name := range networks {
		if network.Contains(a) {
			return name
		}
	}
	return ""
}

// Whatever Subnets, EgressIPs and FIps there are: the rows do not depend on the order of lists, no two ports of the router
// share a network, and each pod that is redirected has a policy on its own Subnet.
func TestRandomManagementSubnets(t *testing.T) {
	random := rand.New(rand.NewPCG(3, 4))
	redirected := 0
	for range 300 {
		w := randomSubnets(random)
		in, _ := Shard(w)
		if err := in.Err(); err != nil {
			t.Fatal(err)
		}
		checkDistinctNetworks(t, in)
		for _, s := range w.Selections {
			on := listPolicyPorts(in, ownership.ManagementEgressIP)
			for _, a := range s.Pods {
				redirected++
				if subnet := fmt.Sprintf("s%d", a.As4()[1]-50); !slices.Contains(on, subnet) {
					t.Errorf("%s is selected, and there are policies for %v", a, on)
				}
			}
		}
		swap := func(n int, swap func(i, j int)) { random.Shuffle(n, swap) }
		swap(len(w.Management.Subnets), reflect.Swapper(w.Management.Subnets))
		swap(len(w.Selections), reflect.Swapper(w.Selections))
		swap(len(w.FIps), reflect.Swapper(w.FIps))
		if again, _ := Shard(w); !reflect.DeepEqual(in.Rows, again.Rows) {
			t.Fatal("the rows depend on the order of lists")
		}
	}
	if redirected < 300 {
		t.Errorf("only %d pods were redirected", redirected)
	}
}

// randomSubnets returns a management VPC with up to six other Subnets s0 to s5, some of whose pods EgressIPs select and
// FIps have as targets.
func randomSubnets(random *rand.Rand) *snapshot.VpcInput {
	w := managementFIPFixture()
	w.Management.Subnets = nil
	created := time.Unix(0, 0)
	for i := range random.IntN(7) {
		name, pod := fmt.Sprintf("s%d", i), addr(fmt.Sprintf("10.%d.0.2", 50+i))
		w.Management.Subnets = append(w.Management.Subnets, snapshot.PodSubnet{
			Name: name, Prefixes: []netip.Prefix{netip.PrefixFrom(pod, 24).Masked()},
		})
		w.Engine.RouterPorts[kubeovn.RouterPort(w.Shard, name)] = true
		w.PodAddresses = append(w.PodAddresses, pod)
		w.Management.PortAddresses["mail"][pod] = true
		switch created = created.Add(time.Second); random.IntN(3) {
		case 0:
			w.Selections = append(w.Selections, snapshot.Selection{
				EgressIP: name, Created: created, Pods: []netip.Addr{pod}, FailOpen: random.IntN(2) == 0,
				Links: []snapshot.EgressLink{{
					Address:     addr(fmt.Sprintf("198.51.100.%d", 200+i)),
					PeerNetwork: netip.PrefixFrom(addr(fmt.Sprintf("240.0.%d.1", i)), 30),
				}},
			})
		case 1:
			f := newFIP(name, []string{"public", "cloud"}[i%2], random.IntN(2) == 0)
			f.Address, f.Created = pod, created
			w.FIps = append(w.FIps, f)
		}
	}
	return w
}

// checkDistinctNetworks checks that no two router ports have the same network.
func checkDistinctNetworks(t *testing.T, in *intent.Intent) {
	t.Helper()
	networks := map[netip.Prefix]string{}
	for _, row := range in.Rows {
		p, is := row.Value.(intent.LogicalRouterPort)
		if !is || strings.Contains(p.Name, "-return-") { // return ports of a Subnet share its network
			continue
		}
		if other := networks[p.Network.Masked()]; other != "" {
			t.Errorf("%s and %s have network %s", p.Name, other, p.Network)
		}
		networks[p.Network.Masked()] = p.Name
	}
}
