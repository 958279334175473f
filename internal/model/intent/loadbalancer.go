package intent

import (
	"cmp"
	"fmt"
	"net/netip"
	"regexp"
	"slices"
	"strings"

	"github.com/sallyport/sallyport/internal/engine/kubeovn"
	"github.com/sallyport/sallyport/internal/model/state"
)

// LoadBalancer is a load balancer of a VPC for one protocol. Its VIPs are entries of their own: a change of one does not
// write the others.
type LoadBalancer struct {
	Name string
	// Service is the only Service of the load balancer, as namespace/name. Empty: Services share it. The name of a
	// load balancer with one Service joins namespace and name with a hyphen, so it may not be unique.
	Service  string
	Protocol Protocol
	// AffinityTimeout is how many seconds a client keeps its backend. 0: no affinity.
	AffinityTimeout int
	// CTFlush: OVN flushes the tracked connections of a removed backend.
	CTFlush        bool
	IPPortMappings []IPPortMapping // for health checks, sorted; at most one of a backend
	// Router and Switches are the router and the switches that use it. Switches are sorted.
	Router   string
	Switches []string
}

// ID returns what identifies a load balancer in its VPC.
func (b LoadBalancer) ID() string {
	if b.Service == "" {
		return b.Name
	}
	return b.Service + " " + string(b.Protocol)
}

// VIP is an address and port that a load balancer balances. Without backends, connections to it are refused.
type VIP struct {
	LoadBalancer string // its ID
	Protocol     Protocol
	Address      netip.AddrPort
	Backends     []netip.AddrPort // sorted
	Service      string           // the owner, as namespace/name
}

// Key returns protocol, address and port, whichever load balancer has them: if a VIP moves to another load balancer, it
// is removed and added in one transaction.
func (v VIP) Key(router string) RowKey {
	return RowKey{"Load_Balancer vips", router, FormatVIP(v.Protocol, v.Address)}
}

// FormatVIP returns protocol, address and port as text.
func FormatVIP(protocol Protocol, address netip.AddrPort) string {
	return string(protocol) + " " + address.String()
}

// Equal compares all fields.
func (v VIP) Equal(o Row) bool {
	other, is := o.(VIP)
	return is && v.LoadBalancer == other.LoadBalancer && v.Protocol == other.Protocol && v.Address == other.Address &&
		v.Service == other.Service && slices.Equal(v.Backends, other.Backends)
}

func (v VIP) String() string {
	var to []string
	for _, b := range v.Backends {
		to = append(to, b.String())
	}
	return fmt.Sprintf("%s for %s in %s", cmp.Or(strings.Join(to, ","), "no backends"), v.Service, v.LoadBalancer)
}

// IPPortMapping has the switch port of a backend and the source address of OVN's health checks. OVN answers ARP
// requests for that source address on the switch: a wrong port or address cuts off other hosts.
type IPPortMapping struct {
	Backend netip.Addr
	Port    PodPort
	Source  netip.Addr
}

// Compare orders by backend.
func (p IPPortMapping) Compare(o IPPortMapping) int { return p.Backend.Compare(o.Backend) }

func (p IPPortMapping) String() string { return fmt.Sprintf("%s=%s:%s", p.Backend, p.Port, p.Source) }

// PodPort is the name of the logical switch port of a pod. It can hold only names that Kubernetes allows, which have no
// space, colon or equals sign, so it is safe to write to a row.
type PodPort struct{ name string }

// NewPodPort returns the name that Kube-OVN gives to the port of a pod: POD.NAMESPACE. It fails for names that no pod
// can have.
func NewPodPort(namespace, pod string) (PodPort, bool) {
	if len(namespace) > 63 || !dnsLabel.MatchString(namespace) || len(pod) > 253 {
		return PodPort{}, false
	}
	for label := range strings.SplitSeq(pod, ".") {
		if !dnsLabel.MatchString(label) {
			return PodPort{}, false
		}
	}
	return PodPort{kubeovn.PodPort(pod, namespace)}, true
}

// dnsLabel matches a label as in RFC 1123.
var dnsLabel = regexp.MustCompile(`^[a-z0-9]([-a-z0-9]*[a-z0-9])?$`)

// ParsePodPort parses the name of a pod's port. The name of a pod may contain dots, that of a namespace may not.
func ParsePodPort(text string) (PodPort, bool) {
	i := strings.LastIndexByte(text, '.')
	if i < 0 {
		return PodPort{}, false
	}
	return NewPodPort(text[i+1:], text[:i])
}

func (p PodPort) String() string { return p.name }

// Protocol is a transport protocol in OVN's notation.
type Protocol string

// The protocols that can be balanced.
const (
	TCP  Protocol = "tcp"
	UDP  Protocol = "udp"
	SCTP Protocol = "sctp"
)

// Key returns the ID.
func (b LoadBalancer) Key(router string) RowKey { return RowKey{"Load_Balancer", router, b.ID()} }

// Equal compares all fields.
func (b LoadBalancer) Equal(o Row) bool {
	other, is := o.(LoadBalancer)
	return is && b.Service == other.Service && b.Name == other.Name && b.Protocol == other.Protocol &&
		slices.Equal(b.IPPortMappings, other.IPPortMappings) && b.AffinityTimeout == other.AffinityTimeout &&
		b.CTFlush == other.CTFlush && b.Router == other.Router && slices.Equal(b.Switches, other.Switches)
}

func (b LoadBalancer) String() string {
	words := []string{string(b.Protocol), "on " + b.Router + " and " + strings.Join(b.Switches, ", ")}
	if b.AffinityTimeout > 0 {
		words = append(words, fmt.Sprintf("affinity=%ds", b.AffinityTimeout))
	}
	if b.CTFlush {
		words = append(words, "flush")
	}
	if len(b.IPPortMappings) > 0 {
		words = append(words, "probes")
	}
	for _, p := range b.IPPortMappings {
		words = append(words, p.String())
	}
	return strings.Join(words, " ")
}

// ServiceKey returns a Service as namespace/name, and ParseServiceKey the Service of such a text. It fails for any other
// text.
func ServiceKey(by state.Ref) string { return by.Namespace + "/" + by.Name }

// ParseServiceKey is the inverse of ServiceKey.
func ParseServiceKey(key string) (state.Ref, bool) {
	namespace, name, ok := strings.Cut(key, "/")
	return state.Ref{Kind: string(Service), Namespace: namespace, Name: name}, ok
}

// LoadBalancerHealthCheck lets OVN check the backends of a VIP and skip those that do not answer.
type LoadBalancerHealthCheck struct {
	LoadBalancer string
	VIP          netip.AddrPort
	// Interval and Timeout are in seconds. A backend is removed after FailureCount failures, and added again after
	// SuccessCount successes.
	Interval, Timeout, SuccessCount, FailureCount int
}

// Key returns load balancer and address.
func (h LoadBalancerHealthCheck) Key(router string) RowKey {
	return RowKey{"Load_Balancer_Health_Check", router, h.LoadBalancer + " " + h.VIP.String()}
}

// Equal compares all fields.
func (h LoadBalancerHealthCheck) Equal(o Row) bool { return Row(h) == o }

func (h LoadBalancerHealthCheck) String() string {
	return fmt.Sprintf("every %ds, timeout %ds, %d successes, %d failures", h.Interval, h.Timeout, h.SuccessCount,
		h.FailureCount)
}
