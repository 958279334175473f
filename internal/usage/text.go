package usage

import (
	"cmp"
	"fmt"
	"io"
	"text/tabwriter"

	"github.com/sallyport/sallyport/internal/words"
)

// Tables writes what somebody wants to see of it: pools, addresses and nodes, and of addresses at most so many; 0: all.
func (u Usage) Tables(out io.Writer, chosen []string, most int) error {
	for i, name := range chosen {
		if i > 0 {
			fmt.Fprintln(out)
		}
		table := tabwriter.NewWriter(out, 0, 8, 2, ' ', 0)
		switch name {
		case "pools":
			u.pools(table)
		case "nodes":
			u.nodes(table)
		default:
			u.addresses(table, most)
		}
		if err := table.Flush(); err != nil {
			return err
		}
	}
	return nil
}

func (u Usage) pools(out io.Writer) {
	fmt.Fprintln(out, "POOL\tNETWORK\tPREFIX\tUSED\tFREE\tFULL\tBY")
	for _, p := range u.Pools {
		var by []string
		for _, s := range p.By {
			by = append(by, fmt.Sprintf("%s %d", s.Who, s.Addresses))
		}
		prefixes := words.Few(words.Of(p.Prefixes), 2)
		fmt.Fprintf(out, "%s\t%s\t%s\t%d\t%d\t%s\t%s\n", p.Subnet, p.Network, prefixes, p.Used, p.Free, percent(p.Full()), words.Few(by, 4))
	}
}

func (u Usage) addresses(out io.Writer, most int) {
	fmt.Fprintln(out, "ADDRESS\tPOOL\tWHO\tNODE\tCONNECTIONS\tPORTS\tFULL\tMOST TO")
	for i, a := range u.Addresses {
		if most > 0 && i == most {
			fmt.Fprintf(out, "and %d more: sallyport top addresses\t\t\t\t\t\t\t\n", len(u.Addresses)-most)
			break
		}
		connections, ports, full, to := "?", "?", "?", ""
		if a.Counted {
			connections, ports, full = fmt.Sprint(a.Connections), fmt.Sprint(a.Ports), percent(a.Full())
		}
		if a.Ports > 0 {
			to = a.Protocol + " " + a.To.String()
		}
		who, nodes := words.Few(words.Of(a.Who), 2), cmp.Or(words.Few(a.Nodes, 2), "-")
		fmt.Fprintf(out, "%s\t%s\t%s\t%s\t%s\t%s\t%s\t%s\n", a.Address, a.Subnet, who, nodes, connections, ports, full, to)
	}
}

func (u Usage) nodes(out io.Writer) {
	fmt.Fprintln(out, "NODE\tGATEWAYS\tEGRESS ADDRESSES\tCONNECTIONS")
	for _, n := range u.Nodes {
		connections := fmt.Sprint(n.Connections)
		if n.Problem != "" {
			connections = "? (" + n.Problem + ")"
		}
		fmt.Fprintf(out, "%s\t%d\t%s\t%s\n", n.Name, n.Gateways, cmp.Or(words.Few(words.Of(n.Egress), 4), "-"), connections)
	}
}

func percent(share float64) string { return fmt.Sprintf("%.0f %%", 100*share) }
