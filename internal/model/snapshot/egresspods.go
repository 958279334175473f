package snapshot

import (
	"maps"
	"net/netip"
	"slices"
)

// EgressPod is what egress addresses depend on in a pod of the management VPC, and in the ports that are named after it.
// The port of a virtual machine is named after the machine, not after the pod that it runs in.
type EgressPod struct {
	Namespace, Name string
	Ports           []netip.Addr // addresses of its ports on the VPC's switches
	// Runs: the pod exists and has not finished. Claims are the addresses that it has by its own account; they count if a
	// port of its namespace has them.
	Runs   bool
	Claims []netip.Addr
	// InSelected: EgressIPs select its namespace, and EgressIPs are the names of those that select the pod, sorted. In
	// other namespaces the addresses of ports count, whether there are pods or not.
	InSelected bool
	EgressIPs  []string
}

// Key returns the key of the pod.
func (p EgressPod) Key() string { return PodKey(p.Namespace, p.Name) }

// EgressPods is the pods of the management VPC by address. What it says of an address depends on the pods with that
// address only, so a changed pod costs the same in a VPC of any size.
type EgressPods struct {
	pods    map[string]EgressPod
	byPort  map[netip.Addr][]string     // keys of pods
	byClaim map[claimedAddress][]string // keys of running pods in selected namespaces
}

// claimedAddress is an address that pods of a namespace claim.
type claimedAddress struct {
	namespace string
	address   netip.Addr
}

// NewEgressPods returns a set of pods.
func NewEgressPods(pods ...EgressPod) *EgressPods {
	out := &EgressPods{
		pods:   make(map[string]EgressPod, len(pods)),
		byPort: make(map[netip.Addr][]string, len(pods)), byClaim: map[claimedAddress][]string{},
	}
	for _, p := range pods {
		out.Put(p)
	}
	return out
}

// Size returns the number of pods.
func (e *EgressPods) Size() int { return len(e.pods) }

// Get returns the pod with a key. It is empty if nothing is known of it.
func (e *EgressPods) Get(key string) EgressPod { return e.pods[key] }

// Put adds a pod, replaces it, or removes it if it does not run and has no ports.
func (e *EgressPods) Put(p EgressPod) {
	key := p.Key()
	before := e.pods[key]
	for _, a := range before.Ports {
		removeKey(e.byPort, a, key)
	}
	for _, a := range before.countedClaims() {
		removeKey(e.byClaim, claimedAddress{p.Namespace, a}, key)
	}
	if !p.Runs && len(p.Ports) == 0 {
		delete(e.pods, key)
		return
	}
	e.pods[key] = p
	for _, a := range p.Ports {
		addKey(e.byPort, a, key)
	}
	for _, a := range p.countedClaims() {
		addKey(e.byClaim, claimedAddress{p.Namespace, a}, key)
	}
}

// countedClaims returns the claims that may count.
func (p EgressPod) countedClaims() []netip.Addr {
	if !p.InSelected || !p.Runs {
		return nil
	}
	return p.Claims
}

func addKey[K comparable](to map[K][]string, at K, key string) {
	if !slices.Contains(to[at], key) {
		to[at] = append(to[at], key)
	}
}

func removeKey[K comparable](from map[K][]string, at K, key string) {
	from[at] = slices.DeleteFunc(from[at], func(k string) bool { return k == key })
	if len(from[at]) == 0 {
		delete(from, at)
	}
}

// Addresses returns the addresses of all ports, sorted. Only these can be those of known pods.
func (e *EgressPods) Addresses() []netip.Addr {
	return slices.SortedFunc(maps.Keys(e.byPort), netip.Addr.Compare)
}

// Find returns the EgressIPs that select pods with an address, sorted, and whether the address is that of a known pod.
// The address of a port whose pod is not known is not: an EgressIP may select the pod.
func (e *EgressPods) Find(a netip.Addr) (egressIPs []string, known bool) {
	var namespaces []string
	add := func(key string) {
		known = true
		egressIPs = append(egressIPs, e.pods[key].EgressIPs...)
	}
	for _, key := range e.byPort[a] {
		p := e.pods[key]
		if p.Runs || !p.InSelected {
			add(key)
		}
		if !slices.Contains(namespaces, p.Namespace) {
			namespaces = append(namespaces, p.Namespace)
		}
	}
	for _, ns := range namespaces {
		for _, key := range e.byClaim[claimedAddress{ns, a}] {
			add(key)
		}
	}
	slices.Sort(egressIPs)
	return slices.Compact(egressIPs), known
}
