package compile

import (
	"maps"
	"net/netip"
	"slices"
	"time"

	"github.com/sallyport/sallyport/internal/model/intent"
	"github.com/sallyport/sallyport/internal/model/snapshot"
)

// checkRecovers checks that a settled snapshot recovers from any change to Kube-OVN's objects and OVN's rows: every EIp
// that is not deleted has its previous address.
func (p *invariants) checkRecovers(d *fuzzInput) {
	before := readyAddresses(p.verdicts)
	maps.DeleteFunc(before, func(key intent.ObjectKey, had netip.Addr) bool {
		// kept only as long as its OvnEip exists
		reserved := slices.ContainsFunc(p.w.ExternalSubnets, func(x snapshot.ExternalSubnet) bool {
			return x.IsReserved(had)
		})
		// kept only while it is used
		return reserved || p.isDeleted(key) || p.isPortEIP(key) && had != p.defaultEgressIP()
	})
	for range 1 + d.intn(3) {
		p.w = injectFault(d, p.w)
	}
	p.out, p.verdicts = Shard(p.w)
	p.checkEveryStep()
	p.checkSettles()
	if slices.ContainsFunc(p.w.ExternalSubnets, func(x snapshot.ExternalSubnet) bool { return x.Free <= 1 }) {
		return // an EIp that waits for an address may have got the one that was free for a moment
	}
	after := readyAddresses(p.verdicts)
	for key, had := range before {
		if after[key] != had {
			p.Errorf("%s had %s and has %s", key, had, after[key])
		}
	}
}

// isPortEIP reports whether an EIp represents the address of a router port.
func (p *invariants) isPortEIP(key intent.ObjectKey) bool {
	return slices.ContainsFunc(p.w.EIps, func(e snapshot.EIp) bool {
		return e.ExistingOvnEip != "" && e.Namespace == key.Namespace && e.Name == key.Name
	})
}

// defaultEgressIP returns the source address of the project's default egress.
func (p *invariants) defaultEgressIP() (address netip.Addr) {
	for _, v := range p.verdicts {
		if facts, isProject := v.Facts.(intent.ProjectFacts); isProject && facts.ExternalIP.IsValid() {
			address = facts.ExternalIP
		}
	}
	return address
}

// readyAddresses returns the addresses of the EIps that are ready.
func readyAddresses(verdicts []intent.Verdict) map[intent.ObjectKey]netip.Addr {
	out := map[intent.ObjectKey]netip.Addr{}
	for _, v := range verdicts {
		if facts, isEIp := v.Facts.(intent.EIpFacts); isEIp && v.OK() {
			out[v.Object] = facts.Address
		}
	}
	return out
}

// injectFault returns a snapshot in which an object was deleted, or Kube-OVN lost one.
func injectFault(d *fuzzInput, was *snapshot.VpcInput) *snapshot.VpcInput {
	w := *was
	w.Engine.OvnEips, w.Engine.OvnFips = maps.Clone(w.Engine.OvnEips), maps.Clone(w.Engine.OvnFips)
	w.Engine.RouterPorts, w.Engine.OwnedObjects, w.AddressOwners = maps.Clone(w.Engine.RouterPorts),
		maps.Clone(w.Engine.OwnedObjects), maps.Clone(w.AddressOwners)
	e := &w.Engine
	switch d.intn(7) {
	case 0:
		degradeOvnEip(d, &w)
	case 1:
		names := slices.Sorted(maps.Keys(e.OvnFips))
		if len(names) == 0 {
			break
		}
		name := names[d.intn(len(names))]
		f := e.OvnFips[name]
		if f.ObjectState = degradeObject(d, f.ObjectState); f.Exists {
			e.OvnFips[name] = f
			break
		}
		delete(e.OvnFips, name)
		delete(e.OwnedObjects, intent.ObjectKey{Kind: intent.OvnFip, Name: name})
	case 2:
		if e.SnatRule.ObjectState = degradeObject(d, e.SnatRule.ObjectState); !e.SnatRule.Exists {
			e.SnatRule = snapshot.OvnSnatRule{}
			delete(e.OwnedObjects, intent.ObjectKey{Kind: intent.OvnSnatRule, Name: testShard})
		}
	case 3:
		if e.Vpc.ObjectState = degradeObject(d, e.Vpc.ObjectState); !e.Vpc.Exists {
			delete(e.OwnedObjects, intent.ObjectKey{Kind: intent.Vpc, Name: testShard})
		}
	case 4:
		if e.Subnet = degradeObject(d, e.Subnet); !e.Subnet.Exists {
			delete(e.OwnedObjects, intent.ObjectKey{Kind: intent.Subnet, Name: testShard + "-default"})
		}
	case 5:
		delete(e.RouterPorts, pickOne(d, testShard+"-x0", testShard+"-x1", testShard+"-"+testShard+"-default"))
	case 6:
		e.UsedIPs = d.intn(3)
	}
	return &w
}

// degradeObject returns an object that is being deleted, is not ready, or is gone.
func degradeObject(d *fuzzInput, s snapshot.ObjectState) snapshot.ObjectState {
	if !s.Exists {
		return s
	}
	switch d.intn(3) {
	case 0:
		s.Deleting, s.DeletedAt = true, time.Unix(pickOne(d, int64(999), 900), 0)
	case 1:
		s.Ready = false
	case 2:
		return snapshot.ObjectState{}
	}
	return s
}

// degradeOvnEip changes an OvnEip. If it is gone, its address is free for all.
func degradeOvnEip(d *fuzzInput, w *snapshot.VpcInput) {
	e := &w.Engine
	names := slices.Sorted(maps.Keys(e.OvnEips))
	if len(names) == 0 {
		return
	}
	name := names[d.intn(len(names))]
	o := e.OvnEips[name]
	if !o.Owned {
		return
	}
	if o.ObjectState = degradeObject(d, o.ObjectState); o.Exists {
		e.OvnEips[name] = o
		return
	}
	delete(e.OvnEips, name)
	delete(e.OwnedObjects, intent.ObjectKey{Kind: intent.OvnEip, Name: name})
	delete(w.AddressOwners, o.Address)
	w.ExternalSubnets = slices.Clone(w.ExternalSubnets)
	for i := range w.ExternalSubnets {
		if w.ExternalSubnets[i].Subnet == o.Subnet && o.Address.IsValid() {
			w.ExternalSubnets[i].Free++
			w.ExternalSubnets[i].Used--
		}
	}
}
