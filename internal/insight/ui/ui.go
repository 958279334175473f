// Package ui is the web server of sallyport ui. It runs on the operator's machine, polls the state of the cluster and
// writes nothing.
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

// Config configures the page.
type Config struct {
	// Version is the version of the program.
	Version string
	// TakeSurvey takes a survey without shards. Systems that cannot be read are listed in Unread.
	TakeSurvey func(context.Context) *clusterstate.State
	// CompareShards compares shards with the cluster, all of them if names is nil. CompareShards is nil if the survey
	// already contains its shards.
	CompareShards func(ctx context.Context, names []string) ([]clusterstate.Shard, error)
	// Interval is the pause between surveys. If it is 0, only one survey is taken.
	Interval time.Duration
	// Token is the secret in the URL that a browser has to open once. NewToken generates one.
	Token string
}

// NewToken returns a random secret.
func NewToken() string { return rand.Text() }

// URL returns the URL of the page, with the token.
func URL(l net.Listener, token string) string {
	return "http://" + l.Addr().String() + "/?" + url.Values{tokenName: {token}}.Encode()
}

// Listen opens the listener. It refuses addresses other than loopback unless remote is set.
func Listen(address string, remote bool) (net.Listener, error) {
	host, _, err := net.SplitHostPort(address)
	if err != nil {
		return nil, fmt.Errorf("--address: %w; use an address such as 127.0.0.1:8080", err)
	}
	if !remote && !isLoopbackHost(host) {
		return nil, fmt.Errorf("%s can be reached from outside this machine, and the page is not encrypted: "+
			"anyone who can capture its packets can read the topology of the cluster; "+
			"use ssh -L for access from other machines, or set --allow-remote", address)
	}
	l, err := (&net.ListenConfig{}).Listen(context.Background(), "tcp", address)
	if err != nil {
		return nil, fmt.Errorf("listen on %s: %w; use port 0 for a free port", address, err)
	}
	return l, nil
}

func isLoopbackHost(host string) bool {
	a, err := netip.ParseAddr(host)
	return host == "localhost" || err == nil && a.Unmap().IsLoopback()
}

// Serve serves the page until ctx is cancelled.
func Serve(ctx context.Context, l net.Listener, config Config, remote bool) error {
	ctx, stop := context.WithCancel(ctx)
	defer stop()
	p := newPoller(config)
	go p.run(ctx)
	server := &http.Server{
		Handler:           guard{next: newSite(config, p), allowRemote: remote, token: config.Token},
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
