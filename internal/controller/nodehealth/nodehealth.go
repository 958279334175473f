// Package nodehealth is the health check of nodes: the prober in the controller, and the server in the agent.
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

// discardPort is probed if no port is configured. Nothing listens there: the refused connection proves that the node is
// alive.
const discardPort = 9

// Node is a node to probe, at any of its addresses.
type Node struct {
	Name      string
	Addresses []netip.Addr
}

// Config is how nodes are probed.
type Config struct {
	// Timeout is how long a node may be silent before it counts as dead; 0: no probes, and no node is dead.
	Timeout time.Duration
	// Period is the interval between probes of a node.
	Period time.Duration
	// Port is the gRPC health port of the agents; 0: probe the kernel, which refuses a TCP connection.
	Port int
	// TLS is used for gRPC; nil: no TLS.
	TLS *tls.Config
	// CertificateFiles are our own certificates for the health check; their expiry is a metric.
	CertificateFiles []string
}

// minRecovery and maxRecovery bound how long a dead node has to be healthy again before it counts as alive.
const (
	minRecovery = 5 * time.Second
	maxRecovery = time.Minute
)

// Prober probes nodes in parallel.
type Prober struct {
	config   Config
	onChange func() // called when a node becomes dead or alive

	mu    sync.Mutex
	nodes map[string]*probedNode
}

// probedNode is a node with its checker and its state.
type probedNode struct {
	Node
	checker           healthChecker
	health            health.Node
	certificateExpiry time.Time // of the agent's certificate; zero: none seen
	samples           int
	inFlight          bool
	removed           bool // not in the last SetNodes
}

// isDead reports whether a node was probed more than once and is not healthy. A node without probes is not dead.
func (p *probedNode) isDead() bool { return p.samples > 1 && !p.health.Healthy }

// New returns a prober without nodes. The callback must not block.
func New(config Config, changed func()) *Prober {
	return &Prober{config: config, onChange: changed, nodes: map[string]*probedNode{}}
}

// SetNodes replaces the nodes to probe. The state of nodes that are still in the list is kept.
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

// DeadNodes returns the nodes that do not answer.
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

// CertificateExpiries returns when the certificates of agents expire, by node.
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

// Start probes nodes until the context ends.
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

// probeAllNodes probes every node without a probe in flight. Probes do not wait for each other.
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

// healthChecker probes one node repeatedly.
type healthChecker interface {
	checkNode(ctx context.Context, addresses []netip.Addr) health.SampleResult
	// certificateExpiry returns when the certificate of the node expires, or zero if it has shown none.
	certificateExpiry() time.Time
	closeConn()
}

// tcpChecker opens a TCP connection. The node is alive if its kernel refuses or accepts it.
type tcpChecker struct{}

func (tcpChecker) checkNode(ctx context.Context, addresses []netip.Addr) health.SampleResult {
	for i, a := range addresses {
		share, cancel := ctx, context.CancelFunc(func() {})
		if deadline, has := ctx.Deadline(); has { // each address gets its share of the time
			share, cancel = context.WithTimeout(ctx, time.Until(deadline)/time.Duration(len(addresses)-i))
		}
		conn, err := (&net.Dialer{}).DialContext(share, "tcp", net.JoinHostPort(a.String(), strconv.Itoa(discardPort)))
		cancel()
		if err == nil {
			_ = conn.Close() // something listens there after all
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
