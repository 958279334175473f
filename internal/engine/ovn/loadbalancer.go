package ovn

import (
	"net/netip"
	"slices"
	"strconv"
	"strings"

	"github.com/ovn-kubernetes/libovsdb/ovsdb"

	"github.com/sallyport/sallyport/internal/engine/ovn/nb"
	"github.com/sallyport/sallyport/internal/model/intent"
	"github.com/sallyport/sallyport/internal/model/ownership"
)

// Load balancers. Their rows exist on their own; the routers and switches that use them refer to them in a set.

// Options of load balancers and health checks.
const (
	rejectOption       = "reject"
	ctFlushOption      = "ct_flush"
	affinityOption     = "affinity_timeout"
	intervalOption     = "interval"
	timeoutOption      = "timeout"
	successCountOption = "success_count"
	failureCountOption = "failure_count"
)

// noSuchName is a name and a shard that no row has. If a lookup in the first index finds nothing, the cache tries the
// next index, where an empty value would match all rows without one.
const noSuchName = "\x00"

// loadBalancerSets are the sets of load balancers in routers and switches.
var loadBalancerSets = map[string]parentSet{
	nb.LogicalRouterTable: {nb.LogicalRouterTable, "load_balancer"},
	nb.LogicalSwitchTable: {nb.LogicalSwitchTable, "load_balancer"},
}

// ServicesByVIP returns the Services of a shard's load balancers, by protocol, address and port.
func (c *Client) ServicesByVIP(shard string) map[string]string {
	s := c.current.Load()
	if s == nil {
		return nil
	}
	out := map[string]string{}
	for _, b := range s.loadBalancersByShard(shard) {
		for vip := range b.VIPs {
			out[loadBalancerProtocol(b)+" "+vip] = intent.ServiceKey(rowOrigin(b.ExternalIDs, shard))
		}
	}
	return out
}

func (s *session) loadBalancersByShard(shard string) []*nb.LoadBalancer {
	return rowsByIndex(s, nb.LoadBalancerTable,
		&nb.LoadBalancer{Name: noSuchName, ExternalIDs: map[string]string{ownership.RowShardKey: shard}})
}

func (s *session) loadBalancersByName(name string) []*nb.LoadBalancer {
	return rowsByIndex(s, nb.LoadBalancerTable,
		&nb.LoadBalancer{Name: name, ExternalIDs: map[string]string{ownership.RowShardKey: noSuchName}})
}

// loadBalancerRecords returns the load balancers of a shard.
func (s *session) loadBalancerRecords(shard string) (out []record) {
	has := s.loadBalancerLookup()
	for _, b := range s.loadBalancersByShard(shard) {
		value, by := decodeLoadBalancer(b, has), rowOrigin(b.ExternalIDs, shard)
		value.Service = intent.ServiceKey(by)
		out = append(out, record{value: value, origin: by, uuid: b.UUID, row: b})
	}
	return out
}

// loadBalancerLookup returns a function that reports whether a router or switch has a load balancer. It reads each set
// once.
func (s *session) loadBalancerLookup() func(table, name, uuid string) bool {
	known := map[[2]string]map[string]bool{}
	return func(table, name, uuid string) bool {
		members, read := known[[2]string{table, name}]
		if !read {
			members = map[string]bool{}
			for _, u := range s.attachedLoadBalancers(table, name) {
				members[u] = true
			}
			known[[2]string{table, name}] = members
		}
		return members[uuid]
	}
}

func (s *session) attachedLoadBalancers(table, name string) []string {
	if table == nb.LogicalRouterTable {
		if r := s.routerByName(name); r != nil {
			return r.LoadBalancers
		}
		return nil
	}
	for _, l := range rowsByIndex(s, nb.LogicalSwitchTable, &nb.LogicalSwitch{Name: name}) {
		return l.LoadBalancers
	}
	return nil
}

// encodeLoadBalancer encodes a load balancer. Its external_ids include its router and switch, because otherwise only
// their sets have this relation.
func encodeLoadBalancer(b intent.LoadBalancer, uuid string, ids map[string]string) rowDraft {
	word := string(b.Protocol)
	row := &nb.LoadBalancer{
		UUID: uuid, Name: b.Name, Protocol: &word, VIPs: encodeVIPs(b.VIPs),
		Options:        map[string]string{rejectOption: "true"},
		IPPortMappings: encodeIPPortMappings(b.IPPortMappings), ExternalIDs: withParentID(ids, b.Router+" "+b.Switch),
	}
	if b.AffinityTimeout > 0 {
		row.Options[affinityOption] = strconv.Itoa(b.AffinityTimeout)
	}
	if b.CTFlush {
		row.Options[ctFlushOption] = "true"
	}
	return rowDraft{
		row:         row,
		fields:      []any{&row.Protocol, &row.VIPs, &row.Options, &row.IPPortMappings},
		externalIDs: &row.ExternalIDs,
	}
}

func decodeLoadBalancer(b *nb.LoadBalancer, has func(table, name, uuid string) bool) intent.LoadBalancer {
	out := intent.LoadBalancer{
		Name: b.Name, Protocol: intent.Protocol(loadBalancerProtocol(b)), VIPs: decodeVIPs(b.VIPs),
		IPPortMappings:  decodeIPPortMappings(b.IPPortMappings),
		AffinityTimeout: intOption(b.Options, affinityOption), CTFlush: b.Options[ctFlushOption] == "true",
	}
	if b.Options[rejectOption] != "true" {
		out.AffinityTimeout = -1 // differs from every wanted value
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

func encodeHealthCheck(h intent.LoadBalancerHealthCheck, uuid string, ids map[string]string) rowDraft {
	row := &nb.HealthCheck{
		UUID: uuid, VIP: h.VIP.String(), ExternalIDs: ids,
		Options: map[string]string{
			intervalOption: strconv.Itoa(h.Interval), timeoutOption: strconv.Itoa(h.Timeout),
			successCountOption: strconv.Itoa(h.SuccessCount), failureCountOption: strconv.Itoa(h.FailureCount),
		},
	}
	return rowDraft{row: row, fields: []any{&row.Options}, externalIDs: &row.ExternalIDs}
}

func decodeHealthCheck(h *nb.HealthCheck) (intent.LoadBalancerHealthCheck, bool) {
	return intent.LoadBalancerHealthCheck{
		LoadBalancer: h.ExternalIDs[ownership.RowParentKey], VIP: parseCanonicalAddrPort(h.VIP),
		Interval: intOption(h.Options, intervalOption), Timeout: intOption(h.Options, timeoutOption),
		SuccessCount: intOption(h.Options, successCountOption), FailureCount: intOption(h.Options, failureCountOption),
	}, true
}

// loadBalancerProtocol returns the protocol. OVN's default is TCP.
func loadBalancerProtocol(b *nb.LoadBalancer) string {
	if b.Protocol == nil {
		return string(intent.TCP)
	}
	return *b.Protocol
}

// intOption returns an option as a number, or 0 if it is missing or not a number.
func intOption(options map[string]string, key string) int {
	n, _ := strconv.Atoi(options[key])
	return n
}

// encodeVIPs encodes VIPs, and decodeVIPs decodes them. A value that can't be parsed becomes an invalid address, which
// differs from every wanted value, so the row is rewritten.
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
		v := intent.VIP{Address: parseCanonicalAddrPort(address)}
		for text := range strings.SplitSeq(backends, ",") {
			if backends != "" {
				v.Backends = append(v.Backends, parseCanonicalAddrPort(text))
			}
		}
		slices.SortFunc(v.Backends, netip.AddrPort.Compare)
		out = append(out, v)
	}
	slices.SortFunc(out, intent.VIP.Compare)
	return out
}

// encodeIPPortMappings encodes the mappings for health checks, and decodeIPPortMappings decodes them, with the same
// treatment of invalid values.
func encodeIPPortMappings(list []intent.IPPortMapping) map[string]string {
	out := map[string]string{}
	for _, p := range list {
		out[p.Backend.String()] = p.Port.String() + ":" + p.Source.String()
	}
	return out
}

func decodeIPPortMappings(m map[string]string) (out []intent.IPPortMapping) {
	for backend, text := range m {
		port, source, _ := strings.Cut(text, ":")
		p := intent.IPPortMapping{Backend: parseCanonicalAddr(backend), Source: parseCanonicalAddr(source)}
		p.Port, _ = intent.ParsePodPort(port)
		out = append(out, p)
	}
	slices.SortFunc(out, intent.IPPortMapping.Compare)
	return out
}

// parseCanonicalAddrPort parses an address and port in the form that we write. It returns zero for any other form.
func parseCanonicalAddrPort(text string) netip.AddrPort {
	if s, err := netip.ParseAddrPort(text); err == nil && s.String() == text {
		return s
	}
	return netip.AddrPort{}
}

// parseCanonicalAddr does the same for an address.
func parseCanonicalAddr(text string) netip.Addr {
	if a := parseAddr(text); a.String() == text {
		return a
	}
	return netip.Addr{}
}

// updateLoadBalancerSets adds a load balancer to the sets of its new router and switch, and removes it from those of
// the previous ones. Unchanged sets are not touched.
func (t *transaction) updateLoadBalancerSets(uuid string, was, is intent.LoadBalancer) error {
	for _, set := range []struct{ table, was, is string }{
		{nb.LogicalRouterTable, was.Router, is.Router}, {nb.LogicalSwitchTable, was.Switch, is.Switch},
	} {
		if set.was == set.is {
			continue
		}
		home := loadBalancerSets[set.table]
		if set.was != "" {
			op, err := home.removeFromParentOp(set.was, uuid)
			if err := t.appendOps([]ovsdb.Operation{op}, err); err != nil {
				return err
			}
		}
		if set.is != "" {
			t.missingMessages[len(t.ops)] = set.table + " " + set.is + " does not exist"
			if err := t.appendOps(home.insertOps(set.is, uuid)); err != nil {
				return err
			}
		}
	}
	return nil
}
