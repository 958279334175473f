package returnpath

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
	"github.com/sallyport/sallyport/test/e2e/harness"
	"github.com/sallyport/sallyport/test/show"
)

// TestReturn6Attacker: whatever a pod sends, none of it leaves by a network that it has no connection from, and none reaches
// another project by a leg. Beside each attempt, the same pod reaches the same places by its allowed way, and a client of the
// network reaches its floating IP.
func TestReturn6Attacker(t *testing.T) {
	item := returns.Item(t, 6)
	s := &projectPair{Cluster: harness.SharedSallyport(t)}
	s.CreateOrganization(t, "attack")
	s.cloud = s.CreateProject(t, "attack", "mine", "10.43.0.0/24", "cloud")
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

// attackLab is a project with legs, another project, and taps at all places where nothing may arrive.
type attackLab struct {
	*projectPair
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

func (s *projectPair) battlefield(t *testing.T) *attackLab {
	t.Helper()
	s.public = s.CreateProject(t, "attack", "theirs", "10.44.0.0/24", "cloud")
	a := &attackLab{
		projectPair: s, fips: map[string]string{}, victims: map[string]string{}, legs: map[string]foothold{}, taps: map[string]*tap{}, solo: map[string]netip.Addr{},
	}
	for _, node := range s.Blueprint.NodeList() {
		s.RunPod(t, harness.Pod{Namespace: s.cloud, Name: "evil-" + node.Name, Node: node.Name})
	}
	s.RunPod(t, harness.Pod{Namespace: s.cloud, Name: secured, Node: "node1", Annotations: map[string]string{"ovn.kubernetes.io/port_security": "true"}})
	a.web = netip.MustParseAddr(s.RunPod(t, harness.Pod{Namespace: s.cloud, Name: "web", Node: "node1"}))
	a.victim = netip.MustParseAddr(s.RunPod(t, harness.Pod{Namespace: s.public, Name: "victim", Node: "node1"}))
	for _, kind := range harness.NetworkTypes {
		a.fips[kind] = s.CreateFIP(t, s.cloud, "web-"+kind, "{podTarget: {podName: web}, externalNetworkType: "+kind+"}")
		a.victims[kind] = s.CreateFIP(t, s.public, "victim-"+kind, "{podTarget: {podName: victim}, externalNetworkType: "+kind+"}")
	}
	for _, kind := range []string{"public", "third"} {
		a.solo[kind] = netip.MustParseAddr(s.RunPod(t, harness.Pod{Namespace: s.cloud, Name: "solo-" + kind, Node: "node1"}))
		s.CreateFIP(t, s.cloud, "solo-"+kind, "{podTarget: {podName: solo-"+kind+"}, externalNetworkType: "+kind+"}")
	}
	a.survey(t)
	for _, kind := range harness.NetworkTypes {
		a.taps["router-"+kind] = newTap(t, s.Cluster, "router-ext-"+kind, "lan")
		a.taps["neighbour-"+kind] = newTap(t, s.Cluster, s.Network(t, kind).Neighbour, "eth0")
	}
	a.taps["victim"] = newTap(t, s.Cluster, "victim."+s.public, "eth0")
	a.secondary = []string{"router-public", "neighbour-public", "router-third", "neighbour-third"}
	for _, kind := range harness.NetworkTypes { // the controls must not depend on a neighbour that is not known yet
		s.ExpectAnswer(t, "web."+s.cloud, "http://"+harness.InternetAddress, "internet", "")
		s.ExpectAnswer(t, s.Network(t, kind).Client, "http://"+a.fips[kind], "web", "")
		s.ExpectAnswer(t, "evil-node1."+s.cloud, "http://"+a.victims[kind], "victim", "")
	}
	return a
}

// survey reads what a pod can't know but may guess: the legs' addresses and numbers.
func (a *attackLab) survey(t *testing.T) {
	t.Helper()
	subnet := a.cloud + "-default"
	for _, row := range a.Table(t, "logical_router_port", "name,mac,networks") {
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
func (a *attackLab) labelOf(t *testing.T, subnet, kind string) int {
	t.Helper()
	for _, row := range a.Table(t, "acl", "match,label") {
		if n, _ := row["label"].(float64); n > 0 && strings.Contains(fmt.Sprint(row["match"]), ownership.LegSwitchPort(a.cloud, subnet, "ext-"+kind)) {
			return int(n)
		}
	}
	t.Fatalf("no label for %s", kind)
	return 0
}

// word is a new word that a packet carries.
func (a *attackLab) word(kind string) string {
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
func (a *attackLab) attack(t *testing.T, pod, kind string) {
	t.Helper()
	ns := a.NS(pod + "." + a.cloud)
	tries := append(a.frames(t, pod, kind), a.sockets(t, ns, kind)...)
	var words []string
	x := a.Network(t, kind)
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
		a.ExpectAnswer(t, x.Client, "http://"+a.fips[kind], "web", x.ClientAddress)
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
func (a *attackLab) control(t *testing.T, pod string, i int) {
	t.Helper()
	good := a.word("good")
	f := a.frame(t, pod, a.router, netip.AddrPortFrom(netip.MustParseAddr(harness.InternetAddress), 80))
	place := "router-cloud"
	if i%2 == 1 { // the other project is there for everybody, at its external addresses
		f.Target, place = netip.AddrPortFrom(netip.MustParseAddr(a.victims["cloud"]), 80), "victim"
	}
	f.Source, f.Text = netip.AddrPortFrom(f.Source.Addr(), uint16(21000+a.words)), good
	arrived := false
	for range 3 {
		if err := harness.InjectFrame(a.NS(pod+"."+a.cloud), f.Bytes()); err != nil {
			t.Fatal(err)
		}
		if arrived = a.taps[place].waits(good, time.Second); arrived {
			break
		}
	}
	if !arrived {
		t.Errorf("control: %s sends to %s by its router, and nothing arrives at %s", pod, f.Target, place)
	}
	a.controls++
}

// frame is a UDP packet of a pod, to be changed.
func (a *attackLab) frame(t *testing.T, pod string, to net.HardwareAddr, target netip.AddrPort) harness.Frame {
	t.Helper()
	ns := a.NS(pod + "." + a.cloud)
	return harness.Frame{
		From: harness.HardwareAddress(t, ns), To: to, Source: netip.AddrPortFrom(a.addressOf(t, ns), 22000), Target: target, Protocol: unix.IPPROTO_UDP,
	}
}

// addressOf is the address of a pod, as it has it itself.
func (a *attackLab) addressOf(t *testing.T, ns netns.NS) (out netip.Addr) {
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
