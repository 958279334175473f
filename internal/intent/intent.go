// Package intent is what every target should hold, and what we think of each API object, as values that know who asked.
package intent

import (
	"crypto/sha256"
	"encoding/base32"
	"errors"
	"fmt"
	"strings"

	"github.com/sallyport/sallyport/internal/state"
)

// Finalizers is the objects that can't go without us.
type Finalizers = state.Set[ObjectKey, Finalizer]

// Stays is the Services that would go by themselves, and do not yet.
type Stays = state.Set[ObjectKey, Stay]

// Objects is Kubernetes objects.
type Objects = state.Set[ObjectKey, Object]

// Elements is elements of Vpcs' lists.
type Elements = state.Set[ElementKey, Element]

// Rows is rows of the OVN northbound database.
type Rows = state.Set[RowKey, Row]

// Intent is everything that the targets of one shard should hold.
type Intent struct {
	Finalizers Finalizers
	Objects    Objects
	Elements   Elements
	Rows       Rows
	Stays      Stays
	// Notes are told once.
	Notes []Note

	clashes []error
}

// Note is something that whoever looks at an object should know, and that is not wrong with it.
type Note struct {
	Object  ObjectKey
	Finding Finding
}

// New is an intent that wants nothing.
func New() *Intent {
	return &Intent{Finalizers: Finalizers{}, Objects: Objects{}, Elements: Elements{}, Rows: Rows{}, Stays: Stays{}}
}

// Hold wants a finalizer on an object.
func (in *Intent) Hold(key ObjectKey) {
	in.Finalizers[key] = state.Entry[Finalizer]{Origin: key.Ref()}
}

// Stay wants a Service to stay that asked to go at some time.
func (in *Intent) Stay(key ObjectKey) { in.Stays[key] = state.Entry[Stay]{Origin: key.Ref()} }

// Object wants an object.
func (in *Intent) Object(key ObjectKey, o Object, by state.Ref) { put(in, in.Objects, key, o, by) }

// Element wants an element of a Vpc's list.
func (in *Intent) Element(key ElementKey, e Element, by state.Ref) { put(in, in.Elements, key, e, by) }

// Row wants a row on a router.
func (in *Intent) Row(router string, r Row, by state.Ref) { put(in, in.Rows, r.Key(router), r, by) }

// Err is not nil when two origins wanted different things in one place. That is a mistake in compile, never one of a user.
func (in *Intent) Err() error { return errors.Join(in.clashes...) }

func put[K state.Key[K], V state.Value[V]](in *Intent, set state.Set[K, V], key K, value V, by state.Ref) {
	if have, taken := set[key]; taken && have.Origin != by {
		in.clashes = append(in.clashes, fmt.Errorf("%s is wanted by %s and by %s", key, have.Origin, by))
		return
	}
	set[key] = state.Entry[V]{Value: value, Origin: by}
}

// Suffix is five characters that are derived from an owner's UID, for names of what is made on its behalf.
func Suffix(uid string) string {
	sum := digest(uid)
	return strings.ToLower(base32.HexEncoding.EncodeToString(sum[:]))[:5]
}

func digest(text string) [sha256.Size]byte { return sha256.Sum256([]byte(text)) }
