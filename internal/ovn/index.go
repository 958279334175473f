package ovn

import (
	"errors"
	"reflect"
	"slices"

	"github.com/ovn-kubernetes/libovsdb/model"

	"github.com/sallyport/sallyport/internal/kubeovn"
	"github.com/sallyport/sallyport/internal/ovn/nb"
	"github.com/sallyport/sallyport/internal/ownership"
)

// index knows which router a row belongs to, and tells which router each change concerns. In the database only the router
// says so, in its sets. libovsdb calls it from one goroutine, after the copy has changed.
type index struct {
	s      *session
	tell   func(router string)
	router map[string]string // a row's UUID → the router's name
}

func newIndex(s *session, tell func(string)) *index {
	return &index{s: s, tell: tell, router: map[string]string{}}
}

// OnAdd is called for a new row.
func (x *index) OnAdd(_ string, row model.Model) { x.change(nil, row) }

// OnUpdate is called for a row that has become another.
func (x *index) OnUpdate(_ string, old, row model.Model) {
	if was, is := old.(*nb.Global); is && was.Options[northdVersion] != row.(*nb.Global).Options[northdVersion] {
		x.s.end(errors.New("ovn-northd is of another version now")) // the next session looks at what it can
	}
	if _, is := old.(*nb.Global); is {
		x.tell(ownership.EgressVpc)
	}
	x.linked(row) // who is at the other end has not heard of it, though we have written it
	if x.s.echoes.is(column(row, "UUID").(string), row) {
		x.s.news.tell()
		return
	}
	x.change(old, row)
}

// OnDelete is called for a row that has gone.
func (x *index) OnDelete(_ string, old model.Model) {
	x.change(old, nil)
	switch r := old.(type) { // the last that is left of a VPC: somebody may wait for its end
	case *nb.LoadBalancer:
		x.remainder(kubeovn.VpcOf(r.Name))
	case *nb.AddressSet:
		x.remainder(r.ExternalIDs[kubeovn.AddressSetVpc])
	}
}

func (x *index) remainder(vpc string) {
	if vpc != "" {
		x.tell(vpc)
	}
}

func (x *index) change(old, row model.Model) {
	defer x.s.news.tell()
	x.misplaced(old, row)
	x.linked(old)
	if old == nil {
		x.linked(row)
	}
	if x.routers(old, row) || x.switches(old, row) {
		return
	}
	for _, r := range []model.Model{old, row} {
		if shard := shardOf(r); shard != "" {
			x.tell(shard)
			return
		}
	}
	if row == nil {
		row = old
	}
	if name := x.router[x.uuid(row)]; name != "" {
		x.tell(name)
	}
}

// shardOf is whose a row is by its marks; empty: it has none of ours, or its table has no place for them.
func shardOf(row model.Model) string {
	if row == nil {
		return ""
	}
	ids, _ := column(row, "ExternalIDs").(map[string]string)
	return ids[ownership.RowShardKey]
}

// column is what a row has under a name of its model; nil where the model has no such name.
func column(row model.Model, name string) any {
	if field := reflect.ValueOf(row).Elem().FieldByName(name); field.IsValid() {
		return field.Interface()
	}
	return nil
}

// routers handles the row of a router and says whether it was one.
func (x *index) routers(old, row model.Model) bool {
	before, was := old.(*nb.LogicalRouter)
	now, is := row.(*nb.LogicalRouter)
	if was {
		for _, uuid := range sets(before) {
			delete(x.router, uuid)
		}
	}
	if is {
		for _, uuid := range sets(now) {
			x.router[uuid] = now.Name
		}
		x.tell(now.Name)
	}
	if was && (!is || before.Name != now.Name) {
		x.tell(before.Name)
	}
	return was || is
}

// switches handles the row of a switch and says whether it was one. It concerns those whose load balancers have come or gone.
func (x *index) switches(old, row model.Model) bool {
	before, was := old.(*nb.LogicalSwitch)
	now, is := row.(*nb.LogicalSwitch)
	var had, has []string
	if was {
		had = before.LoadBalancers
	}
	if is {
		has = now.LoadBalancers
	}
	for _, uuid := range slices.Concat(without(had, has), without(has, had)) {
		if b, there := x.balancer(uuid); there {
			x.remainder(b.ExternalIDs[ownership.RowShardKey])
		}
	}
	return was || is
}

func (x *index) balancer(uuid string) (*nb.LoadBalancer, bool) {
	return row[nb.LoadBalancer](x.s, nb.LoadBalancerTable, uuid)
}

// without are the members of a set that are not in another.
func without(set, other []string) []string {
	in := make(map[string]bool, len(other))
	for _, uuid := range other {
		in[uuid] = true
	}
	return slices.DeleteFunc(slices.Clone(set), func(uuid string) bool { return in[uuid] })
}

// uuid is the row that a router would have in its sets: for a MAC binding, and a switch port, which are in none, that of the
// router's port. A row that is in no set yet is told of when it comes into one.
func (x *index) uuid(row model.Model) string {
	switch r := row.(type) {
	case *nb.LogicalRouterPort:
		return r.UUID
	case *nb.NAT:
		return r.UUID
	case *nb.LogicalRouterPolicy:
		return r.UUID
	case *nb.StaticMACBinding:
		return x.port(r.LogicalPort)
	case *nb.LogicalSwitchPort:
		return x.port(r.Options[routerPort])
	}
	return ""
}

func (x *index) port(name string) string {
	if name == "" {
		return ""
	}
	if port := x.s.port(name); port != nil {
		return port.UUID
	}
	return ""
}

func sets(r *nb.LogicalRouter) []string { return slices.Concat(r.Ports, r.NAT, r.Policies) }
