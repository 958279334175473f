package cli

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"slices"
	"strings"

	"github.com/spf13/cobra"

	"github.com/sallyport/sallyport/internal/engine/kube"
	"github.com/sallyport/sallyport/internal/engine/ovn"
	"github.com/sallyport/sallyport/internal/engine/relay"
	"github.com/sallyport/sallyport/internal/insight/collector"
	"github.com/sallyport/sallyport/internal/model/clusterstate"
)

// databaseAccess is the access to OVN's databases through the API server.
type databaseAccess struct {
	tunnel  *kube.RelayTunnel
	sockets *relay.Sockets
	client  *relay.Client
}

// openRelay opens the relay and checks that the caller may use it.
func openRelay(ctx context.Context, a *clusterAccess) (*databaseAccess, error) {
	tunnel, err := kube.NewRelayTunnel(a.config.Kubernetes, a.namespaces.Controller, relay.Audience)
	if err != nil {
		return nil, err
	}
	out := &databaseAccess{tunnel: tunnel, client: &relay.Client{Dial: tunnel.Dial, Token: tunnel.Token}}
	probe, err := out.client.Open(ctx, relay.Northbound)
	if err == nil {
		_ = probe.Close()
		out.sockets, err = out.client.Listen()
	}
	if err != nil {
		tunnel.Close()
		return nil, err
	}
	return out, nil
}

// close ends all connections.
func (d *databaseAccess) close() {
	d.sockets.Close()
	d.tunnel.Close()
}

// connectDatabases chooses how to reach each database: at the servers that the user names, else through the API server,
// else, if the controller offers no relay, at the servers that Kube-OVN or the controller use.
func (a *clusterAccess) connectDatabases(ctx context.Context, found kube.DiscoveredSettings) {
	if len(a.config.Northbound.Endpoints) > 0 && len(a.config.Southbound.Endpoints) > 0 {
		return
	}
	opened, err := openRelay(ctx, a)
	switch {
	case err == nil:
		a.relay = opened
	case errors.Is(err, kube.ErrNoRelay) && a.adoptServers(found):
		fmt.Fprintf(a.command.ErrOrStderr(), "warning: OVN's databases are read directly: %v\n", err)
		return
	default:
		err = fmt.Errorf("reach OVN's databases through the API server: %w; or set --nb-address and --sb-address to read "+
			"them directly", err)
	}
	for database, config := range a.databases() {
		switch {
		case len(config.Endpoints) > 0:
		case err != nil:
			config.Unavailable = err
		default:
			config.Endpoints = []string{opened.sockets.Endpoint(database)}
		}
	}
}

// databases returns the configuration of each database by its name.
func (a *clusterAccess) databases() map[string]*ovn.Config {
	return map[string]*ovn.Config{relay.Northbound: &a.config.Northbound, relay.Southbound: &a.config.Southbound}
}

// adoptServers uses the servers that were found in the cluster. It reports whether there are any.
func (a *clusterAccess) adoptServers(found kube.DiscoveredSettings) bool {
	there := a.controllerConfig
	for _, db := range []struct {
		to         *[]string
		kubeOVN    []string
		controller []string
	}{
		{&a.config.Northbound.Endpoints, found.Northbound, there.Northbound.Endpoints},
		{&a.config.Southbound.Endpoints, found.Southbound, there.Southbound.Endpoints},
	} {
		for _, servers := range [][]string{db.kubeOVN, db.controller} {
			if len(*db.to) == 0 {
				*db.to = servers
			}
		}
	}
	return len(a.config.Northbound.Endpoints) > 0
}

// syncFunc returns how to wait for ovn-northd and the chassis. Nil: at the northbound database.
func (a *clusterAccess) syncFunc() func(context.Context) error {
	if a.relay == nil || a.config.Northbound.Endpoints[0] != a.relay.sockets.Endpoint(relay.Northbound) {
		return nil
	}
	return a.relay.client.Sync
}

// wrapRun makes a command close its connections, and fail if it could not read everything: whoever reads only the exit
// code must not take an answer without some objects for the whole.
func (a *clusterAccess) wrapRun(cmd *cobra.Command) {
	run := cmd.RunE
	cmd.RunE = func(cmd *cobra.Command, args []string) error {
		defer func() {
			if a.relay != nil {
				a.relay.close()
			}
		}()
		return cmp.Or(run(cmd, args), a.incomplete)
	}
}

// maxShownFailures limits the failures in an error.
const maxShownFailures = 3

// newIncompleteError returns an error for what could not be read, or nil.
func newIncompleteError(unread []clusterstate.ReadFailure) error {
	if len(unread) == 0 {
		return nil
	}
	var all []string
	forbidden := false
	for _, u := range unread {
		if text := fmt.Sprintf("could not read %s: %s", u.System, u.Problem); !slices.Contains(all, text) {
			all = append(all, text)
		}
		forbidden = forbidden || u.System == clusterstate.Kubernetes && strings.Contains(u.Problem, "forbidden")
	}
	if more := len(all) - maxShownFailures; more > 0 {
		all = append(all[:maxShownFailures], fmt.Sprintf("and %d more", more))
	}
	if forbidden {
		all = append(all, "ask for the ClusterRole sallyport-operator")
	}
	return errors.New(strings.Join(all, "; ") + "; what is missing above may exist")
}

// collectState collects the state, and remembers what could not be read.
func (a *clusterAccess) collectState(ctx context.Context, o *collector.Collector, scope collector.Scope,
) *clusterstate.State {
	s := o.Collect(ctx, scope)
	a.incomplete = newIncompleteError(s.Unread)
	return s
}
