package adoption_test

import (
	"net/netip"
	"slices"
	"strings"
	"testing"

	kubedcv1 "github.com/sallyport/sallyport/api/kubedc/v1"
	"github.com/sallyport/sallyport/internal/engine/kubeovn"
	"github.com/sallyport/sallyport/internal/insight/adoption"
	"github.com/sallyport/sallyport/internal/model/clusterstate"
	"github.com/sallyport/sallyport/internal/model/intent"
	"github.com/sallyport/sallyport/internal/model/snapshot"
	"github.com/sallyport/sallyport/internal/model/state"
)

type (
	vpc       = adoption.Object[kubeovn.VpcSpec, kubeovn.VpcStatus]
	subnet    = adoption.Object[kubeovn.SubnetSpec, kubeovn.SubnetStatus]
	ovnEip    = adoption.Object[kubeovn.OvnEipSpec, kubeovn.OvnEipStatus]
	ovnFip    = adoption.Object[kubeovn.OvnFipSpec, kubeovn.OvnFipStatus]
	snatRule  = adoption.Object[kubeovn.OvnSnatRuleSpec, kubeovn.OvnSnatRuleStatus]
	dnatRule  = adoption.Object[kubeovn.OvnDnatRuleSpec, kubeovn.OvnDnatRuleStatus]
	namespace = adoption.Object[struct{}, struct{}]
)

func address(text string) kubeovn.Addresses { return kubeovn.Addresses{V4Ip: text} }

func newOvnEip(name, on, kind, at string) ovnEip {
	return ovnEip{
		Name: name, Spec: kubeovn.OvnEipSpec{ExternalSubnet: on, Type: kind, Addresses: address(at)},
		Status: kubeovn.OvnEipStatus{Ready: true, Addresses: address(at), Type: kind},
	}
}

func newOvnFip(name, eip, external, target string) ovnFip {
	return ovnFip{
		Name: name, Spec: kubeovn.OvnFipSpec{OvnEip: eip, Vpc: "acme-web", Addresses: address(target)},
		Status: kubeovn.OvnFipStatus{Ready: true, Vpc: "acme-web", V4Eip: external, Addresses: address(target)},
	}
}

// newCluster returns a cluster with a VPC that can be adopted: on two networks, with a floating IP on each.
func newCluster() *adoption.Cluster {
	both := []string{"ext-cloud", "ext-public"}
	external := func(name, kind, prefix, gateway string) snapshot.ExternalSubnet {
		return snapshot.ExternalSubnet{
			Subnet: name, Network: name, Type: kind, Prefix: netip.MustParsePrefix(prefix), Gateway: netip.MustParseAddr(gateway),
		}
	}
	return &adoption.Cluster{
		Vpcs: []vpc{
			{Name: "ovn-cluster"},
			{
				Name: "acme-web", Spec: kubeovn.VpcSpec{
					Namespaces: []string{"acme-web"}, EnableExternal: true, ExtraExternalSubnets: both,
					StaticRoutes: []kubeovn.StaticRoute{{CIDR: "0.0.0.0/0", NextHopIP: "100.65.0.1", Policy: "policyDst"}},
					PolicyRoutes: []kubeovn.PolicyRoute{
						{Priority: 29000, Match: "ip4.dst == 10.9.0.0/24", Action: "drop"},
						{Priority: 30000, Match: "ip4.src == 10.0.0.8", Action: "reroute", NextHopIP: "198.51.100.1"},
					},
				}, Status: kubeovn.VpcStatus{Standby: true, Router: "acme-web", ExtraExternalSubnets: both},
			},
			{Name: "lonely"},
		},
		Subnets: []subnet{{Name: "acme-web-default", Spec: kubeovn.SubnetSpec{
			Vpc: "acme-web", CIDRBlock: "10.0.0.0/24", Gateway: "10.0.0.1", Namespaces: []string{"acme-web"}, Provider: "ovn",
			ExcludeIps: []string{"10.0.0.1"},
		}}},
		OvnEips: []ovnEip{
			newOvnEip("acme-web-ext-cloud", "ext-cloud", "lrp", "100.65.0.11"),
			newOvnEip("acme-web-ext-public", "ext-public", "lrp", "198.51.100.11"),
			newOvnEip("eip-acme-web-desk", "ext-cloud", "nat", "100.65.0.20"),
			newOvnEip("shop-public", "ext-public", "nat", "198.51.100.20"),
			newOvnEip("ssh", "ext-cloud", "nat", "100.65.0.30"),
		},
		OvnFips: []ovnFip{
			newOvnFip("acme-web-desk", "eip-acme-web-desk", "100.65.0.20", "10.0.0.7"),
			newOvnFip("shop", "shop-public", "198.51.100.20", "10.0.0.8"),
		},
		SnatRules: []snatRule{{
			Name: "nat-of-web", Spec: kubeovn.OvnSnatRuleSpec{OvnEip: "acme-web-ext-cloud", VpcSubnet: "acme-web-default"},
			Status: kubeovn.OvnSnatRuleStatus{Ready: true, Vpc: "acme-web", V4Eip: "100.65.0.11", V4IpCidr: "10.0.0.0/24"},
		}},
		DnatRules: []dnatRule{{
			Name: "ssh", Spec: kubeovn.OvnDnatRuleSpec{OvnEip: "ssh", Vpc: "acme-web"}, Status: kubeovn.OvnDnatRuleStatus{Vpc: "acme-web"},
		}},
		Namespaces:  []namespace{{Name: "acme"}, {Name: "acme-web"}},
		Attachments: map[string]bool{},
		Externals: []snapshot.ExternalSubnet{
			external("ext-cloud", "cloud", "100.65.0.0/16", "100.65.0.1"),
			external("ext-public", "public", "198.51.100.0/24", "198.51.100.1"),
		},
	}
}

func TestPlanTakesOverEverythingAsItIs(t *testing.T) {
	c := newCluster()
	p := c.MakePlan("acme", "web")
	if len(p.Problems) > 0 {
		t.Fatal(p.Problems)
	}
	want := []string{
		"Vpc acme-web", "Subnet acme-web-default", "OvnEip acme-web-ext-cloud", "OvnEip acme-web-ext-public", "OvnSnatRule nat-of-web",
		"OvnEip eip-acme-web-desk", "OvnFip acme-web-desk", "OvnEip shop-public", "OvnFip shop", "Namespace acme-web",
	}
	var got []string
	for _, o := range p.Offers {
		got = append(got, string(o.Kind)+" "+o.Name)
	}
	if !slices.Equal(got, want) {
		t.Errorf("offers\n%s\nwant\n%s", strings.Join(got, "\n"), strings.Join(want, "\n"))
	}
	if p.NewProject == nil || p.NewProject.Spec != (kubedcv1.ProjectSpec{
		CIDRBlock: "10.0.0.0/24", GwLanIP: "10.0.0.1", EgressNetworkType: "cloud",
	}) {
		t.Errorf("the Project is %+v", p.NewProject)
	}
	if p.Count != 9+len(p.NewEIps)+len(p.NewFIps) || len(p.NewEIps) != 2 || len(p.NewFIps) != 2 {
		t.Errorf("%d objects have to be seen, %d EIps and %d FIps are created", p.Count, len(p.NewEIps), len(p.NewFIps))
	}
	if f := p.NewFIps[1]; f.Name != "shop" || !f.Spec.Outbound || f.Spec.EIp != "shop-public" || p.NewFIps[0].Spec.Outbound {
		t.Errorf("the FIp on the network of the source policy is %+v", f.Spec)
	}
	if e := p.NewEIps[1].Spec; e.IPAddress != "198.51.100.20" || e.ExternalNetwork != "ext-public" {
		t.Errorf("its EIp is %+v", e)
	}
	if o := p.Offers[7].Origin; o != (state.Ref{Kind: "EIp", Namespace: "acme-web", Name: "shop-public"}) {
		t.Errorf("OvnEip shop-public is asked for by %s", o)
	}
	if i := slices.IndexFunc(p.Items, func(i adoption.Item) bool { return i.Kind == "OvnDnatRule" }); i < 0 || p.Items[i].Action != adoption.Leave {
		t.Errorf("the OvnDnatRule is not left: %+v", p.Items)
	}
}

// What kube-dc wrote is used, whatever its names.
func TestPlanUsesObjectsOfKubeDC(t *testing.T) {
	c := newCluster()
	project := kubedcv1.Project{Spec: kubedcv1.ProjectSpec{CIDRBlock: "10.0.0.0/24", EgressNetworkType: "cloud"}}
	project.Namespace, project.Name, project.Finalizers = "acme", "web", []string{"kube-dc.com/sallyport", "project.kube-dc.com/x", "foregroundDeletion"}
	eip := kubedcv1.EIp{Status: kubedcv1.EIpStatus{IPAddress: "198.51.100.20", OvnEIpRef: "x"}}
	eip.Namespace, eip.Name = "acme-web", "fip-shop-mmpqr"
	fip := kubedcv1.FIp{Spec: kubedcv1.FIpSpec{IPAddress: "10.0.0.8", ExternalNetworkType: "public"}}
	fip.Namespace, fip.Name = "acme-web", "front"
	c.Projects, c.EIps, c.FIps = []kubedcv1.Project{project}, []kubedcv1.EIp{eip}, []kubedcv1.FIp{fip}
	p := c.MakePlan("acme", "web")
	if len(p.Problems) > 0 || p.NewProject != nil || len(p.NewEIps) != 1 || len(p.NewFIps) != 1 {
		t.Fatalf("%+v", p)
	}
	if len(p.ChangedFIps) != 1 || p.ChangedFIps[0].Spec.EIp != "fip-shop-mmpqr" || p.ChangedFIps[0].Spec.ExternalNetworkType != "" ||
		!p.ChangedFIps[0].Spec.Outbound {
		t.Errorf("the FIp becomes %+v", p.ChangedFIps)
	}
	if len(p.Finalizers) != 1 || !slices.Equal(p.Finalizers[0].Remove, []string{"project.kube-dc.com/x"}) {
		t.Errorf("finalizers %+v are removed", p.Finalizers)
	}
}

// refusals are changes of the cluster after which the VPC, or a floating IP, can't be adopted.
var refusals = []struct {
	name, want string
	change     func(*adoption.Cluster)
}{
	{"no Vpc", "there is no Vpc", func(c *adoption.Cluster) { c.Vpcs = nil }},
	{"another owner", "belongs to another Project", func(c *adoption.Cluster) { c.Vpcs[1].Owner = "b" }},
	{"deleted", "being deleted", func(c *adoption.Cluster) { c.Vpcs[1].Deleting = true }},
	{"Kube-OVN's record", "record of a router", func(c *adoption.Cluster) { c.Vpcs[1].ByKubeOVN = true }},
	{"no namespace", "there is no namespace acme-web", func(c *adoption.Cluster) { c.Namespaces = c.Namespaces[:1] }},
	{"no organization", "there is no namespace acme:", func(c *adoption.Cluster) { c.Namespaces = c.Namespaces[1:] }},
	{"second namespace", "a Project has one namespace", func(c *adoption.Cluster) { c.Vpcs[1].Spec.Namespaces = []string{"b"} }},
	{"second Subnet", "a Project has one Subnet", func(c *adoption.Cluster) {
		c.Subnets = append(c.Subnets, subnet{Name: "b", Spec: kubeovn.SubnetSpec{Vpc: "acme-web"}})
	}},
	{"name of the Subnet", "has no Subnet acme-web-default", func(c *adoption.Cluster) { c.Subnets[0].Name = "net" }},
	{"addresses kept free", "10.0.0.50..10.0.0.60 in excludeIps", func(c *adoption.Cluster) {
		c.Subnets[0].Spec.ExcludeIps = []string{"10.0.0.1", "10.0.0.50..10.0.0.60"}
	}},
	{"SNAT by another address", "adopting would change theirs", func(c *adoption.Cluster) {
		c.SnatRules = append(c.SnatRules[:0:0], c.SnatRules...)
		c.SnatRules[0].Spec.OvnEip = "ssh"
	}},
	{"another default route", "would be replaced", func(c *adoption.Cluster) {
		c.Vpcs[1].Spec.StaticRoutes[0].NextHopIP = "100.65.0.99"
	}},
	{"policy of others in our priorities", "that priority is Sallyport's", func(c *adoption.Cluster) {
		c.Vpcs[1].Spec.PolicyRoutes[0].Priority = 30010
	}},
	{"source policy without a floating IP", "10.0.0.9", func(c *adoption.Cluster) {
		c.Vpcs[1].Spec.PolicyRoutes[1].Match = "ip4.src == 10.0.0.9"
	}},
	{"distributed floating IP with a source policy", "10.0.0.8", func(c *adoption.Cluster) { c.OvnFips[1].Spec.Type = "distributed" }},
	{"unknown network", "no external network of Sallyport", func(c *adoption.Cluster) { c.Externals = c.Externals[:1] }},
	{"Project with other addresses", "the Project has cidrBlock", func(c *adoption.Cluster) {
		p := kubedcv1.Project{Spec: kubedcv1.ProjectSpec{CIDRBlock: "10.1.0.0/24", EgressNetworkType: "cloud"}}
		p.Namespace, p.Name = "acme", "web"
		c.Projects = []kubedcv1.Project{p}
	}},
}

func TestPlanRefuses(t *testing.T) {
	for _, r := range refusals {
		t.Run(r.name, func(t *testing.T) {
			c := newCluster()
			r.change(c)
			p := c.MakePlan("acme", "web")
			if !strings.Contains(strings.Join(p.Problems, "\n"), r.want) {
				t.Errorf("problems are %q, wanted %q", p.Problems, r.want)
			}
			if !p.IsEmpty() {
				t.Errorf("it has a plan: %+v", p)
			}
		})
	}
}

// acme/web-db and acme-web/db have the same Vpc. The command adopts for the named one only if it is the only one.
func TestPlanRefusesASecondProject(t *testing.T) {
	c := newCluster()
	c.Vpcs[1].Name = "acme-web-db"
	other := kubedcv1.Project{}
	other.Namespace, other.Name = "acme-web", "db"
	c.Projects = []kubedcv1.Project{other}
	if p := c.MakePlan("acme", "web-db"); !strings.Contains(strings.Join(p.Problems, "\n"), "acme-web/db asks for the same Vpc") {
		t.Errorf("problems are %q", p.Problems)
	}
}

// A floating IP that can't be adopted is left, if the VPC does not depend on it.
func TestPlanLeavesFloatingIPs(t *testing.T) {
	for want, change := range map[string]func(*adoption.Cluster){
		"distributed":                 func(c *adoption.Cluster) { c.OvnFips[0].Spec.Type = "distributed" },
		"has not written":             func(c *adoption.Cluster) { c.OvnFips[0].Status.Ready = false },
		"not in the Subnet":           func(c *adoption.Cluster) { c.OvnFips[0].Status.V4Ip, c.OvnFips[0].Spec.V4Ip = "10.7.0.1", "10.7.0.1" },
		"OvnDnatRule ssh uses":        func(c *adoption.Cluster) { c.DnatRules[0].Spec.OvnEip = "eip-acme-web-desk" },
		"has the address 100.65.0.21": func(c *adoption.Cluster) { c.OvnEips[2].Status.V4Ip = "100.65.0.21" },
		"OvnEip does not exist":       func(c *adoption.Cluster) { c.OvnFips[0].Spec.OvnEip = "gone" },
		"is in excludeIps of Subnet":  func(c *adoption.Cluster) { c.Externals[0].ReservedRanges = reserve("100.65.0.20") },
		"its spec does not name its":  func(c *adoption.Cluster) { c.OvnEips[2].Spec.V4Ip = "" },
		"addresses of EIps have type": func(c *adoption.Cluster) { c.OvnEips[2].Spec.Type = "lsp" },
		"differs from what Kube-OVN":  func(c *adoption.Cluster) { c.OvnFips[0].Spec.V4Ip = "10.0.0.9" },
		"OvnSnatRule other uses its": func(c *adoption.Cluster) {
			c.SnatRules = append(c.SnatRules, snatRule{Name: "other", Spec: kubeovn.OvnSnatRuleSpec{OvnEip: "eip-acme-web-desk"}})
		},
	} {
		c := newCluster()
		change(c)
		p := c.MakePlan("acme", "web")
		i := slices.IndexFunc(p.Items, func(i adoption.Item) bool { return i.Name == "acme-web-desk" && strings.Contains(i.Note, want) })
		if i < 0 || p.Items[i].Action != adoption.Leave || len(p.Problems) > 0 || p.IsEmpty() {
			t.Errorf("%s: %+v, problems %q", want, p.Items, p.Problems)
		}
	}
}

func reserve(a string) []snapshot.AddressRange {
	return []snapshot.AddressRange{{First: netip.MustParseAddr(a), Last: netip.MustParseAddr(a)}}
}

func TestCandidatesAreNamedByOrganization(t *testing.T) {
	c := newCluster()
	if got := c.Candidates(); len(got) != 1 || got[0] != [2]string{"acme", "web"} {
		t.Errorf("%v", got)
	}
	if left := c.Unnamed(); len(left) != 1 || left[0].Name != "lonely" {
		t.Errorf("%v", left)
	}
}

// A translation that the controller would change, or an object that would not work, ends the adoption.
func TestPreviewEndsTheAdoption(t *testing.T) {
	rows, objects := "rows of the OVN northbound database", "objects with the labels a and b"
	line := func(scope, key, text string) clusterstate.Difference {
		return clusterstate.Difference{Scope: scope, Line: state.Line{Key: key, Text: text}}
	}
	refused := intent.Verdict{
		Object:   intent.ObjectKey{Kind: intent.EIp, Namespace: "acme-web", Name: "desk"},
		Accepted: intent.Finding{Reason: intent.AddressTaken, Message: "m"},
	}
	for name, s := range map[string]clusterstate.Shard{
		"NAT removed":    {Differs: []clusterstate.Difference{line(rows, "n", "- NAT acme-web [dnat] 10.0.0.7")}},
		"object removed": {Differs: []clusterstate.Difference{line(objects, "OvnEip x", "- OvnEip x")}},
		"EIp refused":    {Verdicts: []intent.Verdict{refused}},
		"not known":      {Problem: "no connection"},
	} {
		p := newCluster().MakePlan("acme", "web")
		if p.CheckPreview(s); len(p.Problems) != 1 {
			t.Errorf("%s: problems %q", name, p.Problems)
		}
	}
	p := newCluster().MakePlan("acme", "web") // control
	changes := p.CheckPreview(clusterstate.Shard{Differs: []clusterstate.Difference{
		line(objects, "Vpc acme-web", "+ Vpc acme-web"), line(rows, "r", "+ QoS acme-web"), line(rows, "p", "- Logical_Router_Policy acme-web"),
	}})
	if len(p.Problems) > 0 || len(changes) != 2 {
		t.Errorf("problems %q, changes %q", p.Problems, changes)
	}
}

// An address that no floating IP uses is adopted by the name of its OvnEip, or by the operator's word. A tenant may have
// written the status of an EIp.
func TestPlanDoesNotTrustTheStatusOfAnEIp(t *testing.T) {
	eip := kubedcv1.EIp{Status: kubedcv1.EIpStatus{IPAddress: "100.65.0.40"}}
	eip.Namespace, eip.Name = "acme-web", "mail"
	for name, want := range map[string]string{
		"eip-globex-shop-mail": "does not say that it is its",
		"eip-acme-web-mail":    "", // control
	} {
		c := newCluster()
		c.EIps, c.OvnEips = []kubedcv1.EIp{eip}, append(c.OvnEips, newOvnEip(name, "ext-cloud", "nat", "100.65.0.40"))
		p := c.MakePlan("acme", "web")
		if got := strings.Join(p.Problems, "\n"); (want == "") != (got == "") || !strings.Contains(got, want) {
			t.Errorf("%s: problems %q", name, p.Problems)
		}
	}
	c := newCluster()
	of := newOvnEip("mail", "ext-cloud", "nat", "100.65.0.40")
	of.Origin = state.Ref{Kind: "EIp", Namespace: "acme-web", Name: "mail"}
	c.EIps, c.OvnEips = []kubedcv1.EIp{eip}, append(c.OvnEips, of)
	if p := c.MakePlan("acme", "web"); len(p.Problems) > 0 {
		t.Errorf("with the annotation: problems %q", p.Problems)
	}
}

// A run that was interrupted before the namespace was offered leaves offers, EIps and FIps. The next run takes over the
// same objects and creates none.
func TestPlanContinues(t *testing.T) {
	c := newCluster()
	eip := kubedcv1.EIp{Status: kubedcv1.EIpStatus{IPAddress: "198.51.100.20"}}
	eip.Namespace, eip.Name = "acme-web", "fip-shop-mmpqr"
	fip := kubedcv1.FIp{Spec: kubedcv1.FIpSpec{IPAddress: "10.0.0.8", ExternalNetworkType: "public"}}
	fip.Namespace, fip.Name = "acme-web", "front"
	c.EIps, c.FIps = []kubedcv1.EIp{eip}, []kubedcv1.FIp{fip}
	first := c.MakePlan("acme", "web")
	for _, o := range first.Offers {
		for i := range c.OvnEips {
			if o.Kind == intent.OvnEip && c.OvnEips[i].Name == o.Name {
				c.OvnEips[i].Origin = o.Origin
			}
		}
	}
	c.Projects, c.EIps = []kubedcv1.Project{*first.NewProject}, append(c.EIps, first.NewEIps...)
	c.FIps = append(first.NewFIps, first.ChangedFIps...)
	for i := range c.EIps { // the controller may have written that they have no address
		c.EIps[i].Status.IPAddress = ""
	}
	second := c.MakePlan("acme", "web")
	if len(second.Problems) > 0 || len(second.Offers) != len(first.Offers) || second.Count != first.Count ||
		second.NewProject != nil || len(second.NewEIps)+len(second.NewFIps)+len(second.ChangedFIps) != 0 {
		t.Errorf("the second plan is %+v\nwith the problems %q\nthe first was %+v", second.Items, second.Problems, first.Items)
	}
}
