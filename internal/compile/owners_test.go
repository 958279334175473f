package compile

import (
	"net/netip"
	"slices"
	"strconv"
	"strings"
	"testing"
	"time"

	kubedcv1 "github.com/sallyport/sallyport/api/kubedc/v1"
	"github.com/sallyport/sallyport/internal/engine/kubeovn"
	"github.com/sallyport/sallyport/internal/model/intent"
	"github.com/sallyport/sallyport/internal/model/snapshot"
	"github.com/sallyport/sallyport/internal/model/state"
)

// sharedAddress is the address of EIp gate/front.
var sharedAddress = addr("100.65.0.7")

// managementWorld returns a snapshot of the management VPC with EIp gate/front, which is shared with namespace guest.
func managementWorld(services ...snapshot.Service) *snapshot.VpcInput {
	return &snapshot.VpcInput{
		Shard: kubeovn.ManagementVpc,
		Management: &snapshot.Management{
			Prefixes: []netip.Prefix{netip.MustParsePrefix("10.16.0.0/16")}, Gateways: []netip.Addr{addr("10.16.0.1")},
			GatewayChassis: []string{"a"},
		},
		ExternalSubnets: []snapshot.ExternalSubnet{{
			Subnet: "ext-cloud", Network: "cloud", Type: "cloud", Ready: true, Free: 9,
			Prefix: netip.MustParsePrefix("100.65.0.0/16"), Gateway: addr("100.65.0.1"),
		}},
		EIps: []snapshot.EIp{{
			Meta:       snapshot.Meta{Namespace: "gate", Name: "front"},
			Type:       "cloud",
			SharedWith: []string{"guest"},
		}},
		Engine: snapshot.Engine{
			RouterPorts: map[string]bool{"ovn-cluster-ovn-default": true, "ovn-cluster-ext-cloud": true},
			OvnEips: map[string]snapshot.OvnEip{
				"eip-gate-front": {
					ObjectState: snapshot.ObjectState{Exists: true, Ready: true}, Owned: true, Subnet: "ext-cloud",
					Type: "nat", Address: sharedAddress,
				},
				"ovn-cluster-ext-cloud": {
					ObjectState: snapshot.ObjectState{Exists: true, Ready: true}, Owned: true, Subnet: "ext-cloud",
					Type: "lrp", Address: addr("100.65.0.2"),
				},
			},
			VIPs: map[string]snapshot.VIP{},
		},
		Services: services,
	}
}

// boundService returns a Service of the management VPC that binds to gate/front, created at a given second.
func boundService(namespace, name string, second int64, ports ...int) snapshot.Service {
	s := snapshot.Service{
		Meta: snapshot.Meta{
			Namespace: namespace,
			Name:      name,
			UID:       namespace + name,
			Created:   time.Unix(second, 0),
		},
		IsLoadBalancer: true, Class: kubedcv1.LoadBalancerClass, EIpNamespace: "gate", EIp: "front",
	}
	for _, p := range ports {
		s.Ports = append(s.Ports, snapshot.Port{Protocol: intent.TCP, Number: p})
	}
	return s
}

// balancedPorts returns the ports of the shared address that a Service gets.
func balancedPorts(in *intent.Intent, service string) (out []string) {
	for _, entry := range in.Rows {
		if v, is := entry.Value.(intent.VIP); is && v.Service == service {
			out = append(out, strconv.Itoa(int(v.Address.Port())))
		}
	}
	slices.Sort(out)
	return out
}

func verdictOn(t *testing.T, verdicts []intent.Verdict, kind intent.Kind, namespace, name string) intent.Verdict {
	t.Helper()
	for _, v := range verdicts {
		if v.Object == (intent.ObjectKey{Kind: kind, Namespace: namespace, Name: name}) {
			return v
		}
	}
	t.Fatalf("no verdict on %s %s/%s", kind, namespace, name)
	return intent.Verdict{}
}

// A port stays with the Service that has it, however many ports another Service has, and however old that is.
func TestPortsStayWithTheirHolders(t *testing.T) {
	held := func(owners ...string) map[string]string { // "443 gate/dns"
		out := map[string]string{}
		for _, o := range owners {
			port, service, _ := strings.Cut(o, " ")
			out["tcp "+sharedAddress.String()+":"+port] = service
		}
		return out
	}
	for name, c := range map[string]struct {
		services []snapshot.Service
		balanced map[string]string
		want     map[string]string
	}{
		"one who holds two asks for the third": {
			[]snapshot.Service{boundService("gate", "dns", 9, 443), boundService("guest", "steal", 10, 80, 81, 443)},
			held("443 gate/dns", "80 guest/steal", "81 guest/steal"),
			map[string]string{"gate/dns": "443", "guest/steal": "80 81"},
		},
		"an older one asks for it": {
			[]snapshot.Service{boundService("gate", "dns", 9, 443), boundService("guest", "old", 1, 443, 80)},
			held("443 gate/dns"),
			map[string]string{"gate/dns": "443", "guest/old": "80"},
		},
		"each holds one of two that both ask for": {
			[]snapshot.Service{boundService("gate", "dns", 9, 443, 80), boundService("guest", "old", 1, 443, 80)},
			held("443 gate/dns", "80 guest/old"),
			map[string]string{"gate/dns": "443", "guest/old": "80"},
		},
		"nobody has it: the older": {
			[]snapshot.Service{boundService("gate", "dns", 9, 443), boundService("guest", "old", 1, 443)},
			nil,
			map[string]string{"gate/dns": "", "guest/old": "443"},
		},
		"of the same age: by name": {
			[]snapshot.Service{boundService("guest", "b", 9, 443), boundService("guest", "a", 9, 443)},
			nil,
			map[string]string{"guest/a": "443", "guest/b": ""},
		},
	} {
		w := managementWorld(c.services...)
		for vip, service := range c.balanced {
			w.Engine.VIPs[vip] = snapshot.VIP{Service: service}
		}
		in, _ := Shard(w)
		for service, want := range c.want {
			if got := strings.Join(balancedPorts(in, service), " "); got != want {
				t.Errorf("%s: %s has ports %q, want %q", name, service, got, want)
			}
		}
	}
}

// The holder of a port is named to its own namespace and to that of the EIp, but not to other guests.
func TestPortHoldersAreToldToOwners(t *testing.T) {
	w := managementWorld(boundService("guest", "first", 1, 80), boundService("gate", "late", 2, 80),
		boundService("other", "late", 3, 80))
	w.EIps[0].SharedWith = []string{"guest", "other"}
	_, verdicts := Shard(w)
	for namespace, told := range map[string]bool{"gate": true, "other": false} {
		accepted := verdictOn(t, verdicts, intent.Service, namespace, "late").Accepted
		if accepted.Reason != intent.PortTaken || strings.Contains(accepted.Message, "guest") != told {
			t.Errorf("%s is told %s: %s", namespace, accepted.Reason, accepted.Message)
		}
	}
}

// Without consent a binding is refused with the same message whether the EIp exists or not; withdrawn consent ends it.
func TestSharingNeedsConsent(t *testing.T) {
	refusal := func(w *snapshot.VpcInput) string {
		in, verdicts := Shard(w)
		if ports := balancedPorts(in, "stranger/s"); len(ports) > 0 {
			t.Errorf("ports %v are balanced without consent", ports)
		}
		v := verdictOn(t, verdicts, intent.Service, "stranger", "s")
		if v.Resolved.Reason != intent.RefNotPermitted || v.Facts.(intent.ServiceFacts).Address.IsValid() {
			t.Errorf("%+v", v)
		}
		return v.Resolved.Message
	}
	there, gone := managementWorld(boundService("stranger", "s", 1, 80)),
		managementWorld(boundService("stranger", "s", 1, 80))
	gone.EIps = nil
	if a, b := refusal(there), refusal(gone); a != b {
		t.Errorf("the messages tell whether there is such an EIp: %q and %q", a, b)
	}
	withdrawn := managementWorld(boundService("stranger", "s", 1, 80))
	withdrawn.Engine.VIPs["tcp "+sharedAddress.String()+":80"] = snapshot.VIP{Service: "stranger/s"}
	withdrawn.Services[0].StatusAddresses = []netip.Addr{sharedAddress}
	refusal(withdrawn)
	shared := managementWorld(boundService("stranger", "s", 1, 80)) // counter-check
	shared.EIps[0].SharedWith = []string{"stranger"}
	if in, _ := Shard(shared); len(balancedPorts(in, "stranger/s")) != 1 {
		t.Error("consent has no effect")
	}
}

// Guests do not block the deletion of an owner's EIp, and lose its address with it. The owner's own Services block it.
func TestGuestsDoNotKeepAnEIp(t *testing.T) {
	for namespace, keeps := range map[string]bool{"guest": false, "gate": true} {
		w := managementWorld(boundService(namespace, "s", 1, 80))
		w.EIps[0].Deleting = true
		w.Engine.VIPs["tcp "+sharedAddress.String()+":80"] = snapshot.VIP{Service: namespace + "/s"}
		in, verdicts := Shard(w)
		held := verdictOn(t, verdicts, intent.EIp, "gate", "front").Held.Reason == intent.InUse
		if held != keeps || len(balancedPorts(in, namespace+"/s")) > 0 != keeps {
			t.Errorf("a Service of %s keeps the EIp: %t, ports %v", namespace, held, balancedPorts(in, namespace+"/s"))
		}
		if told := verdictOn(t, verdicts, intent.Service, namespace, "s").Waiting; told.OK() != keeps {
			t.Errorf("the Service of %s is told %+v", namespace, told)
		}
	}
}

// An EIp can refer to an OvnEip of its own namespace only, though the management VPC has those of all namespaces.
func TestChildOfAnotherNamespace(t *testing.T) {
	for namespace, found := range map[string]bool{"guest": false, "gate": true} {
		for _, child := range []string{"eip-gate-front", "ovn-cluster-ext-cloud", "moon"} {
			s := boundService(namespace, "s", 1, 8443)
			s.EIpNamespace, s.EIp = "", "child"
			w := managementWorld(s)
			w.EIps = append(w.EIps, snapshot.EIp{Meta: snapshot.Meta{
				Namespace: namespace,
				Name:      "child",
				Created:   time.Unix(1, 0),
			}, ExistingOvnEip: child})
			in, verdicts := Shard(w)
			want := found && child == "eip-gate-front"
			v := verdictOn(t, verdicts, intent.EIp, namespace, "child")
			if v.Resolved.OK() != want || v.Facts.(intent.EIpFacts).Address.IsValid() != want ||
				len(balancedPorts(in, namespace+"/s")) > 0 != want {
				t.Errorf("childRef %s in %s: %+v", child, namespace, v)
			}
		}
	}
}

// In the management VPC an endpoint is used only if it is a pod of the Service's namespace.
func TestEndpointsOfAnotherNamespace(t *testing.T) {
	for name, c := range map[string]struct {
		pods   map[string][]netip.Addr
		reason string
	}{
		"a pod of its own":  {map[string][]netip.Addr{"gate/p": {addr("10.16.0.2")}}, ""},
		"another's":         {map[string][]netip.Addr{"victim/p": {addr("10.16.0.2")}}, intent.EndpointNotInNamespace},
		"nobody's":          {nil, intent.EndpointNotInNamespace},
		"its other address": {map[string][]netip.Addr{"gate/p": {addr("10.16.0.3")}}, intent.EndpointNotInNamespace},
	} {
		s := boundService("gate", "s", 1, 80)
		s.Endpoints, s.HealthCheck = []snapshot.Endpoint{{
			Address:   addr("10.16.0.2"),
			Number:    8080,
			TargetPod: "p",
			Ready:     true,
		}}, &snapshot.HealthCheck{Interval: 5}
		w := managementWorld(s)
		w.Pods = c.pods
		in, verdicts := Shard(w)
		sent := false
		for _, entry := range in.Rows {
			sent = sent || strings.Contains(entry.Value.String(), "10.16.0.2")
		}
		v := verdictOn(t, verdicts, intent.Service, "gate", "s")
		if sent != (c.reason == "") || c.reason != "" && v.Waiting.Reason != c.reason ||
			v.Facts.(intent.ServiceFacts).Lonely == sent {
			t.Errorf("%s: sent there: %t; %+v", name, sent, v)
		}
	}
}

// Two EIps of the management VPC whose namespace and name give the same text have OvnEips of different names, and each
// keeps its own.
func TestNamesakesHaveOvnEipsOfTheirOwn(t *testing.T) {
	eip := func(namespace, name string, second int64) snapshot.EIp {
		return snapshot.EIp{
			Meta: snapshot.Meta{Namespace: namespace, Name: name, Created: time.Unix(second, 0)},
			Type: "cloud",
		}
	}
	asked := func(namespace, name string) snapshot.OvnEip {
		return snapshot.OvnEip{
			ObjectState: snapshot.ObjectState{Exists: true, Ready: true}, Owned: true, Subnet: "ext-cloud", Type: "nat",
			Address: addr("100.65.0.9"),
			Origin:  state.Ref{Kind: "EIp", Namespace: namespace, Name: name},
		}
	}
	foreign := asked("acme", "web-db")
	foreign.Owned = false
	for what, c := range map[string]struct {
		have        map[string]snapshot.OvnEip
		older, late string
	}{
		"nobody has one": {nil, "eip-acme-web-db", "eip-acme-web.db"},
		"the younger has it": {
			map[string]snapshot.OvnEip{"eip-acme-web-db": asked("acme-web", "db")},
			"eip-acme.web-db", "eip-acme-web-db",
		},
		"it is another shard's": {
			map[string]snapshot.OvnEip{"eip-acme-web-db": foreign},
			"eip-acme.web-db",
			"eip-acme-web.db",
		},
		"it is of one that left": {
			map[string]snapshot.OvnEip{"eip-acme-web-db": asked("gone", "x")},
			"eip-acme.web-db",
			"eip-acme-web.db",
		},
		"the older had to evade": {
			map[string]snapshot.OvnEip{"eip-acme.web-db": asked("acme", "web-db")},
			"eip-acme.web-db", "eip-acme-web-db",
		},
	} {
		w := managementWorld()
		w.EIps = []snapshot.EIp{eip("acme-web", "db", 2), eip("acme", "web-db", 1)}
		for name, have := range c.have {
			w.Engine.OvnEips[name] = have
		}
		in, verdicts := Shard(w)
		for key, want := range map[intent.ObjectKey]string{
			{Kind: intent.EIp, Namespace: "acme", Name: "web-db"}: c.older,
			{Kind: intent.EIp, Namespace: "acme-web", Name: "db"}: c.late,
		} {
			v := verdictOn(t, verdicts, key.Kind, key.Namespace, key.Name)
			entry, wanted := in.Objects[intent.ObjectKey{Kind: intent.OvnEip, Name: want}]
			if v.Facts.(intent.EIpFacts).OvnEip != want || !v.Accepted.OK() || !wanted || entry.Origin != key.Ref() {
				t.Errorf("%s: %s: %+v, want %s", what, key, v, want)
			}
		}
	}
}

// A FIp whose OvnFip would have the name of another project's gets another name, and keeps it.
func TestNamesakesHaveOvnFipsOfTheirOwn(t *testing.T) {
	f := &fip{FIp: snapshot.FIp{Meta: snapshot.Meta{Namespace: "acme-web", Name: "db"}}}
	for what, c := range map[string]struct {
		engine snapshot.Engine
		want   string
	}{
		"nobody has it":     {snapshot.Engine{}, "acme-web-db"},
		"another has it":    {snapshot.Engine{ForeignOvnFips: map[string]bool{"acme-web-db": true}}, "acme-web.db"},
		"it was another's":  {snapshot.Engine{OvnFips: map[string]snapshot.OvnFip{"acme-web.db": {ObjectState: snapshot.ObjectState{Exists: true}}}}, "acme-web.db"},
		"it is its own now": {snapshot.Engine{OvnFips: map[string]snapshot.OvnFip{"acme-web-db": {ObjectState: snapshot.ObjectState{Exists: true}}}}, "acme-web-db"},
	} {
		if got := (&compiler{w: &snapshot.VpcInput{Engine: c.engine}}).ovnFipName(f); got != c.want {
			t.Errorf("%s: %s, want %s", what, got, c.want)
		}
	}
}

// projectWorld returns the snapshot of a Project's shard.
func projectWorld(organization, name string) *snapshot.VpcInput {
	return &snapshot.VpcInput{
		Shard: snapshot.ProjectShard(organization, name),
		Projects: []snapshot.Project{{
			Meta: snapshot.Meta{Namespace: organization, Name: name}, NetworkType: "cloud",
			Prefixes: []netip.Prefix{netip.MustParsePrefix("10.0.0.0/24")},
		}},
		ExternalSubnets: []snapshot.ExternalSubnet{{
			Subnet: "ext-cloud", Network: "cloud", Type: "cloud", Ready: true, Free: 9,
			Prefix: netip.MustParsePrefix("100.65.0.0/16"), Gateway: addr("100.65.0.1"),
		}},
	}
}

// A Project can't have a VPC with a name of Sallyport, of Kube-OVN, or of an external subnet. An existing Project is
// kept when such a subnet is added.
func TestReservedNames(t *testing.T) {
	for name, reserved := range map[string]bool{
		"sallyport/egress": true, "sallyport/nodes": true, "ovn/cluster": true, "ovn/default": true, "ext/cloud": true,
		"sallyport/web": false, "ovn/web": false, "ext/public": false, "acme/join": false,
	} {
		organization, project, _ := strings.Cut(name, "/")
		w := projectWorld(organization, project)
		in, verdicts := Shard(w)
		v := verdictOn(t, verdicts, intent.Project, organization, project)
		if got := v.Accepted.Reason == intent.NameReserved; got != reserved || len(in.Objects) > 0 == reserved {
			t.Errorf("%s: %+v, %d objects", name, v.Accepted, len(in.Objects))
		}
		if strings.Contains("sallyport-egress sallyport-nodes ovn-cluster", w.Shard) {
			t.Errorf("%s is in shard %s, which is not run as a project's", name, w.Shard)
		}
	}
	there := projectWorld("ext", "cloud")
	there.Namespace = snapshot.Namespace{Exists: true, Owned: true}
	if _, verdicts := Shard(there); !verdictOn(t, verdicts, intent.Project, "ext", "cloud").Accepted.OK() {
		t.Error("a subnet that came later takes a project down")
	}
}

// A Project whose deletion is blocked by the content of its namespace reports that, and not an address.
func TestDeletionSaysWhatKeepsTheNamespace(t *testing.T) {
	for remaining, want := range map[string]string{
		"": intent.CleaningUp,
		"Some resources are remaining: configmaps. has 1 resource instances": intent.NamespaceContentRemaining,
	} {
		w := projectWorld("acme", "web")
		w.Projects[0].Deleting = true
		w.Namespace = snapshot.Namespace{Exists: true, Owned: true, Deleting: true, RemainingContent: remaining}
		w.Engine.OwnedObjects = map[intent.ObjectKey]bool{
			{Kind: intent.Namespace, Name: "acme-web"}:    true,
			{Kind: intent.OvnEip, Name: "eip-acme-web-x"}: true,
		}
		_, verdicts := Shard(w)
		held := verdictOn(t, verdicts, intent.Project, "acme", "web").Held
		if held.Reason != want || !strings.Contains(held.Message, remaining) {
			t.Errorf("%q: %+v", remaining, held)
		}
	}
}
