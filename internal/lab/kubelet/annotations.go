package kubelet

import (
	"encoding/json"
	"fmt"
	"maps"
	"net"
	"net/netip"
	"slices"
	"strings"

	corev1 "k8s.io/api/core/v1"

	"github.com/sallyport/sallyport/internal/lab/engine"
	"github.com/sallyport/sallyport/internal/lab/netns"
)

// Kube-OVN writes what it has decided for an interface as annotations "<provider>.kubernetes.io/<what>". The provider
// of the cluster network is "ovn", that of a NetworkAttachmentDefinition "<name>.<namespace>.ovn".
const (
	defaultProvider          = "ovn"
	annotationGroup          = ".kubernetes.io/"
	networksAnnotation       = "k8s.v1.cni.cncf.io/networks"
	defaultNetworkAnnotation = "v1.multus-cni.io/default-network"
	nodeInterface            = "ovn0"
)

// Attachment is one interface with the routes that go out of it.
type Attachment struct {
	engine.Port
	Routes []netns.Route
}

// provider is one network of a pod, and the interface that it gets.
type provider struct{ name, iface string }

func (p provider) read(annotations map[string]string, what string) string {
	return annotations[p.name+annotationGroup+what]
}

// allocated says whether Kube-OVN has given the pod its addresses.
func allocated(pod *corev1.Pod) bool {
	p, err := clusterNetwork(pod)
	return err == nil && p.read(pod.Annotations, "allocated") == "true"
}

// routed says whether Kube-OVN has also finished the pod's way out. Its CNI plugin waits for it before it makes eth0.
func routed(pod *corev1.Pod) bool {
	p, err := clusterNetwork(pod)
	return err == nil && allocated(pod) && p.read(pod.Annotations, "routed") == "true"
}

// Attachments are the interfaces of a pod, eth0 first.
func Attachments(pod *corev1.Pod) ([]Attachment, error) {
	providers, err := providersOf(pod)
	if err != nil {
		return nil, err
	}
	out := make([]Attachment, 0, len(providers))
	for _, p := range providers {
		a, err := p.attachment(pod)
		if err != nil {
			return nil, fmt.Errorf("network %s of pod %s/%s: %w", p.name, pod.Namespace, pod.Name, err)
		}
		out = append(out, a)
	}
	return out, nil
}

func (p provider) attachment(pod *corev1.Pod) (Attachment, error) {
	owner := pod.Name
	if vm := p.read(pod.Annotations, "virtualmachine"); vm != "" {
		// the port belongs to the VM: it outlives the virt-launcher pod, and two pods share it during a live migration
		owner = vm
	}
	a, gateways, err := p.interfaceOf(pod.Annotations)
	if err != nil {
		return Attachment{}, err
	}
	a.LogicalPort = owner + "." + pod.Namespace
	if p.name != defaultProvider {
		a.LogicalPort += "." + p.name
	}
	if p.defaultRoute(pod.Annotations) {
		for _, gw := range gateways {
			a.Routes = append(a.Routes, netns.Route{Via: gw, Dev: p.iface})
		}
	}
	extra, err := p.extraRoutes(pod.Annotations)
	a.Routes = append(a.Routes, extra...)
	return a, err
}

// defaultRoute says whether the pod's default route goes this way: eth0's, if nothing else is said.
func (p provider) defaultRoute(annotations map[string]string) bool {
	switch p.read(annotations, "default_route") {
	case "true":
		return true
	case "false":
		return false
	}
	return p.iface == "eth0"
}

func (p provider) extraRoutes(annotations map[string]string) ([]netns.Route, error) {
	raw := p.read(annotations, "routes")
	if raw == "" {
		return nil, nil
	}
	var listed []struct{ Dst, Gw string }
	if err := json.Unmarshal([]byte(raw), &listed); err != nil {
		return nil, fmt.Errorf("routes: %w", err)
	}
	var out []netns.Route
	for _, r := range listed {
		via, err := netip.ParseAddr(r.Gw)
		if err != nil {
			return nil, fmt.Errorf("routes: %w", err)
		}
		route := netns.Route{Via: via, Dev: p.iface}
		if r.Dst != "" {
			if route.Dst, err = netip.ParsePrefix(r.Dst); err != nil {
				return nil, fmt.Errorf("routes: %w", err)
			}
		}
		out = append(out, route)
	}
	return out, nil
}

// interfaceOf is what pods and nodes have in common: address, MAC and gateways.
func (p provider) interfaceOf(annotations map[string]string) (a Attachment, gateways []netip.Addr, err error) {
	a.Interface = p.iface
	if a.MAC, err = net.ParseMAC(p.read(annotations, "mac_address")); err != nil {
		return a, nil, fmt.Errorf("mac_address: %w", err)
	}
	addresses, err := split(p.read(annotations, "ip_address"), netip.ParseAddr)
	if err != nil {
		return a, nil, fmt.Errorf("ip_address: %w", err)
	}
	subnets, err := split(p.read(annotations, "cidr"), netip.ParsePrefix)
	if err != nil {
		return a, nil, fmt.Errorf("cidr: %w", err)
	}
	if gateways, err = split(p.read(annotations, "gateway"), netip.ParseAddr); err != nil {
		return a, nil, fmt.Errorf("gateway: %w", err)
	}
	for _, addr := range addresses {
		i := slices.IndexFunc(subnets, func(s netip.Prefix) bool { return s.Contains(addr) })
		if i < 0 {
			return a, nil, fmt.Errorf("address %s is not in %v", addr, subnets)
		}
		a.Addresses = append(a.Addresses, netip.PrefixFrom(addr, subnets[i].Bits()))
	}
	has := func(gw netip.Addr) bool {
		return slices.ContainsFunc(addresses, func(own netip.Addr) bool { return own.Is4() == gw.Is4() })
	}
	return a, slices.DeleteFunc(gateways, func(gw netip.Addr) bool { return !has(gw) }), nil
}

// split parses a list like "10.0.0.2,fd00::2".
func split[T any](list string, parse func(string) (T, error)) ([]T, error) {
	var out []T
	for item := range strings.SplitSeq(list, ",") {
		if item = strings.TrimSpace(item); item == "" {
			continue
		}
		v, err := parse(item)
		if err != nil {
			return nil, err
		}
		out = append(out, v)
	}
	return out, nil
}

// joinPort is a node's own interface on Kube-OVN's join switch, through which the node reaches what is inside; false
// until Kube-OVN has allocated it.
func joinPort(node *corev1.Node, inside []netip.Prefix) (Attachment, bool, error) {
	p := provider{name: defaultProvider, iface: nodeInterface}
	if p.read(node.Annotations, "allocated") != "true" {
		return Attachment{}, false, nil
	}
	a, gateways, err := p.interfaceOf(node.Annotations)
	if err != nil {
		return Attachment{}, false, fmt.Errorf("join address of node %s: %w", node.Name, err)
	}
	a.LogicalPort = p.read(node.Annotations, "port_name")
	for _, gw := range gateways {
		for _, dst := range inside {
			if dst.Addr().Is4() == gw.Is4() {
				a.Routes = append(a.Routes, netns.Route{Dst: dst, Via: gw, Dev: nodeInterface})
			}
		}
	}
	return a, true, nil
}

// addressesOf are the addresses of eth0, which Kubernetes calls the pod's.
func addressesOf(attached []Attachment) []netip.Addr {
	var out []netip.Addr
	if len(attached) == 0 {
		return nil
	}
	for _, p := range attached[0].Addresses {
		out = append(out, p.Addr())
	}
	return out
}

func sortedKeys[V any](m map[string]V) []string { return slices.Sorted(maps.Keys(m)) }
