package vrf

import (
	"context"
	"errors"
	"fmt"
	"net"
	"slices"
	"strings"
	"sync"
	"syscall"
	"testing"
	"time"

	"github.com/sallyport/sallyport/internal/model/nodepath"
)

// step is a method that the network changes to while clients are connected.
type step struct {
	method nodepath.Method
	legs   bool
}

func (s step) String() string {
	if s.legs {
		return string(s.method) + " with legs"
	}
	return string(s.method)
}

func (s step) spec() nodepath.Spec {
	out := spec(s.legs)
	out.Networks[0].Method = s.method
	return out
}

// steps lead from Connection to each other.
var steps = []step{{"VRF", false}, {"VRF", true}, {"VRF", false}, {"Connection", false}, {"SourceRule", false},
	{"VRF", false}, {"Mark", false}}

// talk is a stream and whom the client talks to.
type talk struct {
	name, to string
	own      bool // it ends on the node itself, whose replies SourceRule and Mark do not lead
	*stream
}

// promised says whether a talk has to go on from one step to the next.
func (c *talk) promised(was, to step) bool { return !c.own && was.legs == to.legs }

// why is the reason that a talk need not go on.
func (c *talk) why(was, to step) string {
	switch {
	case c.own && to.method == "VRF":
		return "the node's socket is older than the VRF, and its replies leave by the default"
	case c.own:
		return "the node's socket was in the VRF, which has gone"
	case was.legs != to.legs:
		return "conntrack keeps it in the zone of before, so the pod sees the client with another port"
	default:
		return "that should not be"
	}
}

// switched changes the network's method while clients are connected. A line for each step goes to TestAgent2VRF.
func (w *world) switched(t *testing.T, dir string) {
	talks := []*talk{
		{name: "IPv4", to: port(outside, servicePort)}, {name: "IPv6", to: port(outside6, servicePort)},
		{name: "the node itself", to: port(eth1Address, podPort), own: true},
	}
	was := step{method: "Connection"}
	carried(t, w, dir, was.spec())
	for _, to := range steps {
		services := slices.ContainsFunc([]step{was, to}, func(s step) bool {
			return s.method == "SourceRule" || s.method == "Mark"
		})
		now := slices.DeleteFunc(slices.Clone(talks), func(c *talk) bool { return c.own && services })
		for _, c := range now {
			w.connect(t, c)
			c.forgive()
		}
		begun := time.Now()
		carried(t, w, dir, to.spec())
		t.Logf("switched: %s → %s in %d ms; %s", was, to, time.Since(begun).Milliseconds(), outcome(t, now, was, to))
		each(func(network string, v6 bool) {
			reaches(t, fmt.Sprintf("new client after %s → %s", was, to), w.client,
				[3]string{network, "", port(by(v6, outside, outside6), servicePort)}, "")
		})
		was = to
	}
	carried(t, w, dir, nodepath.Spec{})
}

// outcome is what became of talks by a step, in words. Those that have ended begin anew with the next.
func outcome(t *testing.T, talks []*talk, was, to step) string {
	t.Helper()
	ctx, cancel := context.WithTimeout(t.Context(), 2*time.Second)
	defer cancel()
	aims := map[*talk]int{}
	for _, c := range talks {
		aims[c] = c.aim()
	}
	var out, reasons []string
	for _, c := range talks {
		longest, ended := c.goesOn(ctx, aims[c])
		if ended == nil {
			out = append(out, fmt.Sprintf("%s went on, silent for %d ms", c.name, longest.Milliseconds()))
			continue
		}
		if c.promised(was, to) {
			t.Errorf("%s → %s: %s %v", was, to, c.name, ended)
		}
		_ = c.conn.Close()
		c.stream = nil
		out = append(out, fmt.Sprintf("%s %v", c.name, ended))
		if why := c.why(was, to); !slices.Contains(reasons, why) {
			reasons = append(reasons, why)
		}
	}
	if len(reasons) > 0 {
		out = append(out, "because "+strings.Join(reasons, "; "))
	}
	return strings.Join(out, "; ")
}

// stream is a connection of the client's on which a byte goes there and comes back every 100 ms.
type stream struct {
	conn net.Conn

	mu      sync.Mutex
	last    time.Time // when the last came back
	longest time.Duration
	sent    int
	back    int
	ended   error
}

var (
	errSilent = errors.New("was silent for 2 s and more")
	errReset  = errors.New("was reset")
)

// connect opens a talk's stream, unless it is open.
func (w *world) connect(t *testing.T, c *talk) {
	t.Helper()
	if c.stream != nil {
		return
	}
	ctx, cancel := context.WithTimeout(t.Context(), 6*time.Second)
	defer cancel()
	conn, err := w.client.Dial(ctx, "tcp", c.to)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = conn.Close() })
	if _, err := conn.Read(make([]byte, 100)); err != nil { // who we are
		t.Fatal(err)
	}
	c.stream = &stream{conn: conn, last: time.Now()}
	go c.speak(t.Context())
	go c.listen()
}

func (s *stream) speak(ctx context.Context) {
	for ctx.Err() == nil {
		if _, err := s.conn.Write([]byte("x")); err != nil {
			return // who listens says it
		}
		s.mu.Lock()
		s.sent++
		s.mu.Unlock()
		<-time.After(100 * time.Millisecond)
	}
}

func (s *stream) listen() {
	for b := make([]byte, 100); ; {
		n, err := s.conn.Read(b)
		now := time.Now()
		s.mu.Lock()
		s.longest, s.last, s.back, s.ended = max(s.longest, now.Sub(s.last)), now, s.back+n, err
		s.mu.Unlock()
		if err != nil {
			return
		}
	}
}

// forgive begins to measure silences anew.
func (s *stream) forgive() {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.longest = 0
}

// aim is how many bytes have come back when two have that are sent from now on.
func (s *stream) aim() int {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.sent + 2
}

func (s *stream) look() (back int, longest time.Duration, ended error) {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.back, s.longest, s.ended
}

// goesOn waits until that many bytes have come back, and returns the longest silence, or why they do not come.
func (s *stream) goesOn(ctx context.Context, aim int) (time.Duration, error) {
	for {
		back, longest, ended := s.look()
		switch {
		case errors.Is(ended, syscall.ECONNRESET):
			return 0, errReset
		case ended != nil || back >= aim:
			return longest, ended
		}
		select {
		case <-ctx.Done():
			return 0, errSilent
		case <-time.After(20 * time.Millisecond):
		}
	}
}
