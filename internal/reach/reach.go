// Package reach is whether nodes can be reached: who asks them, side by side, and who answers for one.
package reach

import (
	"context"
	"crypto/tls"
	"errors"
	"net"
	"net/netip"
	"slices"
	"strconv"
	"sync"
	"syscall"
	"time"

	"github.com/sallyport/sallyport/internal/health"
)

// discard is the port that is asked when no other is given. Nobody listens there: that the connection is refused is the sign of life.
const discard = 9

// Node is one to be asked, by any of its addresses.
type Node struct {
	Name      string
	Addresses []netip.Addr
}

// Config is how nodes are asked.
type Config struct {
	// Timeout is how long a node may be silent before it is called dead; 0: nobody is asked, and none is.
	Timeout time.Duration
	// Period is how often each is asked.
	Period time.Duration
	// Port is where a node answers for itself by gRPC; 0: its kernel answers, by refusing a connection.
	Port int
	// TLS is for gRPC; nil: without.
	TLS *tls.Config
	// Files are our own certificates for it, whose ends are told.
	Files []string
}

// steady and longest are how long a node that was dead has to be well again before it is believed, at first and at most.
const (
	steady  = 5 * time.Second
	longest = time.Minute
)

// Prober asks nodes, side by side, as long as somebody is interested in them.
type Prober struct {
	config  Config
	changed func() // a node was found dead, or well again

	mu    sync.Mutex
	nodes map[string]*patient
}

// patient is a node, how it is asked, and what is known of it.
type patient struct {
	Node
	session session
	health  health.Node
	expires time.Time // when the certificate ends that its agent has shown; zero: none was
	samples int
	asking  bool
	gone    bool // nobody is interested any more
}

// dead says whether a node was asked more than once and is not well. One that nobody has asked yet is not dead.
func (p *patient) dead() bool { return p.samples > 1 && !p.health.Well }

// New is a prober that asks nobody yet. Its callback must not block.
func New(config Config, changed func()) *Prober {
	return &Prober{config: config, changed: changed, nodes: map[string]*patient{}}
}

// Watch says which nodes are of interest, instead of those before. What is known of one that stays is kept.
func (p *Prober) Watch(nodes []Node) {
	p.mu.Lock()
	defer p.mu.Unlock()
	next := map[string]*patient{}
	for _, n := range nodes {
		if known := p.nodes[n.Name]; known != nil && slices.Equal(known.Addresses, n.Addresses) {
			next[n.Name] = known
		} else {
			next[n.Name] = &patient{Node: n, session: p.session()}
		}
	}
	for name, known := range p.nodes {
		if known.gone = next[name] != known; known.gone && !known.asking {
			known.session.end()
		}
	}
	p.nodes = next
}

// Dead are the nodes that do not answer.
func (p *Prober) Dead() map[string]bool {
	p.mu.Lock()
	defer p.mu.Unlock()
	out := map[string]bool{}
	for name, n := range p.nodes {
		if n.dead() {
			out[name] = true
		}
	}
	return out
}

// Expiries is when the certificates end that agents have shown, by node.
func (p *Prober) Expiries() map[string]time.Time {
	p.mu.Lock()
	defer p.mu.Unlock()
	out := map[string]time.Time{}
	for name, n := range p.nodes {
		if !n.expires.IsZero() {
			out[name] = n.expires
		}
	}
	return out
}

// Start asks until the context ends.
func (p *Prober) Start(ctx context.Context) error {
	if p.config.Timeout == 0 {
		return nil
	}
	tick := time.NewTicker(p.config.Period)
	defer tick.Stop()
	for {
		select {
		case <-ctx.Done():
			p.Watch(nil)
			return nil
		case <-tick.C:
			p.round(ctx)
		}
	}
}

// round asks every node that is not being asked already. None waits for another.
func (p *Prober) round(ctx context.Context) {
	p.mu.Lock()
	defer p.mu.Unlock()
	for _, n := range p.nodes {
		if n.asking {
			continue
		}
		n.asking = true
		go p.ask(ctx, n)
	}
}

func (p *Prober) ask(ctx context.Context, n *patient) {
	ctx, cancel := context.WithTimeout(ctx, p.config.Timeout)
	defer cancel()
	sent := time.Now()
	got := n.session.ask(ctx, n.Addresses)
	p.mu.Lock()
	before := n.dead()
	n.health = n.health.Heard(health.Sample{Sent: sent, Got: got}, health.Config{Timeout: p.config.Timeout, Steady: steady, Longest: longest})
	n.expires = n.session.expires()
	n.samples++
	n.asking = false
	news := before != n.dead() && !n.gone
	if n.gone {
		n.session.end()
	}
	p.mu.Unlock()
	if news {
		p.changed()
	}
}

func (p *Prober) session() session {
	if p.config.Port == 0 {
		return refusal{}
	}
	return &conversation{port: p.config.Port, tls: p.config.TLS}
}

// session is how one node is asked, again and again.
type session interface {
	ask(ctx context.Context, addresses []netip.Addr) health.Sign
	// expires is when the certificate ends that the node has shown; zero: it has shown none.
	expires() time.Time
	end()
}

// refusal is a connection that a kernel refuses, or takes.
type refusal struct{}

func (refusal) ask(ctx context.Context, addresses []netip.Addr) health.Sign {
	for i, a := range addresses {
		share, cancel := ctx, context.CancelFunc(func() {})
		if deadline, has := ctx.Deadline(); has { // each address gets its part of the time
			share, cancel = context.WithTimeout(ctx, time.Until(deadline)/time.Duration(len(addresses)-i))
		}
		conn, err := (&net.Dialer{}).DialContext(share, "tcp", net.JoinHostPort(a.String(), strconv.Itoa(discard)))
		cancel()
		if err == nil {
			_ = conn.Close() // somebody listens there after all
			return health.Alive
		}
		if errors.Is(err, syscall.ECONNREFUSED) {
			return health.Alive
		}
	}
	return health.Silent
}

func (refusal) expires() time.Time { return time.Time{} }

func (refusal) end() {}
