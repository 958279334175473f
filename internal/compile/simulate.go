package compile

import (
	"encoding/json"
	"fmt"
	"maps"
	"net/netip"
	"reflect"
	"slices"

	"github.com/sallyport/sallyport/internal/engine/kubeovn"
	"github.com/sallyport/sallyport/internal/model/intent"
	"github.com/sallyport/sallyport/internal/model/ipfamily"
	"github.com/sallyport/sallyport/internal/model/snapshot"
	"github.com/sallyport/sallyport/internal/model/state"
)

// maxRounds is more than any snapshot needs: Vpc and addresses, then ports, then translations.
const maxRounds = 8

// Simulate compiles a snapshot repeatedly until nothing changes, as if Kube-OVN had applied the intent each time. The
// result is what would be written in the end, without a cluster. Addresses are the lowest free ones; a real Kube-OVN
// may assign others.
func Simulate(world snapshot.VpcInput) (*intent.Intent, []intent.Verdict) {
	w := &world
	in, verdicts := Shard(w)
	for range maxRounds {
		w = applyIntent(w, in)
		next, nextVerdicts := Shard(w)
		if reflect.DeepEqual(in, next) && reflect.DeepEqual(verdicts, nextVerdicts) {
			break
		}
		in, verdicts = next, nextVerdicts
	}
	return in, verdicts
}

// applyIntent returns the snapshot after Kube-OVN has applied an intent.
func applyIntent(before *snapshot.VpcInput, in *intent.Intent) *snapshot.VpcInput {
	w := *before
	w.EIps, w.ExternalSubnets = slices.Clone(w.EIps), slices.Clone(w.ExternalSubnets)
	w.Engine = snapshot.Engine{
		OvnEips: maps.Clone(before.Engine.OvnEips), OvnFips: map[string]snapshot.OvnFip{},
		ForeignOvnFips: before.Engine.ForeignOvnFips, OwnedObjects: map[intent.ObjectKey]bool{},
		PortNetworks: maps.Clone(before.Engine.PortNetworks), MissingCapabilities: before.Engine.MissingCapabilities,
		UsedIPs: before.Engine.UsedIPs, UsedIPRanges: before.Engine.UsedIPRanges,
		MisplacedPorts: before.Engine.MisplacedPorts,
	}
	if w.Management != nil { // exists already
		w.Engine.Vpc, w.Engine.Subnet, w.Engine.RouterPorts = before.Engine.Vpc, before.Engine.Subnet,
			maps.Clone(before.Engine.RouterPorts)
	}
	e := &simulatedEngine{VpcInput: &w, taken: map[netip.Addr]bool{}}
	for a := range before.AddressOwners {
		e.taken[a] = true
	}
	for name, have := range before.Engine.OvnEips {
		e.taken[have.Address] = have.Address.IsValid()
		if _, wanted := in.Objects[intent.ObjectKey{Kind: intent.OvnEip, Name: name}]; have.Owned && !wanted {
			e.releaseOvnEip(name)
		}
	}
	objects := slices.SortedFunc(maps.Keys(in.Objects), intent.ObjectKey.Compare)
	for _, key := range objects { // requests for a specific address come first
		if key.Kind == intent.OvnEip && decodeSpec[kubeovn.OvnEipSpec](in.Objects[key].Value).First() != "" {
			e.applyObject(key, in.Objects[key].Value, in.Objects[key].Origin)
		}
	}
	for _, key := range objects {
		e.applyObject(key, in.Objects[key].Value, in.Objects[key].Origin)
	}
	for key := range in.VpcEntries {
		if key.List == intent.ExternalSubnets && w.Engine.RouterPorts != nil {
			w.Engine.RouterPorts[kubeovn.RouterPort(w.Shard, key.ID)] = true
		}
	}
	e.recordRows(in.Rows)
	w.AddressOwners = e.listHolders()
	return &w
}

// simulatedEngine is Kube-OVN as far as compile can observe it.
type simulatedEngine struct {
	*snapshot.VpcInput
	taken map[netip.Addr]bool
}

// recordRows records the rows that compile reads back.
func (e *simulatedEngine) recordRows(rows intent.Rows) {
	e.Engine.ReturnPorts, e.Engine.VIPs = map[string]netip.Addr{}, map[string]snapshot.VIP{}
	for _, entry := range rows {
		switch r := entry.Value.(type) {
		case intent.LogicalRouterPort:
			if r.Peer == "" {
				e.Engine.ReturnPorts[r.Name] = r.Network.Addr()
			}
			if e.Engine.RouterPorts != nil {
				e.Engine.RouterPorts[r.Name] = true
			}
		case intent.RouterPortNetworks:
			e.Engine.PortNetworks[r.Port] = r.Networks
		case intent.VIP:
			e.Engine.VIPs[intent.FormatVIP(r.Protocol, r.Address)] = snapshot.VIP{Service: r.Service, LoadBalancer: r.LoadBalancer}
		}
	}
}

func (e *simulatedEngine) applyObject(key intent.ObjectKey, o intent.Object, by state.Ref) {
	e.Engine.OwnedObjects[key] = true
	seen := snapshot.ObjectState{Exists: true, Ready: true}
	switch key.Kind {
	case intent.Namespace:
		e.Namespace.Exists, e.Namespace.Owned = true, true
	case intent.Vpc:
		e.Engine.Vpc, e.Engine.RouterPorts = snapshot.Vpc{ObjectState: seen, AttachedSubnets: map[string]bool{}},
			map[string]bool{}
	case intent.Subnet:
		e.Engine.Subnet = seen
		if e.Engine.RouterPorts != nil {
			e.Engine.RouterPorts[kubeovn.RouterPort(e.Shard, key.Name)] = true
		}
	case intent.OvnEip:
		spec := decodeSpec[kubeovn.OvnEipSpec](o)
		address := e.allocateAddress(key.Name, spec)
		seen.Ready = address.IsValid()
		e.ovnEips()[key.Name] = snapshot.OvnEip{
			ObjectState: seen, Owned: true, Subnet: spec.ExternalSubnet, Type: spec.Type, Address: address,
			RequestedAddress: address,
			Origin:           by,
		}
		e.simulatePort(key.Name, spec.ExternalSubnet, address)
	case intent.OvnFip:
		spec := decodeSpec[kubeovn.OvnFipSpec](o)
		target, _ := netip.ParseAddr(spec.First())
		e.Engine.OvnFips[key.Name] = snapshot.OvnFip{
			ObjectState: seen,
			OvnEip:      spec.OvnEip,
			TargetIP:    target,
			ExternalIP:  e.ovnEips()[spec.OvnEip].Address,
			Origin:      by,
		}
	case intent.OvnSnatRule:
		spec := decodeSpec[kubeovn.OvnSnatRuleSpec](o)
		e.Engine.SnatRule = snapshot.OvnSnatRule{
			Name:        key.Name,
			ObjectState: seen,
			OvnEip:      spec.OvnEip,
			ExternalIP:  e.ovnEips()[spec.OvnEip].Address,
		}
	case intent.EIp:
		e.createEIP(key, o)
	}
}

// simulatePort records the network of the router's port on an external subnet, as Kube-OVN creates it.
func (e *simulatedEngine) simulatePort(port, subnet string, address netip.Addr) {
	if e.Engine.PortNetworks == nil {
		e.Engine.PortNetworks = map[string]string{}
	}
	x := e.externalByName(subnet)
	if _, exists := e.Engine.PortNetworks[port]; !exists && x != nil && address.IsValid() &&
		port == kubeovn.RouterPort(e.Shard, subnet) {
		e.Engine.PortNetworks[port] = intent.FormatNetworks(netip.PrefixFrom(address, x.Prefix.Bits()))
	}
}

// allocateAddress returns the address of an OvnEip as Kube-OVN's IPAM would assign it: the current one, the requested
// one if it is free, or the lowest free one.
func (e *simulatedEngine) allocateAddress(name string, spec kubeovn.OvnEipSpec) netip.Addr {
	want, _ := netip.ParseAddr(spec.First())
	have := e.ovnEips()[name]
	if have.Address.IsValid() && have.Subnet == spec.ExternalSubnet && (!want.IsValid() || want == have.Address) {
		return have.Address
	}
	e.releaseOvnEip(name)
	x := e.externalByName(spec.ExternalSubnet)
	if x == nil || x.Free <= 0 || e.taken[want] || (want.IsValid() && !isAllocatable(x, want)) {
		return netip.Addr{}
	}
	for a := x.Prefix.Masked().Addr(); x.Prefix.Contains(a) && !want.IsValid(); a = a.Next() {
		if !e.taken[a] && isAllocatable(x, a) && !x.IsReserved(a) {
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

// releaseOvnEip deletes an OvnEip and frees its address.
func (e *simulatedEngine) releaseOvnEip(name string) {
	have := e.ovnEips()[name]
	delete(e.ovnEips(), name)
	if x := e.externalByName(have.Subnet); x != nil && have.Address.IsValid() {
		delete(e.taken, have.Address)
		x.Free++
		x.Used--
	}
}

// listHolders returns the current owner of each address.
func (e *simulatedEngine) listHolders() map[netip.Addr]snapshot.AddressOwner {
	out := map[netip.Addr]snapshot.AddressOwner{}
	for a, h := range e.AddressOwners {
		if h.Shard != e.Shard {
			out[a] = h
		}
	}
	for name, have := range e.ovnEips() {
		if have.Owned && have.Address.IsValid() {
			out[have.Address] = snapshot.AddressOwner{OvnEip: name, Shard: e.Shard}
		}
	}
	return out
}

func (e *simulatedEngine) externalByName(name string) *snapshot.ExternalSubnet {
	for i := range e.ExternalSubnets {
		if e.ExternalSubnets[i].Subnet == name {
			return &e.ExternalSubnets[i]
		}
	}
	return nil
}

// ovnEips returns the OvnEips created so far.
func (e *simulatedEngine) ovnEips() map[string]snapshot.OvnEip {
	if e.Engine.OvnEips == nil {
		e.Engine.OvnEips = map[string]snapshot.OvnEip{}
	}
	return e.Engine.OvnEips
}

func (e *simulatedEngine) createEIP(key intent.ObjectKey, o intent.Object) {
	if slices.ContainsFunc(e.EIps, func(x snapshot.EIp) bool {
		return x.Name == key.Name && x.Namespace == key.Namespace
	}) {
		return
	}
	spec := decodeSpec[struct{ ExternalNetworkType, ChildRef, IPAddress, IPFamily string }](o)
	address, _ := netip.ParseAddr(spec.IPAddress)
	e.EIps = append(e.EIps, snapshot.EIp{
		Meta: snapshot.Meta{Namespace: key.Namespace, Name: key.Name, Created: e.Now}, Type: spec.ExternalNetworkType,
		ExistingOvnEip: spec.ChildRef, Address: address, Family: ipfamily.Parse(spec.IPFamily),
	})
}

// decodeSpec returns the spec of an object that compile has written.
func decodeSpec[S any](o intent.Object) (spec S) {
	body := struct{ Spec *S }{&spec}
	if err := json.Unmarshal([]byte(o.Content), &body); err != nil {
		panic(fmt.Sprintf("decoding an object that compile wrote: %v", err))
	}
	return spec
}
