package sctp

import (
	"errors"
	"net/netip"
	"testing"
	"time"
)

var between = pair{remote: netip.MustParseAddrPort("192.0.2.1:50000"), local: netip.MustParseAddrPort("192.0.2.2:80")}

func echo(_ netip.AddrPort, message []byte) []byte { return message }

// setUp brings a client and a server to where the client would ask.
func setUp(t *testing.T, s *server, now time.Time) *client {
	t.Helper()
	c := newClient(50000, 80, []byte("hello"))
	for c.phase < asking {
		began := c.phase
		for _, p := range s.handle(c.due()[0], between, now) {
			c.handle(p)
		}
		if c.phase == began {
			t.Fatalf("association stays in phase %d", began)
		}
	}
	return c
}

func kinds(packets []packet) (all []uint8) {
	for _, p := range packets {
		for _, c := range p.chunks {
			all = append(all, c.kind)
		}
	}
	return all
}

func TestInitCostsNoMemory(t *testing.T) {
	s := newServer([]uint16{80}, echo)
	reply := s.handle(newClient(50000, 80, nil).due()[0], between, time.Now())
	if got := kinds(reply); len(got) != 1 || got[0] != kindInitAck {
		t.Errorf("INIT was answered with %v", got)
	}
	if len(s.associations) != 0 {
		t.Error("INIT alone made an association")
	}
	if setUp(t, s, time.Now()); len(s.associations) != 1 {
		t.Error("COOKIE ECHO made no association")
	}
}

func TestRepeatedInitGetsTheSameTag(t *testing.T) {
	s := newServer([]uint16{80}, echo)
	now := time.Now()
	ask := func(c *client, at time.Time) initial {
		t.Helper()
		got, err := parseInitial(s.handle(c.due()[0], between, at)[0].chunks[0])
		if err != nil {
			t.Fatal(err)
		}
		return got
	}
	c := newClient(50000, 80, nil)
	first, again := ask(c, now), ask(c, now.Add(time.Second))
	if first.tag != again.tag || first.tsn != again.tsn {
		t.Errorf("tags %x and %x, first TSNs %x and %x", first.tag, again.tag, first.tsn, again.tsn)
	}
	if other := ask(newClient(50000, 80, nil), now); other.tag == first.tag {
		t.Error("another association has the same tag")
	}
}

func TestCookieIsRefused(t *testing.T) {
	s := newServer([]uint16{80}, echo)
	now := time.Now()
	c := newClient(50000, 80, nil)
	c.handle(s.handle(c.due()[0], between, now)[0])
	elsewhere := pair{remote: netip.MustParseAddrPort("192.0.2.9:50000"), local: between.local}
	if s.handle(c.due()[0], elsewhere, now) != nil {
		t.Error("cookie was taken from another address")
	}
	if s.handle(c.due()[0], between, now.Add(2*cookieLife)) != nil {
		t.Error("stale cookie was taken")
	}
	if s.handle(c.due()[0], between, now) == nil {
		t.Error("good cookie was refused")
	}
}

func TestPortsOfOthersAreLeftAlone(t *testing.T) {
	s := newServer([]uint16{80}, echo)
	for port, want := range map[uint16]int{80: 1, 81: 0} {
		if got := s.handle(newClient(50000, port, nil).due()[0], between, time.Now()); len(got) != want {
			t.Errorf("port %d: INIT got %d answers, want %d", port, len(got), want)
		}
	}
}

func TestServerWithoutTheAssociationAborts(t *testing.T) {
	now := time.Now()
	c := setUp(t, newServer([]uint16{80}, echo), now)
	restarted := newServer([]uint16{80}, echo)
	c.handle(restarted.handle(c.due()[0], between, now)[0])
	if !errors.Is(c.err, ErrAborted) {
		t.Errorf("client that asks a restarted server: %v, want %v", c.err, ErrAborted)
	}
}

func TestHeartbeatIsAnswered(t *testing.T) {
	now := time.Now()
	s := newServer([]uint16{80}, echo)
	c := setUp(t, s, now)
	beat := chunk{kind: kindHeartbeat, body: []byte("info")}
	for who, reply := range map[string][]packet{
		"server": s.handle(c.packets(beat)[0], between, now),
		"client": c.handle(packet{src: 80, dst: 50000, tag: c.mine, chunks: []chunk{beat}}),
	} {
		if len(reply) != 1 || reply[0].chunks[0].kind != kindHeartbeatAck || string(reply[0].chunks[0].body) != "info" {
			t.Errorf("%s answers HEARTBEAT with %+v", who, reply)
		}
	}
}

func TestAnswerIsRepeatedThenAbandoned(t *testing.T) {
	now := time.Now()
	s := newServer([]uint16{80}, echo)
	c := setUp(t, s, now)
	if got := kinds(s.handle(c.due()[0], between, now)); len(got) != 2 || got[0] != kindSack || got[1] != kindData {
		t.Fatalf("DATA was answered with %v, want SACK and DATA", got)
	}
	if out := s.tick(now); out != nil {
		t.Errorf("sent again at once: %+v", out)
	}
	for range resendTries {
		now = s.next()
		if out := s.tick(now); len(out) != 1 || out[0].chunks[0].kind != kindData {
			t.Fatalf("after the timer: %+v, want DATA", out)
		}
	}
	if out := s.tick(s.next()); len(out) != 1 || out[0].chunks[0].kind != kindAbort {
		t.Errorf("after the last try: %+v, want ABORT", out)
	}
	if len(s.associations) != 0 || !s.next().IsZero() {
		t.Error("the silent peer is not forgotten")
	}
}

func TestAssociationsAreBounded(t *testing.T) {
	now := time.Now()
	s := newServer([]uint16{80}, echo)
	for i := range mostAssociations {
		id := pair{remote: netip.AddrPortFrom(clientAddr, uint16(i+1)), local: between.local}
		s.associations[id] = &association{used: now}
	}
	c := newClient(50000, 80, nil)
	c.handle(s.handle(c.due()[0], between, now)[0])
	if got := kinds(s.handle(c.due()[0], between, now)); len(got) != 1 || got[0] != kindAbort {
		t.Errorf("one too many was answered with %v, want ABORT", got)
	}
	later := now.Add(2 * idleLife)
	if setUp(t, s, later); len(s.associations) != 1 {
		t.Errorf("%d associations after the idle ones ended, want 1", len(s.associations))
	}
}
