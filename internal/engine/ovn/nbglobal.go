package ovn

import (
	"strings"

	"github.com/ovn-kubernetes/libovsdb/model"
	"github.com/ovn-kubernetes/libovsdb/ovsdb"

	"github.com/sallyport/sallyport/internal/engine/ovn/nb"
	"github.com/sallyport/sallyport/internal/model/intent"
	"github.com/sallyport/sallyport/internal/model/ownership"
)

// nbGlobalRow returns the row of NB_Global, or nil if there is none.
func (s *session) nbGlobalRow() *nb.Global {
	for _, m := range s.tableCache.Table(nb.GlobalTable).RowsShallow() {
		return m.(*nb.Global)
	}
	return nil
}

// nbGlobalOptionRecords returns the NB_Global options that we set. Only the shard of egress addresses sets any.
func (s *session) nbGlobalOptionRecords(shard string) (out []record) {
	g := s.nbGlobalRow()
	if shard != ownership.EgressVpc || g == nil {
		return nil
	}
	for key := range g.ExternalIDs {
		if name, ours := strings.CutPrefix(key, ownership.NBGlobalOptionPrefix); ours {
			out = append(out, record{
				value:  intent.NBGlobalOption{Name: name, Value: g.Options[name]},
				origin: unknownOrigin,
				uuid:   g.UUID,
				row:    g,
			})
		}
	}
	return out
}

// NBGlobalOptions returns the names of the NB_Global options, and whether they are ours.
func (c *Client) NBGlobalOptions() map[string]bool {
	s := c.current.Load()
	if s == nil {
		return nil
	}
	g := s.nbGlobalRow()
	if g == nil {
		return nil
	}
	out := map[string]bool{}
	for name := range g.Options {
		out[name] = g.ExternalIDs[ownership.NBGlobalOptionPrefix+name] != ""
	}
	return out
}

// setNBGlobalOption sets an option, or removes it if it has no value, together with its ownership mark.
func (t *transaction) setNBGlobalOption(setting intent.NBGlobalOption) error {
	g := t.session.nbGlobalRow()
	if g == nil {
		return nil
	}
	mark := ownership.NBGlobalOptionPrefix + setting.Name
	mutations := []model.Mutation{
		{Field: &g.Options, Mutator: ovsdb.MutateOperationDelete, Value: []string{setting.Name}},
		{Field: &g.ExternalIDs, Mutator: ovsdb.MutateOperationDelete, Value: []string{mark}},
	}
	if setting.Value != "" {
		mutations = append(mutations,
			model.Mutation{
				Field:   &g.Options,
				Mutator: ovsdb.MutateOperationInsert,
				Value:   map[string]string{setting.Name: setting.Value},
			},
			model.Mutation{
				Field:   &g.ExternalIDs,
				Mutator: ovsdb.MutateOperationInsert,
				Value:   map[string]string{mark: setting.Value},
			})
	}
	return t.appendOps(t.session.nbClient.Where(g).Mutate(g, mutations...))
}

// changedNBGlobalOption returns the option that a change sets. It has no value if the change removes it.
func changedNBGlobalOption(c rowChange, have record) (intent.NBGlobalOption, bool) {
	if c.IsRemoval() {
		setting, is := have.value.(intent.NBGlobalOption)
		return intent.NBGlobalOption{Name: setting.Name}, is
	}
	setting, is := (*c.After).(intent.NBGlobalOption)
	return setting, is
}
