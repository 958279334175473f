package controller

import (
	"context"
	"errors"
	"log/slog"
	"testing"
	"testing/synctest"
	"time"

	"github.com/sallyport/sallyport/internal/engine/ovn"
)

// fakeSouthbound answers writes with errors, one after the other, then with success.
type fakeSouthbound struct {
	moves  chan struct{}
	errs   []error
	writes []time.Time
}

func (f *fakeSouthbound) GatewayMoves() <-chan struct{} { return f.moves }

func (f *fakeSouthbound) ReevaluateLocalnetPorts(_ context.Context, now time.Time) error {
	f.writes = append(f.writes, now)
	if len(f.errs) == 0 {
		return nil
	}
	err := f.errs[0]
	f.errs = f.errs[1:]
	return err
}

// Moves at one time are one write, a write that fails is repeated, and one without a connection waits for the next move.
func TestMovesAreFollowed(t *testing.T) {
	refused := errors.New("not allowed")
	for name, test := range map[string]struct {
		errs              []error
		writes, good, bad int
		atLeast           time.Duration // between the first and the last write
	}{
		"all is well":        {nil, 2, 2, 0, movePause},
		"refused twice":      {[]error{refused, refused}, 4, 2, 2, 3 * movePause},
		"without connection": {[]error{ovn.ErrNotConnected}, 2, 1, 0, movePause},
	} {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				sb := &fakeSouthbound{moves: make(chan struct{}, 1), errs: test.errs}
				good, bad := sb.followMoves(t)
				if len(sb.writes) != test.writes || good != test.good || bad != test.bad {
					t.Fatalf("%d writes, counted as %d good and %d bad", len(sb.writes), good, bad)
				}
				if took := sb.writes[len(sb.writes)-1].Sub(sb.writes[0]); took < test.atLeast {
					t.Errorf("all writes within %v", took)
				}
			})
		})
	}
}

// followMoves signals one move, and several while the pause after the first write lasts. It returns how many writes were
// counted as good and as bad.
func (f *fakeSouthbound) followMoves(t *testing.T) (good, bad int) {
	t.Helper()
	follower := moveFollower{sb: f, log: slog.New(slog.DiscardHandler), countWrite: func(err error) {
		if err != nil {
			bad++
		} else {
			good++
		}
	}}
	ctx, end := context.WithCancel(t.Context())
	ended := make(chan error)
	go func() { ended <- follower.Start(ctx) }()
	f.moves <- struct{}{}
	synctest.Wait()
	for range 5 {
		select {
		case f.moves <- struct{}{}:
		default:
		}
	}
	<-time.After(time.Hour)
	end()
	if err := <-ended; err != nil {
		t.Error(err)
	}
	return good, bad
}
