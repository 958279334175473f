package kernel

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"net/netip"
	"os/exec"
	"slices"
	"strconv"
	"strings"

	"sigs.k8s.io/knftables"

	"github.com/sallyport/sallyport/internal/model/nodepath"
	"github.com/sallyport/sallyport/internal/model/ownership"
	"github.com/sallyport/sallyport/internal/model/state"
)

// Nft is our nftables table as a whole.
type Nft struct{ table knftables.Interface }

// OpenNft opens our table in the caller's network namespace. It runs the program nft.
func OpenNft() (*Nft, error) {
	table, err := knftables.New(knftables.InetFamily, ownership.NodeNFTTable)
	if err != nil {
		return nil, fmt.Errorf("open nftables: %w", err)
	}
	return &Nft{table}, nil
}

type nftChange = state.Change[nodepath.NftKey, nodepath.NftValue]

// Scope describes the table.
func (*Nft) Scope() string { return "nftables table inet " + ownership.NodeNFTTable }

// Observe returns everything in the table.
func (t *Nft) Observe(ctx context.Context) (nodepath.Nft, error) {
	out, _, err := t.listTable(ctx)
	return out, err
}

// nftListing is the output of nft for a table. It comes from a single run: each of several runs would read all elements
// again.
type nftListing struct {
	Objects []struct {
		Chain *struct{ Name string }
		Set   *struct {
			Name     string
			Elements []nftElement `json:"elem"`
		}
		Rule *struct {
			Chain, Comment string
			Handle         int
		}
	} `json:"nftables"`
}

// listTable returns everything in the table, and the handles of rules. A rule that we can't have written is identified
// by its handle, and so is a second one with the same name.
func (t *Nft) listTable(ctx context.Context) (nodepath.Nft, map[nodepath.NftKey]int, error) {
	out, handles := nodepath.Nft{}, map[nodepath.NftKey]int{}
	//nolint:gosec // constants
	text, err := exec.CommandContext(ctx, "nft", "--json", "list", "table", string(knftables.InetFamily),
		ownership.NodeNFTTable).Output()
	if failed := (*exec.ExitError)(nil); errors.As(err, &failed) {
		if strings.Contains(string(failed.Stderr), "No such file or directory") {
			return out, handles, nil
		}
		err = fmt.Errorf("%w: %s", err, failed.Stderr)
	}
	var all nftListing
	if err == nil {
		err = json.Unmarshal(text, &all)
	}
	if err != nil {
		return nil, nil, fmt.Errorf("list the table: %w", err)
	}
	put := func(key nodepath.NftKey, sum string) {
		out[key] = state.Entry[nodepath.NftValue]{Value: nodepath.NftValue{Checksum: sum}}
	}
	for _, o := range all.Objects {
		switch {
		case o.Chain != nil:
			put(nodepath.NftKey{Kind: nodepath.NftChain, Name: o.Chain.Name}, "")
		case o.Set != nil:
			put(nodepath.NftKey{Kind: nodepath.NftSet, Name: o.Set.Name}, "")
			for _, e := range o.Set.Elements {
				put(nodepath.NftKey{Kind: nodepath.NftElement, Parent: o.Set.Name, Name: string(e)}, "")
			}
		case o.Rule != nil:
			name, sum := nodepath.ParseComment(o.Rule.Comment)
			key := nodepath.NftKey{Kind: nodepath.NftRule, Parent: o.Rule.Chain, Name: name}
			if _, twice := out[key]; twice || name == "" || sum == "" {
				key.Name, sum = "handle "+strconv.Itoa(o.Rule.Handle), "?"
			}
			put(key, sum)
			handles[key] = o.Rule.Handle
		}
	}
	return out, handles, nil
}

// nftElement is an element of a set in nft's syntax. Others may have added elements of a form that we never write.
type nftElement string

// UnmarshalJSON decodes an element.
func (e *nftElement) UnmarshalJSON(text []byte) error {
	if text[0] != '{' {
		is := string(bytes.Trim(text, `"`)) // an address or a number: JSON has nothing in it to escape
		if a, err := netip.ParseAddr(is); err == nil {
			is = a.String() // nft formats ::102:304 with dots
		}
		*e = nftElement(is)
		return nil
	}
	var v struct {
		Prefix struct {
			Addr string
			Len  int
		}
		Range, Concat []nftElement
		Elem          struct{ Val nftElement }
	}
	err := json.Unmarshal(text, &v)
	switch {
	case v.Prefix.Addr != "":
		*e = nftElement(fmt.Sprintf("%s/%d", v.Prefix.Addr, v.Prefix.Len))
	case len(v.Range) == 2:
		*e = v.Range[0] + "-" + v.Range[1]
	case len(v.Concat) == 2:
		*e = v.Concat[0] + " . " + v.Concat[1]
	default:
		*e = v.Elem.Val
	}
	return err
}

// Apply makes all changes in one transaction. The table is deleted with its last object.
func (t *Nft) Apply(ctx context.Context, changes []nftChange) map[nodepath.NftKey]error {
	err := t.applyTransaction(ctx, changes)
	if err == nil {
		return nil
	}
	failed := map[nodepath.NftKey]error{}
	for _, c := range changes {
		failed[c.Key] = err
	}
	return failed
}

func (t *Nft) applyTransaction(ctx context.Context, changes []nftChange) error {
	have, handles := nodepath.Nft{}, map[nodepath.NftKey]int{}
	if slices.ContainsFunc(changes, func(c nftChange) bool { return c.IsRemoval() || c.Key.Kind == nodepath.NftRule }) {
		// All other objects can be added again.
		var err error
		if have, handles, err = t.listTable(ctx); err != nil {
			return err
		}
	}
	tx := t.table.NewTransaction()
	tx.Add(&knftables.Table{})
	left := len(have)
	for _, c := range changes {
		if was, there := have[c.Key]; there && c.Key.Kind == nodepath.NftRule && !c.IsRemoval() {
			if was.Value.Equal(*c.After) {
				continue
			}
			deleteObject(tx, c.Key, handles[c.Key])
		}
		if !c.IsRemoval() {
			addObject(tx, c.Key, *c.After)
			left++
		}
	}
	for _, c := range slices.Backward(changes) {
		if _, there := have[c.Key]; there && c.IsRemoval() {
			deleteObject(tx, c.Key, handles[c.Key])
			left--
		}
	}
	if left <= 0 {
		tx.Delete(&knftables.Table{})
	}
	return t.table.Run(ctx, tx)
}

func addObject(tx *knftables.Transaction, key nodepath.NftKey, v nodepath.NftValue) {
	switch key.Kind {
	case nodepath.NftChain:
		at := nodepath.ChainByName(key.Name)
		tx.Add(&knftables.Chain{
			Name: key.Name, Type: new(knftables.BaseChainType(at.Type)), Hook: new(knftables.BaseChainHook(at.Hook)),
			Priority: new(knftables.BaseChainPriority(strconv.Itoa(at.Priority))),
		})
	case nodepath.NftSet:
		kind, flag, _ := strings.Cut(v.Text, " ")
		set := &knftables.Set{Name: key.Name, Type: kind}
		if flag == nodepath.IntervalFlag {
			set.Flags = []knftables.SetFlag{knftables.IntervalFlag}
		}
		tx.Add(set)
	case nodepath.NftElement:
		tx.Add(&knftables.Element{Set: key.Parent, Key: []string{key.Name}})
	case nodepath.NftRule:
		tx.Add(&knftables.Rule{Chain: key.Parent, Rule: v.Text, Comment: new(nodepath.FormatComment(key.Name, v))})
	}
}

func deleteObject(tx *knftables.Transaction, key nodepath.NftKey, handle int) {
	switch key.Kind {
	case nodepath.NftChain:
		tx.Delete(&knftables.Chain{Name: key.Name})
	case nodepath.NftSet:
		tx.Delete(&knftables.Set{Name: key.Name, Type: "ipv4_addr"})
	case nodepath.NftElement:
		tx.Delete(&knftables.Element{Set: key.Parent, Key: []string{key.Name}})
	case nodepath.NftRule:
		tx.Delete(&knftables.Rule{Chain: key.Parent, Handle: &handle})
	}
}
