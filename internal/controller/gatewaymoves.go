package controller

import (
	"context"
	"errors"
	"log/slog"
	"time"

	"github.com/sallyport/sallyport/internal/engine/ovn"
)

// Pauses between two writes after moves of gateways: when a node dies, its gateways are claimed within a moment of each
// other. After a write that failed the pause grows.
const (
	movePause    = 200 * time.Millisecond
	maxMovePause = time.Minute
	moveTimeout  = 10 * time.Second
)

// southbound reports moves of gateways, and makes the nodes act on them.
type southbound interface {
	GatewayMoves() <-chan struct{}
	ReevaluateLocalnetPorts(ctx context.Context, now time.Time) error
}

// moveFollower makes every node evaluate the flows of its localnet ports again after a gateway has moved, while this
// replica is the leader. A new leader does so once for all moves before.
type moveFollower struct {
	sb         southbound
	countWrite func(error)
	log        *slog.Logger
}

// Start waits for moves until the context ends.
func (f moveFollower) Start(ctx context.Context) error {
	for {
		select {
		case <-ctx.Done():
			return nil
		case <-f.sb.GatewayMoves():
		}
		for pause := movePause; f.reevaluate(ctx) != nil; pause = min(2*pause, maxMovePause) {
			if waitFor(ctx, pause) != nil {
				return nil
			}
		}
		if waitFor(ctx, movePause) != nil {
			return nil
		}
	}
}

// reevaluate writes once. A lost connection is no error: each new one counts as a move.
func (f moveFollower) reevaluate(ctx context.Context) error {
	limited, cancel := context.WithTimeout(ctx, moveTimeout)
	defer cancel()
	err := f.sb.ReevaluateLocalnetPorts(limited, time.Now())
	if errors.Is(err, ovn.ErrNotConnected) {
		return nil
	}
	f.countWrite(err)
	if err != nil {
		f.log.Warn("gateways moved to other nodes, but writing to the OVN southbound database failed; replies to "+
			"their addresses can be lost until it succeeds", "error", err)
	}
	return err
}

// waitFor returns an error if the context ends first.
func waitFor(ctx context.Context, pause time.Duration) error {
	select {
	case <-ctx.Done():
		return ctx.Err()
	case <-time.After(pause):
		return nil
	}
}
