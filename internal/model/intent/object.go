package intent

import (
	"cmp"
	"encoding/json"
	"maps"
	"slices"
	"time"

	"github.com/sallyport/sallyport/internal/model/state"
)

// Kind is a kind of Kubernetes object that we write.
type Kind string

// The kinds, in the order in which they are made; they go in the opposite order.
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

// Kinds is the order in which objects are made.
var Kinds = []Kind{
	Project, Namespace, Vpc, Subnet, NetworkAttachment, OvnEip, EIp, OvnSnatRule, OvnFip, FIp,
	Service, EndpointSlice, Backend, ExternalNetwork, EgressIP, EgressService, EgressRoute, NodePath,
}

// ObjectKey names a Kubernetes object.
type ObjectKey struct {
	Kind            Kind
	Namespace, Name string
}

// Compare orders keys by the order of making, then by name.
func (k ObjectKey) Compare(o ObjectKey) int {
	return cmp.Or(
		cmp.Compare(slices.Index(Kinds, k.Kind), slices.Index(Kinds, o.Kind)),
		cmp.Compare(k.Namespace, o.Namespace),
		cmp.Compare(k.Name, o.Name))
}

// String is the object as people name it.
func (k ObjectKey) String() string { return k.Ref().String() }

// Ref is the object as an origin.
func (k ObjectKey) Ref() state.Ref {
	return state.Ref{Kind: string(k.Kind), Namespace: k.Namespace, Name: k.Name}
}

// Object is what we want of a Kubernetes object: the fields that we set, and no others.
type Object struct {
	// Content is those fields as JSON with sorted keys, so that equal objects are equal strings.
	Content string
	// Terminating is an object that somebody has deleted and that is not gone yet. Nothing can be written to it.
	Terminating bool
	// Needs are the objects that must not go before this one. Observed, never compared.
	Needs []ObjectKey
	// PendingSince is when an object was made that Kube-OVN reads once and has not finished with; zero: it has. Begun:
	// it is at it. Observed, never compared.
	PendingSince time.Time
	InProgress   bool
}

// Equal compares content.
func (o Object) Equal(p Object) bool { return o.Content == p.Content && o.Terminating == p.Terminating }

// String is the spec, for people; an object without one is its metadata.
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

// Meta is what we set of an object's metadata.
type Meta struct{ Labels, Annotations map[string]string }

func (m Meta) toMetadata() map[string]any {
	return map[string]any{"labels": m.Labels, "annotations": m.Annotations}
}

// NewObject is an object with the given metadata and spec. A nil spec is left out.
func NewObject(meta Meta, spec any) Object {
	body := map[string]any{"metadata": meta.toMetadata()}
	if spec != nil {
		body["spec"] = spec
	}
	return Object{Content: CanonicalJSON(body)}
}

// NewSpeclessObject is an object of a kind that has no spec: with the given metadata and other fields.
func NewSpeclessObject(meta Meta, fields map[string]any) Object {
	body := maps.Clone(fields)
	body["metadata"] = meta.toMetadata()
	return Object{Content: CanonicalJSON(body)}
}

// Finalizer is the fact that an object can't go without us.
type Finalizer struct{}

// Equal holds always: there is only one.
func (Finalizer) Equal(Finalizer) bool { return true }

// String is empty: the key says it all.
func (Finalizer) String() string { return "finalizer" }

// KeptService is the fact that a Service which asked to go at some time does not go yet.
type KeptService struct{}

// Equal holds always: there is only one.
func (KeptService) Equal(KeptService) bool { return true }

// String is empty: the key says it all.
func (KeptService) String() string { return "stays" }

// DeleteAfterUsers is a guard: an object goes only when no object that needs it is left. Kube-OVN refuses other orders,
// some of them for ever (a SNAT rule that outlives its VPC keeps its finalizer).
//
// A namespace needs its VPC because its pods do. As long as it stays, a VPC without pods may go and come again.
func DeleteAfterUsers(changes []state.Change[ObjectKey, Object],
	observed state.Set[ObjectKey, Object],
) []state.Change[ObjectKey, Object] {
	goes := map[ObjectKey]bool{}
	for _, c := range changes {
		goes[c.Key] = c.IsRemoval() || c.Before != nil && c.Before.Terminating
	}
	needed := map[ObjectKey]bool{}
	for user, entry := range observed {
		if user.Kind == Namespace && !goes[user] {
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

// How long Kube-OVN may take for an object before it is deleted all the same. For a translation that is longer than its
// own restart: it writes the NAT row first, and who deletes the translation before it has a status keeps the row for
// ever.
const (
	ovnEipProcessingLimit = 10 * time.Second
	natProcessingLimit    = time.Minute
)

// DeleteOnceProcessed is a guard: an object that Kube-OVN reads once is not deleted while it is being read. Kube-OVN
// would go on with it after its end: it would make an OvnEip of the same name again that nobody asked for, keep an
// address in its IPAM, or leave a NAT row behind.
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
