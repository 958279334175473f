package program

import (
	"context"
	"errors"
	"fmt"
	"time"
)

// client is a program that keeps asking.
type client struct {
	Spec
	target   string
	interval time.Duration
	timeout  time.Duration
	count    int // 0: until the context ends
}

// Client asks one target (--url, --tcp, --udp or --sctp) every --interval and logs a line for each answer. With --count
// it ends after that many, and fails if any of them did.
func Client(ctx context.Context, n Net, spec Spec) error {
	c, err := newClient(spec)
	if err == nil {
		err = c.run(ctx, n)
	}
	if err != nil {
		return fmt.Errorf("client: %w", err)
	}
	return nil
}

func newClient(spec Spec) (*client, error) {
	c := &client{Spec: spec}
	flags := spec.options("client")
	for name, prefix := range map[string]string{"url": "", "tcp": "tcp://", "udp": "udp://", "sctp": "sctp://"} {
		flags.Func(name, "what to ask", func(v string) error {
			if c.target != "" {
				return errors.New("there is a target already")
			}
			c.target = prefix + v
			return nil
		})
	}
	flags.DurationVar(&c.interval, "interval", time.Second, "time between questions")
	flags.DurationVar(&c.timeout, "timeout", 2*time.Second, "time to wait for an answer")
	flags.IntVar(&c.count, "count", 0, "end after this many")
	if err := flags.Parse(spec.Args); err != nil {
		return nil, err
	}
	if c.target == "" || c.interval <= 0 || c.timeout <= 0 {
		return nil, errors.New("want --url, --tcp, --udp or --sctp, and times above zero")
	}
	_, _, err := parseTarget(c.target)
	return c, err
}

func (c *client) run(ctx context.Context, n Net) error {
	tick := time.NewTicker(c.interval)
	defer tick.Stop()
	failed := 0
	for asked := 1; ; asked++ {
		if err := c.ask(ctx, n); err != nil {
			failed++
		}
		if asked == c.count {
			break
		}
		select {
		case <-tick.C:
		case <-ctx.Done():
			return nil
		}
	}
	if failed > 0 {
		return fmt.Errorf("%d of %d questions to %s failed", failed, c.count, c.target)
	}
	return nil
}

// ask asks once and logs what came of it; a question that the end of the program cut short is not logged.
func (c *client) ask(ctx context.Context, n Net) error {
	limited, cancel := context.WithTimeout(ctx, c.timeout)
	defer cancel()
	answer, err := Ask(limited, n, c.target)
	switch {
	case ctx.Err() != nil:
	case err != nil:
		c.logf("%v", err)
	default:
		c.logf("%s: %s", c.target, answer)
	}
	return err
}
