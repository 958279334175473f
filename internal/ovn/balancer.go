package ovn

import (
	"net/netip"
	"slices"
	"strconv"
	"strings"

	"github.com/ovn-kubernetes/libovsdb/ovsdb"

	"github.com/sallyport/sallyport/internal/intent"
	"github.com/sallyport/sallyport/internal/ovn/nb"
	"github.com/sallyport/sallyport/internal/ownership"
)

// Load balancers. A row of theirs exists by itself; routers and switches that balance have it in a set.

// Options of load balancers and of health checks.
const (
	rejects   = "reject"
	flushes   = "ct_flush"
	affinity  = "affinity_timeout"
	interval  = "interval"
	timeout   = "timeout"
	successes = "success_count"
	failures  = "failure_count"
)

// nobody is a name, and a shard, that no row has. A copy with several indexes goes on to the next when it finds nothing by the
// first, and would find all rows that have nothing there.
const nobody = "\x00"

// balancing is the set of load balancers that a router or a switch has.
var balancing = map[string]home{
	nb.LogicalRouterTable: {nb.LogicalRouterTable, "load_balancer"},
	nb.LogicalSwitchTable: {nb.LogicalSwitchTable, "load_balancer"},
}

// Balanced says whose load balancer of a shard has an address, by protocol, address and port.
func (c *Client) Balanced(shard string) map[string]string {
	s := c.current.Load()
	if s == nil {
		return nil
	}
	out := map[string]string{}
	for _, b := range s.balancersOf(shard) {
		for vip := range b.VIPs {
			out[protocol(b)+" "+vip] = intent.ServiceOf(origin(b.ExternalIDs, shard))
		}
	}
	return out
}

func (s *session) balancersOf(shard string) []*nb.LoadBalancer {
	return rows(s, nb.LoadBalancerTable, &nb.LoadBalancer{Name: nobody, ExternalIDs: map[string]string{ownership.RowShardKey: shard}})
}

func (s *session) balancersNamed(name string) []*nb.LoadBalancer {
	return rows(s, nb.LoadBalancerTable, &nb.LoadBalancer{Name: name, ExternalIDs: map[string]string{ownership.RowShardKey: nobody}})
}

// balancers are the load balancers of a shard, with their health checks.
func (s *session) balancers(shard string) (out []record) {
	has := s.attached()
	for _, b := range s.balancersOf(shard) {
		value, by := decodeBalancer(b, has), origin(b.ExternalIDs, shard)
		value.Service = intent.ServiceOf(by)
		out = append(out, record{value: value, origin: by, uuid: b.UUID, row: b})
	}
	for _, h := range rows(s, nb.HealthCheckTable, &nb.HealthCheck{ExternalIDs: map[string]string{ownership.RowShardKey: shard}}) {
		out = append(out, record{value: decodeCheck(h), origin: origin(h.ExternalIDs, shard), uuid: h.UUID, row: h})
	}
	return out
}

// attached tells whether the router or switch of a name has a load balancer. Each set is looked at once.
func (s *session) attached() func(table, name, uuid string) bool {
	known := map[[2]string]map[string]bool{}
	return func(table, name, uuid string) bool {
		members, read := known[[2]string{table, name}]
		if !read {
			members = map[string]bool{}
			for _, u := range s.balanced(table, name) {
				members[u] = true
			}
			known[[2]string{table, name}] = members
		}
		return members[uuid]
	}
}

func (s *session) balanced(table, name string) []string {
	if table == nb.LogicalRouterTable {
		if r := s.router(name); r != nil {
			return r.LoadBalancers
		}
		return nil
	}
	for _, l := range rows(s, nb.LogicalSwitchTable, &nb.LogicalSwitch{Name: name}) {
		return l.LoadBalancers
	}
	return nil
}

// encodeBalancer writes a load balancer. Where it is to be is in its external_ids as well: in the database only sets say so.
func encodeBalancer(b intent.LoadBalancer, uuid string, ids map[string]string) draft {
	word := string(b.Protocol)
	row := &nb.LoadBalancer{
		UUID: uuid, Name: b.Name, Protocol: &word, VIPs: encodeVIPs(b.VIPs), Options: map[string]string{rejects: "true"},
		IPPortMappings: encodeProbes(b.Probes), ExternalIDs: in(ids, b.Router+" "+b.Switch),
	}
	if b.Affinity > 0 {
		row.Options[affinity] = strconv.Itoa(b.Affinity)
	}
	if b.Flush {
		row.Options[flushes] = "true"
	}
	return draft{row: row, fields: []any{&row.Protocol, &row.VIPs, &row.Options, &row.IPPortMappings}, ids: &row.ExternalIDs}
}

func decodeBalancer(b *nb.LoadBalancer, has func(table, name, uuid string) bool) intent.LoadBalancer {
	out := intent.LoadBalancer{
		Name: b.Name, Protocol: intent.Protocol(protocol(b)), VIPs: decodeVIPs(b.VIPs), Probes: decodeProbes(b.IPPortMappings),
		Affinity: number(b.Options, affinity), Flush: b.Options[flushes] == "true",
	}
	if b.Options[rejects] != "true" {
		out.Affinity = -1 // nothing that we want
	}
	router, switched, _ := strings.Cut(b.ExternalIDs[ownership.RowParentKey], " ")
	if has(nb.LogicalRouterTable, router, b.UUID) {
		out.Router = router
	}
	if has(nb.LogicalSwitchTable, switched, b.UUID) {
		out.Switch = switched
	}
	return out
}

func encodeCheck(h intent.HealthCheck, uuid string, ids map[string]string) draft {
	row := &nb.HealthCheck{UUID: uuid, VIP: h.VIP.String(), ExternalIDs: in(ids, h.Balancer), Options: map[string]string{
		interval: strconv.Itoa(h.Interval), timeout: strconv.Itoa(h.Timeout),
		successes: strconv.Itoa(h.Successes), failures: strconv.Itoa(h.Failures),
	}}
	return draft{row: row, fields: []any{&row.Options}, ids: &row.ExternalIDs}
}

func decodeCheck(h *nb.HealthCheck) intent.HealthCheck {
	return intent.HealthCheck{
		Balancer: h.ExternalIDs[ownership.RowParentKey], VIP: parseSocket(h.VIP),
		Interval: number(h.Options, interval), Timeout: number(h.Options, timeout),
		Successes: number(h.Options, successes), Failures: number(h.Options, failures),
	}
}

// protocol is TCP where nothing else is said.
func protocol(b *nb.LoadBalancer) string {
	if b.Protocol == nil {
		return string(intent.TCP)
	}
	return *b.Protocol
}

// number is a number of options; 0 when there is none, or something else.
func number(options map[string]string, key string) int {
	n, _ := strconv.Atoi(options[key])
	return n
}

// encodeVIPs writes what is balanced, and decodeVIPs reads it. What can't be read becomes an address that is none, which nobody wants: so it is
// written anew.
func encodeVIPs(list []intent.VIP) map[string]string {
	out := map[string]string{}
	for _, v := range list {
		var to []string
		for _, b := range v.Backends {
			to = append(to, b.String())
		}
		out[v.Address.String()] = strings.Join(to, ",")
	}
	return out
}

func decodeVIPs(m map[string]string) (out []intent.VIP) {
	for address, backends := range m {
		v := intent.VIP{Address: parseSocket(address)}
		for text := range strings.SplitSeq(backends, ",") {
			if backends != "" {
				v.Backends = append(v.Backends, parseSocket(text))
			}
		}
		slices.SortFunc(v.Backends, netip.AddrPort.Compare)
		out = append(out, v)
	}
	slices.SortFunc(out, intent.VIP.Compare)
	return out
}

// encodeProbes writes where backends are and who asks them, and decodeProbes reads it, as above.
func encodeProbes(list []intent.Probe) map[string]string {
	out := map[string]string{}
	for _, p := range list {
		out[p.Backend.String()] = p.Port.String() + ":" + p.Source.String()
	}
	return out
}

func decodeProbes(m map[string]string) (out []intent.Probe) {
	for backend, text := range m {
		port, source, _ := strings.Cut(text, ":")
		p := intent.Probe{Backend: parseAddress(backend), Source: parseAddress(source)}
		p.Port, _ = intent.ParsePodPort(port)
		out = append(out, p)
	}
	slices.SortFunc(out, intent.Probe.Compare)
	return out
}

// parseSocket reads an address and port as we write them; zero when it is anything else.
func parseSocket(text string) netip.AddrPort {
	if s, err := netip.ParseAddrPort(text); err == nil && s.String() == text {
		return s
	}
	return netip.AddrPort{}
}

// parseAddress is the same for an address.
func parseAddress(text string) netip.Addr {
	if a := address(text); a.String() == text {
		return a
	}
	return netip.Addr{}
}

// balance puts a load balancer into the sets of its router and switch, and takes it out of those that it was in and is not to be.
// Who has it already is left alone.
func (t *transaction) balance(uuid string, was, is intent.LoadBalancer) error {
	for _, set := range []struct{ table, was, is string }{
		{nb.LogicalRouterTable, was.Router, is.Router}, {nb.LogicalSwitchTable, was.Switch, is.Switch},
	} {
		if set.was == set.is {
			continue
		}
		home := balancing[set.table]
		if set.was != "" {
			op, err := home.leaveNamed(set.was, uuid)
			if err := t.do([]ovsdb.Operation{op}, err); err != nil {
				return err
			}
		}
		if set.is != "" {
			t.needs[len(t.ops)] = "there is no " + set.table + " " + set.is
			if err := t.do(home.enter(set.is, uuid)); err != nil {
				return err
			}
		}
	}
	return nil
}
