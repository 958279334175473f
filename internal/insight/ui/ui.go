// Package ui is the operator's view as a web page: a server on this machine that tells what surveys say, and writes
// nothing.
package ui

import (
	"context"
	"crypto/rand"
	"errors"
	"fmt"
	"net"
	"net/http"
	"net/netip"
	"net/url"
	"time"

	"github.com/sallyport/sallyport/internal/model/clusterstate"
)

// Config is what the page is about.
type Config struct {
	// Version is that of the program.
	Version string
	// TakeSurvey takes a survey, without shards. What can't be read is told in it.
	TakeSurvey func(context.Context) *clusterstate.State
	// CompareShards compares shards with what is there; no names: all. Nil: a survey has those that it has.
	CompareShards func(ctx context.Context, names []string) ([]clusterstate.Shard, error)
	// Interval is how long to wait after a survey before the next; 0: there is one only.
	Interval time.Duration
	// Token is what a browser has to show, once, to see the page. NewToken makes one.
	Token string
}

// NewToken is a secret that nobody guesses.
func NewToken() string { return rand.Text() }

// URL is where a browser opens the page.
func URL(l net.Listener, token string) string {
	return "http://" + l.Addr().String() + "/?" + url.Values{tokenName: {token}}.Encode()
}

// Listen opens the door: on loopback, unless remote says that anybody may come in.
func Listen(address string, remote bool) (net.Listener, error) {
	host, _, err := net.SplitHostPort(address)
	if err != nil {
		return nil, fmt.Errorf("--address: %w; give one such as 127.0.0.1:8080", err)
	}
	if !remote && !isLoopbackHost(host) {
		return nil, fmt.Errorf("%s can be reached from outside this machine, and the page is not encrypted: whoever sees its packets could read "+
			"the cluster's whole topology; use ssh -L to get to it from elsewhere, or say --allow-remote", address)
	}
	l, err := (&net.ListenConfig{}).Listen(context.Background(), "tcp", address)
	if err != nil {
		return nil, fmt.Errorf("open %s: %w; port 0 takes a free one", address, err)
	}
	return l, nil
}

func isLoopbackHost(host string) bool {
	a, err := netip.ParseAddr(host)
	return host == "localhost" || err == nil && a.Unmap().IsLoopback()
}

// Serve shows the page until ctx ends.
func Serve(ctx context.Context, l net.Listener, config Config, remote bool) error {
	ctx, stop := context.WithCancel(ctx)
	defer stop()
	lookout := newPoller(config)
	go lookout.run(ctx)
	server := &http.Server{
		Handler:           guard{next: newSite(config, lookout), allowRemote: remote, token: config.Token},
		ReadHeaderTimeout: 10 * time.Second,
		IdleTimeout:       time.Minute,
		MaxHeaderBytes:    16 << 10,
		BaseContext:       func(net.Listener) context.Context { return ctx },
	}
	closed := context.AfterFunc(ctx, func() { _ = server.Close() })
	defer closed()
	if err := server.Serve(l); !errors.Is(err, http.ErrServerClosed) {
		return fmt.Errorf("serve the page: %w", err)
	}
	return nil
}
