package ovn

import (
	"cmp"
	"fmt"
	"slices"
	"strings"

	"github.com/ovn-kubernetes/libovsdb/model"

	"github.com/sallyport/sallyport/internal/engine/ovn/nb"
	"github.com/sallyport/sallyport/internal/model/intent"
	"github.com/sallyport/sallyport/internal/model/ownership"
)

// Router ports that are bound to one chassis, and the NAT there.

// firstChassisPriority is the priority of the preferred chassis. Each next one has one less.
const firstChassisPriority = 1000

// foreignGroupName stands for a chassis group that is not ours.
const foreignGroupName = "?"

// haChassisGroupName returns the name of the group that a port is bound to. Empty: the port is distributed.
func (s *session) haChassisGroupName(uuid *string) string {
	if uuid == nil {
		return ""
	}
	if g, ours := rowByUUID[nb.ChassisGroup](s, nb.ChassisGroupTable, *uuid); ours {
		return g.Name
	}
	return foreignGroupName
}

// haChassisGroups returns the chassis groups of a shard. The result is not whole while a member is not in the cache
// yet.
func (s *session) haChassisGroups(marked map[string]string) (out []*nb.ChassisGroup, values []intent.HAChassisGroup,
	whole bool,
) {
	for _, g := range rowsByIndex(s, nb.ChassisGroupTable, &nb.ChassisGroup{ExternalIDs: marked}) {
		members, whole := s.haChassisMembers(g)
		if !whole {
			return nil, nil, false
		}
		names := make([]string, 0, len(members))
		for _, m := range members {
			names = append(names, m.ChassisName)
		}
		out, values = append(out, g), append(values,
			intent.HAChassisGroup{Name: g.Name, Chassis: strings.Join(names, " ")})
	}
	return out, values, true
}

// haChassisMembers returns the members of a group, highest priority first.
func (s *session) haChassisMembers(g *nb.ChassisGroup) (out []*nb.GroupChassis, whole bool) {
	for _, uuid := range g.Chassis {
		m, there := rowByUUID[nb.GroupChassis](s, nb.GroupChassisTable, uuid)
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

// ensureHAChassis returns the members that a group should have. It updates the priority of existing members and creates
// missing ones. ovsdb-server deletes members that are no longer in the group.
func (t *transaction) ensureHAChassis(h intent.HAChassisGroup, ids map[string]string, have model.Model) (out []string,
	err error,
) {
	known := map[string]*nb.GroupChassis{}
	if g, is := have.(*nb.ChassisGroup); is {
		members, _ := t.session.haChassisMembers(g)
		for _, m := range members {
			known[m.ChassisName] = m
		}
	}
	for i, name := range strings.Fields(h.Chassis) {
		place := firstChassisPriority - i
		m, there := known[name]
		switch {
		case !there:
			m = &nb.GroupChassis{
				UUID:        fmt.Sprintf("%schassis%d", t.namePrefix, len(t.ops)),
				ChassisName: name,
				Priority:    place,
				ExternalIDs: ids,
			}
			err = t.appendOps(t.session.nbClient.Create(m))
		case m.Priority != place:
			m.Priority = place
			err = t.appendOps(t.session.nbClient.Where(m).Update(m, &m.Priority))
		}
		if err != nil {
			return nil, err
		}
		out = append(out, m.UUID)
	}
	return out, nil
}

// haChassisGroupUUID returns the chassis group with a name. It may be new in this transaction.
func (t *transaction) haChassisGroupUUID(name string) (*string, error) {
	if name == "" {
		return nil, nil
	}
	if uuid, comes := t.newChassisGroups[name]; comes {
		return &uuid, nil
	}
	if g := rowByName(t.session, nb.ChassisGroupTable, &nb.ChassisGroup{Name: name}); g != nil {
		return &g.UUID, nil
	}
	return nil, fmt.Errorf("chassis group %s does not exist", name)
}

// findRemainingPort returns a router port that is bound to a chassis group and not removed by this transaction, or an
// empty string. Such a group can't be deleted: the whole transaction would fail.
func (t *transaction) findRemainingPort(group string) string {
	return t.session.findPortOfGroup(group, func(uuid string, _ *nb.LogicalRouterPort) bool {
		return !slices.Contains(t.removed.Ports, uuid)
	})
}

// findPortOfGroup returns a router port that is bound to a chassis group and matches, or an empty string.
func (s *session) findPortOfGroup(group string, matches func(uuid string, p *nb.LogicalRouterPort) bool) string {
	for uuid, m := range s.tableCache.Table(nb.LogicalRouterPortTable).RowsShallow() {
		if p := m.(*nb.LogicalRouterPort); p.Group != nil && *p.Group == group && matches(uuid, p) {
			return p.Name
		}
	}
	return ""
}

// IsGroupShared reports whether a port of another router is bound to a chassis group as well.
func (c *Client) IsGroupShared(router, group string) bool {
	s := c.current.Load()
	if s == nil {
		return false
	}
	g := rowByName(s, nb.ChassisGroupTable, &nb.ChassisGroup{Name: group})
	return g != nil && s.findPortOfGroup(g.UUID, func(_ string, p *nb.LogicalRouterPort) bool {
		return p.ExternalIDs[ownership.RowShardKey] != router
	}) != ""
}
