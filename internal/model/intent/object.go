package intent

import (
	"cmp"
	"encoding/json"
	"maps"
	"slices"
	"time"

	"github.com/sallyport/sallyport/internal/model/state"
)

// Kind is a kind of Kubernetes object.
type Kind string

// The kinds in the order of creation. Objects are deleted in reverse order.
const (
	Project           Kind = "Project"
	Namespace         Kind = "Namespace"
	Vpc               Kind = "Vpc"
	Subnet            Kind = "Subnet"
	NetworkAttachment Kind = "NetworkAttachmentDefinition"
	OvnEip            Kind = "OvnEip"
	EIp               Kind = "EIp"
	OvnSnatRule       Kind = "OvnSnatRule"
	OvnFip            Kind = "OvnFip"
	FIp               Kind = "FIp"

	Service       Kind = "Service"
	EndpointSlice Kind = "EndpointSlice"
	Backend       Kind = "Backend" // of Envoy Gateway

	ExternalNetwork Kind = "ExternalNetwork"
	EgressIP        Kind = "EgressIP"
	EgressService   Kind = "EgressService"
	EgressRoute     Kind = "EgressRoute"
	NodePath        Kind = "NodePath"
)

// Kinds is the order of creation.
var Kinds = []Kind{
	Project, Namespace, Vpc, Subnet, NetworkAttachment, OvnEip, EIp, OvnSnatRule, OvnFip, FIp,
	Service, EndpointSlice, Backend, ExternalNetwork, EgressIP, EgressService, EgressRoute, NodePath,
}

// ObjectKey identifies a Kubernetes object.
type ObjectKey struct {
	Kind            Kind
	Namespace, Name string
}

// Compare orders keys by order of creation, then by name.
func (k ObjectKey) Compare(o ObjectKey) int {
	return cmp.Or(
		cmp.Compare(slices.Index(Kinds, k.Kind), slices.Index(Kinds, o.Kind)),
		cmp.Compare(k.Namespace, o.Namespace),
		cmp.Compare(k.Name, o.Name))
}

// String returns the object as shown to users.
func (k ObjectKey) String() string { return k.Ref().String() }

// Ref returns the object as an origin.
func (k ObjectKey) Ref() state.Ref {
	return state.Ref{Kind: string(k.Kind), Namespace: k.Namespace, Name: k.Name}
}

// Object is the wanted state of a Kubernetes object: only the fields that we set.
type Object struct {
	// Content has those fields as JSON with sorted keys, so that equal objects are equal strings.
	Content string
	// Terminating: the object has been deleted but still exists. It can't be written.
	Terminating bool
	// Needs are the objects that must not be deleted before this one. Observed, not compared.
	Needs []ObjectKey
	// PendingSince is when the object was created, while Kube-OVN has not finished processing it; zero: it has.
	// InProgress: Kube-OVN has started. Only for objects that Kube-OVN reads once. Observed, not compared.
	PendingSince time.Time
	InProgress   bool
}

// Equal compares the content.
func (o Object) Equal(p Object) bool { return o.Content == p.Content && o.Terminating == p.Terminating }

// String returns the spec for display, or the metadata of an object without one.
func (o Object) String() string {
	text := o.Content
	var body struct{ Spec json.RawMessage }
	if err := json.Unmarshal([]byte(o.Content), &body); err == nil && body.Spec != nil {
		text = string(body.Spec)
	}
	if o.Terminating {
		text += " (being deleted)"
	}
	return text
}

// Meta is the metadata that we set.
type Meta struct{ Labels, Annotations map[string]string }

func (m Meta) toMetadata() map[string]any {
	return map[string]any{"labels": m.Labels, "annotations": m.Annotations}
}

// NewObject returns an object with the given metadata and spec. It omits a nil spec.
func NewObject(meta Meta, spec any) Object {
	body := map[string]any{"metadata": meta.toMetadata()}
	if spec != nil {
		body["spec"] = spec
	}
	return Object{Content: CanonicalJSON(body)}
}

// NewSpeclessObject returns an object of a kind without a spec, with the given metadata and other fields.
func NewSpeclessObject(meta Meta, fields map[string]any) Object {
	body := maps.Clone(fields)
	body["metadata"] = meta.toMetadata()
	return Object{Content: CanonicalJSON(body)}
}

// Finalizer marks an object that has our finalizer.
type Finalizer struct{}

// Equal returns true: there is only one value.
func (Finalizer) Equal(Finalizer) bool { return true }

// String returns a constant: the key identifies the object.
func (Finalizer) String() string { return "finalizer" }

// KeptService marks an idle Service with autodelete that is not deleted yet.
type KeptService struct{}

// Equal returns true: there is only one value.
func (KeptService) Equal(KeptService) bool { return true }

// String returns a constant: the key identifies the Service.
func (KeptService) String() string { return "stays" }

// DeleteAfterUsers is a guard: it delays the deletion of an object until no object that needs it exists. Kube-OVN hangs
// in other orders, sometimes forever (a SNAT rule that outlives its VPC keeps its finalizer).
//
// A namespace needs its VPC because its pods do. As long as the namespace is not deleted, a VPC without pods may be
// deleted and created again.
func DeleteAfterUsers(changes []state.Change[ObjectKey, Object],
	observed state.Set[ObjectKey, Object],
) []state.Change[ObjectKey, Object] {
	deleting := map[ObjectKey]bool{}
	for _, c := range changes {
		deleting[c.Key] = c.IsRemoval() || c.Before != nil && c.Before.Terminating
	}
	needed := map[ObjectKey]bool{}
	for user, entry := range observed {
		if user.Kind == Namespace && !deleting[user] {
			continue
		}
		for _, key := range entry.Value.Needs {
			needed[key] = true
		}
	}
	return slices.DeleteFunc(slices.Clone(changes), func(c state.Change[ObjectKey, Object]) bool {
		return c.IsRemoval() && needed[c.Key]
	})
}

// How long Kube-OVN may process an object before we delete it anyway. The limit for NAT is longer than a restart of
// Kube-OVN: Kube-OVN writes the NAT row first, and if the object is deleted before it has a status, the row is never
// deleted.
const (
	ovnEipProcessingLimit = 10 * time.Second
	natProcessingLimit    = time.Minute
)

// DeleteOnceProcessed is a guard: it delays the deletion of an object that Kube-OVN reads once until Kube-OVN has
// processed it. Otherwise Kube-OVN would continue after the deletion: it would create an unwanted OvnEip of the same
// name, leak an address in its IPAM, or leak a NAT row.
func DeleteOnceProcessed(now time.Time) state.Guard[ObjectKey, Object] {
	return func(changes []state.Change[ObjectKey, Object],
		observed state.Set[ObjectKey, Object],
	) []state.Change[ObjectKey, Object] {
		return slices.DeleteFunc(slices.Clone(changes), func(c state.Change[ObjectKey, Object]) bool {
			have, limit := observed[c.Key].Value, natProcessingLimit
			if c.Key.Kind == OvnEip {
				limit = ovnEipProcessingLimit
			}
			return !have.PendingSince.IsZero() && (have.InProgress || now.Sub(have.PendingSince) < limit)
		})
	}
}
