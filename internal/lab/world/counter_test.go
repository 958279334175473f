package world

import (
	"testing"

	"github.com/sallyport/sallyport/internal/lab/netns"
)

func TestCountersAreReadAndReset(t *testing.T) {
	public, _, _ := segments(t)
	router := netns.Named(public.Router)
	sees(t, public.Client, serve(t, public.Neighbour, public.Neighbours[0].Addr()), public.ClientSide[0].Peer.Addr())
	before, err := Counters(router)
	if err != nil {
		t.Fatal(err)
	}
	if in := before[In]; in.Packets == 0 || in.Bytes < 40*in.Packets {
		t.Errorf("after a connection %s counts %+v, want packets of at least 40 bytes", public.Router, in)
	}
	if err := ResetCounters(router); err != nil {
		t.Fatal(err)
	}
	after, err := Counters(router)
	if err != nil {
		t.Fatal(err)
	}
	for _, name := range []string{Spoofed, OutOfState, Out, In} {
		if c, ok := after[name]; !ok || c != (Counter{}) {
			t.Errorf("after a reset %s is %+v, there %v", name, c, ok)
		}
	}
}

func TestOutputOfNftThatIsNoList(t *testing.T) {
	if _, err := parseCounters([]byte("table inet edge")); err == nil {
		t.Error("text was read as counters")
	}
}
