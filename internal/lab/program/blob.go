package program

import (
	"context"
	"fmt"
	"net/http"
	"strconv"
)

// Blob is a web server whose every page is MB (--mb or the variable) MiB long.
func Blob(ctx context.Context, n Net, spec Spec) error {
	mb, err := strconv.Atoi(spec.env("MB", "8"))
	if err != nil {
		return fmt.Errorf("blob: variable MB: %w", err)
	}
	flags := spec.options("blob")
	flags.IntVar(&mb, "mb", mb, "MiB to send")
	port := flags.Uint("port", 80, "port to answer on")
	if err := flags.Parse(spec.Args); err != nil {
		return fmt.Errorf("blob: %w", err)
	}
	if mb < 0 || mb > mostMiB || *port == 0 || *port > 65535 {
		return fmt.Errorf("blob: want 0 to %d MiB and a port, not %d and %d", mostMiB, mb, *port)
	}
	l, err := n.Listen(ctx, "tcp", wildcard(uint16(*port)))
	if err != nil {
		return fmt.Errorf("blob: %w", err)
	}
	spec.logf("%s sends %d MiB on port %d", spec.Name, mb, *port)
	page := func(w http.ResponseWriter, _ *http.Request) { blob(w, mb) }
	if err := serveHTTP(ctx, bound(ctx, l), http.HandlerFunc(page)); err != nil {
		return fmt.Errorf("blob: %w", err)
	}
	return nil
}
