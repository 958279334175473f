package compile

import (
	"maps"
	"net/netip"
	"slices"
	"time"

	"github.com/sallyport/sallyport/internal/intent"
	"github.com/sallyport/sallyport/internal/snapshot"
)

// recovers: whatever somebody does to Kube-OVN's objects and to OVN in a world at rest, it comes to the same rest again: every
// EIp that nobody has deleted has the address that it had.
func (p *promises) recovers(d *dice) {
	before := addresses(p.verdicts)
	maps.DeleteFunc(before, func(key intent.ObjectKey, had netip.Addr) bool {
		reserved := slices.ContainsFunc(p.w.Externals, func(x snapshot.External) bool { return x.Reserves(had) }) // kept only as long as its OvnEip is there
		return reserved || p.deleted(key) || p.ofPort(key) && had != p.wayOut()                                   // it stays only while it is used
	})
	for range 1 + d.roll(3) {
		p.w = disturbed(d, p.w)
	}
	p.in, p.verdicts = Shard(p.w)
	p.always()
	p.settles()
	if slices.ContainsFunc(p.w.Externals, func(x snapshot.External) bool { return x.Free <= 1 }) {
		return // whoever waits for an address may have got the one that was free for a moment
	}
	after := addresses(p.verdicts)
	for key, had := range before {
		if after[key] != had {
			p.Errorf("%s had %s and has %s", key, had, after[key])
		}
	}
}

// ofPort says whether an EIp only tells the address of a port of the router.
func (p *promises) ofPort(key intent.ObjectKey) bool {
	return slices.ContainsFunc(p.w.EIps, func(e snapshot.EIp) bool { return e.Child != "" && e.Namespace == key.Namespace && e.Name == key.Name })
}

// wayOut is the address by which the project's pods leave.
func (p *promises) wayOut() (address netip.Addr) {
	for _, v := range p.verdicts {
		if facts, isProject := v.Facts.(intent.ProjectFacts); isProject && facts.ExternalIP.IsValid() {
			address = facts.ExternalIP
		}
	}
	return address
}

// addresses are those of the EIps that are ready.
func addresses(verdicts []intent.Verdict) map[intent.ObjectKey]netip.Addr {
	out := map[intent.ObjectKey]netip.Addr{}
	for _, v := range verdicts {
		if facts, isEIp := v.Facts.(intent.EIpFacts); isEIp && v.OK() {
			out[v.Object] = facts.Address
		}
	}
	return out
}

// disturbed is a world after somebody has deleted something, or Kube-OVN has let something go.
func disturbed(d *dice, was *snapshot.World) *snapshot.World {
	w := *was
	w.Engine.OvnEips, w.Engine.OvnFips = maps.Clone(w.Engine.OvnEips), maps.Clone(w.Engine.OvnFips)
	w.Engine.Ports, w.Engine.Objects, w.Holders = maps.Clone(w.Engine.Ports), maps.Clone(w.Engine.Objects), maps.Clone(w.Holders)
	e := &w.Engine
	switch d.roll(7) {
	case 0:
		loseOvnEip(d, &w)
	case 1:
		names := slices.Sorted(maps.Keys(e.OvnFips))
		if len(names) == 0 {
			break
		}
		name := names[d.roll(len(names))]
		f := e.OvnFips[name]
		if f.Seen = worse(d, f.Seen); f.Exists {
			e.OvnFips[name] = f
			break
		}
		delete(e.OvnFips, name)
		delete(e.Objects, intent.ObjectKey{Kind: intent.OvnFip, Name: name})
	case 2:
		if e.Snat.Seen = worse(d, e.Snat.Seen); !e.Snat.Exists {
			e.Snat = snapshot.OvnSnatRule{}
			delete(e.Objects, intent.ObjectKey{Kind: intent.OvnSnatRule, Name: shard})
		}
	case 3:
		if e.Vpc.Seen = worse(d, e.Vpc.Seen); !e.Vpc.Exists {
			delete(e.Objects, intent.ObjectKey{Kind: intent.Vpc, Name: shard})
		}
	case 4:
		if e.Subnet = worse(d, e.Subnet); !e.Subnet.Exists {
			delete(e.Objects, intent.ObjectKey{Kind: intent.Subnet, Name: shard + "-default"})
		}
	case 5:
		delete(e.Ports, choose(d, shard+"-x0", shard+"-x1", shard+"-"+shard+"-default"))
	case 6:
		e.InUse = d.roll(3)
	}
	return &w
}

// worse is an object that is being deleted, is not ready, or is gone.
func worse(d *dice, s snapshot.Seen) snapshot.Seen {
	if !s.Exists {
		return s
	}
	switch d.roll(3) {
	case 0:
		s.Deleting, s.Since = true, time.Unix(choose(d, int64(999), 900), 0)
	case 1:
		s.Ready = false
	case 2:
		return snapshot.Seen{}
	}
	return s
}

// loseOvnEip disturbs an OvnEip. Of one that is gone, the address is free for all.
func loseOvnEip(d *dice, w *snapshot.World) {
	e := &w.Engine
	names := slices.Sorted(maps.Keys(e.OvnEips))
	if len(names) == 0 {
		return
	}
	name := names[d.roll(len(names))]
	o := e.OvnEips[name]
	if !o.Ours {
		return
	}
	if o.Seen = worse(d, o.Seen); o.Exists {
		e.OvnEips[name] = o
		return
	}
	delete(e.OvnEips, name)
	delete(e.Objects, intent.ObjectKey{Kind: intent.OvnEip, Name: name})
	delete(w.Holders, o.Address)
	w.Externals = slices.Clone(w.Externals)
	for i := range w.Externals {
		if w.Externals[i].Subnet == o.Subnet && o.Address.IsValid() {
			w.Externals[i].Free++
			w.Externals[i].Used--
		}
	}
}
