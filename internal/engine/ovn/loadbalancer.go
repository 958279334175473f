package ovn

import (
	"net/netip"
	"slices"
	"strconv"
	"strings"

	"github.com/ovn-kubernetes/libovsdb/model"
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

// Columns whose entries are written one by one.
const (
	vipsColumn        = "vips"
	addressesColumn   = "addresses"
	externalIDsColumn = "external_ids"
)

// noSuchName is a name and a shard that no row has. If a lookup in the first index finds nothing, the cache tries the
// next index, where an empty value would match all rows without one.
const noSuchName = "\x00"

// loadBalancerSets are the sets of load balancers in routers and switches.
var loadBalancerSets = map[string]parentSet{
	nb.LogicalRouterTable: {nb.LogicalRouterTable, "load_balancer"},
	nb.LogicalSwitchTable: {nb.LogicalSwitchTable, "load_balancer"},
}

func (s *session) loadBalancersByShard(shard string) []*nb.LoadBalancer {
	return rowsByIndex(s, nb.LoadBalancerTable,
		&nb.LoadBalancer{Name: noSuchName, ExternalIDs: map[string]string{ownership.RowShardKey: shard}})
}

func (s *session) loadBalancersByName(name string) []*nb.LoadBalancer {
	return rowsByIndex(s, nb.LoadBalancerTable,
		&nb.LoadBalancer{Name: name, ExternalIDs: map[string]string{ownership.RowShardKey: noSuchName}})
}

// loadBalancerRecords returns the load balancers of a shard, and their VIPs.
func (s *session) loadBalancerRecords(shard string) (out []record) {
	has := s.loadBalancerLookup()
	for _, b := range s.loadBalancersByShard(shard) {
		value := decodeLoadBalancer(b, shard, has)
		out = append(out, record{value: value, origin: rowOrigin(b.ExternalIDs, shard), uuid: b.UUID, row: b})
		out = append(out, vipRecords(b, shard, value.ID())...)
	}
	return out
}

// readLoadBalancers reads some load balancers of a shard with their VIPs, and nothing else of its router.
func (s *session) readLoadBalancers(shard string, ids []string) routerState {
	out := routerState{row: s.routerByName(shard)}
	var found []record
	for _, id := range ids {
		for _, b := range s.loadBalancersByName(id) { // shared ones have their name as ID
			value := decodeLoadBalancer(b, shard, attachedNowhere)
			if b.ExternalIDs[ownership.RowShardKey] != shard || value.ID() != id {
				continue
			}
			found = append(found, record{value: value, origin: rowOrigin(b.ExternalIDs, shard), uuid: b.UUID, row: b})
			found = append(found, vipRecords(b, shard, value.ID())...)
		}
	}
	out.records = indexByKey(shard, found)
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

// attachedNowhere is a lookup for readers that do not need a load balancer's router and switch.
func attachedNowhere(string, string, string) bool { return false }

// encodeLoadBalancer encodes a load balancer without its VIPs. Its external_ids include its router and switch, because
// otherwise only their sets have this relation.
func encodeLoadBalancer(b intent.LoadBalancer, uuid string, ids map[string]string, have model.Model) rowDraft {
	word := string(b.Protocol)
	row := &nb.LoadBalancer{
		UUID: uuid, Name: b.Name, Protocol: &word, Options: map[string]string{rejectOption: "true"},
		IPPortMappings: encodeIPPortMappings(b.IPPortMappings), ExternalIDs: withParentID(ids, joinParents(b)),
	}
	if before, is := have.(*nb.LoadBalancer); is {
		row.ExternalIDs = keepVIPOwners(row.ExternalIDs, before)
	}
	if b.AffinityTimeout > 0 {
		row.Options[affinityOption] = strconv.Itoa(b.AffinityTimeout)
	}
	if b.CTFlush {
		row.Options[ctFlushOption] = "true"
	}
	return rowDraft{
		row:         row,
		fields:      []any{&row.Protocol, &row.Options, &row.IPPortMappings},
		externalIDs: &row.ExternalIDs,
	}
}

func decodeLoadBalancer(b *nb.LoadBalancer, shard string, has func(table, name, uuid string) bool) intent.LoadBalancer {
	out := intent.LoadBalancer{
		Name: b.Name, Service: ownerService(b, shard), Protocol: intent.Protocol(loadBalancerProtocol(b)),
		IPPortMappings:  decodeIPPortMappings(b.IPPortMappings),
		AffinityTimeout: intOption(b.Options, affinityOption), CTFlush: b.Options[ctFlushOption] == "true",
	}
	if b.Options[rejectOption] != "true" {
		out.AffinityTimeout = -1 // differs from every wanted value
	}
	router, switches, _ := strings.Cut(b.ExternalIDs[ownership.RowParentKey], " ")
	if has(nb.LogicalRouterTable, router, b.UUID) {
		out.Router = router
	}
	for name := range strings.FieldsSeq(switches) {
		if has(nb.LogicalSwitchTable, name, b.UUID) {
			out.Switches = append(out.Switches, name)
		}
	}
	return out
}

// joinParents returns the router and the switches of a load balancer, as they are written to its external_ids.
func joinParents(b intent.LoadBalancer) string {
	return strings.Join(append([]string{b.Router}, b.Switches...), " ")
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

// encodeIPPortMappings encodes the mappings for health checks, and decodeIPPortMappings decodes them. A value that can't
// be parsed becomes an invalid one, which differs from every wanted value, so the row is rewritten.
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

// updateLoadBalancerSets adds a load balancer to the sets of its new router and switches, and removes it from those of
// the previous ones. Unchanged sets are not touched.
func (t *transaction) updateLoadBalancerSets(uuid string, was, is intent.LoadBalancer) error {
	for _, set := range []struct {
		table   string
		was, is []string
	}{
		{nb.LogicalRouterTable, []string{was.Router}, []string{is.Router}},
		{nb.LogicalSwitchTable, was.Switches, is.Switches},
	} {
		home := loadBalancerSets[set.table]
		for _, name := range set.was {
			if name == "" || slices.Contains(set.is, name) {
				continue
			}
			op, err := home.removeFromParentOp(name, uuid)
			if err := t.appendOps([]ovsdb.Operation{op}, err); err != nil {
				return err
			}
		}
		for _, name := range set.is {
			if name == "" || slices.Contains(set.was, name) {
				continue
			}
			t.missingMessages[len(t.ops)] = set.table + " " + name + " does not exist"
			if err := t.appendOps(home.insertOps(name, uuid)); err != nil {
				return err
			}
		}
	}
	return nil
}
