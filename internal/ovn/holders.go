package ovn

import (
	"cmp"
	"fmt"
	"slices"
	"strings"

	"github.com/ovn-kubernetes/libovsdb/model"

	"github.com/sallyport/sallyport/internal/intent"
	"github.com/sallyport/sallyport/internal/ovn/nb"
	"github.com/sallyport/sallyport/internal/ownership"
)

// Router ports that one chassis holds, and what is translated there.

// firstHolder is the priority of the chassis that holds a port, when it is there. Each next one has one less.
const firstHolder = 1000

// strangers is the name of a chassis group that is not ours.
const strangers = "?"

// groupName is the name of the chassis that hold a port; empty: it is on every chassis.
func (s *session) groupName(uuid *string) string {
	if uuid == nil {
		return ""
	}
	if g, ours := row[nb.ChassisGroup](s, nb.ChassisGroupTable, *uuid); ours {
		return g.Name
	}
	return strangers
}

// holders are the chassis groups of a shard. They are not whole while a chassis is not in the copy yet.
func (s *session) holders(marked map[string]string) (out []*nb.ChassisGroup, values []intent.Holders, whole bool) {
	for _, g := range rows(s, nb.ChassisGroupTable, &nb.ChassisGroup{ExternalIDs: marked}) {
		members, whole := s.members(g)
		if !whole {
			return nil, nil, false
		}
		names := make([]string, 0, len(members))
		for _, m := range members {
			names = append(names, m.ChassisName)
		}
		out, values = append(out, g), append(values, intent.Holders{Name: g.Name, Chassis: strings.Join(names, " ")})
	}
	return out, values, true
}

// members are the chassis of a group, the first first.
func (s *session) members(g *nb.ChassisGroup) (out []*nb.GroupChassis, whole bool) {
	for _, uuid := range g.Chassis {
		m, there := row[nb.GroupChassis](s, nb.GroupChassisTable, uuid)
		if !there {
			return nil, false
		}
		out = append(out, m)
	}
	slices.SortFunc(out, func(a, b *nb.GroupChassis) int {
		return cmp.Or(cmp.Compare(b.Priority, a.Priority), strings.Compare(a.ChassisName, b.ChassisName))
	})
	return out, true
}

// chassis are the members that holders are to have. One that is there gets its place; one that is not comes with this transaction; and
// one that is in the group no more ceases to exist.
func (t *transaction) chassis(h intent.Holders, ids map[string]string, have model.Model) (out []string, err error) {
	known := map[string]*nb.GroupChassis{}
	if g, is := have.(*nb.ChassisGroup); is {
		members, _ := t.s.members(g)
		for _, m := range members {
			known[m.ChassisName] = m
		}
	}
	for i, name := range strings.Fields(h.Chassis) {
		place := firstHolder - i
		m, there := known[name]
		switch {
		case !there:
			m = &nb.GroupChassis{UUID: fmt.Sprintf("chassis%d", len(t.ops)), ChassisName: name, Priority: place, ExternalIDs: ids}
			err = t.do(t.s.nb.Create(m))
		case m.Priority != place:
			m.Priority = place
			err = t.do(t.s.nb.Where(m).Update(m, &m.Priority))
		}
		if err != nil {
			return nil, err
		}
		out = append(out, m.UUID)
	}
	return out, nil
}

// group is the chassis group of a name, which may come with this transaction.
func (t *transaction) group(name string) (*string, error) {
	if name == "" {
		return nil, nil
	}
	if uuid, comes := t.groups[name]; comes {
		return &uuid, nil
	}
	if g := only(t.s, nb.ChassisGroupTable, &nb.ChassisGroup{Name: name}); g != nil {
		return &g.UUID, nil
	}
	return nil, fmt.Errorf("there is no chassis group %s", name)
}

// held is a router port that a chassis group holds and that stays; empty: none. Such a group can't go, and all of the transaction would
// fail with it.
func (t *transaction) held(group string) string {
	return t.s.heldBy(group, func(uuid string, _ *nb.LogicalRouterPort) bool { return !slices.Contains(t.leave.Ports, uuid) })
}

// heldBy is a router port of some kind that a chassis group holds; empty: none.
func (s *session) heldBy(group string, matches func(uuid string, p *nb.LogicalRouterPort) bool) string {
	for uuid, m := range s.rows.Table(nb.LogicalRouterPortTable).RowsShallow() {
		if p := m.(*nb.LogicalRouterPort); p.Group != nil && *p.Group == group && matches(uuid, p) {
			return p.Name
		}
	}
	return ""
}

// HoldsOthers says whether a chassis group of a router holds a port of another one, too.
func (c *Client) HoldsOthers(router, group string) bool {
	s := c.current.Load()
	if s == nil {
		return false
	}
	g := only(s, nb.ChassisGroupTable, &nb.ChassisGroup{Name: group})
	return g != nil && s.heldBy(g.UUID, func(_ string, p *nb.LogicalRouterPort) bool { return p.ExternalIDs[ownership.RowShardKey] != router }) != ""
}
