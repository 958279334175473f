package trace

import (
	"slices"
	"testing"

	"github.com/sallyport/sallyport/internal/model/ipfamily"
	"github.com/sallyport/sallyport/internal/model/match"
)

// startConnection returns a trace run, and the first packet of a connection on node1.
func startConnection(datapath string) (*traceRun, packet) {
	s := shopSurvey()
	s.Logical.Chassis[0].Options = map[string]string{"datapath-type": datapath}
	f := packet{Packet: match.Packet{Protocol: match.TCP, TCPFlags: match.SYN}, chassis: "c1"}
	f.setTuple(tuple{source: addrPort("10.0.0.2:5"), destination: addrPort("10.0.0.3:80")})
	return &traceRun{topology: newTopology(s), choices: &choices{indexByRow: map[string]int{}}}, f
}

// A retransmitted SYN belongs to a new connection until a reply is seen: load balancers and ACLs treat it like the
// first.
func TestConnectionsAreNewUntilAnswered(t *testing.T) {
	w, f := startConnection("")
	w.commitConnection("zone", &f, 0)
	again := f
	if w.lookupConntrack("zone", &again, false); !again.New || again.Established {
		t.Errorf("a SYN that is sent again: %+v", again.Packet)
	}
	answer := f.replyPacket()
	if w.lookupConntrack("zone", &answer, false); answer.New || !answer.Established || !answer.Reply {
		t.Errorf("its answer: %+v", answer.Packet)
	}
	next := f
	next.TCPFlags = match.ACK
	if w.lookupConntrack("zone", &next, false); next.New || !next.Established || next.Reply {
		t.Errorf("the packet after it: %+v", next.Packet)
	}
}

// The userspace datapath of Open vSwitch recirculates a packet eight times and then drops it; the kernel datapath has
// no limit.
func TestPacketsBeginAgain(t *testing.T) {
	for datapath, tired := range map[string]string{"netdev": "c1", "system": ""} {
		w, f := startConnection(datapath)
		for range maxRecirculations {
			w.recirculate(&f)
		}
		if w.exhaustedChassis != "" {
			t.Errorf("%s: tired after %d times", datapath, maxRecirculations)
		}
		if w.recirculate(&f); w.exhaustedChassis != tired {
			t.Errorf("%s: after one more it is %q that is tired", datapath, w.exhaustedChassis)
		}
	}
}

// All packets of a connection get the same choice, and every combination of choices is taken once.
func TestChoices(t *testing.T) {
	c := &choices{indexByRow: map[string]int{}}
	var got [][2]int
	for {
		first, second := c.chooseIndex("a", 2), c.chooseIndex("b", 3)
		if again := c.chooseIndex("a", 2); again != first {
			t.Errorf("chose %d, then %d", first, again)
		}
		got = append(got, [2]int{first, second})
		if !c.nextCombination() {
			break
		}
	}
	if len(got) != 6 || got[0] != [2]int{0, 0} || got[5] != [2]int{1, 2} {
		t.Errorf("chose %v", got)
	}
}

// The second packet of a connection is translated by the connection, and shows its load balancer like the first.
func TestRetransmissionShowsItsBackend(t *testing.T) {
	w := &traceRun{
		topology: newTopology(shopSurvey()), choices: &choices{indexByRow: map[string]int{}},
		query: queryFromClient("203.0.113.10", webBalancer().VIPs[0].Address.String()),
	}
	first, step, wrong := w.buildFirstPacket()
	if wrong != nil {
		t.Fatal(wrong.Reason)
	}
	for range 2 {
		w.hops = nil
		w.followPacket(step)
		if !slices.ContainsFunc(w.hops, func(h Hop) bool { return h.Row == "Load_Balancer "+webBalancer().Name }) {
			t.Errorf("no load balancer in %+v", w.hops)
		}
		step = w.resendPacket(first)
	}
}

// The answer to a ping starts no connection, in either family.
func TestPingReplies(t *testing.T) {
	for f, want := range map[ipfamily.Family]uint8{ipfamily.V4: 0, ipfamily.V6: 129} {
		var ping packet
		ping.Protocol, ping.ICMPType = match.EchoRequest(f)
		reply := ping.replyPacket()
		if !ping.canStartConnection() || reply.canStartConnection() || reply.ICMPType != want {
			t.Errorf("%v: ping %+v, reply %+v", f, ping.Packet, reply.Packet)
		}
	}
}
