package compile

import (
	"fmt"
	"net/netip"
	"slices"
	"time"

	kubedcv1 "github.com/sallyport/sallyport/api/kubedc/v1"
	"github.com/sallyport/sallyport/internal/model/intent"
	"github.com/sallyport/sallyport/internal/model/ipfamily"
	"github.com/sallyport/sallyport/internal/model/snapshot"
)

// testShard is a name that two Projects can give.
const testShard = "o-p-q"

// fuzzInput reads bytes as a sequence of choices. When they run out, every choice is the first one, which is the plain
// one.
type fuzzInput struct{ remaining []byte }

func (d *fuzzInput) intn(sides int) int {
	if len(d.remaining) == 0 {
		return 0
	}
	b := d.remaining[0]
	d.remaining = d.remaining[1:]
	return int(b) % sides
}

func (d *fuzzInput) bool() bool { return d.intn(2) == 1 }

// oneInEight returns true for one of eight values.
func (d *fuzzInput) oneInEight() bool { return d.intn(8) == 7 }

func pickOne[T any](d *fuzzInput, from ...T) T { return from[d.intn(len(from))] }

// randomWorld returns the snapshot that bytes encode: few names and few addresses, so that they collide, and all kinds
// of obstacles. It respects what Kubernetes guarantees (names are unique) and Kube-OVN (no address is assigned twice).
func randomWorld(d *fuzzInput) *snapshot.VpcInput {
	w := &snapshot.VpcInput{
		Shard: testShard, Now: time.Unix(1000, 0),
		Config: snapshot.Config{
			DefaultEIpType: pickOne(d, "", "", "a", "b"),
			DefaultFIpType: pickOne(d, "", "", "a", "b"),
		},
		Namespace: snapshot.Namespace{Exists: d.bool(), Quota: randomQuota(d)},
		Pods:      map[string][]netip.Addr{}, VMs: map[string][]intent.VMInterface{},
		AddressOwners: map[netip.Addr]snapshot.AddressOwner{},
		Engine: snapshot.Engine{
			OvnEips:      map[string]snapshot.OvnEip{},
			OvnFips:      map[string]snapshot.OvnFip{},
			OwnedObjects: map[intent.ObjectKey]bool{},
		},
	}
	w.Namespace.Owned, w.Namespace.Deleting = w.Namespace.Exists && !d.oneInEight(), w.Namespace.Exists &&
		d.oneInEight()
	for i := range 1 + d.intn(3) {
		w.ExternalSubnets = append(w.ExternalSubnets, randomExternal(d, i))
	}
	addProjects(d, w)
	addFIPs(d, w)
	addServices(d, w)
	addEIPs(d, w)
	addTargets(d, w)
	addEngine(d, w)
	addOwnership(d, w)
	addSelections(d, w)
	addEgressPolicies(d, w)
	addLimits(d, w)
	return w
}

// addLimits adds admitted projects, allow-lists, and quotas of an organization.
func addLimits(d *fuzzInput, w *snapshot.VpcInput) {
	for i := range w.ExternalSubnets {
		if d.oneInEight() {
			w.ExternalSubnets[i].Admitted = snapshot.Admitted{testShard: d.bool()}
		}
	}
	w.Organizations = map[string]snapshot.Organization{}
	for i := range w.Projects {
		p := &w.Projects[i]
		for _, list := range []*snapshot.AllowList{&p.IngressAllowList, &p.EgressAllowList} {
			if d.oneInEight() {
				*list = snapshot.AllowList{
					IsSet:    true,
					Prefixes: pickOne(d, nil, []netip.Prefix{netip.MustParsePrefix("192.0.2.0/24")}),
				}
			}
		}
		if d.oneInEight() {
			member := snapshot.MemberProject{Meta: snapshot.Meta{
				Namespace: p.Namespace,
				Name:      "sibling",
				Created:   time.Unix(int64(d.intn(1000)), 0),
			}, Accepted: d.bool()}
			member.EIps = []snapshot.MemberEIp{{Meta: snapshot.Meta{
				Namespace: "sibling",
				Name:      "e",
				Created:   time.Unix(int64(d.intn(1000)), 0),
			}, Accepted: d.bool()}}
			w.Organizations[p.Namespace] = snapshot.Organization{
				EIps: randomQuota(d), Projects: randomQuota(d),
				Members: []snapshot.MemberProject{member, {Meta: p.Meta, Accepted: p.Accepted}},
			}
		}
	}
}

// addEgressPolicies rarely adds any, on networks that may not exist.
func addEgressPolicies(d *fuzzInput, w *snapshot.VpcInput) {
	for i := range d.intn(3) {
		if !d.oneInEight() {
			return
		}
		name := fmt.Sprintf("s%d", i)
		w.EgressServices = append(w.EgressServices, snapshot.EgressService{
			Meta: randomMeta(d, testShard, name), ByNetwork: d.bool(), Network: pickOne(d, "", "a", "b", "n", "x1"),
		})
		w.EgressRoutes = append(w.EgressRoutes, snapshot.EgressRoute{
			Meta: randomMeta(d, testShard, name), Type: pickOne(d, "a", "b", "c"),
			Network: pickOne(d, "", "", "n", "x0"), Malformed: randomMalformed(d),
			Pods: []snapshot.PodPlacement{{Address: podIP(byte(2 + d.intn(3)))}},
			Destinations: []netip.Prefix{netip.PrefixFrom(pickOne(d, externalIP(0, 0), externalIP(1, 0),
				externalIP(9, 0)), pickOne(d, 16, 24, 28)).Masked()},
		})
	}
}

// addSelections rarely adds any, and then some without an address.
func addSelections(d *fuzzInput, w *snapshot.VpcInput) {
	for i := range d.intn(3) {
		if !d.oneInEight() {
			return
		}
		s := snapshot.Selection{
			EgressIP: fmt.Sprintf("e%d", i),
			FailOpen: d.bool(),
			Created:  time.Unix(int64(d.intn(3)), 0),
		}
		for host := range byte(d.intn(4)) {
			s.Pods = append(s.Pods, podIP(host+2))
		}
		if d.bool() {
			s.Links = []snapshot.EgressLink{{
				Address:     externalIP(0, 5+i),
				PeerNetwork: netip.PrefixFrom(netip.AddrFrom4([4]byte{240, 0, 0, byte(4*i + 1)}), 30),
			}}
		}
		w.Selections, w.PodAddresses = append(w.Selections, s), []netip.Addr{podIP(2), podIP(3), podIP(4), podIP(5)}
	}
}

func randomQuota(d *fuzzInput) snapshot.Limit {
	if !d.oneInEight() {
		return snapshot.Limit{}
	}
	return snapshot.AtMost(d.intn(3))
}

func randomExternal(d *fuzzInput, i int) snapshot.ExternalSubnet {
	x := snapshot.ExternalSubnet{
		Subnet: fmt.Sprintf("x%d", i), Network: pickOne(d, fmt.Sprintf("x%d", i), "n"), Type: pickOne(d, "a", "a", "b"),
		Default: d.bool(), Ready: true,
		Prefix: netip.MustParsePrefix(fmt.Sprintf("192.0.%d.0/28", i)), Gateway: externalIP(i, 1),
		Unsupported: d.oneInEight(),
		Free:        pickOne(d, 9, 9, 9, 9, 2, 1, 0), Used: 3,
	}
	if d.oneInEight() {
		x.ReservedRanges = []snapshot.AddressRange{{First: externalIP(i, 1), Last: externalIP(i, pickOne(d, 1, 3, 4))}}
	}
	if d.oneInEight() {
		_ = x.AddSecond(snapshot.SecondPrefix{
			Prefix: netip.MustParsePrefix("2001:db8::/64"), Gateway: netip.MustParseAddr("2001:db8::1"),
			Pool: pickOne(d, netip.Prefix{}, netip.MustParsePrefix("2001:db8::40/127"), netip.MustParsePrefix("2001:db8::1:0/112")),
		})
	}
	if x.Unsupported && d.bool() {
		x.Prefix, x.Gateway = netip.Prefix{}, netip.Addr{} // IPv6 only
	}
	return x
}

func externalIP(subnet, host int) netip.Addr {
	return netip.AddrFrom4([4]byte{192, 0, byte(subnet), byte(host)})
}

// podIP returns an address of the project.
func podIP(host byte) netip.Addr { return netip.AddrFrom4([4]byte{10, 0, 0, host}) }

// randomAddress returns none, or one of a few: of networks, of gateways, or of no network.
func randomAddress(d *fuzzInput) netip.Addr {
	if d.bool() {
		return netip.Addr{}
	}
	return pickOne(d, netip.Addr{}, externalIP(0, 3), externalIP(0, 4), externalIP(1, 3), externalIP(0, 1),
		externalIP(9, 9), netip.MustParseAddr("2001:db8::1"), netip.MustParseAddr("2001:db8::40"),
		netip.MustParseAddr("2001:db8::1:7"))
}

func randomMeta(d *fuzzInput, namespace, name string) snapshot.Meta {
	return snapshot.Meta{
		Namespace: namespace, Name: name, UID: name, Generation: 1, Created: time.Unix(int64(d.intn(3)), 0),
		Deleting: d.oneInEight(),
	}
}

func randomMalformed(d *fuzzInput) snapshot.Malformed {
	if d.oneInEight() && d.bool() {
		return "a field is wrong"
	}
	return ""
}

func addProjects(d *fuzzInput, w *snapshot.VpcInput) {
	four, six := netip.MustParsePrefix("10.0.0.0/24"), netip.MustParsePrefix("fd00::/64")
	names := [][2]string{{"o", "p-q"}, {"o-p", "q"}}
	for _, n := range names[:pickOne(d, 1, 1, 1, 1, 1, 1, 2, 0)] {
		p := snapshot.Project{
			Meta: randomMeta(d, n[0], n[1]), NetworkType: pickOne(d, "a", "a", "a", "b", "none"),
			EIpQuota: randomQuota(d), Malformed: randomMalformed(d),
			Prefixes: pickOne(d, []netip.Prefix{four}, []netip.Prefix{four}, []netip.Prefix{four},
				[]netip.Prefix{four, six}, []netip.Prefix{six}, nil),
		}
		if p.Prefixes == nil {
			p.Malformed = "no prefix"
		}
		w.Projects = append(w.Projects, p)
	}
}

// fipEIPName returns the name of the EIp created for a FIp.
func fipEIPName(f string) string { return "fip-" + f + "-" + intent.UIDSuffix(f) }

// ovnEipNameOf returns the name of the OvnEip of an EIp.
func ovnEipNameOf(eip string) string { return "eip-" + testShard + "-" + eip }

func addFIPs(d *fuzzInput, w *snapshot.VpcInput) {
	for i := range d.intn(4) {
		f := snapshot.FIp{
			Meta: randomMeta(d, testShard, fmt.Sprintf("f%d", i)), Type: pickOne(d, "", "", "a", "b", "none"),
			Malformed: randomMalformed(d),
			EIp:       pickOne(d, "", "", "e0", "e0", "e1", "e1", defaultEIPName, fipEIPName("f0"), "none"),
			Family:    randomFamily(d),
		}
		switch d.intn(3) {
		case 0:
			f.Address = pickOne(d, podIP(5), podIP(6), podIP(7), netip.MustParseAddr("10.9.9.9"))
		case 1:
			f.Pod = pickOne(d, "p0", "p1", "none")
		case 2:
			f.VM, f.Interface = pickOne(d, "v0", "none"), pickOne(d, "", "eth0", "eth9")
		}
		f.Outbound = d.bool()
		w.FIps = append(w.FIps, f)
	}
}

// addServices adds Services that request few ports of few addresses. Sallyport does not serve all of them.
func addServices(d *fuzzInput, w *snapshot.VpcInput) {
	for i := range d.intn(4) {
		s := snapshot.Service{
			Meta: randomMeta(d, testShard, fmt.Sprintf("s%d", i)), IsLoadBalancer: !d.oneInEight(),
			HasManagedStatus: d.bool(), Malformed: randomMalformed(d),
			Class: pickOne(d, "", "", "", kubedcv1.LoadBalancerClass, "other"),
			EIp:   pickOne(d, "", "", "e0", "e0", "e1", defaultEIPName, "none"),
			Type:  pickOne(d, "", "", "a", "b", "none"), Address: randomAddress(d), StatusAddresses: []netip.Addr{randomAddress(d)},
			AffinitySeconds: pickOne(d, 0, 10, 86400),
			WantsBackend:    d.bool(), Autodelete: d.oneInEight(), EgressByLBIP: d.oneInEight(),
			IdleSince: pickOne(d, time.Time{}, time.Unix(1, 0)),
			Families:  pickOne(d, nil, nil, []ipfamily.Family{ipfamily.V6}, ipfamily.Both), NeedsAll: d.bool(),
		}
		if d.oneInEight() {
			s.SourceRanges = []netip.Prefix{netip.MustParsePrefix(pickOne(d, "192.0.2.0/24", "2001:db8::/32"))}
		}
		if d.oneInEight() {
			s.HealthCheck = &snapshot.HealthCheck{Interval: 1, Timeout: 1, Successes: 1, Failures: 1}
		}
		for n := range 1 + d.intn(2) {
			s.Ports = append(s.Ports, snapshot.Port{
				Name:     fmt.Sprint(n),
				Protocol: pickOne(d, intent.TCP, intent.TCP, intent.UDP, "other"),
				Number:   pickOne(d, 80, 80, 81),
			})
		}
		for range d.intn(3) {
			s.Endpoints = append(s.Endpoints, snapshot.Endpoint{
				PortName: pickOne(d, "0", "1"), Address: pickOne(d, podIP(5), podIP(6),
					netip.MustParseAddr("10.9.9.9")), Number: 8080, Ready: d.bool(), Serving: d.bool(),
				TargetPod: pickOne(d, "", "p0", "p1", "none"),
			})
		}
		w.Services = append(w.Services, s)
	}
}

// randomFamily returns what an object says about the family of its address.
func randomFamily(d *fuzzInput) ipfamily.Family { return pickOne(d, 0, 0, 0, ipfamily.V4, ipfamily.V6) }

func addEIPs(d *fuzzInput, w *snapshot.VpcInput) {
	for _, name := range []string{defaultEIPName, "e0", "e1", fipEIPName("f0"), fipEIPName("f1")} {
		if !d.bool() {
			continue
		}
		w.EIps = append(w.EIps, snapshot.EIp{
			Meta: randomMeta(d, testShard, name), Type: pickOne(d, "", "", "a", "b", "none"),
			Network:        pickOne(d, "", "", "", "", "x0", "n", "none"),
			ExistingOvnEip: randomChild(d, name),
			Address:        randomAddress(d), StatusAddress: randomAddress(d), Malformed: randomMalformed(d),
			Family: randomFamily(d),
		})
	}
}

// randomChild returns the childRef of an EIp: mostly the one that its name suggests.
func randomChild(d *fuzzInput, eip string) string {
	switch {
	case d.oneInEight():
		return pickOne(d, testShard+"-x0", testShard+"-x1", ovnEipNameOf("e0"), "foreign", "none")
	case eip == defaultEIPName:
		return pickOne(d, testShard+"-x0", testShard+"-x1")
	default:
		return ""
	}
}

func addTargets(d *fuzzInput, w *snapshot.VpcInput) {
	some := func() []netip.Addr {
		return pickOne(d, []netip.Addr{podIP(5)}, []netip.Addr{netip.MustParseAddr("fd00::5"), podIP(6)}, nil)
	}
	for _, name := range []string{"p0", "p1"} {
		if !d.oneInEight() {
			w.Pods[snapshot.PodKey(testShard, name)] = some()
		}
	}
	if !d.oneInEight() {
		w.VMs[snapshot.PodKey(w.Shard, "v0")] = []intent.VMInterface{
			{VM: "v0", Interface: "spare"},
			{VM: "v0", Interface: "main", InGuest: "eth0", Address: pickOne(d, podIP(5), netip.Addr{})},
		}
	}
}

func randomSeen(d *fuzzInput) snapshot.ObjectState {
	s := snapshot.ObjectState{Exists: true, Ready: !d.oneInEight(), Deleting: d.oneInEight()}
	if s.Deleting {
		s.DeletedAt = time.Unix(pickOne(d, int64(999), 900), 0)
	}
	return s
}

// addEngine adds Kube-OVN's objects, some of them missing or broken.
func addEngine(d *fuzzInput, w *snapshot.VpcInput) {
	e := &w.Engine
	subnets := func() map[string]bool { return map[string]bool{"x0": d.bool(), "x1": d.bool()} }
	if d.bool() {
		e.Vpc = snapshot.Vpc{
			ObjectState:      randomSeen(d),
			RequestedSubnets: subnets(),
			AttachedSubnets:  subnets(),
			StatusWrittenAt:  pickOne(d, time.Time{}, time.Unix(900, 0), time.Unix(999, 0)),
			LastEditedAt:     pickOne(d, time.Time{}, time.Unix(899, 0), time.Unix(999, 0)),
		}
	}
	if d.bool() {
		e.Subnet, e.UsedIPs = randomSeen(d), d.intn(3)
	}
	if d.oneInEight() {
		e.Leftovers = []string{"Address_Set x"}
	}
	for _, name := range []string{
		testShard + "-x0", testShard + "-x1", ovnEipNameOf("e0"), ovnEipNameOf("e1"),
		ovnEipNameOf(fipEIPName("f0")), "foreign",
	} {
		if d.bool() {
			e.OvnEips[name] = randomOvnEip(d, w, name)
		}
	}
	for i := range 3 {
		if d.bool() {
			e.OvnFips[fmt.Sprintf("%s-f%d", testShard, i)] = randomOvnFip(d, e)
		}
	}
	if d.bool() {
		f := randomOvnFip(d, e)
		e.SnatRule = snapshot.OvnSnatRule{
			ObjectState: f.ObjectState,
			OvnEip:      f.OvnEip,
			ExternalIP:  f.ExternalIP,
			Stuck:       f.Stuck,
		}
		if f.Ready {
			e.SnatRule.InternalPrefix = netip.MustParsePrefix("10.0.0.0/24")
		}
	}
	if d.bool() {
		e.RouterPorts = map[string]bool{
			testShard + "-x0":                        d.bool(),
			testShard + "-x1":                        d.bool(),
			testShard + "-" + testShard + "-default": d.bool(),
		}
	}
}

func randomOvnEip(d *fuzzInput, w *snapshot.VpcInput, name string) snapshot.OvnEip {
	i, kind := d.intn(len(w.ExternalSubnets)), "nat"
	if port := slices.Index([]string{testShard + "-x0", testShard + "-x1"}, name); port >= 0 {
		i, kind = min(port, len(w.ExternalSubnets)-1), "lrp"
	}
	o := snapshot.OvnEip{
		ObjectState: randomSeen(d),
		Owned:       name != "foreign" && !d.oneInEight(),
		Subnet:      w.ExternalSubnets[i].Subnet,
		Type:        kind,
	}
	if a := externalIP(i, 2+d.intn(4)); !d.oneInEight() && w.AddressOwners[a].OvnEip == "" {
		o.Address = a
		h := snapshot.AddressOwner{OvnEip: name, Shard: testShard}
		if !o.Owned {
			h.Shard = pickOne(d, "", "another")
		}
		w.AddressOwners[a] = h
	}
	o.FailedWithoutAddress = o.Ready && !o.Address.IsValid()
	o.Ready = o.Ready && o.Address.IsValid()
	return o
}

func randomOvnFip(d *fuzzInput, e *snapshot.Engine) snapshot.OvnFip {
	f := snapshot.OvnFip{
		ObjectState: randomSeen(d), OvnEip: pickOne(d, ovnEipNameOf("e0"), ovnEipNameOf("e1"),
			ovnEipNameOf(fipEIPName("f0")), testShard+"-x0", "none"),
		TargetIP: pickOne(d, podIP(5), podIP(6), netip.Addr{}),
	}
	if f.ExternalIP = e.OvnEips[f.OvnEip].Address; d.oneInEight() {
		f.ExternalIP = randomAddress(d)
	}
	f.Ready = f.Ready && f.ExternalIP.IsValid()
	f.Stuck = f.Exists && !f.Ready && !f.Deleting && d.oneInEight()
	return f
}

// addOwnership adds the objects with the controller's labels: all that names and flags imply, and some of the EIps.
func addOwnership(d *fuzzInput, w *snapshot.VpcInput) {
	mark := func(kind intent.Kind, namespace, name string, is bool) {
		if is {
			w.Engine.OwnedObjects[intent.ObjectKey{Kind: kind, Namespace: namespace, Name: name}] = true
		}
	}
	e := w.Engine
	mark(intent.Namespace, "", testShard, w.Namespace.Exists && w.Namespace.Owned)
	mark(intent.Vpc, "", testShard, e.Vpc.Exists)
	mark(intent.Subnet, "", testShard+"-default", e.Subnet.Exists)
	mark(intent.OvnSnatRule, "", testShard, e.SnatRule.Exists)
	for name, o := range e.OvnEips {
		mark(intent.OvnEip, "", name, o.Owned)
	}
	for name := range e.OvnFips {
		mark(intent.OvnFip, "", name, true)
	}
	for _, x := range w.EIps {
		mark(intent.EIp, testShard, x.Name, !slices.Contains([]string{"e0", "e1"}, x.Name) && !d.oneInEight())
	}
}
