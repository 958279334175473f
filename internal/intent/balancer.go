package intent

import (
	"fmt"
	"strings"

	"github.com/sallyport/sallyport/internal/state"
)

// LoadBalancer balances connections to addresses and ports over backends, for one protocol.
type LoadBalancer struct {
	// Service is whose it is: namespace/name. Its own name is made of both with a hyphen, and so may be that of another as well.
	Service  string
	Name     string
	Protocol Protocol
	// VIPs are address:port=backend:port,backend:port with spaces between, in order. One without backends refuses connections.
	VIPs string
	// Affinity is for how many seconds a client keeps its backend; 0: each connection is balanced anew.
	Affinity int
	// Flush: connections to a backend that is taken away are forgotten.
	Flush bool
	// Probes are backend=port:source with spaces between, in order: for health checks, at which switch port each backend is, and
	// with which address it is asked.
	Probes string
	// Router and Switch are those that balance.
	Router, Switch string
}

// Protocol is a transport protocol, as OVN calls it.
type Protocol string

// The protocols that can be balanced.
const (
	TCP  Protocol = "tcp"
	UDP  Protocol = "udp"
	SCTP Protocol = "sctp"
)

// Key is Service and protocol.
func (b LoadBalancer) Key(router string) RowKey {
	return RowKey{"Load_Balancer", router, b.Service + " " + string(b.Protocol)}
}

// Equal compares all.
func (b LoadBalancer) Equal(o Row) bool { return Row(b) == o }

func (b LoadBalancer) String() string {
	words := []string{string(b.Protocol), b.VIPs, "on " + b.Router + " and " + b.Switch}
	if b.Affinity > 0 {
		words = append(words, fmt.Sprintf("affinity=%ds", b.Affinity))
	}
	if b.Flush {
		words = append(words, "flush")
	}
	if b.Probes != "" {
		words = append(words, "probes "+b.Probes)
	}
	return strings.Join(words, " ")
}

// ServiceOf is the Service of a load balancer, by who asked for it.
func ServiceOf(by state.Ref) string { return by.Namespace + "/" + by.Name }

// HealthCheck lets OVN ask the backends of a load balancer's address whether they answer, and leave out those that don't.
type HealthCheck struct {
	Balancer string
	VIP      string // address:port
	// Interval and Timeout are seconds; after so many Failures a backend is left out, after so many Successes it is back.
	Interval, Timeout, Successes, Failures int
}

// Key is load balancer and address.
func (h HealthCheck) Key(router string) RowKey {
	return RowKey{"Load_Balancer_Health_Check", router, h.Balancer + " " + h.VIP}
}

// Equal compares all.
func (h HealthCheck) Equal(o Row) bool { return Row(h) == o }

func (h HealthCheck) String() string {
	return fmt.Sprintf("every %ds, timeout %ds, %d successes, %d failures", h.Interval, h.Timeout, h.Successes, h.Failures)
}
