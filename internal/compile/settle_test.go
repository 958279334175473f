package compile

import (
	"reflect"
	"slices"

	"github.com/sallyport/sallyport/internal/intent"
	"github.com/sallyport/sallyport/internal/snapshot"
)

// settles: when Kubernetes and Kube-OVN do what is asked of them, every world comes to rest. Then nothing waits for them, and
// what somebody has deleted is gone, unless it is in use. That is: no state waits for ever.
func (p *promises) settles() {
	for range 20 {
		next := carriedOut(p.w, p.in)
		remove(p.w, next, p.in)
		p.remember(next)
		if reflect.DeepEqual(p.w, next) {
			p.atRest()
			return
		}
		p.w = next
		p.in, p.verdicts = Shard(next)
		p.always()
	}
	p.Errorf("it does not come to rest: %+v", p.w)
}

// remember writes into the EIps of the next world what their status says.
func (p *promises) remember(next *snapshot.World) {
	for _, v := range p.verdicts {
		for i, e := range next.EIps {
			if facts, isEIp := v.Facts.(intent.EIpFacts); isEIp && e.Name == v.Object.Name {
				next.EIps[i].Remembered = facts.Address
			}
		}
		next.Services = slices.Clone(next.Services)
		for i, s := range next.Services {
			if facts, isService := v.Facts.(intent.ServiceFacts); isService && s.Name == v.Object.Name {
				next.Services[i].Shown, next.Services[i].Marked = facts.Address, !facts.Foreign
			}
		}
	}
}

func (p *promises) atRest() {
	ready := map[intent.ObjectKey]bool{}
	for _, v := range p.verdicts {
		ready[v.Object] = v.OK()
	}
	for _, v := range p.verdicts {
		switch v.Waiting.Reason {
		case "", intent.PoolExhausted, intent.SomePortTaken, intent.OutsideUnused, intent.EndpointNotOwned, intent.NoEgress:
		case intent.WaitForEIp:
			if f, isFIp := v.Facts.(intent.FIpFacts); isFIp && ready[intent.ObjectKey{Kind: intent.EIp, Namespace: shard, Name: f.EIp}] {
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
		if p.deleted(v.Object) && v.Held.OK() {
			p.Errorf("%s is never gone, and does not say why", v.Object)
		}
	}
	p.anyAddressIsGiven()
}

// anyAddressIsGiven: who does not ask for an address is not refused for one.
func (p *promises) anyAddressIsGiven() {
	for _, e := range p.w.EIps {
		v := p.verdicts[slices.IndexFunc(p.verdicts, func(v intent.Verdict) bool { return v.Object.Kind == intent.EIp && v.Object.Name == e.Name })]
		if reason := v.Accepted.Reason; !e.Address.IsValid() && slices.Contains([]string{intent.AddressTaken, intent.AddressOutside, intent.AddressReserved}, reason) {
			p.Errorf("%s asks for any address, and gets none: %s", v.Object, v.Accepted.Message)
		}
	}
}

// deleted says whether somebody has deleted an object.
func (p *promises) deleted(key intent.ObjectKey) bool {
	is := func(kind intent.Kind, m snapshot.Meta) bool {
		return m.Deleting && key == intent.ObjectKey{Kind: kind, Namespace: m.Namespace, Name: m.Name}
	}
	return slices.ContainsFunc(p.w.Projects, func(o snapshot.Project) bool { return is(intent.Project, o.Meta) }) ||
		slices.ContainsFunc(p.w.EIps, func(o snapshot.EIp) bool { return is(intent.EIp, o.Meta) }) ||
		slices.ContainsFunc(p.w.FIps, func(o snapshot.FIp) bool { return is(intent.FIp, o.Meta) })
}

// remove lets go, in the next world, what was deleted in the last one and has no finalizer, and deletes what is not wanted.
func remove(was, next *snapshot.World, in *intent.Intent) {
	key := func(kind intent.Kind, m snapshot.Meta) intent.ObjectKey {
		return intent.ObjectKey{Kind: kind, Namespace: m.Namespace, Name: m.Name}
	}
	free := func(kind intent.Kind, m snapshot.Meta) bool {
		_, held := in.Finalizers[key(kind, m)]
		return m.Deleting && !held
	}
	next.Projects = slices.DeleteFunc(slices.Clone(next.Projects), func(o snapshot.Project) bool { return free(intent.Project, o.Meta) })
	next.FIps = slices.DeleteFunc(slices.Clone(next.FIps), func(o snapshot.FIp) bool { return free(intent.FIp, o.Meta) })
	next.Services = slices.DeleteFunc(slices.Clone(next.Services), func(o snapshot.Service) bool { return o.Deleting })
	next.EgressServices = slices.DeleteFunc(slices.Clone(next.EgressServices), func(o snapshot.EgressService) bool { return o.Deleting })
	next.EgressRoutes = slices.DeleteFunc(slices.Clone(next.EgressRoutes), func(o snapshot.EgressRoute) bool { return o.Deleting })
	next.EIps = slices.DeleteFunc(next.EIps, func(o snapshot.EIp) bool { return free(intent.EIp, o.Meta) })

	home := intent.ObjectKey{Kind: intent.Namespace, Name: shard}
	if _, wanted := in.Objects[home]; was.Engine.Objects[home] && !wanted {
		next.Namespace.Deleting = true
	}
	for i, e := range next.EIps {
		_, wanted := in.Objects[key(intent.EIp, e.Meta)]
		ours := was.Engine.Objects[key(intent.EIp, e.Meta)]
		next.EIps[i].Deleting = e.Deleting || (ours && !wanted) || next.Namespace.Deleting
		if ours {
			next.Engine.Objects[key(intent.EIp, e.Meta)] = true
		}
	}
	for i := range next.FIps {
		next.FIps[i].Deleting = next.FIps[i].Deleting || next.Namespace.Deleting
	}
	if next.Namespace.Deleting && len(next.EIps)+len(next.FIps) == 0 {
		next.Namespace = snapshot.Namespace{}
		delete(next.Engine.Objects, home)
	} else if was.Engine.Objects[home] {
		next.Engine.Objects[home] = true
	}
	if next.Engine.Vpc.Exists {
		next.Engine.Objects[intent.ObjectKey{Kind: intent.Vpc, Name: shard}] = true
	}
}
