package program

import "context"

// Idle does nothing until its context ends.
func Idle(ctx context.Context, _ Net, _ Spec) error {
	<-ctx.Done()
	return nil
}
