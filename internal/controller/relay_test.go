package controller

import (
	"errors"
	"strings"
	"testing"
	"time"

	"github.com/sallyport/sallyport/internal/engine/relay"
)

func TestWhoUsesTheRelay(t *testing.T) {
	asked, now := 0, time.Now()
	s := newTestAuthorizer(&asked, &now)
	if who, err := s.authorizeRelay(t.Context(), "prometheus", "/x"); who != "prometheus" || err != nil {
		t.Errorf("%q, %v", who, err)
	}
	for token, want := range map[string]error{
		"": relay.ErrUnauthenticated, "tenant": relay.ErrForbidden,
		strings.Repeat("x", maxTokenLength+1): relay.ErrUnauthenticated,
	} {
		if _, err := s.authorizeRelay(t.Context(), token, "/x"); !errors.Is(err, want) {
			t.Errorf("%.10q: %v, want %v", token, err, want)
		}
	}
	if _, err := s.authorizeRelay(t.Context(), "broken", "/x"); err == nil || errors.Is(err, relay.ErrForbidden) {
		t.Errorf("the API server is away: %v", err)
	}
}

// Tokens come in plain text, so the relay must not listen on a network.
func TestRelayIsOnLoopback(t *testing.T) {
	for _, address := range []string{":8082", "0.0.0.0:8082", "192.0.2.1:8082", "localhost:8082", "[::]:8082"} {
		if err := (Config{RelayAddress: address}).addRelay(t.Context(), nil, nil); err == nil {
			t.Errorf("%s is accepted", address)
		}
	}
	for _, off := range []string{"", "0"} {
		if err := (Config{RelayAddress: off}).addRelay(t.Context(), nil, nil); err != nil {
			t.Errorf("%q: %v", off, err)
		}
	}
}
