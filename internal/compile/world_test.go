package compile

import (
	"fmt"
	"net/netip"
	"slices"
	"time"

	kubedcv1 "github.com/sallyport/sallyport/api/kubedc/v1"
	"github.com/sallyport/sallyport/internal/intent"
	"github.com/sallyport/sallyport/internal/snapshot"
)

// shard is a name that two Projects can give.
const shard = "o-p-q"

// dice is bytes as a row of choices. When they have run out, every choice is the first one: that is the plain one.
type dice struct{ left []byte }

func (d *dice) roll(sides int) int {
	if len(d.left) == 0 {
		return 0
	}
	b := d.left[0]
	d.left = d.left[1:]
	return int(b) % sides
}

func (d *dice) bool() bool { return d.roll(2) == 1 }

// rare is one of eight.
func (d *dice) rare() bool { return d.roll(8) == 7 }

func choose[T any](d *dice, from ...T) T { return from[d.roll(len(from))] }

// worldOf is a world that bytes stand for: few names and few addresses, so that they collide, and everything that can be in
// the way of something. It is as wild as Kubernetes allows (names are unique) and Kube-OVN (no address is given twice).
func worldOf(d *dice) *snapshot.World {
	w := &snapshot.World{
		Shard: shard, Now: time.Unix(1000, 0),
		Config:    snapshot.Config{DefaultEIpType: choose(d, "", "", "a", "b"), DefaultFIpType: choose(d, "", "", "a", "b")},
		Namespace: snapshot.Namespace{Exists: d.bool(), Quota: quota(d)},
		Pods:      map[string][]netip.Addr{}, VMs: map[string][]intent.VMInterface{}, Holders: map[netip.Addr]snapshot.Holder{},
		Engine: snapshot.Engine{OvnEips: map[string]snapshot.OvnEip{}, OvnFips: map[string]snapshot.OvnFip{}, Objects: map[intent.ObjectKey]bool{}},
	}
	w.Namespace.Ours, w.Namespace.Deleting = w.Namespace.Exists && !d.rare(), w.Namespace.Exists && d.rare()
	for i := range 1 + d.roll(3) {
		w.Externals = append(w.Externals, external(d, i))
	}
	projects(d, w)
	fips(d, w)
	services(d, w)
	eips(d, w)
	targets(d, w)
	engineOf(d, w)
	own(d, w)
	selections(d, w)
	diversions(d, w)
	limits(d, w)
	return w
}

// limits are for whom networks are, with whom there may be connections, and what an organization may have.
func limits(d *dice, w *snapshot.World) {
	for i := range w.Externals {
		if d.rare() {
			w.Externals[i].Admitted = snapshot.Admitted{shard: d.bool()}
		}
	}
	w.Organizations = map[string]snapshot.Organization{}
	for i := range w.Projects {
		p := &w.Projects[i]
		for _, list := range []*snapshot.AllowList{&p.Ingress, &p.Egress} {
			if d.rare() {
				*list = snapshot.AllowList{IsSet: true, Prefixes: choose(d, nil, []netip.Prefix{netip.MustParsePrefix("192.0.2.0/24")})}
			}
		}
		if d.rare() {
			member := snapshot.Member{Meta: snapshot.Meta{Namespace: p.Namespace, Name: "sibling", Created: time.Unix(int64(d.roll(1000)), 0)}, Accepted: d.bool()}
			member.EIps = []snapshot.Counted{{Meta: snapshot.Meta{Namespace: "sibling", Name: "e", Created: time.Unix(int64(d.roll(1000)), 0)}, Accepted: d.bool()}}
			w.Organizations[p.Namespace] = snapshot.Organization{
				EIps: quota(d), Projects: quota(d), Members: []snapshot.Member{member, {Meta: p.Meta, Accepted: p.Accepted}},
			}
		}
	}
}

// diversions: seldom any, of networks that there may not be.
func diversions(d *dice, w *snapshot.World) {
	for i := range d.roll(3) {
		if !d.rare() {
			return
		}
		name := fmt.Sprintf("s%d", i)
		w.EgressServices = append(w.EgressServices, snapshot.EgressService{
			Meta: meta(d, shard, name), ByNetwork: d.bool(), Network: choose(d, "", "a", "b", "n", "x1"),
		})
		w.EgressRoutes = append(w.EgressRoutes, snapshot.EgressRoute{
			Meta: meta(d, shard, name), Type: choose(d, "a", "b", "c"), Network: choose(d, "", "", "n", "x0"), Malformed: malformedBy(d),
			Pods:         []snapshot.Placed{{Address: inside(byte(2 + d.roll(3)))}},
			Destinations: []netip.Prefix{netip.PrefixFrom(choose(d, address(0, 0), address(1, 0), address(9, 0)), choose(d, 16, 24, 28)).Masked()},
		})
	}
}

// selections: seldom any, and then some without an address.
func selections(d *dice, w *snapshot.World) {
	for i := range d.roll(3) {
		if !d.rare() {
			return
		}
		s := snapshot.Selection{EgressIP: fmt.Sprintf("e%d", i), Open: d.bool(), Created: time.Unix(int64(d.roll(3)), 0)}
		for host := range byte(d.roll(4)) {
			s.Pods = append(s.Pods, inside(host+2))
		}
		if d.bool() {
			s.Links = []snapshot.Link{{Address: address(0, 5+i), Network: netip.PrefixFrom(netip.AddrFrom4([4]byte{240, 0, 0, byte(4*i + 1)}), 30)}}
		}
		w.Selections, w.Inside = append(w.Selections, s), []netip.Addr{inside(2), inside(3), inside(4), inside(5)}
	}
}

func quota(d *dice) snapshot.Limit {
	if !d.rare() {
		return snapshot.Limit{}
	}
	return snapshot.AtMost(d.roll(3))
}

func external(d *dice, i int) snapshot.External {
	x := snapshot.External{
		Subnet: fmt.Sprintf("x%d", i), Network: choose(d, fmt.Sprintf("x%d", i), "n"), Type: choose(d, "a", "a", "b"), Default: d.bool(), Ready: true,
		Prefix: netip.MustParsePrefix(fmt.Sprintf("192.0.%d.0/28", i)), Gateway: address(i, 1), Dual: d.rare(),
		Free: choose(d, 9, 9, 9, 9, 2, 1, 0), Used: 3,
	}
	if d.rare() {
		x.Reserved = []snapshot.Range{{First: address(i, 1), Last: address(i, choose(d, 1, 3, 4))}}
	}
	if x.Dual && d.bool() {
		x.Prefix, x.Gateway = netip.Prefix{}, netip.Addr{} // it has IPv6 only
	}
	return x
}

func address(subnet, host int) netip.Addr {
	return netip.AddrFrom4([4]byte{192, 0, byte(subnet), byte(host)})
}

// inside is an address of the project.
func inside(host byte) netip.Addr { return netip.AddrFrom4([4]byte{10, 0, 0, host}) }

// anyAddress is none, or one of a few: of networks, of gateways, of nobody.
func anyAddress(d *dice) netip.Addr {
	if d.bool() {
		return netip.Addr{}
	}
	return choose(d, netip.Addr{}, address(0, 3), address(0, 4), address(1, 3), address(0, 1), address(9, 9), netip.MustParseAddr("2001:db8::1"))
}

func meta(d *dice, namespace, name string) snapshot.Meta {
	return snapshot.Meta{
		Namespace: namespace, Name: name, UID: name, Generation: 1, Created: time.Unix(int64(d.roll(3)), 0), Deleting: d.rare(),
	}
}

func malformedBy(d *dice) snapshot.Malformed {
	if d.rare() && d.bool() {
		return "a field is wrong"
	}
	return ""
}

func projects(d *dice, w *snapshot.World) {
	four, six := netip.MustParsePrefix("10.0.0.0/24"), netip.MustParsePrefix("fd00::/64")
	names := [][2]string{{"o", "p-q"}, {"o-p", "q"}}
	for _, n := range names[:choose(d, 1, 1, 1, 1, 1, 1, 2, 0)] {
		p := snapshot.Project{
			Meta: meta(d, n[0], n[1]), Network: choose(d, "a", "a", "a", "b", "none"), Quota: quota(d), Malformed: malformedBy(d),
			Prefixes: choose(d, []netip.Prefix{four}, []netip.Prefix{four}, []netip.Prefix{four}, []netip.Prefix{four, six}, []netip.Prefix{six}, nil),
		}
		if p.Prefixes == nil {
			p.Malformed = "no prefix"
		}
		w.Projects = append(w.Projects, p)
	}
}

// ownName is the name of the EIp that a FIp makes for itself.
func ownName(f string) string { return "fip-" + f + "-" + intent.Suffix(f) }

// ovnEipOf is the name of the OvnEip of an EIp.
func ovnEipOf(eip string) string { return "eip-" + shard + "-" + eip }

func fips(d *dice, w *snapshot.World) {
	for i := range d.roll(4) {
		f := snapshot.FIp{
			Meta: meta(d, shard, fmt.Sprintf("f%d", i)), Type: choose(d, "", "", "a", "b", "none"), Malformed: malformedBy(d),
			EIp: choose(d, "", "", "e0", "e0", "e1", "e1", DefaultEIp, ownName("f0"), "none"),
		}
		switch d.roll(3) {
		case 0:
			f.Address = choose(d, inside(5), inside(6), inside(7), netip.MustParseAddr("10.9.9.9"))
		case 1:
			f.Pod = choose(d, "p0", "p1", "none")
		case 2:
			f.VM, f.Interface = choose(d, "v0", "none"), choose(d, "", "eth0", "eth9")
		}
		w.FIps = append(w.FIps, f)
	}
}

// services ask for few ports of few addresses, and some of them are not ours.
func services(d *dice, w *snapshot.World) {
	for i := range d.roll(4) {
		s := snapshot.Service{
			Meta: meta(d, shard, fmt.Sprintf("s%d", i)), Balancer: !d.rare(), Marked: d.bool(), Malformed: malformedBy(d),
			Class: choose(d, "", "", "", kubedcv1.LoadBalancerClass, "other"), EIp: choose(d, "", "", "e0", "e0", "e1", DefaultEIp, "none"),
			Type: choose(d, "", "", "a", "b", "none"), Address: anyAddress(d), Shown: anyAddress(d), Affinity: choose(d, 0, 10, 86400),
			Backend: d.bool(), Expires: d.rare(), Leaves: d.rare(), Idle: choose(d, time.Time{}, time.Unix(1, 0)),
		}
		if d.rare() {
			s.Ranges = []netip.Prefix{netip.MustParsePrefix(choose(d, "192.0.2.0/24", "2001:db8::/32"))}
		}
		if d.rare() {
			s.Check = &snapshot.Check{Interval: 1, Timeout: 1, Successes: 1, Failures: 1}
		}
		for n := range 1 + d.roll(2) {
			s.Ports = append(s.Ports, snapshot.Port{Name: fmt.Sprint(n), Protocol: choose(d, intent.TCP, intent.TCP, intent.UDP, "other"), Number: choose(d, 80, 80, 81)})
		}
		for range d.roll(3) {
			s.Endpoints = append(s.Endpoints, snapshot.Endpoint{
				Port: choose(d, "0", "1"), Address: choose(d, inside(5), inside(6), netip.MustParseAddr("10.9.9.9")), Number: 8080, Ready: d.bool(), Serving: d.bool(),
				Target: choose(d, "", "p0", "p1", "none"),
			})
		}
		w.Services = append(w.Services, s)
	}
}

func eips(d *dice, w *snapshot.World) {
	for _, name := range []string{DefaultEIp, "e0", "e1", ownName("f0"), ownName("f1")} {
		if !d.bool() {
			continue
		}
		w.EIps = append(w.EIps, snapshot.EIp{
			Meta: meta(d, shard, name), Type: choose(d, "", "", "a", "b", "none"), Network: choose(d, "", "", "", "", "x0", "n", "none"),
			Child:   child(d, name),
			Address: anyAddress(d), Remembered: anyAddress(d), Malformed: malformedBy(d),
		})
	}
}

// child is what an EIp stands for: mostly what its name says.
func child(d *dice, eip string) string {
	switch {
	case d.rare():
		return choose(d, shard+"-x0", shard+"-x1", ovnEipOf("e0"), "foreign", "none")
	case eip == DefaultEIp:
		return choose(d, shard+"-x0", shard+"-x1")
	default:
		return ""
	}
}

func targets(d *dice, w *snapshot.World) {
	some := func() []netip.Addr {
		return choose(d, []netip.Addr{inside(5)}, []netip.Addr{netip.MustParseAddr("fd00::5"), inside(6)}, nil)
	}
	for _, name := range []string{"p0", "p1"} {
		if !d.rare() {
			w.Pods[snapshot.PodName(shard, name)] = some()
		}
	}
	if !d.rare() {
		w.VMs["v0"] = []intent.VMInterface{
			{VM: "v0", Interface: "spare"}, {VM: "v0", Interface: "main", InGuest: "eth0", Address: choose(d, inside(5), netip.Addr{})},
		}
	}
}

func seen(d *dice) snapshot.Seen {
	s := snapshot.Seen{Exists: true, Ready: !d.rare(), Deleting: d.rare()}
	if s.Deleting {
		s.Since = time.Unix(choose(d, int64(999), 900), 0)
	}
	return s
}

// engineOf is what Kube-OVN has, and may have stopped having.
func engineOf(d *dice, w *snapshot.World) {
	e := &w.Engine
	subnets := func() map[string]bool { return map[string]bool{"x0": d.bool(), "x1": d.bool()} }
	if d.bool() {
		e.Vpc = snapshot.Vpc{Seen: seen(d), Asked: subnets(), Attached: subnets(), Said: choose(d, time.Time{}, time.Unix(900, 0), time.Unix(999, 0))}
	}
	if d.bool() {
		e.Subnet, e.InUse = seen(d), d.roll(3)
	}
	if d.rare() {
		e.Left = []string{"Address_Set x"}
	}
	for _, name := range []string{shard + "-x0", shard + "-x1", ovnEipOf("e0"), ovnEipOf("e1"), ovnEipOf(ownName("f0")), "foreign"} {
		if d.bool() {
			e.OvnEips[name] = ovnEip(d, w, name)
		}
	}
	for i := range 3 {
		if d.bool() {
			e.OvnFips[fmt.Sprintf("%s-f%d", shard, i)] = translation(d, e)
		}
	}
	if d.bool() {
		f := translation(d, e)
		e.Snat = snapshot.OvnSnatRule{Seen: f.Seen, OvnEip: f.OvnEip, External: f.External, Overlooked: f.Overlooked}
		if f.Ready {
			e.Snat.Inside = netip.MustParsePrefix("10.0.0.0/24")
		}
	}
	if d.bool() {
		e.Ports = map[string]bool{shard + "-x0": d.bool(), shard + "-x1": d.bool(), shard + "-" + shard + "-default": d.bool()}
	}
}

func ovnEip(d *dice, w *snapshot.World, name string) snapshot.OvnEip {
	i, kind := d.roll(len(w.Externals)), "nat"
	if port := slices.Index([]string{shard + "-x0", shard + "-x1"}, name); port >= 0 {
		i, kind = min(port, len(w.Externals)-1), "lrp"
	}
	o := snapshot.OvnEip{Seen: seen(d), Ours: name != "foreign" && !d.rare(), Subnet: w.Externals[i].Subnet, Type: kind}
	if a := address(i, 2+d.roll(4)); !d.rare() && w.Holders[a].OvnEip == "" {
		o.Address = a
		h := snapshot.Holder{OvnEip: name, Shard: shard}
		if !o.Ours {
			h.Shard = choose(d, "", "another")
		}
		w.Holders[a] = h
	}
	o.Blank = o.Ready && !o.Address.IsValid()
	o.Ready = o.Ready && o.Address.IsValid()
	return o
}

func translation(d *dice, e *snapshot.Engine) snapshot.OvnFip {
	f := snapshot.OvnFip{
		Seen: seen(d), OvnEip: choose(d, ovnEipOf("e0"), ovnEipOf("e1"), ovnEipOf(ownName("f0")), shard+"-x0", "none"),
		Target: choose(d, inside(5), inside(6), netip.Addr{}),
	}
	if f.External = e.OvnEips[f.OvnEip].Address; d.rare() {
		f.External = anyAddress(d)
	}
	f.Ready = f.Ready && f.External.IsValid()
	f.Overlooked = f.Exists && !f.Ready && !f.Deleting && d.rare()
	return f
}

// own is the objects with our labels: all of which the names and flags say so, and some of the EIps.
func own(d *dice, w *snapshot.World) {
	mark := func(kind intent.Kind, namespace, name string, is bool) {
		if is {
			w.Engine.Objects[intent.ObjectKey{Kind: kind, Namespace: namespace, Name: name}] = true
		}
	}
	e := w.Engine
	mark(intent.Namespace, "", shard, w.Namespace.Exists && w.Namespace.Ours)
	mark(intent.Vpc, "", shard, e.Vpc.Exists)
	mark(intent.Subnet, "", shard+"-default", e.Subnet.Exists)
	mark(intent.OvnSnatRule, "", shard, e.Snat.Exists)
	for name, o := range e.OvnEips {
		mark(intent.OvnEip, "", name, o.Ours)
	}
	for name := range e.OvnFips {
		mark(intent.OvnFip, "", name, true)
	}
	for _, x := range w.EIps {
		mark(intent.EIp, shard, x.Name, !slices.Contains([]string{"e0", "e1"}, x.Name) && !d.rare())
	}
}
