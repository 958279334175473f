package ovn

import (
	"errors"
	"reflect"
	"slices"

	"github.com/ovn-kubernetes/libovsdb/model"

	"github.com/sallyport/sallyport/internal/engine/kubeovn"
	"github.com/sallyport/sallyport/internal/engine/ovn/nb"
	"github.com/sallyport/sallyport/internal/model/logical"
	"github.com/sallyport/sallyport/internal/model/ownership"
)

// rowIndex maps rows to routers and notifies about the router that each change concerns. In the database only the
// router's sets have this relation. libovsdb calls it from one goroutine, after the cache has changed.
type rowIndex struct {
	session     *session
	notify      func(router string)
	notifyPod   func(namespace, name string) // a port of a pod on a switch of the management VPC
	routerByRow map[string]string            // UUID of a row → name of the router
}

func newRowIndex(s *session, tell func(string), tellPod func(namespace, name string)) *rowIndex {
	return &rowIndex{session: s, notify: tell, notifyPod: tellPod, routerByRow: map[string]string{}}
}

// OnAdd handles a new row.
func (x *rowIndex) OnAdd(_ string, row model.Model) { x.handleChange(nil, row) }

// OnUpdate handles a changed row.
func (x *rowIndex) OnUpdate(_ string, old, row model.Model) {
	if was, is := old.(*nb.Global); is &&
		was.Options[logical.NorthdVersionOption] != row.(*nb.Global).Options[logical.NorthdVersionOption] {
		// the next session detects the capabilities of the new version
		x.session.terminate(errors.New("the version of ovn-northd has changed"))
	}
	if _, is := old.(*nb.Global); is {
		x.notify(ownership.EgressVpc)
	}
	x.notifyLinkPeer(row) // the router at the other end needs this even if the update is our own
	if x.session.ownUpdates.confirmUpdate(modelField(row, "UUID").(string), row) {
		x.session.changes.broadcast()
		return
	}
	x.handleChange(old, row)
}

// OnDelete handles a deleted row.
func (x *rowIndex) OnDelete(_ string, old model.Model) {
	x.handleChange(old, nil)
	switch r := old.(type) { // the last rows of a deleted VPC: the controller may wait for their deletion
	case *nb.LoadBalancer:
		x.notifyNonEmpty(kubeovn.LoadBalancerVpc(r.Name))
	case *nb.AddressSet:
		x.notifyNonEmpty(r.ExternalIDs[kubeovn.AddressSetVpcKey])
	}
}

func (x *rowIndex) notifyNonEmpty(vpc string) {
	if vpc != "" {
		x.notify(vpc)
	}
}

func (x *rowIndex) handleChange(old, row model.Model) {
	defer x.session.changes.broadcast()
	x.trackMisplacedPort(old, row)
	x.notifyLinkPeer(old)
	if old == nil {
		x.notifyLinkPeer(row)
	}
	if x.handleRouter(old, row) || x.handleSwitch(old, row) {
		return
	}
	for _, r := range []model.Model{old, row} {
		if shard := shardOfRow(r); shard != "" {
			x.notify(shard)
			return
		}
	}
	if row == nil {
		row = old
	}
	if name := x.routerByRow[x.setMemberUUID(row)]; name != "" {
		x.notify(name)
	}
}

// shardOfRow returns the shard in external_ids. It is empty if the row has no mark of ours or its table has no
// external_ids.
func shardOfRow(row model.Model) string {
	if row == nil {
		return ""
	}
	ids, _ := modelField(row, "ExternalIDs").(map[string]string)
	return ids[ownership.RowShardKey]
}

// modelField returns a field of a row's model, or nil if the model has no such field.
func modelField(row model.Model, name string) any {
	if field := reflect.ValueOf(row).Elem().FieldByName(name); field.IsValid() {
		return field.Interface()
	}
	return nil
}

// handleRouter handles the row of a router and reports whether the row is one.
func (x *rowIndex) handleRouter(old, row model.Model) bool {
	before, was := old.(*nb.LogicalRouter)
	now, is := row.(*nb.LogicalRouter)
	if was {
		for _, uuid := range routerSetMembers(before) {
			delete(x.routerByRow, uuid)
		}
	}
	if is {
		for _, uuid := range routerSetMembers(now) {
			x.routerByRow[uuid] = now.Name
		}
		x.notify(now.Name)
	}
	if was && (!is || before.Name != now.Name) {
		x.notify(before.Name)
	}
	return was || is
}

// handleSwitch handles the row of a switch and reports whether the row is one. It notifies the shards of load balancers
// that were added to or removed from the switch.
func (x *rowIndex) handleSwitch(old, row model.Model) bool {
	before, was := old.(*nb.LogicalSwitch)
	now, is := row.(*nb.LogicalSwitch)
	var had, has []string
	if was {
		had = before.LoadBalancers
	}
	if is {
		has = now.LoadBalancers
	}
	for _, uuid := range slices.Concat(setDifference(had, has), setDifference(has, had)) {
		if b, there := x.loadBalancerByUUID(uuid); there {
			x.notifyNonEmpty(b.ExternalIDs[ownership.RowShardKey])
		}
	}
	return was || is
}

func (x *rowIndex) loadBalancerByUUID(uuid string) (*nb.LoadBalancer, bool) {
	return rowByUUID[nb.LoadBalancer](x.session, nb.LoadBalancerTable, uuid)
}

// setDifference returns the members of set that are not in other.
func setDifference(set, other []string) []string {
	in := make(map[string]bool, len(other))
	for _, uuid := range other {
		in[uuid] = true
	}
	return slices.DeleteFunc(slices.Clone(set), func(uuid string) bool { return in[uuid] })
}

// setMemberUUID returns the UUID under which a router's sets refer to a row. MAC bindings and switch ports are in no
// set of a router; for them it returns the UUID of their router port. A row that is in no set yet is reported when it
// is added to one.
func (x *rowIndex) setMemberUUID(row model.Model) string {
	switch r := row.(type) {
	case *nb.LogicalRouterPort:
		return r.UUID
	case *nb.NAT:
		return r.UUID
	case *nb.LogicalRouterPolicy:
		return r.UUID
	case *nb.StaticMACBinding:
		return x.routerPortUUID(r.LogicalPort)
	case *nb.LogicalSwitchPort:
		return x.routerPortUUID(r.Options[routerPortOption])
	}
	return ""
}

func (x *rowIndex) routerPortUUID(name string) string {
	if name == "" {
		return ""
	}
	if port := x.session.routerPortByName(name); port != nil {
		return port.UUID
	}
	return ""
}

func routerSetMembers(r *nb.LogicalRouter) []string { return slices.Concat(r.Ports, r.NAT, r.Policies) }
