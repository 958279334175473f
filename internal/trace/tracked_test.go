package trace

import (
	"testing"

	"github.com/sallyport/sallyport/internal/match"
)

// opening is a walk, and the first packet of a connection on node1.
func opening(datapath string) (*walk, flight) {
	s := world()
	s.Logical.Chassis[0].Options = map[string]string{"datapath-type": datapath}
	f := flight{Packet: match.Packet{Protocol: match.TCP, TCPFlags: match.SYN}, chassis: "c1"}
	f.become(tuple{source: socketOf("10.0.0.2:5"), destination: socketOf("10.0.0.3:80")})
	return &walk{fabric: newFabric(s), choices: &choices{made: map[string]int{}}}, f
}

// A SYN that is sent again is of a new connection, as long as nobody has answered: load balancers and rules see it as they saw the first.
func TestConnectionsAreNewUntilAnswered(t *testing.T) {
	w, f := opening("")
	w.keep("zone", &f, 0)
	again := f
	if w.lookUp("zone", &again, false); !again.New || again.Established {
		t.Errorf("a SYN that is sent again: %+v", again.Packet)
	}
	answer := f.reversed()
	if w.lookUp("zone", &answer, false); answer.New || !answer.Established || !answer.Reply {
		t.Errorf("its answer: %+v", answer.Packet)
	}
	next := f
	next.TCPFlags = match.ACK
	if w.lookUp("zone", &next, false); next.New || !next.Established || next.Reply {
		t.Errorf("the packet after it: %+v", next.Packet)
	}
}

// Open vSwitch in userspace takes a packet eight times up again and then drops it; the kernel's does not count.
func TestPacketsBeginAgain(t *testing.T) {
	for datapath, tired := range map[string]string{"netdev": "c1", "system": ""} {
		w, f := opening(datapath)
		for range deepest {
			w.repeat(&f)
		}
		if w.tired != "" {
			t.Errorf("%s: tired after %d times", datapath, deepest)
		}
		if w.repeat(&f); w.tired != tired {
			t.Errorf("%s: after one more it is %q that is tired", datapath, w.tired)
		}
	}
}

// Packets of one connection are treated alike by whoever chooses, and every choice is taken once.
func TestChoices(t *testing.T) {
	c := &choices{made: map[string]int{}}
	var got [][2]int
	for {
		first, second := c.choose("a", 2), c.choose("b", 3)
		if again := c.choose("a", 2); again != first {
			t.Errorf("chose %d, then %d", first, again)
		}
		got = append(got, [2]int{first, second})
		if !c.next() {
			break
		}
	}
	if len(got) != 6 || got[0] != [2]int{0, 0} || got[5] != [2]int{1, 2} {
		t.Errorf("chose %v", got)
	}
}
