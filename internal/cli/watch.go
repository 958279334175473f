package cli

import (
	"context"
	"errors"
	"time"

	"github.com/spf13/cobra"

	"github.com/sallyport/sallyport/internal/insight/collector"
	"github.com/sallyport/sallyport/internal/model/clusterstate"
)

// watchRepeatedly clears the terminal and shows the state at each interval, until the command is interrupted.
func (a *clusterAccess) watchRepeatedly(cmd *cobra.Command, interval time.Duration, scope collector.Scope,
	show func(*clusterstate.State) error,
) error {
	if a.surveyPath != "" || interval <= 0 {
		return errors.New("--watch reads the running cluster at intervals longer than 0, and cannot be combined with --survey")
	}
	ctx := cmd.Context()
	look, err := a.openObserver(ctx)
	if err != nil {
		return err
	}
	defer look.Close()
	tick := time.NewTicker(interval)
	defer tick.Stop()
	for {
		bounded, cancel := context.WithTimeout(ctx, a.timeout)
		s := a.collectState(bounded, look, scope)
		cancel()
		if ctx.Err() != nil {
			return nil
		}
		newSafeWriter(cmd.OutOrStdout()).clearTerminal()
		if err := show(s); err != nil {
			return err
		}
		select {
		case <-ctx.Done():
			return nil
		case <-tick.C:
		}
	}
}
