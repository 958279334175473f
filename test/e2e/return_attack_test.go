package e2e

import (
	"fmt"
	"net"
	"net/netip"
	"strings"
	"testing"
	"time"

	"github.com/vishvananda/netlink"
	"golang.org/x/sys/unix"

	"github.com/sallyport/sallyport/internal/lab/netns"
	"github.com/sallyport/sallyport/internal/ownership"
	"github.com/sallyport/sallyport/test/show"
)

// TestReturn6Attacker: whatever a pod sends, none of it leaves by a network that it has no connection from, and none reaches
// another project by a leg. Beside each attempt, the same pod reaches the same places by its allowed way, and a client of the
// network reaches its floating IP.
func TestReturn6Attacker(t *testing.T) {
	item := returns.Item(t, 6)
	s := &stage{cluster: sallyport(t)}
	s.organization(t, "attack")
	s.cloud = s.project(t, "attack", "mine", "10.43.0.0/24", "cloud")
	a := s.battlefield(t)
	attackers := []string{"evil-node1", "web", secured, "evil-node2", "evil-node3"} // gateways are on node2 and node3
	for i, pod := range attackers[:show.Size(len(attackers), 3)] {
		for j, kind := range []string{"public", "third"} {
			if show.Full() || i%2 == j {
				a.attack(t, pod, kind)
			}
		}
	}
	a.colludes(t)
	a.poisons(t)
	if !t.Failed() {
		item.Figure("%d attempts (%s size) by pods without and with floating IPs: nothing arrived on the other networks or in the other project; "+
			"each of %d controls did, and %d clients of the networks were answered meanwhile", a.attempts, show.Size("full", "CI"), a.controls, a.served)
	}
}

// secured is the attacker that pretends to be another pod. Without port security, who sends with the address of another pod is that
// pod to OVN, for every translation.
const secured = "evil-secured"

// battlefield is a project with legs, another project, and taps at all places where nothing may arrive.
type battlefield struct {
	*stage
	solo             map[string]netip.Addr // inside: a pod with a floating IP on this network and no other
	web, victim      netip.Addr            // inside
	fips, victims    map[string]string     // external addresses, by network
	legs             map[string]foothold
	router           net.HardwareAddr
	taps             map[string]*tap
	attempts, words  int
	controls, served int
	secondary        []string // taps
}

// foothold is a leg as an attacker could know it.
type foothold struct {
	mac     net.HardwareAddr
	address netip.Addr
	number  int
}

func (s *stage) battlefield(t *testing.T) *battlefield {
	t.Helper()
	s.public = s.project(t, "attack", "theirs", "10.44.0.0/24", "cloud")
	a := &battlefield{
		stage: s, fips: map[string]string{}, victims: map[string]string{}, legs: map[string]foothold{}, taps: map[string]*tap{}, solo: map[string]netip.Addr{},
	}
	for _, node := range s.blueprint.NodeList() {
		s.run(t, pod{namespace: s.cloud, name: "evil-" + node.Name, node: node.Name})
	}
	s.run(t, pod{namespace: s.cloud, name: secured, node: "node1", annotations: map[string]string{"ovn.kubernetes.io/port_security": "true"}})
	a.web = netip.MustParseAddr(s.run(t, pod{namespace: s.cloud, name: "web", node: "node1"}))
	a.victim = netip.MustParseAddr(s.run(t, pod{namespace: s.public, name: "victim", node: "node1"}))
	for _, kind := range kindsOfNetwork {
		a.fips[kind] = s.fip(t, s.cloud, "web-"+kind, "{podTarget: {podName: web}, externalNetworkType: "+kind+"}")
		a.victims[kind] = s.fip(t, s.public, "victim-"+kind, "{podTarget: {podName: victim}, externalNetworkType: "+kind+"}")
	}
	for _, kind := range []string{"public", "third"} {
		a.solo[kind] = netip.MustParseAddr(s.run(t, pod{namespace: s.cloud, name: "solo-" + kind, node: "node1"}))
		s.fip(t, s.cloud, "solo-"+kind, "{podTarget: {podName: solo-"+kind+"}, externalNetworkType: "+kind+"}")
	}
	a.survey(t)
	for _, kind := range kindsOfNetwork {
		a.taps["router-"+kind] = s.tap(t, "router-ext-"+kind, "lan")
		a.taps["neighbour-"+kind] = s.tap(t, s.network(t, kind).neighbour, "eth0")
	}
	a.taps["victim"] = s.tap(t, "victim."+s.public, "eth0")
	a.secondary = []string{"router-public", "neighbour-public", "router-third", "neighbour-third"}
	for _, kind := range kindsOfNetwork { // the controls must not depend on a neighbour that is not known yet
		s.answers(t, "web."+s.cloud, "http://"+theInternet, "internet", "")
		s.answers(t, s.network(t, kind).client, "http://"+a.fips[kind], "web", "")
		s.answers(t, "evil-node1."+s.cloud, "http://"+a.victims[kind], "victim", "")
	}
	return a
}

// survey reads what a pod can't know but may guess: the legs' addresses and numbers.
func (a *battlefield) survey(t *testing.T) {
	t.Helper()
	subnet := a.cloud + "-default"
	for _, row := range a.table(t, "logical_router_port", "name,mac,networks") {
		mac, _ := net.ParseMAC(fmt.Sprint(row["mac"]))
		if row["name"] == a.cloud+"-"+subnet {
			a.router = mac
		}
		for _, kind := range []string{"public", "third"} {
			if row["name"] == ownership.LegRouterPort(a.cloud, subnet, "ext-"+kind) {
				prefix := netip.MustParsePrefix(strings.Trim(fmt.Sprint(row["networks"]), "[]"))
				a.legs[kind] = foothold{mac: mac, address: prefix.Addr(), number: a.labelOf(t, subnet, kind)}
			}
		}
	}
	if len(a.legs) != 2 || a.router == nil {
		t.Fatalf("the project has the legs %v and the router's MAC address %s", a.legs, a.router)
	}
}

// labelOf is the number of a network in a project.
func (a *battlefield) labelOf(t *testing.T, subnet, kind string) int {
	t.Helper()
	for _, row := range a.table(t, "acl", "match,label") {
		if n, _ := row["label"].(float64); n > 0 && strings.Contains(fmt.Sprint(row["match"]), ownership.LegSwitchPort(a.cloud, subnet, "ext-"+kind)) {
			return int(n)
		}
	}
	t.Fatalf("no label for %s", kind)
	return 0
}

// word is a new word that a packet carries.
func (a *battlefield) word(kind string) string {
	a.words++
	return fmt.Sprintf("~%s%d~", kind, a.words)
}

// try is one kind of attempt: send a packet with a word in it.
type try struct {
	what   string
	victim bool // nor may it arrive at the victim
	send   func(word string) error
}

// attack makes every attempt of a pod against one leg.
func (a *battlefield) attack(t *testing.T, pod, kind string) {
	t.Helper()
	ns := a.NS(pod + "." + a.cloud)
	tries := append(a.frames(t, pod, kind), a.sockets(t, ns, kind)...)
	var words []string
	x := a.network(t, kind)
	for i, try := range tries {
		bad := a.word("bad")
		for range 2 {
			if err := try.send(bad); err != nil {
				t.Fatalf("%s, %s: %v", pod, try.what, err)
			}
		}
		words = append(words, bad)
		a.attempts++
		a.control(t, pod, i)
		a.answers(t, x.client, "http://"+a.fips[kind], "web", x.clientAddress)
		a.served++
	}
	<-time.After(300 * time.Millisecond) // for what may be on its way still
	for i, try := range tries {
		places := a.secondary
		if try.victim {
			places = append([]string{"victim"}, places...)
		}
		for _, place := range places {
			if n := a.taps[place].heard(words[i]); n > 0 {
				t.Errorf("%s against %s: %s: %d packets arrived at %s", pod, kind, try.what, n, place)
			}
		}
	}
}

// control sends from the same pod, with the same tool, by the way that is allowed: it arrives.
func (a *battlefield) control(t *testing.T, pod string, i int) {
	t.Helper()
	good := a.word("good")
	f := a.frame(t, pod, a.router, netip.AddrPortFrom(netip.MustParseAddr(theInternet), 80))
	place := "router-cloud"
	if i%2 == 1 { // the other project is there for everybody, at its external addresses
		f.target, place = netip.AddrPortFrom(netip.MustParseAddr(a.victims["cloud"]), 80), "victim"
	}
	f.source, f.text = netip.AddrPortFrom(f.source.Addr(), uint16(21000+a.words)), good
	arrived := false
	for range 3 {
		if err := inject(a.NS(pod+"."+a.cloud), f.bytes()); err != nil {
			t.Fatal(err)
		}
		if arrived = a.taps[place].waits(good, time.Second); arrived {
			break
		}
	}
	if !arrived {
		t.Errorf("control: %s sends to %s by its router, and nothing arrives at %s", pod, f.target, place)
	}
	a.controls++
}

// frame is a UDP packet of a pod, to be changed.
func (a *battlefield) frame(t *testing.T, pod string, to net.HardwareAddr, target netip.AddrPort) frame {
	t.Helper()
	ns := a.NS(pod + "." + a.cloud)
	return frame{
		from: hardware(t, ns), to: to, source: netip.AddrPortFrom(a.addressOf(t, ns), 22000), target: target, protocol: unix.IPPROTO_UDP,
	}
}

// addressOf is the address of a pod, as it has it itself.
func (a *battlefield) addressOf(t *testing.T, ns netns.NS) (out netip.Addr) {
	t.Helper()
	err := ns.Do(func() error {
		link, err := netlink.LinkByName("eth0")
		if err != nil {
			return err
		}
		addresses, err := netlink.AddrList(link, netlink.FAMILY_V4)
		if err == nil && len(addresses) > 0 {
			out, _ = netip.AddrFromSlice(addresses[0].IP.To4())
		}
		return err
	})
	if err != nil || !out.IsValid() {
		t.Fatalf("the address of %s: %v", ns.Name, err)
	}
	return out
}
