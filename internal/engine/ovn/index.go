package ovn

import (
	"errors"
	"reflect"
	"slices"

	"github.com/ovn-kubernetes/libovsdb/model"

	"github.com/sallyport/sallyport/internal/engine/kubeovn"
	"github.com/sallyport/sallyport/internal/engine/ovn/nb"
	"github.com/sallyport/sallyport/internal/model/ownership"
)

// rowIndex knows which router a row belongs to, and tells which router each change concerns. In the database only the
// router says so, in its sets. libovsdb calls it from one goroutine, after the copy has changed.
type rowIndex struct {
	session     *session
	notify      func(router string)
	routerByRow map[string]string // a row's UUID → the router's name
}

func newRowIndex(s *session, tell func(string)) *rowIndex {
	return &rowIndex{session: s, notify: tell, routerByRow: map[string]string{}}
}

// OnAdd is called for a new row.
func (x *rowIndex) OnAdd(_ string, row model.Model) { x.handleChange(nil, row) }

// OnUpdate is called for a row that has become another.
func (x *rowIndex) OnUpdate(_ string, old, row model.Model) {
	if was, is := old.(*nb.Global); is &&
		was.Options[northdVersionOption] != row.(*nb.Global).Options[northdVersionOption] {
		x.session.terminate(errors.New("ovn-northd is of another version now")) // the next session looks at what it can
	}
	if _, is := old.(*nb.Global); is {
		x.notify(ownership.EgressVpc)
	}
	x.notifyLinkPeer(row) // who is at the other end has not heard of it, though we have written it
	if x.session.ownUpdates.confirmUpdate(modelField(row, "UUID").(string), row) {
		x.session.changes.broadcast()
		return
	}
	x.handleChange(old, row)
}

// OnDelete is called for a row that has gone.
func (x *rowIndex) OnDelete(_ string, old model.Model) {
	x.handleChange(old, nil)
	switch r := old.(type) { // the last that is left of a VPC: somebody may wait for its end
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

// shardOfRow is whose a row is by its marks; empty: it has none of ours, or its table has no place for them.
func shardOfRow(row model.Model) string {
	if row == nil {
		return ""
	}
	ids, _ := modelField(row, "ExternalIDs").(map[string]string)
	return ids[ownership.RowShardKey]
}

// modelField is what a row has under a name of its model; nil where the model has no such name.
func modelField(row model.Model, name string) any {
	if field := reflect.ValueOf(row).Elem().FieldByName(name); field.IsValid() {
		return field.Interface()
	}
	return nil
}

// handleRouter handles the row of a router and says whether it was one.
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

// handleSwitch handles the row of a switch and says whether it was one. It concerns those whose load balancers have
// come or gone.
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

// setDifference are the members of a set that are not in another.
func setDifference(set, other []string) []string {
	in := make(map[string]bool, len(other))
	for _, uuid := range other {
		in[uuid] = true
	}
	return slices.DeleteFunc(slices.Clone(set), func(uuid string) bool { return in[uuid] })
}

// setMemberUUID is the row that a router would have in its sets: for a MAC binding, and a switch port, which are in
// none, that of the router's port. A row that is in no set yet is told of when it comes into one.
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
