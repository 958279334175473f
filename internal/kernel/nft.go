package kernel

import (
	"cmp"
	"context"
	"fmt"
	"slices"
	"strconv"
	"strings"

	"sigs.k8s.io/knftables"

	"github.com/sallyport/sallyport/internal/nodepath"
	"github.com/sallyport/sallyport/internal/ownership"
	"github.com/sallyport/sallyport/internal/state"
)

// Nft is our nftables table, whole.
type Nft struct{ table knftables.Interface }

// OpenNft is our table, in the caller's network namespace. It runs the program nft.
func OpenNft() (*Nft, error) {
	table, err := knftables.New(knftables.InetFamily, ownership.NodeTable)
	if err != nil {
		return nil, fmt.Errorf("open nftables: %w", err)
	}
	return &Nft{table}, nil
}

// Scope is the table.
func (*Nft) Scope() string { return "nftables table inet " + ownership.NodeTable }

// Observe returns everything in the table.
func (t *Nft) Observe(ctx context.Context) (nodepath.Nft, error) {
	all, err := t.table.ListAll(ctx)
	if knftables.IsNotFound(err) {
		return nodepath.Nft{}, nil
	}
	if err != nil {
		return nil, fmt.Errorf("list the table: %w", err)
	}
	out := nodepath.Nft{}
	put := func(kind nodepath.NftKind, in, name, sum string) {
		out[nodepath.NftKey{Kind: kind, In: in, Name: name}] = state.Entry[nodepath.NftValue]{Value: nodepath.NftValue{Sum: sum}}
	}
	for _, chain := range all["chain"] {
		put(nodepath.NftChain, "", chain, "")
	}
	for _, set := range all["set"] {
		put(nodepath.NftSet, "", set, "")
		elements, err := t.table.ListElements(ctx, "set", set)
		if err != nil {
			return nil, fmt.Errorf("list set %s: %w", set, err)
		}
		for _, e := range elements {
			put(nodepath.NftElement, set, strings.Join(e.Key, " . "), "")
		}
	}
	rules, err := t.rules(ctx, len(all["chain"]) > 0)
	for key, r := range rules {
		put(key.Kind, key.In, key.Name, r.sum)
	}
	return out, err
}

// written is a rule in the kernel.
type written struct {
	handle int
	sum    string
}

// rules are all rules of the table. One that we can't have written is known by its handle, and so is a second one of the same name.
func (t *Nft) rules(ctx context.Context, any bool) (map[nodepath.NftKey]written, error) {
	out := map[nodepath.NftKey]written{}
	if !any {
		return out, nil
	}
	list, err := t.table.ListRules(ctx, "")
	if err != nil {
		return nil, fmt.Errorf("list rules: %w", err)
	}
	for _, r := range list {
		handle := *r.Handle
		key := nodepath.NftKey{Kind: nodepath.NftRule, In: r.Chain}
		var sum string
		if r.Comment != nil {
			key.Name, sum = nodepath.SumOf(*r.Comment)
		}
		if _, twice := out[key]; twice || key.Name == "" || sum == "" {
			key.Name, sum = "handle "+strconv.Itoa(handle), "?"
		}
		out[key] = written{handle, sum}
	}
	return out, nil
}

// Apply carries everything out in one transaction. The table goes with the last that is in it.
func (t *Nft) Apply(ctx context.Context, changes []state.Change[nodepath.NftKey, nodepath.NftValue]) map[nodepath.NftKey]error {
	err := t.apply(ctx, changes)
	if err == nil {
		return nil
	}
	failed := map[nodepath.NftKey]error{}
	for _, c := range changes {
		failed[c.Key] = err
	}
	return failed
}

func (t *Nft) apply(ctx context.Context, changes []state.Change[nodepath.NftKey, nodepath.NftValue]) error {
	have, err := t.Observe(ctx)
	if err != nil {
		return err
	}
	rules, err := t.rules(ctx, len(have) > 0)
	if err != nil {
		return err
	}
	tx := t.table.NewTransaction()
	tx.Add(&knftables.Table{})
	for _, c := range changes {
		if c.After != nil {
			t.add(tx, c, rules)
		}
	}
	left := len(have)
	for _, c := range slices.Backward(changes) {
		if _, there := have[c.Key]; c.After == nil && there {
			remove(tx, c.Key, rules[c.Key].handle)
			left--
		} else if c.After != nil {
			left++
		}
	}
	if left <= 0 {
		tx.Delete(&knftables.Table{})
	}
	return t.table.Run(ctx, tx)
}

func (t *Nft) add(tx *knftables.Transaction, c state.Change[nodepath.NftKey, nodepath.NftValue], rules map[nodepath.NftKey]written) {
	key := c.Key
	switch key.Kind {
	case nodepath.NftChain:
		at := nodepath.ChainOf(key.Name)
		tx.Add(&knftables.Chain{
			Name: key.Name, Type: new(knftables.BaseChainType(at.Type)), Hook: new(knftables.BaseChainHook(at.Hook)),
			Priority: new(knftables.BaseChainPriority(strconv.Itoa(at.Priority))),
		})
	case nodepath.NftSet:
		kind, flag, _ := strings.Cut(c.After.Text, " ")
		set := &knftables.Set{Name: key.Name, Type: kind}
		if flag == nodepath.Interval {
			set.Flags = []knftables.SetFlag{knftables.IntervalFlag}
		}
		tx.Add(set)
	case nodepath.NftElement:
		tx.Add(&knftables.Element{Set: key.In, Key: []string{key.Name}})
	case nodepath.NftRule:
		if was, there := rules[key]; there {
			if was.sum == c.After.Sum {
				return
			}
			remove(tx, key, was.handle)
		}
		tx.Add(&knftables.Rule{Chain: key.In, Rule: c.After.Text, Comment: new(nodepath.Comment(key.Name, *c.After))})
	}
}

func remove(tx *knftables.Transaction, key nodepath.NftKey, handle int) {
	switch key.Kind {
	case nodepath.NftChain:
		tx.Delete(&knftables.Chain{Name: key.Name})
	case nodepath.NftSet:
		tx.Delete(&knftables.Set{Name: key.Name, Type: "ipv4_addr"})
	case nodepath.NftElement:
		tx.Delete(&knftables.Element{Set: key.In, Key: strings.Split(key.Name, " . ")})
	case nodepath.NftRule:
		tx.Delete(&knftables.Rule{Chain: cmp.Or(key.In, ""), Handle: &handle})
	}
}
