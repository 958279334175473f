package kubelet

import (
	"context"
	"errors"
	"sync"

	"github.com/sallyport/sallyport/internal/lab/engine"
	"github.com/sallyport/sallyport/internal/lab/netns"
)

// patchPanel is a Switch that notes what is plugged.
type patchPanel struct {
	mu      sync.Mutex
	plugged map[string]bool
	broken  error
	cable   func(netns.NS, engine.Port) error
}

func newPanel() *patchPanel { return &patchPanel{plugged: map[string]bool{}} }

func (p *patchPanel) Plug(_ context.Context, ns netns.NS, port engine.Port) error {
	p.mu.Lock()
	defer p.mu.Unlock()
	if p.broken != nil {
		return p.broken
	}
	if p.plugged[port.LogicalPort] {
		return errors.New("plugged twice: " + port.LogicalPort)
	}
	p.plugged[port.LogicalPort] = true
	if p.cable != nil {
		return p.cable(ns, port)
	}
	return nil
}

func (p *patchPanel) Unplug(_ context.Context, port engine.Port) error {
	p.mu.Lock()
	defer p.mu.Unlock()
	delete(p.plugged, port.LogicalPort)
	return nil
}

func (p *patchPanel) has(port string) bool {
	p.mu.Lock()
	defer p.mu.Unlock()
	return p.plugged[port]
}

func (p *patchPanel) setBroken(err error) {
	p.mu.Lock()
	defer p.mu.Unlock()
	p.broken = err
}

// notifying tells of every plug.
type notifying struct {
	*patchPanel
	plugged chan<- string
}

func (n notifying) Plug(ctx context.Context, ns netns.NS, port engine.Port) error {
	n.plugged <- port.Interface + " " + port.LogicalPort
	return n.patchPanel.Plug(ctx, ns, port)
}
