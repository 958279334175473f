package kube

import (
	"strings"
	"testing"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"sigs.k8s.io/controller-runtime/pkg/client"

	kubedcv1 "github.com/sallyport/sallyport/api/kubedc/v1"
	"github.com/sallyport/sallyport/internal/engine/kubeovn"
	"github.com/sallyport/sallyport/internal/model/intent"
	"github.com/sallyport/sallyport/internal/model/ownership"
	"github.com/sallyport/sallyport/internal/model/shard"
)

func managedFieldsEntry(manager string, operation metav1.ManagedFieldsOperationType, subresource,
	set string,
) metav1.ManagedFieldsEntry {
	return metav1.ManagedFieldsEntry{
		Manager: manager, Operation: operation, Subresource: subresource, FieldsType: "FieldsV1",
		FieldsV1: metav1.NewFieldsV1(set),
	}
}

const (
	applyOperation  = metav1.ManagedFieldsOperationApply
	updateOperation = metav1.ManagedFieldsOperationUpdate
)

// newOwnedSubnet returns a Subnet of ours after Kube-OVN and a user have written to it.
func newOwnedSubnet() *Subnet {
	return &Subnet{
		ObjectMeta: metav1.ObjectMeta{
			Name: "acme-web-default",
			Labels: map[string]string{
				"app.kubernetes.io/managed-by": "sallyport",
				"kube-dc.com/vpc":              "acme-web",
				"team":                         "blue",
			},
			Annotations: map[string]string{ownership.OriginAnnotation: "Project/acme/web", "seen": "yes"},
			Finalizers:  []string{"kubeovn.io/kube-ovn-controller"},
			ManagedFields: []metav1.ManagedFieldsEntry{
				managedFieldsEntry("sallyport", applyOperation, "", `{"f:metadata":{"f:annotations":{".":{},"f:kube-dc.com/asked-by":{}},
					"f:labels":{"f:app.kubernetes.io/managed-by":{},"f:kube-dc.com/vpc":{}}},
					"f:spec":{"f:cidrBlock":{},"f:namespaces":{},"f:vpc":{}}}`),
				managedFieldsEntry("sallyport", updateOperation, "", `{"f:spec":{"f:protocol":{}}}`),
				managedFieldsEntry("kube-ovn-controller", updateOperation, "", `{"f:metadata":{"f:finalizers":{".":{},"v:\"kubeovn.io/kube-ovn-controller\"":{}}},
					"f:spec":{"f:excludeIps":{},"f:gateway":{}}}`),
				managedFieldsEntry("kubectl-edit", updateOperation, "",
					`{"f:metadata":{"f:labels":{"f:team":{}}},"f:spec":{"f:provider":{}}}`),
			},
		},
		Spec: kubeovn.SubnetSpec{
			Vpc: "acme-web", CIDRBlock: "10.0.0.0/16", Namespaces: []string{"acme-web", "acme-old"},
			Gateway: "10.0.0.1", ExcludeIps: []string{"10.0.0.1"}, Protocol: "IPv4", Provider: "somebody",
		},
	}
}

func TestContentIsWhatWeAppliedAndNothingElse(t *testing.T) {
	got, err := appliedContent(newOwnedSubnet())
	if err != nil {
		t.Fatal(err)
	}
	want := intent.NewObject(intent.Meta{Labels: ownership.ManagedLabels("acme-web")}, kubeovn.SubnetSpec{
		Vpc: "acme-web", CIDRBlock: "10.0.0.0/16", Namespaces: []string{"acme-web", "acme-old"},
	})
	if intent.CanonicalJSON(got) != want.Content {
		t.Errorf("got  %s\nwant %s", intent.CanonicalJSON(got), want.Content)
	}
}

// The API server moves a field to the manager that changed it. It is then missing in our content, which is a difference
// to repair.
func TestFieldThatSomebodyTookIsMissing(t *testing.T) {
	s := newOwnedSubnet()
	s.Spec.CIDRBlock = "10.9.0.0/16"
	s.ManagedFields[0] = managedFieldsEntry("sallyport", applyOperation, "", `{"f:metadata":{"f:labels":{"f:app.kubernetes.io/managed-by":{},"f:kube-dc.com/vpc":{}}},
		"f:spec":{"f:namespaces":{},"f:vpc":{}}}`)
	s.ManagedFields[3] = managedFieldsEntry("kubectl-edit", updateOperation, "", `{"f:spec":{"f:cidrBlock":{}}}`)
	got, err := appliedContent(s)
	if err != nil {
		t.Fatal(err)
	}
	if text := intent.CanonicalJSON(got); strings.Contains(text, "cidrBlock") ||
		!strings.Contains(text, `"vpc":"acme-web"`) {
		t.Errorf("got %s; want it without cidrBlock, with vpc", text)
	}
}

func TestObjectThatWeNeverAppliedHasNoContent(t *testing.T) {
	s := newOwnedSubnet()
	s.ManagedFields = s.ManagedFields[1:]
	got, err := appliedContent(s)
	if err != nil {
		t.Fatal(err)
	}
	if text := intent.CanonicalJSON(got); text != "{}" {
		t.Errorf("got %s, want nothing", text)
	}
}

func TestItemsOfAListAreFoundByKeyAndByValue(t *testing.T) {
	value := map[string]any{
		"conditions": []any{
			map[string]any{"type": "Theirs", "status": "True"},
			map[string]any{"type": "Accepted", "status": "True", "note": "theirs"},
		},
		"names": []any{"a", "b", int64(3)},
	}
	set := fieldSet{
		"f:conditions": {`k:{"type":"Accepted"}`: {".": {}, "f:type": {}, "f:status": {}}},
		"f:names":      {`v:"b"`: {}, `v:3`: {}},
		"f:gone":       {},
	}
	want := `{"conditions":[{"status":"True","type":"Accepted"}],"names":["b",3]}`
	if got := intent.CanonicalJSON(set.extract(value)); got != want {
		t.Errorf("got %s, want %s", got, want)
	}
}

func TestStatusIsWhatWeApplied(t *testing.T) {
	eip := &kubedcv1.EIp{
		ObjectMeta: metav1.ObjectMeta{Namespace: "acme-web", Name: "www", ManagedFields: []metav1.ManagedFieldsEntry{
			managedFieldsEntry("sallyport-status", applyOperation, "status", `{"f:status":{"f:ready":{},"f:conditions":{"k:{\"type\":\"Accepted\"}":
				{".":{},"f:lastTransitionTime":{},"f:reason":{},"f:status":{},"f:type":{}}}}}`),
			managedFieldsEntry("old-controller", updateOperation, "status", `{"f:status":{"f:ipAddress":{}}}`),
		}},
		Status: kubedcv1.EIpStatus{
			Ready: true, IPAddress: "198.51.100.7",
			Conditions: []metav1.Condition{{
				Type:               "Accepted",
				Status:             "True",
				Reason:             "Accepted",
				LastTransitionTime: metav1.Now(),
			}},
		},
	}
	target, err := NewStatuses(&Cluster{}, []client.Object{eip}, nil, nil)
	if err != nil {
		t.Fatal(err)
	}
	got, err := target.Observe(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	want := `{"conditions":[{"reason":"Accepted","status":"True","type":"Accepted"}],"ready":true}`
	if status := got[intent.ObjectKey{
		Kind:      intent.EIp,
		Namespace: "acme-web",
		Name:      "www",
	}].Value.Content; status != want {
		t.Errorf("got %s, want %s", status, want)
	}
}

func TestTrimKeepsWhatContentNeeds(t *testing.T) {
	s := newOwnedSubnet()
	before, err := appliedContent(s)
	if err != nil {
		t.Fatal(err)
	}
	s = trimForTest(t, s)
	after, err := appliedContent(s)
	if err != nil {
		t.Fatal(err)
	}
	if intent.CanonicalJSON(before) != intent.CanonicalJSON(after) || len(s.ManagedFields) != 2 {
		t.Errorf("%d entries left, content %s; want our two and %s", len(s.ManagedFields), intent.CanonicalJSON(after),
			intent.CanonicalJSON(before))
	}
}

// The owner of an object after someone changed its labels.
func TestWhoseAnObjectIs(t *testing.T) {
	const all, but = `{"f:metadata":{"f:labels":{"f:app.kubernetes.io/managed-by":{},"f:kube-dc.com/vpc":{}}}}`,
		`{"f:metadata":{"f:labels":{"f:app.kubernetes.io/managed-by":{}}}}`
	port := func(name, subnet, kind string) *OvnEip {
		o := &OvnEip{ObjectMeta: metav1.ObjectMeta{Name: name}}
		o.Spec.ExternalSubnet, o.Spec.Type = subnet, kind
		return o
	}
	labelled := func(shard, fields string) *OvnEip {
		o := port("eip-acme-web", "ext", "nat")
		o.Labels = ownership.ManagedLabels(shard)
		if fields != "" {
			o.ManagedFields = []metav1.ManagedFieldsEntry{managedFieldsEntry(ownership.FieldManager, applyOperation, "",
				fields)}
		}
		return o
	}
	lost := labelled("acme", but)
	lost.Labels = nil
	for what, c := range map[string]struct {
		object  *OvnEip
		belongs string
		isAcmes bool
	}{
		"labels that we applied":                        {labelled("acme", all), "acme", true},
		"labels that we applied for another VPC":        {labelled("globex", all), "globex", false},
		"labels that somebody gave to his own":          {labelled("acme", ""), "", false},
		"the label of another VPC that somebody wrote":  {labelled("globex", but), "", true},
		"no labels, and fields that we applied":         {lost, "", true},
		"nothing of ours":                               {port("eip-acme-web", "ext", "nat"), "", false},
		"the router port's address, made by Kube-OVN":   {port("acme-ext", "ext", "lrp"), "", true},
		"another router port's address":                 {port("globex-ext", "ext", "lrp"), "", false},
		"an address that has only the name of a port's": {port("acme-ext", "ext", "nat"), "", false},
	} {
		if got := ownerShard(c.object); got != c.belongs {
			t.Errorf("%s: it belongs to %q, wanted %q", what, got, c.belongs)
		}
		if got := belongsToShard(c.object, "acme"); got != c.isAcmes {
			t.Errorf("%s: it is acme's: %t, wanted %t", what, got, c.isAcmes)
		}
	}
}

// A label does not prove ownership, and neither does our field manager in a foreign namespace: a user with all
// permissions there can write both.
func TestLabelsOfOthersAreNoTitle(t *testing.T) {
	backend := func(namespace, shard string, applied bool) *corev1.Service {
		s := &corev1.Service{ObjectMeta: metav1.ObjectMeta{
			Namespace: namespace,
			Name:      "cuckoo",
			Labels:    ownership.ManagedLabels(shard),
		}}
		if applied {
			AdoptByLabels(s)
		}
		return s
	}
	gate, own := namespaceInSubnet(kubeovn.ManagementSubnet, nil),
		namespaceInSubnet("evil-x-default", ownership.ManagedLabels("evil-x"))
	gate.Name, own.Name = "gate", "evil-x"
	for what, c := range map[string]struct {
		object *corev1.Service
		shard  string
		ours   bool
	}{
		"applied by us":                        {backend("acme-tmp", "acme-tmp", true), "acme-tmp", true},
		"not applied by us":                    {backend("acme-tmp", "acme-tmp", false), "acme-tmp", false},
		"in another namespace":                 {backend("evil-x", "acme-tmp", true), "acme-tmp", false},
		"in the management VPC":                {backend("gate", "ovn-cluster", true), "ovn-cluster", true},
		"in a project, for the management VPC": {backend("evil-x", "ovn-cluster", true), "ovn-cluster", false},
		"in a project, for the egress addresses": {
			backend("evil-x", ownership.EgressVpc, true), ownership.EgressVpc,
			false,
		},
	} {
		in := NewInputs(shard.Named(c.shard))
		in.AddAll([]client.Object{gate, own, c.object})
		if got := len(in.ownedObjects) > 0; got != c.ours {
			t.Errorf("%s: it counts in %s: %t", what, c.shard, got)
		}
	}
}
