package intent

import (
	"fmt"
	"net/netip"
	"regexp"
	"slices"
	"strings"

	"github.com/sallyport/sallyport/internal/engine/kubeovn"
	"github.com/sallyport/sallyport/internal/model/state"
)

// LoadBalancer balances connections to addresses and ports over backends, for one protocol.
type LoadBalancer struct {
	// Service is whose it is: namespace/name. Its own name is made of both with a hyphen, and so may be that of another
	// as well.
	Service  string
	Name     string
	Protocol Protocol
	VIPs     []VIP // in order
	// AffinityTimeout is for how many seconds a client keeps its backend; 0: each connection is balanced anew.
	AffinityTimeout int
	// CTFlush: connections to a backend that is taken away are forgotten.
	CTFlush        bool
	IPPortMappings []IPPortMapping // for health checks, in order; at most one of a backend
	// Router and Switch are those that balance.
	Router, Switch string
}

// VIP is an address and port that is balanced. Without backends it refuses connections.
type VIP struct {
	Address  netip.AddrPort
	Backends []netip.AddrPort // in order
}

// Compare orders by address and port.
func (v VIP) Compare(o VIP) int { return v.Address.Compare(o.Address) }

func (v VIP) equal(o VIP) bool { return v.Address == o.Address && slices.Equal(v.Backends, o.Backends) }

func (v VIP) String() string {
	var to []string
	for _, b := range v.Backends {
		to = append(to, b.String())
	}
	return v.Address.String() + "=" + strings.Join(to, ",")
}

// IPPortMapping says at which switch port a backend is, and with which address OVN asks it whether it answers. OVN
// answers ARP requests for that address on the switch of the port: a wrong port or address cuts off others.
type IPPortMapping struct {
	Backend netip.Addr
	Port    PodPort
	Source  netip.Addr
}

// Compare orders by backend.
func (p IPPortMapping) Compare(o IPPortMapping) int { return p.Backend.Compare(o.Backend) }

func (p IPPortMapping) String() string { return fmt.Sprintf("%s=%s:%s", p.Backend, p.Port, p.Source) }

// PodPort is the name of the logical switch port of a pod. There is none but of names that Kubernetes allows, which
// have no space, colon or equals sign: whoever has one may write it into a row.
type PodPort struct{ name string }

// NewPodPort names the port of a pod as Kube-OVN does, POD.NAMESPACE. It fails where no pod can have such names.
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

// dnsLabel is a label of a name as RFC 1123 has it.
var dnsLabel = regexp.MustCompile(`^[a-z0-9]([-a-z0-9]*[a-z0-9])?$`)

// ParsePodPort reads the name of a pod's port. A pod's name may have dots, a namespace's has none.
func ParsePodPort(text string) (PodPort, bool) {
	i := strings.LastIndexByte(text, '.')
	if i < 0 {
		return PodPort{}, false
	}
	return NewPodPort(text[i+1:], text[:i])
}

func (p PodPort) String() string { return p.name }

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
func (b LoadBalancer) Equal(o Row) bool {
	other, is := o.(LoadBalancer)
	return is && b.Service == other.Service && b.Name == other.Name && b.Protocol == other.Protocol &&
		slices.EqualFunc(b.VIPs, other.VIPs, VIP.equal) && slices.Equal(b.IPPortMappings, other.IPPortMappings) &&
		b.AffinityTimeout == other.AffinityTimeout && b.CTFlush == other.CTFlush && b.Router == other.Router &&
		b.Switch == other.Switch
}

func (b LoadBalancer) String() string {
	words := []string{string(b.Protocol)}
	for _, v := range b.VIPs {
		words = append(words, v.String())
	}
	words = append(words, "on "+b.Router+" and "+b.Switch)
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

// ServiceKey is the Service of a load balancer, by who asked for it.
func ServiceKey(by state.Ref) string { return by.Namespace + "/" + by.Name }

// LoadBalancerHealthCheck lets OVN ask the backends of a load balancer's address whether they answer, and leave out
// those that don't.
type LoadBalancerHealthCheck struct {
	LoadBalancer string
	VIP          netip.AddrPort
	// Interval and Timeout are seconds; after so many Failures a backend is left out, after so many Successes it is
	// back.
	Interval, Timeout, SuccessCount, FailureCount int
}

// Key is load balancer and address.
func (h LoadBalancerHealthCheck) Key(router string) RowKey {
	return RowKey{"Load_Balancer_Health_Check", router, h.LoadBalancer + " " + h.VIP.String()}
}

// Equal compares all.
func (h LoadBalancerHealthCheck) Equal(o Row) bool { return Row(h) == o }

func (h LoadBalancerHealthCheck) String() string {
	return fmt.Sprintf("every %ds, timeout %ds, %d successes, %d failures", h.Interval, h.Timeout, h.SuccessCount,
		h.FailureCount)
}
