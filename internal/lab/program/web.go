package program

import (
	"context"
	"errors"
	"fmt"
	"io"
	"log"
	"net"
	"net/http"
	"strconv"
	"time"
)

const (
	streamInterval = 100 * time.Millisecond
	mostMiB        = 4096
)

// serveHTTP serves one request a connection until the context ends; then it cuts what is open, as a killed pod does.
func serveHTTP(ctx context.Context, l net.Listener, h http.Handler) error {
	s := &http.Server{
		Handler:           h,
		ReadHeaderTimeout: 10 * time.Second,
		ErrorLog:          log.New(io.Discard, "", 0), // a client that goes away is no news in a lab
		BaseContext:       func(net.Listener) context.Context { return ctx },
	}
	s.SetKeepAlivesEnabled(false)
	defer context.AfterFunc(ctx, func() { _ = s.Close() })()
	err := s.Serve(l)
	if ctx.Err() != nil || errors.Is(err, http.ErrServerClosed) {
		return nil
	}
	return fmt.Errorf("serve HTTP: %w", err)
}

func text(w http.ResponseWriter, s string) {
	w.Header().Set("Content-Type", "text/plain; charset=utf-8")
	w.Header().Set("Content-Length", strconv.Itoa(len(s)))
	_, _ = io.WriteString(w, s) //nolint:gosec // text/plain, of a lab
}

// stream sends a numbered line every interval until the client goes or the program ends.
func stream(w http.ResponseWriter, r *http.Request, name string) {
	interval := streamInterval
	if v := r.FormValue("interval"); v != "" {
		d, err := time.ParseDuration(v)
		if err != nil || d < time.Millisecond {
			http.Error(w, "interval: want a duration of at least 1ms", http.StatusBadRequest)
			return
		}
		interval = d
	}
	w.Header().Set("Content-Type", "text/plain; charset=utf-8")
	tick := time.NewTicker(interval)
	defer tick.Stop()
	out := http.NewResponseController(w)
	for n := 1; ; n++ {
		_, err := fmt.Fprintf(w, "%d %s %s\n", n, name, seen(r.RemoteAddr)) //nolint:gosec // text/plain, of a lab
		if err != nil || out.Flush() != nil {
			return
		}
		select {
		case <-tick.C:
		case <-r.Context().Done():
			return
		}
	}
}

// sendBlob sends as many MiB as the request asks for.
func sendBlob(w http.ResponseWriter, r *http.Request) {
	mb := 1
	if v := r.FormValue("mb"); v != "" {
		n, err := strconv.Atoi(v)
		if err != nil || n < 0 || n > mostMiB {
			http.Error(w, fmt.Sprintf("mb: want a number from 0 to %d", mostMiB), http.StatusBadRequest)
			return
		}
		mb = n
	}
	blob(w, mb)
}

func blob(w http.ResponseWriter, mb int) {
	w.Header().Set("Content-Type", "application/octet-stream")
	w.Header().Set("Content-Length", strconv.Itoa(mb<<20))
	piece := make([]byte, 64<<10)
	for range mb << 4 {
		if _, err := w.Write(piece); err != nil {
			return
		}
	}
}

// countUpload reads what it is sent and says how many bytes came.
func countUpload(w http.ResponseWriter, r *http.Request) {
	n, err := io.Copy(io.Discard, r.Body)
	if err != nil {
		http.Error(w, fmt.Sprintf("after %d bytes: %v", n, err), http.StatusBadRequest)
		return
	}
	text(w, strconv.FormatInt(n, 10)+"\n")
}
