package compile

import (
	"encoding/json"
	"fmt"
	"maps"
	"net/netip"
	"reflect"
	"slices"

	"github.com/sallyport/sallyport/internal/intent"
	"github.com/sallyport/sallyport/internal/kubeovn"
	"github.com/sallyport/sallyport/internal/snapshot"
)

// rounds is more than any world needs: VPC and addresses, then ports, then translations.
const rounds = 8

// Rehearse compiles a world as often as it takes until nothing changes, as if Kube-OVN had carried out what was wanted each
// time. It tells what would be written in the end, without a cluster. Addresses are the lowest that are free; a real
// Kube-OVN may give others.
func Rehearse(world snapshot.World) (*intent.Intent, []intent.Verdict) {
	w := &world
	in, verdicts := Shard(w)
	for range rounds {
		w = carriedOut(w, in)
		next, opinions := Shard(w)
		if reflect.DeepEqual(in, next) && reflect.DeepEqual(verdicts, opinions) {
			break
		}
		in, verdicts = next, opinions
	}
	return in, verdicts
}

// carriedOut is the world after Kube-OVN has done what an intent asks for.
func carriedOut(was *snapshot.World, in *intent.Intent) *snapshot.World {
	w := *was
	w.EIps, w.Externals = slices.Clone(w.EIps), slices.Clone(w.Externals)
	w.Engine = snapshot.Engine{
		OvnEips: maps.Clone(was.Engine.OvnEips), OvnFips: map[string]snapshot.OvnFip{}, Foreign: was.Engine.Foreign, Objects: map[intent.ObjectKey]bool{},
	}
	if w.Management != nil { // which Kube-OVN has made already
		w.Engine.Vpc, w.Engine.Subnet, w.Engine.Ports = was.Engine.Vpc, was.Engine.Subnet, maps.Clone(was.Engine.Ports)
	}
	e := &engine{World: &w, taken: map[netip.Addr]bool{}}
	for a := range was.Holders {
		e.taken[a] = true
	}
	for name, have := range was.Engine.OvnEips {
		e.taken[have.Address] = have.Address.IsValid()
		if _, wanted := in.Objects[intent.ObjectKey{Kind: intent.OvnEip, Name: name}]; have.Ours && !wanted {
			e.release(name)
		}
	}
	objects := slices.SortedFunc(maps.Keys(in.Objects), intent.ObjectKey.Compare)
	for _, key := range objects { // who asks for an address gets it before somebody gets any
		if key.Kind == intent.OvnEip && content[kubeovn.OvnEipSpec](in.Objects[key].Value).V4Ip != "" {
			e.carryOut(key, in.Objects[key].Value)
		}
	}
	for _, key := range objects {
		e.carryOut(key, in.Objects[key].Value)
	}
	for key := range in.Elements {
		if key.List == intent.ExternalSubnets && w.Engine.Ports != nil {
			w.Engine.Ports[w.Shard+"-"+key.ID] = true
		}
	}
	e.write(in.Rows)
	w.Holders = e.holders()
	return &w
}

// engine is Kube-OVN, as far as compile can tell.
type engine struct {
	*snapshot.World
	taken map[netip.Addr]bool
}

// write takes note of rows that are read again.
func (e *engine) write(rows intent.Rows) {
	e.Engine.Legs, e.Engine.Balanced = map[string]netip.Addr{}, map[string]string{}
	for _, entry := range rows {
		switch r := entry.Value.(type) {
		case intent.RouterPort:
			if r.Peer == "" {
				e.Engine.Legs[r.Name] = r.Network.Addr()
			}
			if e.Engine.Ports != nil {
				e.Engine.Ports[r.Name] = true
			}
		case intent.LoadBalancer:
			for _, v := range r.VIPs {
				e.Engine.Balanced[balanced(r.Protocol, v.Address)] = r.Service
			}
		}
	}
}

func (e *engine) carryOut(key intent.ObjectKey, o intent.Object) {
	e.Engine.Objects[key] = true
	seen := snapshot.Seen{Exists: true, Ready: true}
	switch key.Kind {
	case intent.Namespace:
		e.Namespace.Exists, e.Namespace.Ours = true, true
	case intent.Vpc:
		e.Engine.Vpc, e.Engine.Ports = snapshot.Vpc{Seen: seen, Attached: map[string]bool{}}, map[string]bool{}
	case intent.Subnet:
		e.Engine.Subnet = seen
		if e.Engine.Ports != nil {
			e.Engine.Ports[e.Shard+"-"+key.Name] = true
		}
	case intent.OvnEip:
		spec := content[kubeovn.OvnEipSpec](o)
		address := e.allocate(key.Name, spec)
		seen.Ready = address.IsValid()
		e.OvnEips()[key.Name] = snapshot.OvnEip{Seen: seen, Ours: true, Subnet: spec.ExternalSubnet, Type: spec.Type, Address: address}
	case intent.OvnFip:
		spec := content[kubeovn.OvnFipSpec](o)
		target, _ := netip.ParseAddr(spec.V4Ip)
		e.Engine.OvnFips[key.Name] = snapshot.OvnFip{Seen: seen, OvnEip: spec.OvnEip, Target: target, External: e.OvnEips()[spec.OvnEip].Address}
	case intent.OvnSnatRule:
		spec := content[kubeovn.OvnSnatRuleSpec](o)
		e.Engine.Snat = snapshot.OvnSnatRule{Seen: seen, OvnEip: spec.OvnEip, External: e.OvnEips()[spec.OvnEip].Address}
	case intent.EIp:
		e.makeEIp(key, o)
	}
}

// allocate is the address of an OvnEip as Kube-OVN's IPAM gives it: the one it has, or else the one that it asks for, if it
// is free; or else the lowest that is.
func (e *engine) allocate(name string, spec kubeovn.OvnEipSpec) netip.Addr {
	want, _ := netip.ParseAddr(spec.V4Ip)
	have := e.OvnEips()[name]
	if have.Address.IsValid() && have.Subnet == spec.ExternalSubnet && (!want.IsValid() || want == have.Address) {
		return have.Address
	}
	e.release(name)
	x := e.subnet(spec.ExternalSubnet)
	if x == nil || x.Free <= 0 || e.taken[want] || (want.IsValid() && !usable(x, want)) {
		return netip.Addr{}
	}
	for a := x.Prefix.Masked().Addr(); x.Prefix.Contains(a) && !want.IsValid(); a = a.Next() {
		if !e.taken[a] && usable(x, a) && !x.Reserves(a) {
			want = a
		}
	}
	if want.IsValid() {
		e.taken[want] = true
		x.Free--
		x.Used++
	}
	return want
}

// release ends an OvnEip.
func (e *engine) release(name string) {
	have := e.OvnEips()[name]
	delete(e.OvnEips(), name)
	if x := e.subnet(have.Subnet); x != nil && have.Address.IsValid() {
		delete(e.taken, have.Address)
		x.Free++
		x.Used--
	}
}

// holders is who has addresses now.
func (e *engine) holders() map[netip.Addr]snapshot.Holder {
	out := map[netip.Addr]snapshot.Holder{}
	for a, h := range e.Holders {
		if h.Shard != e.Shard {
			out[a] = h
		}
	}
	for name, have := range e.OvnEips() {
		if have.Ours && have.Address.IsValid() {
			out[have.Address] = snapshot.Holder{OvnEip: name, Shard: e.Shard}
		}
	}
	return out
}

func (e *engine) subnet(name string) *snapshot.External {
	for i := range e.Externals {
		if e.Externals[i].Subnet == name {
			return &e.Externals[i]
		}
	}
	return nil
}

// OvnEips are the addresses given so far.
func (e *engine) OvnEips() map[string]snapshot.OvnEip {
	if e.Engine.OvnEips == nil {
		e.Engine.OvnEips = map[string]snapshot.OvnEip{}
	}
	return e.Engine.OvnEips
}

func (e *engine) makeEIp(key intent.ObjectKey, o intent.Object) {
	if slices.ContainsFunc(e.EIps, func(x snapshot.EIp) bool { return x.Name == key.Name && x.Namespace == key.Namespace }) {
		return
	}
	spec := content[struct{ ExternalNetworkType, ChildRef, IPAddress string }](o)
	address, _ := netip.ParseAddr(spec.IPAddress)
	e.EIps = append(e.EIps, snapshot.EIp{
		Meta: snapshot.Meta{Namespace: key.Namespace, Name: key.Name, Created: e.Now}, Type: spec.ExternalNetworkType, Child: spec.ChildRef, Address: address,
	})
}

// content is the spec of an object that compile has written.
func content[S any](o intent.Object) (spec S) {
	body := struct{ Spec *S }{&spec}
	if err := json.Unmarshal([]byte(o.Content), &body); err != nil {
		panic(fmt.Sprintf("an object of our own can't be read: %v", err))
	}
	return spec
}
