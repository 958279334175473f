package ovn

import (
	"fmt"
	"maps"
	"net/netip"
	"slices"
	"strconv"
	"strings"
	"time"

	"github.com/ovn-kubernetes/libovsdb/ovsdb"

	"github.com/sallyport/sallyport/internal/engine/ovn/nb"
	"github.com/sallyport/sallyport/internal/model/intent"
	"github.com/sallyport/sallyport/internal/model/ownership"
	"github.com/sallyport/sallyport/internal/model/snapshot"
)

// VIPs are entries of the column vips of load balancers. Services share load balancers, so the owner of each VIP is in
// the external_ids. Entries are written one by one: a change of one does not send the others.

// VIPs returns the VIPs of a shard's load balancers, by protocol, address and port.
func (c *Client) VIPs(shard string) map[string]snapshot.VIP {
	s := c.current.Load()
	if s == nil {
		return nil
	}
	out := map[string]snapshot.VIP{}
	for _, b := range s.loadBalancersByShard(shard) {
		id := decodeLoadBalancer(b, shard, attachedNowhere).ID()
		for vip := range b.VIPs {
			out[loadBalancerProtocol(b)+" "+vip] = snapshot.VIP{Service: vipOwner(b, shard, vip), LoadBalancer: id}
		}
	}
	return out
}

// vipOwner returns the Service of a VIP as namespace/name: the one in the external_ids, or the only Service of the load
// balancer. It is empty if nobody is known.
func vipOwner(b *nb.LoadBalancer, shard, vip string) string {
	if owner := b.ExternalIDs[ownership.RowVIPOwnerPrefix+vip]; owner != "" {
		return owner
	}
	return ownerService(b, shard)
}

// ownerService returns the only Service of a load balancer as namespace/name. It is empty for a shared one.
func ownerService(b *nb.LoadBalancer, shard string) string {
	if by := rowOrigin(b.ExternalIDs, shard); by.Kind == string(intent.Service) {
		return intent.ServiceKey(by)
	}
	return ""
}

// vipRecords returns the VIPs of a load balancer.
func vipRecords(b *nb.LoadBalancer, shard, id string) []record {
	out := make([]record, 0, len(b.VIPs))
	for vip, backends := range b.VIPs {
		value := decodeVIP(vip, backends)
		value.LoadBalancer, value.Protocol, value.Service = id, intent.Protocol(loadBalancerProtocol(b)), vipOwner(b, shard, vip)
		origin, known := intent.ParseServiceKey(value.Service)
		if !known {
			origin = unknownOrigin
		}
		out = append(out, record{value: value, origin: origin, uuid: b.UUID, row: b, entry: vip})
	}
	return out
}

// encodeBackends encodes the backends of a VIP, and decodeVIP decodes a VIP. A value that can't be parsed becomes an
// invalid address, which differs from every wanted value, so the entry is rewritten or removed.
func encodeBackends(list []netip.AddrPort) string {
	to := make([]string, 0, len(list))
	for _, b := range list {
		to = append(to, b.String())
	}
	return strings.Join(to, ",")
}

func decodeVIP(address, backends string) intent.VIP {
	v := intent.VIP{Address: parseCanonicalAddrPort(address)}
	for text := range strings.SplitSeq(backends, ",") {
		if backends != "" {
			v.Backends = append(v.Backends, parseCanonicalAddrPort(text))
		}
	}
	slices.SortFunc(v.Backends, netip.AddrPort.Compare)
	return v
}

// vipEdit is the change of a load balancer's VIPs and of their owners.
type vipEdit struct {
	before  *nb.LoadBalancer // nil: the row is new
	removed []string
	added   map[string]string // backends by VIP
	owners  map[string]string // external_ids
}

// editVIPs returns the edit of a load balancer, to be extended.
func (t *transaction) editVIPs(uuid string, before *nb.LoadBalancer) *vipEdit {
	if t.vipEdits[uuid] == nil {
		t.vipEdits[uuid] = &vipEdit{before: before, added: map[string]string{}, owners: map[string]string{}}
	}
	return t.vipEdits[uuid]
}

// putVIP adds a VIP to its load balancer, and removes it from the one that has it now.
func (t *transaction) putVIP(have record, v intent.VIP) error {
	uuid, before := t.newLoadBalancers[v.LoadBalancer], (*nb.LoadBalancer)(nil)
	if uuid == "" {
		to, there := t.before.records[intent.RowKey{Table: nb.LoadBalancerTable, Router: t.shard, ID: v.LoadBalancer}]
		if !there {
			return fmt.Errorf("load balancer %s does not exist", v.LoadBalancer)
		}
		uuid, before = to.uuid, to.row.(*nb.LoadBalancer)
	}
	if have.row != nil {
		t.removeVIP(have)
	}
	edit, vip := t.editVIPs(uuid, before), v.Address.String()
	edit.added[vip], edit.owners[ownership.RowVIPOwnerPrefix+vip] = encodeBackends(v.Backends), v.Service
	return nil
}

// removeVIP removes a VIP from its load balancer.
func (t *transaction) removeVIP(have record) {
	edit := t.editVIPs(have.uuid, have.row.(*nb.LoadBalancer))
	edit.removed = append(edit.removed, have.entry)
}

// mutateVIPs adds the operations for all edits of VIPs: one for each load balancer.
func (t *transaction) mutateVIPs() error {
	if t.hidesAddress() {
		t.ops, t.recomputes = append(t.ops, recomputeOp(t.shard)), true
	}
	for _, uuid := range slices.Sorted(maps.Keys(t.vipEdits)) {
		if t.deletedLoadBalancers[uuid] {
			continue
		}
		edit := t.vipEdits[uuid]
		if edit.before != nil {
			t.updates[uuid] = edit.expect(t.updates[uuid])
		}
		op, err := edit.mutateOp(uuid)
		if err := t.appendOps([]ovsdb.Operation{op}, err); err != nil {
			return err
		}
	}
	return nil
}

// hidesAddress reports whether a load balancer loses an address that another one keeps. When ovn-northd handles that
// incrementally, it forgets the address: the router does not answer ARP requests for it any more, until everything is
// computed again (seen with 25.03; the load balancers of different protocols are enough).
func (t *transaction) hidesAddress() bool {
	lost, kept := map[string]bool{}, map[string]bool{}
	for uuid, edit := range t.vipEdits {
		if edit.before != nil && !t.deletedLoadBalancers[uuid] {
			maps.Copy(lost, edit.lostAddresses())
		}
	}
	if len(lost) == 0 {
		return false
	}
	for _, b := range t.session.loadBalancersByShard(t.shard) {
		if t.vipEdits[b.UUID] == nil && !t.deletedLoadBalancers[b.UUID] {
			maps.Copy(kept, vipAddresses(b.VIPs))
		}
	}
	for uuid, edit := range t.vipEdits {
		if !t.deletedLoadBalancers[uuid] {
			maps.Copy(kept, vipAddresses(edit.result()))
		}
	}
	for address := range lost {
		if kept[address] {
			return true
		}
	}
	return false
}

// recomputeOp returns an operation that makes ovn-northd compute everything again: a change of the router itself.
func recomputeOp(router string) ovsdb.Operation {
	stamp := map[any]any{ownership.RecomputeKey: strconv.FormatInt(time.Now().UnixNano(), 10)}
	keys, _ := ovsdb.NewOvsSet([]string{ownership.RecomputeKey}) // strings can always be encoded
	return ovsdb.Operation{
		Op: ovsdb.OperationMutate, Table: nb.LogicalRouterTable, Where: whereName(router),
		Mutations: []ovsdb.Mutation{
			*ovsdb.NewMutation(externalIDsColumn, ovsdb.MutateOperationDelete, keys),
			*ovsdb.NewMutation(externalIDsColumn, ovsdb.MutateOperationInsert, ovsdb.OvsMap{GoMap: stamp}),
		},
	}
}

// result returns the VIPs after the edit.
func (e *vipEdit) result() map[string]string {
	out := map[string]string{}
	if e.before != nil {
		maps.Copy(out, e.before.VIPs)
	}
	for _, vip := range e.removed {
		delete(out, vip)
	}
	maps.Copy(out, e.added)
	return out
}

// lostAddresses returns the addresses that a load balancer has before the edit and not after it.
func (e *vipEdit) lostAddresses() map[string]bool {
	out := vipAddresses(e.before.VIPs)
	for address := range vipAddresses(e.result()) {
		delete(out, address)
	}
	return out
}

// vipAddresses returns the addresses of VIPs, without their ports.
func vipAddresses(vips map[string]string) map[string]bool {
	out := map[string]bool{}
	for vip := range vips {
		out[vip[:max(strings.LastIndexByte(vip, ':'), 0)]] = true
	}
	return out
}

// mutateOp returns the operation. A key must be removed before it gets another value.
func (e *vipEdit) mutateOp(uuid string) (ovsdb.Operation, error) {
	op := ovsdb.Operation{
		Op: ovsdb.OperationMutate, Table: nb.LoadBalancerTable,
		Where: []ovsdb.Condition{ovsdb.NewCondition("_uuid", ovsdb.ConditionEqual, ovsdb.UUID{GoUUID: uuid})},
	}
	vips := slices.AppendSeq(slices.Clone(e.removed), maps.Keys(e.added))
	slices.Sort(vips)
	vips = slices.Compact(vips)
	owners := make([]string, 0, len(vips))
	for _, vip := range vips {
		owners = append(owners, ownership.RowVIPOwnerPrefix+vip)
	}
	for _, column := range []struct {
		name    string
		keys    []string
		entries map[string]string
	}{{vipsColumn, vips, e.added}, {externalIDsColumn, owners, e.owners}} {
		keys, err := ovsdb.NewOvsSet(column.keys)
		if err != nil {
			return op, err
		}
		entries, err := ovsdb.NewOvsMap(column.entries)
		if err != nil {
			return op, err
		}
		op.Mutations = append(op.Mutations, *ovsdb.NewMutation(column.name, ovsdb.MutateOperationDelete, keys),
			*ovsdb.NewMutation(column.name, ovsdb.MutateOperationInsert, entries))
	}
	return op, nil
}

// expect returns what an existing row will contain after the edit and another update of the row, if there is one.
func (e *vipEdit) expect(update rowDraft) rowDraft {
	row, is := update.row.(*nb.LoadBalancer)
	if !is {
		row = &nb.LoadBalancer{UUID: e.before.UUID, ExternalIDs: maps.Clone(e.before.ExternalIDs)}
		update = rowDraft{row: row, fields: []any{&row.ExternalIDs}}
	}
	row.VIPs = e.result()
	update.fields = append(update.fields, &row.VIPs)
	for _, vip := range e.removed {
		delete(row.ExternalIDs, ownership.RowVIPOwnerPrefix+vip)
	}
	maps.Copy(row.ExternalIDs, e.owners)
	return update
}

// keepVIPOwners returns external_ids with the owners of the VIPs that a row has.
func keepVIPOwners(ids map[string]string, have *nb.LoadBalancer) map[string]string {
	for key, owner := range have.ExternalIDs {
		if strings.HasPrefix(key, ownership.RowVIPOwnerPrefix) {
			ids[key] = owner
		}
	}
	return ids
}
