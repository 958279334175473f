// Package intent is what every target should hold, and what we think of each API object, as values that know who asked.
package intent

import (
	"crypto/sha256"
	"encoding/base32"
	"errors"
	"fmt"
	"strings"

	"github.com/sallyport/sallyport/internal/model/state"
)

// Finalizers is the objects that can't go without us.
type Finalizers = state.Set[ObjectKey, Finalizer]

// KeptServices is the Services that would go by themselves, and do not yet.
type KeptServices = state.Set[ObjectKey, KeptService]

// Objects is Kubernetes objects.
type Objects = state.Set[ObjectKey, Object]

// VpcEntries is elements of Vpcs' lists.
type VpcEntries = state.Set[VpcEntryKey, VpcEntry]

// Rows is rows of the OVN northbound database.
type Rows = state.Set[RowKey, Row]

// Intent is everything that the targets of one shard should hold.
type Intent struct {
	Finalizers   Finalizers
	Objects      Objects
	VpcEntries   VpcEntries
	Rows         Rows
	KeptServices KeptServices
	// Notes are told once.
	Notes []Note

	conflicts []error
}

// Note is something that whoever looks at an object should know, and that is not wrong with it.
type Note struct {
	Object  ObjectKey
	Finding Finding
}

// New is an intent that wants nothing.
func New() *Intent {
	return &Intent{
		Finalizers:   Finalizers{},
		Objects:      Objects{},
		VpcEntries:   VpcEntries{},
		Rows:         Rows{},
		KeptServices: KeptServices{},
	}
}

// AddFinalizer wants a finalizer on an object.
func (in *Intent) AddFinalizer(key ObjectKey) {
	in.Finalizers[key] = state.Entry[Finalizer]{Origin: key.Ref()}
}

// KeepService wants a Service to stay that asked to go at some time.
func (in *Intent) KeepService(key ObjectKey) {
	in.KeptServices[key] = state.Entry[KeptService]{Origin: key.Ref()}
}

// AddObject wants an object.
func (in *Intent) AddObject(key ObjectKey, o Object, by state.Ref) {
	addUnique(in, in.Objects, key, o, by)
}

// AddVpcEntry wants an element of a Vpc's list.
func (in *Intent) AddVpcEntry(key VpcEntryKey, e VpcEntry, by state.Ref) {
	addUnique(in, in.VpcEntries, key, e, by)
}

// AddRow wants a row on a router.
func (in *Intent) AddRow(router string, r Row, by state.Ref) {
	addUnique(in, in.Rows, r.Key(router), r, by)
}

// Err is not nil when two origins wanted different things in one place. That is a mistake in compile, never one of a
// user.
func (in *Intent) Err() error { return errors.Join(in.conflicts...) }

func addUnique[K state.Key[K], V state.Value[V]](in *Intent, set state.Set[K, V], key K, value V, by state.Ref) {
	if have, taken := set[key]; taken && have.Origin != by {
		in.conflicts = append(in.conflicts, fmt.Errorf("%s is wanted by %s and by %s", key, have.Origin, by))
		return
	}
	set[key] = state.Entry[V]{Value: value, Origin: by}
}

// UIDSuffix is five characters that are derived from an owner's UID, for names of what is made on its behalf.
func UIDSuffix(uid string) string {
	sum := hashText(uid)
	return strings.ToLower(base32.HexEncoding.EncodeToString(sum[:]))[:5]
}

func hashText(text string) [sha256.Size]byte { return sha256.Sum256([]byte(text)) }
