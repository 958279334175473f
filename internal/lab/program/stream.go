package program

import (
	"bufio"
	"context"
	"errors"
	"fmt"
	"io"
	"time"
)

// Line is one line of a live stream and when it came.
type Line struct {
	Text string
	At   time.Time
}

// Lines is a live stream.
type Lines struct {
	C   <-chan Line // closed at the end of the stream
	err error
}

// Err is why the stream ended, once C is closed: the context's error, a broken connection, or io.EOF when the server
// ended it.
func (l *Lines) Err() error { return l.err }

// lineBuffer is how far a reader of Lines may fall behind before arrival times become its own.
const lineBuffer = 4096

// Stream opens an HTTP stream, such as /stream of an echo server, and delivers its lines until the context ends.
func Stream(ctx context.Context, n Net, target string) (*Lines, error) {
	u, _, err := parseTarget(target)
	if err == nil && u.Scheme != "http" {
		err = errors.New("want http://…")
	}
	if err != nil {
		return nil, fmt.Errorf("stream %s: %w", target, err)
	}
	body, err := get(ctx, n, u)
	if err != nil {
		if body != nil {
			_ = body.Close()
		}
		return nil, fmt.Errorf("stream %s: %w", target, because(ctx, err))
	}
	c := make(chan Line, lineBuffer)
	l := &Lines{C: c}
	go func() {
		defer close(c)
		defer body.Close()
		l.err = pump(ctx, body, c)
	}()
	return l, nil
}

func pump(ctx context.Context, body io.Reader, c chan<- Line) error {
	scan := bufio.NewScanner(body)
	for scan.Scan() {
		select {
		case c <- Line{Text: scan.Text(), At: time.Now()}:
		case <-ctx.Done():
			return context.Cause(ctx)
		}
	}
	if scan.Err() == nil {
		return io.EOF
	}
	return because(ctx, scan.Err())
}
