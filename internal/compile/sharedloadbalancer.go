package compile

import (
	"cmp"
	"fmt"
	"maps"
	"net/netip"
	"slices"
	"strconv"
	"strings"

	"github.com/sallyport/sallyport/internal/model/intent"
	"github.com/sallyport/sallyport/internal/model/state"
)

// maxSharedVIPs is the maximum number of VIPs of a shared load balancer. When one VIP changes, northd computes all VIPs
// of its load balancer again.
const maxSharedVIPs = 64

// vipClass is what VIPs must have in common to be in one load balancer.
type vipClass struct {
	protocol intent.Protocol
	affinity int // timeout in seconds; 0: no affinity
}

func (v vipClass) compare(o vipClass) int {
	return cmp.Or(cmp.Compare(v.protocol, o.protocol), cmp.Compare(v.affinity, o.affinity))
}

// sharedNamePrefix returns the beginning of the names of a class's load balancers. A number follows.
func (c *compiler) sharedNamePrefix(class vipClass) string {
	if class.affinity > 0 {
		return fmt.Sprintf("%s-lb-%s-affinity-%d-", c.w.Shard, class.protocol, class.affinity)
	}
	return fmt.Sprintf("%s-lb-%s-", c.w.Shard, class.protocol)
}

// sharedLoadBalancersRef returns the origin of the load balancers that Services share.
func (c *compiler) sharedLoadBalancersRef() state.Ref {
	return state.Ref{Kind: "LoadBalancer", Namespace: c.w.Shard, Name: "shared"}
}

// emitSharedLoadBalancers adds the load balancers that Services share, with their VIPs. Creating and removing a VIP
// costs northd little; removing a load balancer makes it compute everything again. So a project has one load balancer
// for each protocol, with or without VIPs. Others exist while they have VIPs.
func (c *compiler) emitSharedLoadBalancers(vips map[vipClass][]intent.VIP) {
	needed := map[vipClass]map[string]bool{}
	for class, list := range vips {
		needed[class] = c.assignLoadBalancers(class, list)
	}
	if c.project.isActive() && !c.isVPCTerminating() && c.w.Management == nil && c.w.Engine.RouterPorts[c.internalPortName()] {
		for _, p := range protocols {
			class := vipClass{protocol: p}
			if needed[class] == nil {
				needed[class] = map[string]bool{}
			}
			needed[class][c.sharedNamePrefix(class)+"0"] = true
		}
	}
	for _, class := range slices.SortedFunc(maps.Keys(needed), vipClass.compare) {
		for _, name := range slices.Sorted(maps.Keys(needed[class])) {
			c.out.AddRow(c.w.Shard, c.newLoadBalancer(class, name), c.sharedLoadBalancersRef())
		}
	}
}

// assignLoadBalancers adds VIPs of one class to load balancers, and returns the names of those. A VIP stays in the one
// that it is in. A new VIP gets the one that has its address already, or the first with room: if a load balancer loses
// an address that another one keeps, northd has to compute everything again.
func (c *compiler) assignLoadBalancers(class vipClass, vips []intent.VIP) map[string]bool {
	prefix, count, byAddress := c.sharedNamePrefix(class), map[string]int{}, map[netip.Addr]string{}
	var unassigned []intent.VIP
	assign := func(v intent.VIP, name string) {
		count[name]++
		byAddress[v.Address.Addr()] = name
		c.emitVIP(v, name)
	}
	for _, v := range vips {
		name := c.w.Engine.VIPs[intent.FormatVIP(v.Protocol, v.Address)].LoadBalancer
		if number, ok := strings.CutPrefix(name, prefix); !ok || !isDecimal(number) || count[name] == maxSharedVIPs {
			unassigned = append(unassigned, v)
		} else {
			assign(v, name)
		}
	}
	number := 0
	for _, v := range unassigned {
		name := byAddress[v.Address.Addr()]
		if name == "" || count[name] == maxSharedVIPs {
			for count[prefix+strconv.Itoa(number)] == maxSharedVIPs {
				number++
			}
			name = prefix + strconv.Itoa(number)
		}
		assign(v, name)
	}
	names := make(map[string]bool, len(count))
	for name := range count {
		names[name] = true
	}
	return names
}

// isDecimal reports whether a text is a number in the form that strconv.Itoa writes.
func isDecimal(text string) bool {
	n, err := strconv.Atoi(text)
	return err == nil && n >= 0 && strconv.Itoa(n) == text
}
