package compile

import (
	"fmt"
	"math/rand/v2"
	"net/netip"
	"slices"
	"strings"
	"testing"

	"github.com/sallyport/sallyport/internal/engine/kubeovn"
	"github.com/sallyport/sallyport/internal/model/intent"
	"github.com/sallyport/sallyport/internal/model/ownership"
	"github.com/sallyport/sallyport/internal/model/snapshot"
	"github.com/sallyport/sallyport/internal/model/state"
)

// managementFIPFixture returns the management VPC with namespaces mail (pods 10.16.0.2 and .3) and plain (.4), and an EIp
// of each on two networks.
func managementFIPFixture(fips ...snapshot.FIp) *snapshot.VpcInput {
	w := managementEgressFixture(nil)
	w.Selections = nil
	w.Management.GatewayChassis = []string{"chassis-a"}
	w.Management.PortAddresses = map[string]map[netip.Addr]bool{
		"mail":  {addr("10.16.0.2"): true, addr("10.16.0.3"): true, addr("10.50.0.2"): true},
		"plain": {addr("10.16.0.4"): true, addr("10.50.0.3"): true},
	}
	w.Management.Subnets = []snapshot.PodSubnet{{
		Name: "gates", Prefixes: []netip.Prefix{netip.MustParsePrefix("10.50.0.0/24")},
	}}
	w.Engine.RouterPorts[kubeovn.RouterPort(w.Shard, "gates")] = true
	w.Engine.Vpc.Ready, w.Engine.Subnet.Ready = true, true
	w.Engine.OvnEips = map[string]snapshot.OvnEip{}
	for i, name := range []string{"public", "cloud"} {
		subnet, port := "ext-"+name, kubeovn.RouterPort(w.Shard, "ext-"+name)
		prefix := netip.MustParsePrefix(fmt.Sprintf("198.51.%d.0/24", 100+i))
		w.ExternalSubnets = append(w.ExternalSubnets, snapshot.ExternalSubnet{
			Subnet: subnet, Network: name, Type: name, Prefix: prefix, Gateway: prefix.Addr().Next(), Free: 9,
		})
		ready := snapshot.ObjectState{Exists: true, Ready: true}
		w.Engine.RouterPorts[port] = true
		w.Engine.OvnEips[port] = snapshot.OvnEip{
			ObjectState: ready, Owned: true, Subnet: subnet, Type: "lrp", Address: prefix.Addr().Next().Next(),
		}
		for j, namespace := range []string{"mail", "plain"} {
			w.EIps = append(w.EIps, snapshot.EIp{Meta: snapshot.Meta{Namespace: namespace, Name: name}, Type: name})
			w.Engine.OvnEips["eip-"+namespace+"-"+name] = snapshot.OvnEip{
				ObjectState: ready, Owned: true, Subnet: subnet, Type: "nat",
				Origin: state.Ref{Kind: string(intent.EIp), Namespace: namespace, Name: name}, Address: addr(fmt.Sprintf("198.51.%d.%d", 100+i, 10+j)),
			}
		}
	}
	w.FIps = fips
	return w
}

// newFIP returns a FIp of namespace mail with target 10.16.0.2.
func newFIP(name, eip string, outbound bool) snapshot.FIp {
	return snapshot.FIp{
		Meta: snapshot.Meta{Namespace: "mail", Name: name}, EIp: eip, Address: addr("10.16.0.2"), Outbound: outbound,
	}
}

// fipRows returns the NAT rows and router policies of an intent that FIps asked for, as text.
func fipRows(in *intent.Intent) (out []string) {
	for key, row := range in.Rows {
		if row.Origin.Kind == string(intent.FIp) {
			out = append(out, row.Origin.Name+": "+key.ID+" → "+row.Value.String())
		}
	}
	slices.Sort(out)
	return out
}

// fipFindings returns the direction and the finding of each FIp, by name.
func fipFindings(verdicts []intent.Verdict) map[string]string {
	out := map[string]string{}
	for _, v := range verdicts {
		if f, is := v.Facts.(intent.FIpFacts); is {
			out[v.Object.Name] = strings.TrimSpace(fmt.Sprintf("%t %t %s", f.Translated, f.Outbound,
				firstProblem(v.Accepted, v.Resolved, v.Waiting, v.Partly).Reason))
		}
	}
	return out
}

// An EgressIP and an older FIp have precedence over the outbound traffic of a FIp. The FIp says so, and connections to
// its address are translated all the same.
func TestOutboundPrecedence(t *testing.T) {
	selects := func(pods ...string) func(*snapshot.VpcInput) {
		return func(w *snapshot.VpcInput) {
			s := snapshot.Selection{EgressIP: "mail"}
			for _, p := range pods {
				s.Pods = append(s.Pods, addr(p))
			}
			w.Selections = []snapshot.Selection{s}
		}
	}
	for name, c := range map[string]struct {
		change func(*snapshot.VpcInput)
		want   string // of FIp a
		rows   int
	}{
		"nothing else":                    {func(*snapshot.VpcInput) {}, "true true", 4},
		"an EgressIP":                     {selects("10.16.0.2"), "true false " + intent.OutboundOverridden, 1},
		"an EgressIP that selects others": {selects("10.16.0.3"), "true true", 4},
		"an EgressIP that fails closed, before the pod is classified": {func(w *snapshot.VpcInput) {
			selects("10.16.0.3")(w)
			w.PodAddresses = []netip.Addr{addr("10.16.0.3")}
		}, "true false " + intent.OutboundOverridden, 1},
		"an EgressIP that fails open without address": {func(w *snapshot.VpcInput) {
			selects("10.16.0.2")(w)
			w.Selections[0].FailOpen = true
		}, "true true", 4},
		"returnPath Source": {func(w *snapshot.VpcInput) {
			w.Config.DefaultReturnPath = snapshot.ReturnBySource
		}, "false false " + intent.NeedsConnectionReturnPath, 0},
	} {
		w := managementFIPFixture(newFIP("a", "public", true), newFIP("b", "cloud", true))
		c.change(w)
		in, verdicts := Shard(w)
		if err := in.Err(); err != nil {
			t.Errorf("%s: %v", name, err)
		}
		got := fipFindings(verdicts)
		rows := slices.DeleteFunc(fipRows(in), func(row string) bool { return !strings.HasPrefix(row, "a: ") })
		if got["a"] != c.want || len(rows) != c.rows {
			t.Errorf("%s: a is %q with rows\n%s", name, got["a"], strings.Join(rows, "\n"))
		}
		if c.rows > 0 && got["b"] != "true false "+intent.OutboundOverridden {
			t.Errorf("%s: the younger FIp is %q", name, got["b"])
		}
	}
}

// Replies to connections through nodes return to them also for the targets of FIps with outbound, and only for these.
func TestOutboundTargetsAnswerThroughNodes(t *testing.T) {
	for _, outbound := range []bool{true, false} {
		in, _ := Shard(managementFIPFixture(newFIP("a", "public", outbound)))
		set := intent.AddressSet{Name: ownership.RedirectedPodSet(kubeovn.ManagementVpc)}.Key(kubeovn.ManagementVpc)
		row, there := in.Rows[set]
		if there != outbound || there && row.Value.(intent.AddressSet).Addresses != "10.16.0.2" {
			t.Errorf("outbound %t: %v", outbound, row.Value)
		}
	}
}

// No FIp of the management VPC affects an address that is not a pod's of its own namespace, whatever its fields say and
// its virtual machine reports.
func TestManagementFIPsAffectTheirNamespaceOnly(t *testing.T) {
	random := rand.New(rand.NewPCG(1, 2))
	targets := []string{
		"10.16.0.1", "10.16.0.2", "10.16.0.3", "10.16.0.4", "10.16.0.9", "10.50.0.2",
		"10.50.0.3", "10.50.0.9", "172.22.1.1", "198.51.100.11",
	}
	translated := 0
	for range 500 {
		w := managementFIPFixture()
		for i := range 6 {
			f := newFIP(fmt.Sprint("f", i), []string{"public", "cloud"}[random.IntN(2)], random.IntN(2) == 0)
			f.Namespace = []string{"mail", "plain"}[random.IntN(2)]
			target := addr(targets[random.IntN(len(targets))])
			switch random.IntN(3) {
			case 0:
				f.Address = target
			case 1:
				f.Address, f.Pod = netip.Addr{}, "p"
				w.Pods = map[string][]netip.Addr{snapshot.PodKey(f.Namespace, "p"): {target}}
			case 2:
				f.Address, f.VM = netip.Addr{}, "v"
				w.VMs = map[string][]intent.VMInterface{snapshot.PodKey(f.Namespace, "v"): {{VM: "v", Address: target}}}
			}
			w.FIps = append(w.FIps, f)
		}
		in, _ := Shard(w)
		if err := in.Err(); err != nil {
			t.Fatal(err)
		}
		for key, row := range in.Rows {
			if row.Origin.Kind != string(intent.FIp) {
				continue
			}
			translated++
			of, text := row.Origin.Namespace, key.ID+" "+row.Value.String()
			own := slices.ContainsFunc(targets, func(a string) bool {
				return w.Management.PortAddresses[of][addr(a)] && strings.Contains(text, a)
			})
			if !own {
				t.Errorf("%s has %s", row.Origin, text)
			}
		}
	}
	if translated < 500 {
		t.Errorf("only %d rows were checked", translated)
	}
}

// Targets of FIps reach the other Subnets and the nodes' Subnet through the on-link loopback port, where the source route
// of Kube-OVN does not apply.
func TestFIPTargetsReachOtherSubnets(t *testing.T) {
	const toGates = `reroute 169.254.90.2 10.16.0.2 → 10.50.0.0/24 100.64.0.0/16`
	for name, c := range map[string]struct {
		change func(*snapshot.VpcInput)
		want   string
	}{
		"other Subnets": {func(*snapshot.VpcInput) {}, toGates},
		"no other Subnet": {func(w *snapshot.VpcInput) {
			w.Management.Subnets, w.Management.JoinPrefixes = nil, nil
		}, ""},
		"no FIp": {func(w *snapshot.VpcInput) { w.FIps = nil }, ""},
	} {
		w := managementFIPFixture(newFIP("a", "public", false), newFIP("b", "cloud", false))
		w.Management.JoinPrefixes = []netip.Prefix{netip.MustParsePrefix("100.64.0.0/16")}
		c.change(w)
		in, _ := Shard(w)
		if err := in.Err(); err != nil {
			t.Errorf("%s: %v", name, err)
		}
		got, sets := "", map[string]string{}
		for _, row := range in.Rows {
			switch r := row.Value.(type) {
			case intent.AddressSet:
				sets[r.Name] = r.Addresses
			case intent.LogicalRouterPolicy:
				if r.Priority == ownership.FIPSubnets {
					got = r.Action + " " + r.NextHops
				}
			}
		}
		if got != "" {
			got += " " + sets[ownership.FIPTargetSet("ovn-default")] + " → " + sets[ownership.OtherSubnetSet("ovn-default")]
		}
		if got != c.want {
			t.Errorf("%s: %q, want %q", name, got, c.want)
		}
	}
}
