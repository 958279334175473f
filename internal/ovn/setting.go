package ovn

import (
	"strings"

	"github.com/ovn-kubernetes/libovsdb/model"
	"github.com/ovn-kubernetes/libovsdb/ovsdb"

	"github.com/sallyport/sallyport/internal/intent"
	"github.com/sallyport/sallyport/internal/ovn/nb"
	"github.com/sallyport/sallyport/internal/ownership"
)

// global is the row about the whole database; nil: there is none.
func (s *session) global() *nb.Global {
	for _, m := range s.rows.Table(nb.GlobalTable).RowsShallow() {
		return m.(*nb.Global)
	}
	return nil
}

// settings are those of the whole engine that we have made. The shard of egress addresses is the one that makes any.
func (s *session) settings(shard string) (out []record) {
	g := s.global()
	if shard != ownership.EgressVpc || g == nil {
		return nil
	}
	for key := range g.ExternalIDs {
		if name, ours := strings.CutPrefix(key, ownership.SettingPrefix); ours {
			out = append(out, record{value: intent.Setting{Name: name, Value: g.Options[name]}, origin: lost, uuid: g.UUID, row: g})
		}
	}
	return out
}

// Settings are the names of the settings of the whole engine that there are, and whether they are ours.
func (c *Client) Settings() map[string]bool {
	s := c.current.Load()
	if s == nil {
		return nil
	}
	g := s.global()
	if g == nil {
		return nil
	}
	out := map[string]bool{}
	for name := range g.Options {
		out[name] = g.ExternalIDs[ownership.SettingPrefix+name] != ""
	}
	return out
}

// put makes a setting, or takes it away where it has no value, together with the mark that it is ours.
func (t *transaction) put(setting intent.Setting) error {
	g := t.s.global()
	if g == nil {
		return nil
	}
	mark := ownership.SettingPrefix + setting.Name
	mutations := []model.Mutation{
		{Field: &g.Options, Mutator: ovsdb.MutateOperationDelete, Value: []string{setting.Name}},
		{Field: &g.ExternalIDs, Mutator: ovsdb.MutateOperationDelete, Value: []string{mark}},
	}
	if setting.Value != "" {
		mutations = append(mutations,
			model.Mutation{Field: &g.Options, Mutator: ovsdb.MutateOperationInsert, Value: map[string]string{setting.Name: setting.Value}},
			model.Mutation{Field: &g.ExternalIDs, Mutator: ovsdb.MutateOperationInsert, Value: map[string]string{mark: setting.Value}})
	}
	return t.do(t.s.nb.Where(g).Mutate(g, mutations...))
}

// settingOf is the setting that a change makes; without a value when it takes one away.
func settingOf(c change, have record) (intent.Setting, bool) {
	if c.Removes() {
		setting, is := have.value.(intent.Setting)
		return intent.Setting{Name: setting.Name}, is
	}
	setting, is := (*c.After).(intent.Setting)
	return setting, is
}
