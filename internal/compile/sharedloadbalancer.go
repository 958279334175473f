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
	for class, list := range vips {
		c.placements[class] = c.assignLoadBalancers(class, list)
	}
	needed := map[vipClass]map[string]bool{}
	for class, placement := range c.placements {
		needed[class] = map[string]bool{}
		for number := range placement.count {
			needed[class][placement.name(number)] = true
		}
	}
	if c.keepsEmptyLoadBalancers() {
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

// keepsEmptyLoadBalancers reports whether the first load balancer of each protocol exists without VIPs too.
func (c *compiler) keepsEmptyLoadBalancers() bool {
	return c.project.isActive() && !c.isVPCTerminating() && c.w.Management == nil &&
		c.w.Engine.RouterPorts[c.internalPortName()]
}

// assignLoadBalancers adds VIPs of one class to load balancers. A VIP stays in the one that it is in.
func (c *compiler) assignLoadBalancers(class vipClass, vips []intent.VIP) *vipPlacement {
	placement := newVIPPlacement(c.sharedNamePrefix(class))
	assign := func(v intent.VIP, number int) {
		placement.add(v.Address.Addr(), number)
		c.emitVIP(v, placement.name(number))
	}
	var unassigned []intent.VIP
	for _, v := range vips {
		name := c.w.Engine.VIPs[intent.FormatVIP(v.Protocol, v.Address)].LoadBalancer
		if number, ok := placement.parseName(name); ok && placement.count[number] < maxSharedVIPs {
			assign(v, number)
		} else {
			unassigned = append(unassigned, v)
		}
	}
	for _, v := range unassigned {
		assign(v, placement.choose(v.Address.Addr()))
	}
	return placement
}

// vipPlacement is the number of VIPs in each load balancer of a class. Load balancers of a class are numbered.
type vipPlacement struct {
	prefix    string // of their names
	count     map[int]int
	byAddress map[netip.Addr]map[int]int // VIPs of an address, by load balancer
	full      int                        // load balancers below this number have no room
}

func newVIPPlacement(prefix string) *vipPlacement {
	return &vipPlacement{prefix: prefix, count: map[int]int{}, byAddress: map[netip.Addr]map[int]int{}}
}

// name returns the name of a load balancer.
func (p *vipPlacement) name(number int) string { return p.prefix + strconv.Itoa(number) }

// parseName returns the number of a load balancer, and false if it is of another class.
func (p *vipPlacement) parseName(name string) (number int, ok bool) {
	text, ok := strings.CutPrefix(name, p.prefix)
	if !ok {
		return 0, false
	}
	number, err := strconv.Atoi(text)
	return number, err == nil && number >= 0 && strconv.Itoa(number) == text
}

// choose returns the load balancer for a new VIP: the first that has its address already, or the first with room. If a
// load balancer loses an address that another one keeps, northd has to compute everything again. The result does not
// depend on the order in which VIPs were added.
func (p *vipPlacement) choose(address netip.Addr) int {
	best := -1
	for number := range p.byAddress[address] {
		if (best < 0 || number < best) && p.count[number] < maxSharedVIPs {
			best = number
		}
	}
	if best >= 0 {
		return best
	}
	for p.count[p.full] == maxSharedVIPs {
		p.full++
	}
	return p.full
}

// add counts a VIP in a load balancer.
func (p *vipPlacement) add(address netip.Addr, number int) {
	p.count[number]++
	if p.byAddress[address] == nil {
		p.byAddress[address] = map[int]int{}
	}
	p.byAddress[address][number]++
}

// remove is the inverse of add.
func (p *vipPlacement) remove(address netip.Addr, number int) {
	p.full = min(p.full, number)
	decrement(p.count, number)
	if decrement(p.byAddress[address], number); len(p.byAddress[address]) == 0 {
		delete(p.byAddress, address)
	}
}

// decrement decrements a counter, and removes it at zero.
func decrement(counters map[int]int, key int) {
	if counters[key]--; counters[key] == 0 {
		delete(counters, key)
	}
}
