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
	"github.com/sallyport/sallyport/internal/model/ownership"
	"github.com/sallyport/sallyport/test/e2e/harness"
	"github.com/sallyport/sallyport/test/show"
)

// TestReturn6Attacker shows that no packet of a pod leaves through a network from which the pod has no connection, and
// that none reaches another project through a return port. As positive controls, the same pod reaches the same places
// by its allowed path, and a client of the network reaches the pod's floating IP.
func TestReturn6Attacker(t *testing.T) {
	item := returnItems.Item(t, 6)
	s := &projectPair{Cluster: harness.SharedSallyport(t)}
	s.CreateOrganization(t, "attack")
	s.cloud = s.CreateProject(t, "attack", "mine", "10.43.0.0/24", "cloud")
	a := s.newAttackFixture(t)
	// gateways are on node2 and node3
	attackers := []string{"evil-node1", "web", securedAttacker, "evil-node2", "evil-node3"}
	for i, pod := range attackers[:show.ChooseSize(len(attackers), 3)] {
		for j, kind := range []string{"public", "third"} {
			if show.IsFullSize() || i%2 == j {
				a.attackReturnPort(t, pod, kind)
			}
		}
	}
	a.checkCrossedReplies(t)
	a.checkARPSpoofing(t)
	if !t.Failed() {
		item.AddFigure("%d attempts (%s size) by pods without and with floating IPs: nothing arrived on the other networks or in the other project; "+
			"each of %d controls did, and %d clients of the networks were answered meanwhile", a.attempts,
			show.ChooseSize("full", "CI"), a.controls, a.served)
	}
}

// securedAttacker is the attacker that impersonates another pod. Without port security OVN treats a sender with the
// address of another pod as that pod, in every translation.
const securedAttacker = "evil-secured"

// attackFixture is a project with return ports, another project, and taps at all places where no packet may arrive.
type attackFixture struct {
	*projectPair
	soloPods            map[string]netip.Addr // internal addresses of pods with a floating IP on this network only
	webPod, victimPod   netip.Addr            // internal addresses
	fips, victimFIPs    map[string]string     // external addresses, by network
	returnPorts         map[string]returnPortInfo
	routerMAC           net.HardwareAddr
	taps                map[string]*tap
	attempts, wordCount int
	controls, served    int
	secondaryTaps       []string // names of taps
}

// returnPortInfo is what an attacker could know about a return port.
type returnPortInfo struct {
	mac     net.HardwareAddr
	address netip.Addr
	label   int
}

func (s *projectPair) newAttackFixture(t *testing.T) *attackFixture {
	t.Helper()
	s.public = s.CreateProject(t, "attack", "theirs", "10.44.0.0/24", "cloud")
	a := &attackFixture{
		projectPair: s, fips: map[string]string{}, victimFIPs: map[string]string{},
		returnPorts: map[string]returnPortInfo{}, taps: map[string]*tap{}, soloPods: map[string]netip.Addr{},
	}
	for _, node := range s.Blueprint.NodeList() {
		s.RunPod(t, harness.Pod{Namespace: s.cloud, Name: "evil-" + node.Name, Node: node.Name})
	}
	s.RunPod(t, harness.Pod{
		Namespace:   s.cloud,
		Name:        securedAttacker,
		Node:        "node1",
		Annotations: map[string]string{"ovn.kubernetes.io/port_security": "true"},
	})
	a.webPod = netip.MustParseAddr(s.RunPod(t, harness.Pod{Namespace: s.cloud, Name: "web", Node: "node1"}))
	a.victimPod = netip.MustParseAddr(s.RunPod(t, harness.Pod{Namespace: s.public, Name: "victim", Node: "node1"}))
	for _, kind := range harness.NetworkTypes {
		a.fips[kind] = s.CreateFIP(t, s.cloud, "web-"+kind,
			"{podTarget: {podName: web}, externalNetworkType: "+kind+"}")
		a.victimFIPs[kind] = s.CreateFIP(t, s.public, "victim-"+kind,
			"{podTarget: {podName: victim}, externalNetworkType: "+kind+"}")
	}
	for _, kind := range []string{"public", "third"} {
		a.soloPods[kind] = netip.MustParseAddr(s.RunPod(t,
			harness.Pod{Namespace: s.cloud, Name: "solo-" + kind, Node: "node1"}))
		s.CreateFIP(t, s.cloud, "solo-"+kind, "{podTarget: {podName: solo-"+kind+"}, externalNetworkType: "+kind+"}")
	}
	a.readReturnPorts(t)
	for _, kind := range harness.NetworkTypes {
		a.taps["router-"+kind] = newTap(t, s.Cluster, "router-ext-"+kind, "lan")
		a.taps["neighbour-"+kind] = newTap(t, s.Cluster, s.Network(t, kind).Neighbour, "eth0")
	}
	a.taps["victim"] = newTap(t, s.Cluster, "victim."+s.public, "eth0")
	a.secondaryTaps = []string{"router-public", "neighbour-public", "router-third", "neighbour-third"}
	for _, kind := range harness.NetworkTypes { // the controls must not depend on ARP resolution
		s.ExpectAnswer(t, "web."+s.cloud, "http://"+harness.InternetAddress, "internet", "")
		s.ExpectAnswer(t, s.Network(t, kind).Client, "http://"+a.fips[kind], "web", "")
		s.ExpectAnswer(t, "evil-node1."+s.cloud, "http://"+a.victimFIPs[kind], "victim", "")
	}
	return a
}

// readReturnPorts reads values that a pod cannot know but may guess: the addresses and numbers of the return ports.
func (a *attackFixture) readReturnPorts(t *testing.T) {
	t.Helper()
	subnet := a.cloud + "-default"
	for _, row := range a.ReadNBTable(t, "logical_router_port", "name,mac,networks") {
		mac, _ := net.ParseMAC(fmt.Sprint(row["mac"]))
		if row["name"] == a.cloud+"-"+subnet {
			a.routerMAC = mac
		}
		for _, kind := range []string{"public", "third"} {
			if row["name"] == ownership.ReturnRouterPort(a.cloud, subnet, "ext-"+kind) {
				prefix := netip.MustParsePrefix(strings.Trim(fmt.Sprint(row["networks"]), "[]"))
				a.returnPorts[kind] = returnPortInfo{
					mac:     mac,
					address: prefix.Addr(),
					label:   a.readLabel(t, subnet, kind),
				}
			}
		}
	}
	if len(a.returnPorts) != 2 || a.routerMAC == nil {
		t.Fatalf("the project has the legs %v and the router's MAC address %s", a.returnPorts, a.routerMAC)
	}
}

// readLabel returns the connection label of a network in a project.
func (a *attackFixture) readLabel(t *testing.T, subnet, kind string) int {
	t.Helper()
	for _, row := range a.ReadNBTable(t, "acl", "match,label") {
		if n, _ := row["label"].(float64); n > 0 &&
			strings.Contains(fmt.Sprint(row["match"]), ownership.ReturnSwitchPort(a.cloud, subnet, "ext-"+kind)) {
			return int(n)
		}
	}
	t.Fatalf("no label for %s", kind)
	return 0
}

// newWord returns a unique word for the payload of a packet.
func (a *attackFixture) newWord(kind string) string {
	a.wordCount++
	return fmt.Sprintf("~%s%d~", kind, a.wordCount)
}

// attempt is one kind of attack: it sends a packet that contains a word.
type attempt struct {
	what          string
	shieldsVictim bool // the packet must not arrive at the victim either
	send          func(word string) error
}

// attackReturnPort runs every attempt of a pod against one return port.
func (a *attackFixture) attackReturnPort(t *testing.T, pod, kind string) {
	t.Helper()
	ns := a.NS(pod + "." + a.cloud)
	tries := append(a.frameAttempts(t, pod, kind), a.socketAttempts(t, ns, kind)...)
	var words []string
	x := a.Network(t, kind)
	for i, try := range tries {
		bad := a.newWord("bad")
		for range 2 {
			if err := try.send(bad); err != nil {
				t.Fatalf("%s, %s: %v", pod, try.what, err)
			}
		}
		words = append(words, bad)
		a.attempts++
		a.expectAllowedPath(t, pod, i)
		a.ExpectAnswer(t, x.Client, "http://"+a.fips[kind], "web", x.ClientAddress)
		a.served++
	}
	<-time.After(300 * time.Millisecond) // for packets still in flight
	for i, try := range tries {
		places := a.secondaryTaps
		if try.shieldsVictim {
			places = append([]string{"victim"}, places...)
		}
		for _, place := range places {
			if n := a.taps[place].countWord(words[i]); n > 0 {
				t.Errorf("%s against %s: %s: %d packets arrived at %s", pod, kind, try.what, n, place)
			}
		}
	}
}

// expectAllowedPath is the positive control: the same pod sends with the same tool along the allowed path, and the
// packet arrives.
func (a *attackFixture) expectAllowedPath(t *testing.T, pod string, i int) {
	t.Helper()
	good := a.newWord("good")
	f := a.newFrame(t, pod, a.routerMAC, netip.AddrPortFrom(netip.MustParseAddr(harness.InternetAddress), 80))
	place := "router-cloud"
	if i%2 == 1 { // everyone may reach the other project at its external addresses
		f.Target, place = netip.AddrPortFrom(netip.MustParseAddr(a.victimFIPs["cloud"]), 80), "victim"
	}
	f.Source, f.Text = netip.AddrPortFrom(f.Source.Addr(), uint16(21000+a.wordCount)), good
	arrived := false
	for range 3 {
		if err := harness.InjectFrame(a.NS(pod+"."+a.cloud), f.Bytes()); err != nil {
			t.Fatal(err)
		}
		if arrived = a.taps[place].waitForWord(good, time.Second); arrived {
			break
		}
	}
	if !arrived {
		t.Errorf("control: %s sends to %s by its router, and nothing arrives at %s", pod, f.Target, place)
	}
	a.controls++
}

// newFrame returns a UDP packet of a pod, as a template for attacks.
func (a *attackFixture) newFrame(t *testing.T, pod string, to net.HardwareAddr, target netip.AddrPort) harness.Frame {
	t.Helper()
	ns := a.NS(pod + "." + a.cloud)
	return harness.Frame{
		From: harness.HardwareAddress(t, ns), To: to, Source: netip.AddrPortFrom(a.podAddress(t, ns), 22000),
		Target: target, Protocol: unix.IPPROTO_UDP,
	}
}

// podAddress returns the address that is configured in a pod's namespace.
func (a *attackFixture) podAddress(t *testing.T, ns netns.NS) (out netip.Addr) {
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
