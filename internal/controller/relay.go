package controller

import (
	"cmp"
	"context"
	"fmt"
	"log/slog"
	"net"
	"net/netip"

	"k8s.io/client-go/kubernetes"
	"sigs.k8s.io/controller-runtime/pkg/manager"

	"github.com/sallyport/sallyport/internal/engine/ovn"
	"github.com/sallyport/sallyport/internal/engine/relay"
)

// relayRunnable serves the relay in every replica: a command may be forwarded to any of them.
type relayRunnable struct {
	server   *relay.Server
	listener net.Listener
}

// NeedLeaderElection returns false.
func (relayRunnable) NeedLeaderElection() bool { return false }

// Start serves the relay until the context ends.
func (r relayRunnable) Start(ctx context.Context) error { return r.server.Serve(ctx, r.listener) }

// addRelay listens on the address of the relay, if there is one.
func (c Config) addRelay(ctx context.Context, mgr manager.Manager, logger *slog.Logger) error {
	if c.RelayAddress == "" || c.RelayAddress == "0" {
		return nil
	}
	// tokens must not cross a network in plain text
	if at, err := netip.ParseAddrPort(c.RelayAddress); err != nil || !at.Addr().IsLoopback() {
		return fmt.Errorf("--relay-address %s: use a loopback address and a port, such as 127.0.0.1:8082", c.RelayAddress)
	}
	api, err := kubernetes.NewForConfigAndClient(mgr.GetConfig(), mgr.GetHTTPClient())
	if err != nil {
		return fmt.Errorf("connect to Kubernetes: %w", err)
	}
	listener, err := new(net.ListenConfig).Listen(ctx, "tcp", c.RelayAddress)
	if err != nil {
		return fmt.Errorf("listen for the relay: %w", err)
	}
	return mgr.Add(relayRunnable{c.newRelay(newTokenAuthorizer(api, relay.Audience), logger), listener})
}

func (c Config) newRelay(tokens *tokenAuthorizer, logger *slog.Logger) *relay.Server {
	return &relay.Server{
		Authorize: tokens.authorizeRelay,
		Dial: func(ctx context.Context, database string) (net.Conn, error) {
			if database == relay.Southbound {
				return ovn.DialLeader(ctx, c.Southbound, database)
			}
			return ovn.DialLeader(ctx, c.Northbound, database)
		},
		Sync: func(ctx context.Context) error { return ovn.SyncHypervisors(ctx, c.Northbound) },
		Log:  logger,
	}
}

// authorizeRelay returns who holds a token: the id of the token, because all users of the relay are the same
// ServiceAccount.
func (s *tokenAuthorizer) authorizeRelay(ctx context.Context, token, path string) (string, error) {
	if len(token) > maxTokenLength {
		return "", relay.ErrUnauthenticated
	}
	decision, err := s.decide(ctx, token, path)
	switch {
	case err != nil:
		return "", err
	case decision.user == "":
		return "", relay.ErrUnauthenticated
	case !decision.allowed:
		return "", relay.ErrForbidden
	default:
		return cmp.Or(decision.credential, decision.user), nil
	}
}
