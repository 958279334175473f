package compile

import (
	"net/netip"
	"reflect"
	"slices"

	"github.com/sallyport/sallyport/internal/model/intent"
	"github.com/sallyport/sallyport/internal/model/snapshot"
)

// checkSettles checks that every snapshot comes to rest if Kubernetes and Kube-OVN do what the intent asks for. Then
// nothing waits for them, and deleted objects are gone unless they are in use: no state waits forever.
func (p *invariants) checkSettles() {
	for range 20 {
		next := applyIntent(p.w, p.out)
		collectGarbage(p.w, next, p.out)
		p.rememberStatus(next)
		if reflect.DeepEqual(p.w, next) {
			p.checkAtRest()
			return
		}
		p.w = next
		p.out, p.verdicts = Shard(next)
		p.checkEveryStep()
	}
	p.Errorf("it does not come to rest: %+v", p.w)
}

// rememberStatus writes the statuses of EIps into the next snapshot.
func (p *invariants) rememberStatus(next *snapshot.VpcInput) {
	for _, v := range p.verdicts {
		for i, e := range next.EIps {
			if facts, isEIp := v.Facts.(intent.EIpFacts); isEIp && e.Name == v.Object.Name {
				next.EIps[i].StatusAddress = facts.Address
			}
		}
		next.Services = slices.Clone(next.Services)
		for i, s := range next.Services {
			if facts, isService := v.Facts.(intent.ServiceFacts); isService && s.Name == v.Object.Name {
				next.Services[i].StatusAddresses, next.Services[i].HasManagedStatus = []netip.Addr{facts.Address, facts.SecondAddress}, !facts.Foreign
			}
		}
	}
}

func (p *invariants) checkAtRest() {
	ready := map[intent.ObjectKey]bool{}
	for _, v := range p.verdicts {
		ready[v.Object] = v.OK()
	}
	for _, v := range p.verdicts {
		switch v.Waiting.Reason {
		case "", intent.PoolExhausted, intent.SomePortTaken, intent.FamilyMissing, intent.EndpointOutsideProject, intent.EndpointNotInNamespace, intent.NoEgress:
		case intent.WaitingForEIp:
			if f, isFIp := v.Facts.(intent.FIpFacts); isFIp &&
				ready[intent.ObjectKey{Kind: intent.EIp, Namespace: testShard, Name: f.EIp}] {
				p.Errorf("%s waits for %s, which is ready", v.Object, f.EIp)
			}
		default:
			if v.Accepted.OK() && v.Resolved.OK() {
				p.Errorf("%s waits for ever: %s %s", v.Object, v.Waiting.Reason, v.Waiting.Message)
			}
		}
		if !v.Held.OK() && v.Held.Reason != intent.InUse {
			p.Errorf("%s is never gone: %s", v.Object, v.Held.Message)
		}
		if p.isDeleted(v.Object) && v.Held.OK() {
			p.Errorf("%s is never gone, and does not say why", v.Object)
		}
	}
	p.anyAddressIsGiven()
}

// anyAddressIsGiven checks that an EIp that requests no specific address is not refused because of one.
func (p *invariants) anyAddressIsGiven() {
	for _, e := range p.w.EIps {
		v := p.verdicts[slices.IndexFunc(p.verdicts, func(v intent.Verdict) bool {
			return v.Object.Kind == intent.EIp && v.Object.Name == e.Name
		})]
		if reason := v.Accepted.Reason; !e.Address.IsValid() &&
			slices.Contains([]string{intent.AddressTaken, intent.AddressOutsideNetwork, intent.AddressReserved},
				reason) {
			p.Errorf("%s asks for any address, and gets none: %s", v.Object, v.Accepted.Message)
		}
	}
}

// isDeleted reports whether an object was deleted.
func (p *invariants) isDeleted(key intent.ObjectKey) bool {
	is := func(kind intent.Kind, m snapshot.Meta) bool {
		return m.Deleting && key == intent.ObjectKey{Kind: kind, Namespace: m.Namespace, Name: m.Name}
	}
	return slices.ContainsFunc(p.w.Projects, func(o snapshot.Project) bool { return is(intent.Project, o.Meta) }) ||
		slices.ContainsFunc(p.w.EIps, func(o snapshot.EIp) bool { return is(intent.EIp, o.Meta) }) ||
		slices.ContainsFunc(p.w.FIps, func(o snapshot.FIp) bool { return is(intent.FIp, o.Meta) })
}

// collectGarbage removes from the next snapshot objects that were deleted and have no finalizer, and deletes those that
// are not in the intent.
func collectGarbage(was, next *snapshot.VpcInput, in *intent.Intent) {
	key := func(kind intent.Kind, m snapshot.Meta) intent.ObjectKey {
		return intent.ObjectKey{Kind: kind, Namespace: m.Namespace, Name: m.Name}
	}
	free := func(kind intent.Kind, m snapshot.Meta) bool {
		_, held := in.Finalizers[key(kind, m)]
		return m.Deleting && !held
	}
	next.Projects = slices.DeleteFunc(slices.Clone(next.Projects), func(o snapshot.Project) bool {
		return free(intent.Project, o.Meta)
	})
	next.FIps = slices.DeleteFunc(slices.Clone(next.FIps), func(o snapshot.FIp) bool {
		return free(intent.FIp, o.Meta)
	})
	next.Services = slices.DeleteFunc(slices.Clone(next.Services), func(o snapshot.Service) bool { return o.Deleting })
	next.EgressServices = slices.DeleteFunc(slices.Clone(next.EgressServices), func(o snapshot.EgressService) bool {
		return o.Deleting
	})
	next.EgressRoutes = slices.DeleteFunc(slices.Clone(next.EgressRoutes), func(o snapshot.EgressRoute) bool {
		return o.Deleting
	})
	next.EIps = slices.DeleteFunc(next.EIps, func(o snapshot.EIp) bool { return free(intent.EIp, o.Meta) })

	home := intent.ObjectKey{Kind: intent.Namespace, Name: testShard}
	if _, wanted := in.Objects[home]; was.Engine.OwnedObjects[home] && !wanted {
		next.Namespace.Deleting = true
	}
	for i, e := range next.EIps {
		_, wanted := in.Objects[key(intent.EIp, e.Meta)]
		ours := was.Engine.OwnedObjects[key(intent.EIp, e.Meta)]
		next.EIps[i].Deleting = e.Deleting || (ours && !wanted) || next.Namespace.Deleting
		if ours {
			next.Engine.OwnedObjects[key(intent.EIp, e.Meta)] = true
		}
	}
	for i := range next.FIps {
		next.FIps[i].Deleting = next.FIps[i].Deleting || next.Namespace.Deleting
	}
	if next.Namespace.Deleting && len(next.EIps)+len(next.FIps) == 0 {
		next.Namespace = snapshot.Namespace{}
		delete(next.Engine.OwnedObjects, home)
	} else if was.Engine.OwnedObjects[home] {
		next.Engine.OwnedObjects[home] = true
	}
	if next.Engine.Vpc.Exists {
		next.Engine.OwnedObjects[intent.ObjectKey{Kind: intent.Vpc, Name: testShard}] = true
	}
}
