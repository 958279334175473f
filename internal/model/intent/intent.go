// Package intent is the output of compile: what every target should hold, and a verdict on each API object, each with
// its origin.
package intent

import (
	"crypto/sha256"
	"encoding/base32"
	"errors"
	"fmt"
	"strings"

	"github.com/sallyport/sallyport/internal/model/state"
)

// Finalizers are the objects that have our finalizer.
type Finalizers = state.Set[ObjectKey, Finalizer]

// KeptServices are the idle Services with autodelete that are not deleted yet.
type KeptServices = state.Set[ObjectKey, KeptService]

// Objects are Kubernetes objects.
type Objects = state.Set[ObjectKey, Object]

// VpcEntries are entries of the lists in Vpcs.
type VpcEntries = state.Set[VpcEntryKey, VpcEntry]

// Rows are rows of the OVN northbound database.
type Rows = state.Set[RowKey, Row]

// Intent is everything that the targets of one shard should hold.
type Intent struct {
	Finalizers   Finalizers
	Objects      Objects
	VpcEntries   VpcEntries
	Rows         Rows
	KeptServices KeptServices
	// Notes are reported once, as events.
	Notes []Note

	conflicts []error
}

// Note is information about an object that is not a problem of the object.
type Note struct {
	Object  ObjectKey
	Finding Finding
}

// New returns an empty intent.
func New() *Intent {
	return &Intent{
		Finalizers:   Finalizers{},
		Objects:      Objects{},
		VpcEntries:   VpcEntries{},
		Rows:         Rows{},
		KeptServices: KeptServices{},
	}
}

// AddFinalizer adds a finalizer to an object.
func (in *Intent) AddFinalizer(key ObjectKey) {
	in.Finalizers[key] = state.Entry[Finalizer]{Origin: key.Ref()}
}

// KeepService keeps an idle Service that has autodelete.
func (in *Intent) KeepService(key ObjectKey) {
	in.KeptServices[key] = state.Entry[KeptService]{Origin: key.Ref()}
}

// AddObject adds an object.
func (in *Intent) AddObject(key ObjectKey, o Object, by state.Ref) {
	addUnique(in, in.Objects, key, o, by)
}

// AddVpcEntry adds an entry of a Vpc's list.
func (in *Intent) AddVpcEntry(key VpcEntryKey, e VpcEntry, by state.Ref) {
	addUnique(in, in.VpcEntries, key, e, by)
}

// AddRow adds a row of a router.
func (in *Intent) AddRow(router string, r Row, by state.Ref) {
	addUnique(in, in.Rows, r.Key(router), r, by)
}

// Err returns an error if two origins want different things under one key. That is a bug in compile, never a user's
// mistake.
func (in *Intent) Err() error { return errors.Join(in.conflicts...) }

func addUnique[K state.Key[K], V state.Value[V]](in *Intent, set state.Set[K, V], key K, value V, by state.Ref) {
	if have, taken := set[key]; taken && have.Origin != by {
		in.conflicts = append(in.conflicts, fmt.Errorf("%s is wanted by %s and by %s", key, have.Origin, by))
		return
	}
	set[key] = state.Entry[V]{Value: value, Origin: by}
}

// UIDSuffix returns five characters derived from an owner's UID, for names of objects created on its behalf.
func UIDSuffix(uid string) string {
	sum := hashText(uid)
	return strings.ToLower(base32.HexEncoding.EncodeToString(sum[:]))[:5]
}

func hashText(text string) [sha256.Size]byte { return sha256.Sum256([]byte(text)) }
