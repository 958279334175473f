// Package nodehealth is whether nodes can be reached: who asks them, side by side, and who answers for one.
package nodehealth

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

	"github.com/sallyport/sallyport/internal/model/health"
)

// discardPort is the port that is asked when no other is given. Nobody listens there: that the connection is refused is
// the sign of life.
const discardPort = 9

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
	// CertificateFiles are our own certificates for it, whose ends are told.
	CertificateFiles []string
}

// minRecovery and longest are how long a node that was dead has to be well again before it is believed, at first and at
// most.
const (
	minRecovery = 5 * time.Second
	maxRecovery = time.Minute
)

// Prober asks nodes, side by side, as long as somebody is interested in them.
type Prober struct {
	config   Config
	onChange func() // a node was found dead, or well again

	mu    sync.Mutex
	nodes map[string]*probedNode
}

// probedNode is a node, how it is asked, and what is known of it.
type probedNode struct {
	Node
	checker           healthChecker
	health            health.Node
	certificateExpiry time.Time // when the certificate ends that its agent has shown; zero: none was
	samples           int
	inFlight          bool
	removed           bool // nobody is interested any more
}

// isDead says whether a node was asked more than once and is not well. One that nobody has asked yet is not dead.
func (p *probedNode) isDead() bool { return p.samples > 1 && !p.health.Healthy }

// New is a prober that asks nobody yet. Its callback must not block.
func New(config Config, changed func()) *Prober {
	return &Prober{config: config, onChange: changed, nodes: map[string]*probedNode{}}
}

// SetNodes says which nodes are of interest, instead of those before. What is known of one that stays is kept.
func (p *Prober) SetNodes(nodes []Node) {
	p.mu.Lock()
	defer p.mu.Unlock()
	next := map[string]*probedNode{}
	for _, n := range nodes {
		if known := p.nodes[n.Name]; known != nil && slices.Equal(known.Addresses, n.Addresses) {
			next[n.Name] = known
		} else {
			next[n.Name] = &probedNode{Node: n, checker: p.newChecker()}
		}
	}
	for name, known := range p.nodes {
		if known.removed = next[name] != known; known.removed && !known.inFlight {
			known.checker.closeConn()
		}
	}
	p.nodes = next
}

// DeadNodes are the nodes that do not answer.
func (p *Prober) DeadNodes() map[string]bool {
	p.mu.Lock()
	defer p.mu.Unlock()
	out := map[string]bool{}
	for name, n := range p.nodes {
		if n.isDead() {
			out[name] = true
		}
	}
	return out
}

// CertificateExpiries is when the certificates end that agents have shown, by node.
func (p *Prober) CertificateExpiries() map[string]time.Time {
	p.mu.Lock()
	defer p.mu.Unlock()
	out := map[string]time.Time{}
	for name, n := range p.nodes {
		if !n.certificateExpiry.IsZero() {
			out[name] = n.certificateExpiry
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
			p.SetNodes(nil)
			return nil
		case <-tick.C:
			p.probeAllNodes(ctx)
		}
	}
}

// probeAllNodes asks every node that is not being asked already. None waits for another.
func (p *Prober) probeAllNodes(ctx context.Context) {
	p.mu.Lock()
	defer p.mu.Unlock()
	for _, n := range p.nodes {
		if n.inFlight {
			continue
		}
		n.inFlight = true
		go p.probeNode(ctx, n)
	}
}

func (p *Prober) probeNode(ctx context.Context, n *probedNode) {
	ctx, cancel := context.WithTimeout(ctx, p.config.Timeout)
	defer cancel()
	sent := time.Now()
	got := n.checker.checkNode(ctx, n.Addresses)
	p.mu.Lock()
	before := n.isDead()
	n.health = n.health.RecordSample(health.Sample{SentAt: sent, Result: got},
		health.Config{Timeout: p.config.Timeout, RecoveryDelay: minRecovery, MaxRecoveryDelay: maxRecovery})
	n.certificateExpiry = n.checker.certificateExpiry()
	n.samples++
	n.inFlight = false
	news := before != n.isDead() && !n.removed
	if n.removed {
		n.checker.closeConn()
	}
	p.mu.Unlock()
	if news {
		p.onChange()
	}
}

func (p *Prober) newChecker() healthChecker {
	if p.config.Port == 0 {
		return tcpChecker{}
	}
	return &grpcChecker{port: p.config.Port, tls: p.config.TLS}
}

// healthChecker is how one node is asked, again and again.
type healthChecker interface {
	checkNode(ctx context.Context, addresses []netip.Addr) health.SampleResult
	// certificateExpiry is when the certificate ends that the node has shown; zero: it has shown none.
	certificateExpiry() time.Time
	closeConn()
}

// tcpChecker is a connection that a kernel refuses, or takes.
type tcpChecker struct{}

func (tcpChecker) checkNode(ctx context.Context, addresses []netip.Addr) health.SampleResult {
	for i, a := range addresses {
		share, cancel := ctx, context.CancelFunc(func() {})
		if deadline, has := ctx.Deadline(); has { // each address gets its part of the time
			share, cancel = context.WithTimeout(ctx, time.Until(deadline)/time.Duration(len(addresses)-i))
		}
		conn, err := (&net.Dialer{}).DialContext(share, "tcp", net.JoinHostPort(a.String(), strconv.Itoa(discardPort)))
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

func (tcpChecker) certificateExpiry() time.Time { return time.Time{} }

func (tcpChecker) closeConn() {}
