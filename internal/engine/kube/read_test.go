package kube

import (
	"net/netip"
	"reflect"
	"strings"
	"testing"
	"time"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"sigs.k8s.io/controller-runtime/pkg/client"

	kubedcv1 "github.com/sallyport/sallyport/api/kubedc/v1"
	kubedcv1alpha1 "github.com/sallyport/sallyport/api/kubedc/v1alpha1"
	"github.com/sallyport/sallyport/internal/engine/kubeovn"
	"github.com/sallyport/sallyport/internal/model/intent"
	"github.com/sallyport/sallyport/internal/model/ownership"
	"github.com/sallyport/sallyport/internal/model/shard"
	"github.com/sallyport/sallyport/internal/model/snapshot"
)

// snapshotOf builds the snapshot of the shard acme-prod from objects.
func snapshotOf(objects ...client.Object) *snapshot.VpcInput {
	in := NewInputs(shard.Named("acme-prod"))
	in.AddAll(objects)
	return in.BuildSnapshot(snapshot.Config{}, nil, time.Unix(0, 0))
}

// Kube-OVN's annotations on Services are ignored. A status written by someone else has to be repaired.
func TestServiceIsTheSame(t *testing.T) {
	was := &corev1.Service{Spec: corev1.ServiceSpec{Type: corev1.ServiceTypeLoadBalancer}}
	for name, c := range map[string]struct {
		change func(*corev1.Service)
		same   bool
	}{
		"another's annotation": {func(s *corev1.Service) {
			s.Annotations = map[string]string{"ovn.kubernetes.io/x": "y"}
		}, true},
		"ours": {func(s *corev1.Service) {
			s.Annotations = map[string]string{kubedcv1.BindAnnotation: "front"}
		}, false},
		"a port": {func(s *corev1.Service) { s.Spec.Ports = []corev1.ServicePort{{Port: 80}} }, false},
		"the status": {func(s *corev1.Service) {
			s.Status.Conditions = []metav1.Condition{{Type: "Accepted"}}
		}, false},
		"its end": {func(s *corev1.Service) {
			s.DeletionTimestamp = &metav1.Time{Time: time.Unix(1, 0)}
		}, false},
	} {
		is := was.DeepCopy()
		c.change(is)
		if isSameService(was, is) != c.same {
			t.Errorf("%s: it is taken for the same: %v", name, !c.same)
		}
	}
	if isSameService(nil, was) || isSameService(was, nil) {
		t.Error("one that comes or goes is taken for the same")
	}
}

func TestProjectIsRead(t *testing.T) {
	for name, c := range map[string]struct {
		cidr, gateway      string
		prefixes, gateways int
		malformed          string
	}{
		"one prefix":                 {"10.0.0.0/24", "", 1, 0, ""},
		"host bits do not matter":    {"10.0.0.9/24", "10.0.0.1", 1, 1, ""},
		"one of each family":         {"10.0.0.0/24,fd00::/64", "10.0.0.1,fd00::1", 2, 2, ""},
		"a gateway of the second":    {"10.0.0.0/24,fd00::/64", "fd00::1", 2, 1, ""},
		"a space after the comma":    {"10.0.0.0/24, fd00::/64", "", 2, 0, ""},
		"two of one family":          {"10.0.0.0/24,10.0.1.0/24", "", 2, 0, "one of each family"},
		"three":                      {"10.0.0.0/24,fd00::/64,fd01::/64", "", 3, 0, "one of each family"},
		"nothing":                    {"", "", 0, 0, "spec.cidrBlock"},
		"an address":                 {"10.0.0.1", "", 0, 0, `"10.0.0.1" is not a prefix`},
		"a gateway outside":          {"10.0.0.0/24", "10.0.1.1", 1, 1, "spec.gwLanIp"},
		"a gateway that is nonsense": {"10.0.0.0/24", "gw", 1, 0, `spec.gwLanIp "gw"`},
	} {
		p := readProject(&kubedcv1.Project{Spec: kubedcv1.ProjectSpec{CIDRBlock: c.cidr, GwLanIP: c.gateway}})
		if len(p.Prefixes) != c.prefixes || len(p.Gateways) != c.gateways {
			t.Errorf("%s: prefixes %s, gateways %s", name, p.Prefixes, p.Gateways)
		}
		if (c.malformed == "") != (p.Malformed == "") || !strings.Contains(string(p.Malformed), c.malformed) {
			t.Errorf("%s: malformed is %q, want %q", name, p.Malformed, c.malformed)
		}
		for _, prefix := range p.Prefixes {
			if prefix != prefix.Masked() {
				t.Errorf("%s: %s has host bits", name, prefix)
			}
		}
	}
}

func TestFIpHasOneTarget(t *testing.T) {
	pod, vm := &kubedcv1.PodTarget{PodName: "p"}, &kubedcv1.VMTarget{VMName: "v"}
	for name, c := range map[string]struct {
		spec      kubedcv1.FIpSpec
		malformed string
	}{
		"an address":                 {kubedcv1.FIpSpec{IPAddress: "10.0.0.7"}, ""},
		"a pod":                      {kubedcv1.FIpSpec{PodTarget: pod}, ""},
		"a virtual machine":          {kubedcv1.FIpSpec{VMTarget: vm}, ""},
		"an address of IPv4 in IPv6": {kubedcv1.FIpSpec{IPAddress: "::ffff:10.0.0.7"}, ""},
		"nothing":                    {kubedcv1.FIpSpec{}, "exactly one"},
		"two":                        {kubedcv1.FIpSpec{IPAddress: "10.0.0.7", PodTarget: pod}, "exactly one"},
		"IPv6":                       {kubedcv1.FIpSpec{IPAddress: "fd00::7"}, "IPv4"},
		"nonsense":                   {kubedcv1.FIpSpec{IPAddress: "moon"}, `"moon" is not an address`},
	} {
		f := readFIp(&kubedcv1.FIp{Spec: c.spec})
		if (c.malformed == "") != (f.Malformed == "") || !strings.Contains(string(f.Malformed), c.malformed) {
			t.Errorf("%s: malformed is %q, want %q", name, f.Malformed, c.malformed)
		}
		if f.Address.Is4In6() {
			t.Errorf("%s: %s is IPv4 and not called so", name, f.Address)
		}
	}
}

func TestEIpIsRead(t *testing.T) {
	e := readEIp(&kubedcv1.EIp{
		ObjectMeta: metav1.ObjectMeta{
			Name:              "web",
			UID:               "u",
			Generation:        3,
			DeletionTimestamp: &metav1.Time{Time: time.Unix(5, 0)},
		},
		Spec:   kubedcv1.EIpSpec{IPAddress: "198.51.100.7", ExternalNetwork: "n"},
		Status: kubedcv1.EIpStatus{IPAddress: "198.51.100.8"},
	})
	if e.Address.String() != "198.51.100.7" || e.StatusAddress.String() != "198.51.100.8" || !e.Deleting ||
		e.Network != "n" || e.Malformed != "" {
		t.Errorf("%+v", e)
	}
	if e := readEIp(&kubedcv1.EIp{Spec: kubedcv1.EIpSpec{IPAddress: "2001:db8::7"}}); !strings.Contains(string(e.Malformed), "IPv4") {
		t.Errorf("an IPv6 address can't be had, and it says %q", e.Malformed)
	}
}

func TestNamespaceIsOurs(t *testing.T) {
	const labels = `{"f:metadata":{"f:labels":{"f:app.kubernetes.io/managed-by":{},"f:kube-dc.com/vpc":{}}}}`
	for name, c := range map[string]struct {
		labels  map[string]string
		manager string
		ours    bool
	}{
		"our labels":                      {ownership.ManagedLabels("acme-prod"), ownership.FieldManager, true},
		"labels of nobody":                {ownership.ManagedLabels("acme-prod"), "", false},
		"no labels":                       {nil, "kubectl", false},
		"labels by its owner":             {ownership.ManagedLabels("acme-prod"), "kubectl", false},
		"labels of another VPC":           {ownership.ManagedLabels("globex-web"), ownership.FieldManager, false},
		"labels lost, and fields of ours": {nil, ownership.FieldManager, true},
		"one label lost, and fields of ours": {
			map[string]string{ownership.ShardLabel: "acme-prod"},
			ownership.FieldManager, true,
		},
	} {
		ns := &corev1.Namespace{ObjectMeta: metav1.ObjectMeta{Name: "acme-prod", Labels: c.labels}}
		if c.manager != "" {
			ns.ManagedFields = []metav1.ManagedFieldsEntry{managedFieldsEntry(c.manager, applyOperation, "", labels)}
		}
		for _, cached := range []bool{false, true} {
			if cached {
				ns = trimForTest(t, ns)
			}
			if got := snapshotOf(ns).Namespace; got.Owned != c.ours || !got.Exists {
				t.Errorf("%s, from a cache %t: %+v", name, cached, got)
			}
		}
	}
}

// What blocks the deletion of a namespace is reported as Kubernetes words it, with a limited length.
func TestNamespaceSaysWhatRemains(t *testing.T) {
	said := func(of corev1.NamespaceConditionType, status corev1.ConditionStatus,
		message string,
	) corev1.NamespaceCondition {
		return corev1.NamespaceCondition{Type: of, Status: status, Message: message}
	}
	ns := &corev1.Namespace{ObjectMeta: metav1.ObjectMeta{Name: "acme-prod"}}
	ns.Status.Conditions = []corev1.NamespaceCondition{
		said(corev1.NamespaceContentRemaining, corev1.ConditionTrue, "configmaps"),
		said(corev1.NamespaceDeletionDiscoveryFailure, corev1.ConditionTrue, "x"),
		said(corev1.NamespaceFinalizersRemaining, corev1.ConditionTrue, "example.com/f"),
	}
	if got := snapshotOf(ns).Namespace.RemainingContent; got != "configmaps; example.com/f" {
		t.Error(got)
	}
	ns.Status.Conditions = []corev1.NamespaceCondition{said(corev1.NamespaceContentRemaining, corev1.ConditionTrue,
		strings.Repeat("x", 9999))}
	if got := snapshotOf(ns).Namespace.RemainingContent; len(got) != maxRemainingLen {
		t.Errorf("%d letters", len(got))
	}
	ns.Status.Conditions = []corev1.NamespaceCondition{said(corev1.NamespaceContentRemaining, corev1.ConditionFalse,
		"gone")}
	if got := snapshotOf(ns).Namespace.RemainingContent; got != "" {
		t.Error(got)
	}
}

func TestNamespaceHasAQuota(t *testing.T) {
	for text, want := range map[string]int{"3": 3, "0": 0, "-1": -1, "many": -1, "": -1} {
		ns := &corev1.Namespace{ObjectMeta: metav1.ObjectMeta{
			Name:        "acme-prod",
			Annotations: map[string]string{kubedcv1.EIpQuotaAnnotation: text},
		}}
		if quota := snapshotOf(ns).Namespace.Quota; quota.IsSet != (want >= 0) || quota.Max != max(want, 0) {
			t.Errorf("a quota of %q is read as %v", text, quota)
		}
	}
}

func newExternalSubnet(name string, labels map[string]string, cidr, gateway string) *Subnet {
	return &Subnet{
		ObjectMeta: metav1.ObjectMeta{Name: name, Labels: labels},
		Spec:       kubeovn.SubnetSpec{CIDRBlock: cidr, Gateway: gateway},
	}
}

func TestExternalNetworks(t *testing.T) {
	public := map[string]string{kubedcv1.ExternalNetworkTypeLabel: "public"}
	network := func(name string, subnets ...string) *kubedcv1alpha1.ExternalNetwork {
		return &kubedcv1alpha1.ExternalNetwork{
			ObjectMeta: metav1.ObjectMeta{Name: name},
			Spec:       kubedcv1alpha1.ExternalNetworkSpec{Type: "lab", Default: true, Subnets: subnets},
		}
	}
	objects := []client.Object{
		newExternalSubnet("labelled", public, "198.51.100.0/24", "198.51.100.1"),
		newExternalSubnet("plain", nil, "192.0.2.0/24", "192.0.2.1"),
		newExternalSubnet("named", public, "203.0.113.0/24", "203.0.113.1"),
		newExternalSubnet("dual", public, "2001:db8::/64,100.64.0.0/24", "2001:db8::1,100.64.0.1"),
		newExternalSubnet("six", public, "2001:db8:1::/64", "2001:db8:1::1"),
		newExternalSubnet("broken", public, "moon", "198.51.100.1"),
		network("lab-b", "named"), network("lab-a", "named", "absent"),
	}
	want := []string{
		"dual dual public false true", "labelled labelled public false false",
		"named lab-a lab true false", "six six public false true",
	}
	for range 2 {
		var got []string
		for _, x := range snapshotOf(objects...).ExternalSubnets {
			got = append(got, strings.Join([]string{
				x.Subnet, x.Network, x.Type, formatBool(x.Default),
				formatBool(x.Unsupported),
			}, " "))
		}
		if !reflect.DeepEqual(got, want) {
			t.Errorf("%q, want %q: a subnet is external by its label, or by the first network that names it", got, want)
		}
		objects[6], objects[7] = objects[7], objects[6]
	}
}

func formatBool(b bool) string {
	if b {
		return "true"
	}
	return "false"
}

// An object of another shard has no influence, whatever its name.
func TestInputsAreOfOneShard(t *testing.T) {
	mine, theirs := ownership.ManagedLabels("acme-prod"), ownership.ManagedLabels("globex-web")
	objects := []client.Object{
		&kubedcv1.Project{ObjectMeta: metav1.ObjectMeta{Namespace: "acme", Name: "prod"}},
		&kubedcv1.Project{ObjectMeta: metav1.ObjectMeta{Namespace: "acme", Name: "prod-eu"}},
		&kubedcv1.EIp{ObjectMeta: metav1.ObjectMeta{Namespace: "acme-prod", Name: "e", Labels: mine}},
		&kubedcv1.EIp{ObjectMeta: metav1.ObjectMeta{Namespace: "globex-web", Name: "e"}},
		&kubedcv1.FIp{ObjectMeta: metav1.ObjectMeta{Namespace: "globex-web", Name: "f"}},
		&corev1.Pod{ObjectMeta: metav1.ObjectMeta{Namespace: "globex-web", Name: "p"}},
		&Vpc{ObjectMeta: metav1.ObjectMeta{Name: "globex-web"}},
		&OvnFip{ObjectMeta: metav1.ObjectMeta{Name: "acme-prod-f", Labels: theirs}},
		&OvnEip{
			ObjectMeta: metav1.ObjectMeta{Name: "x", Labels: theirs},
			Status:     kubeovn.OvnEipStatus{Addresses: kubeovn.Addresses{V4Ip: "198.51.100.9"}},
		},
		&OvnEip{ObjectMeta: metav1.ObjectMeta{Name: "y", Labels: mine}, Spec: kubeovn.OvnEipSpec{Addresses: kubeovn.Addresses{V4Ip: "198.51.100.8"}}},
	}
	for _, o := range objects {
		AdoptByLabels(o)
	}
	w := snapshotOf(objects...)
	if len(w.Projects) != 1 || len(w.EIps) != 1 || len(w.FIps)+len(w.Pods)+len(w.Engine.OvnFips) != 0 ||
		w.Engine.Vpc.Exists {
		t.Errorf("%+v", w)
	}
	if w.Engine.OvnEips["x"].Owned || !w.Engine.OvnEips["y"].Owned {
		t.Errorf("%+v: x is another's, and may have an address that somebody here asks for", w.Engine.OvnEips)
	}
	if got, want := w.AddressOwners, (map[netip.Addr]snapshot.AddressOwner{
		netip.MustParseAddr("198.51.100.9"): {OvnEip: "x", Shard: "globex-web"},
		netip.MustParseAddr("198.51.100.8"): {OvnEip: "y", Shard: "acme-prod"},
	}); !reflect.DeepEqual(got, want) {
		t.Errorf("holders are %v, want %v: also who has asked for an address and not got it yet", got, want)
	}
	want := map[intent.ObjectKey]bool{
		{Kind: intent.EIp, Namespace: "acme-prod", Name: "e"}: true,
		{Kind: intent.OvnEip, Name: "y"}:                      true,
	}
	if !reflect.DeepEqual(w.Engine.OwnedObjects, want) {
		t.Errorf("ours are %v, want %v", w.Engine.OwnedObjects, want)
	}
}

// Kube-OVN sets ready before it has written all fields of the status.
func TestReadyMeansAll(t *testing.T) {
	for name, c := range map[string]struct {
		status       kubeovn.OvnEipStatus
		ready, blank bool
	}{
		"ready": {
			kubeovn.OvnEipStatus{Ready: true, Addresses: kubeovn.Addresses{V4Ip: "198.51.100.3"}, MacAddress: "00:00:00:00:00:03"},
			true, false,
		},
		"not ready":       {kubeovn.OvnEipStatus{Addresses: kubeovn.Addresses{V4Ip: "198.51.100.3"}, MacAddress: "00:00:00:00:00:03"}, false, false},
		"without MAC":     {kubeovn.OvnEipStatus{Ready: true, Addresses: kubeovn.Addresses{V4Ip: "198.51.100.3"}}, false, true},
		"without address": {kubeovn.OvnEipStatus{Ready: true, MacAddress: "00:00:00:00:00:03"}, false, false},
		"IPv6 only": {
			kubeovn.OvnEipStatus{Ready: true, Addresses: kubeovn.Addresses{V6Ip: "2001:db8::3"}, MacAddress: "00:00:00:00:00:03"},
			false, false,
		},
	} {
		got := snapshotOf(&OvnEip{ObjectMeta: metav1.ObjectMeta{Name: "e"}, Status: c.status}).Engine.OvnEips["e"]
		if got.Ready != c.ready || got.FailedWithoutAddress != c.blank || !got.Exists {
			t.Errorf("%s: %+v", name, got)
		}
	}
	late := &OvnEip{ObjectMeta: metav1.ObjectMeta{Name: "late"}, Spec: kubeovn.OvnEipSpec{Addresses: kubeovn.Addresses{V4Ip: "198.51.100.3"}}}
	taker := &OvnEip{ObjectMeta: metav1.ObjectMeta{Name: "taker"}, Status: kubeovn.OvnEipStatus{Addresses: kubeovn.Addresses{V4Ip: "198.51.100.3"}}}
	if snapshotOf(late).Engine.OvnEips["late"].FailedWithoutAddress {
		t.Error("an OvnEip that is about to get its address is given up")
	}
	if !snapshotOf(late, taker).Engine.OvnEips["late"].FailedWithoutAddress {
		t.Error("an OvnEip is waited for whose address another has got")
	}
	vpc := &Vpc{ObjectMeta: metav1.ObjectMeta{Name: "acme-prod"}, Status: kubeovn.VpcStatus{Standby: true}}
	if snapshotOf(vpc).Engine.Vpc.Ready {
		t.Error("a Vpc is ready that has no router")
	}
	if vpc.Status.Router = "acme-prod"; !snapshotOf(vpc).Engine.Vpc.Ready {
		t.Error("a Vpc with a router is not ready")
	}
}

// Both notations of excludeIps are parsed. Invalid entries reserve nothing and are not an error.
func TestReservedAddressesAreRead(t *testing.T) {
	x := readExternalSubnet(&Subnet{Spec: kubeovn.SubnetSpec{
		CIDRBlock: "198.51.100.0/24", Gateway: "198.51.100.1",
		ExcludeIps: []string{
			"198.51.100.1", " 198.51.100.4..198.51.100.6 ", "2001:db8::1..2001:db8::9", "moon",
			"198.51.100.40..", "..198.51.100.50",
		},
	}})
	for text, want := range map[string]bool{
		"198.51.100.1": true, "198.51.100.2": false, "198.51.100.3": false, "198.51.100.4": true, "198.51.100.5": true,
		"198.51.100.6": true,
		"198.51.100.7": false, "198.51.100.40": false, "198.51.100.50": false, "2001:db8::5": true,
		"2001:db8::a": false,
	} {
		if got := x.IsReserved(netip.MustParseAddr(text)); got != want {
			t.Errorf("%s is reserved: %t, want %t", text, got, want)
		}
	}
}
