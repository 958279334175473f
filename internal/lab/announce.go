package lab

import (
	"context"
	"fmt"
	"net/netip"
	"path/filepath"

	"github.com/sallyport/sallyport/internal/lab/bgp"
	"github.com/sallyport/sallyport/internal/lab/daemon"
)

// Announce lets a node announce a prefix by BGP to the routers of the named uplinks, of all when none is named. What
// was announced of the prefix before is replaced. The routers know a moment later.
func (l *Lab) Announce(ctx context.Context, node string, prefix netip.Prefix, uplinks ...string) error {
	status, err := l.Status(ctx)
	if err != nil {
		return err
	}
	commands, err := bgp.Announce(status.Blueprint, node, prefix, uplinks...)
	if err != nil {
		return err
	}
	_, err = l.VTYSH(ctx, node, commands...)
	return err
}

// Withdraw lets a node announce a prefix no longer. One that it did not announce is an error.
func (l *Lab) Withdraw(ctx context.Context, node string, prefix netip.Prefix) error {
	status, err := l.Status(ctx)
	if err != nil {
		return err
	}
	commands, err := bgp.Withdraw(status.Blueprint, node, prefix)
	if err != nil {
		return err
	}
	_, err = l.VTYSH(ctx, node, commands...)
	return err
}

// VTYSH gives commands to the FRR of a node or router, for example "show bgp summary", and returns what it says.
func (l *Lab) VTYSH(ctx context.Context, where string, commands ...string) (string, error) {
	out, err := bgp.Ask(ctx, l.Inside(bgp.Root(filepath.Join(l.Dir, daemon.Data), where)), commands...)
	if err != nil {
		return "", fmt.Errorf("tell the FRR of %s: %w", where, err)
	}
	return out, nil
}
