package usage

import (
	"cmp"
	"fmt"
	"io"
	"text/tabwriter"

	"github.com/sallyport/sallyport/internal/model/humanize"
)

// Tables are the names of the tables.
var Tables = []string{"pools", "addresses", "nodes"}

// SelectTables returns the usage with only the given tables. Without names it returns all.
func (u Usage) SelectTables(tables ...string) Usage {
	if len(tables) == 0 {
		return u
	}
	var out Usage
	for _, name := range tables {
		switch name {
		case Tables[0]:
			out.Pools = u.Pools
		case Tables[1]:
			out.Addresses = u.Addresses
		case Tables[2]:
			out.Nodes = u.Nodes
		}
	}
	return out
}

// PrintTables writes the tables that have rows. If most is not 0, it limits the rows of addresses.
func (u Usage) PrintTables(out io.Writer, most int) error {
	first := true
	for _, t := range []struct {
		rows  int
		print func(io.Writer)
	}{
		{len(u.Pools), u.printPools}, {len(u.Addresses), func(w io.Writer) {
			u.printAddresses(w, most)
		}}, {len(u.Nodes), u.printNodes},
	} {
		if t.rows == 0 {
			continue
		}
		if !first {
			fmt.Fprintln(out)
		}
		first = false
		table := tabwriter.NewWriter(out, 0, 4, 2, ' ', 0)
		t.print(table)
		if err := table.Flush(); err != nil {
			return err
		}
	}
	return nil
}

func (u Usage) printPools(out io.Writer) {
	fmt.Fprintln(out, "POOL\tNETWORK\tPREFIX\tUSED\tFREE\tFULL\tBY")
	for _, p := range u.Pools {
		var by []string
		for _, s := range p.ByOwner {
			by = append(by, fmt.Sprintf("%s %d", s.Owner, s.Addresses))
		}
		prefixes := humanize.JoinLimited(humanize.Strings(p.Prefixes), 2)
		fmt.Fprintf(out, "%s\t%s\t%s\t%d\t%d\t%s\t%s\n", p.Subnet, p.Network, prefixes, p.Used, p.Free,
			formatPercent(p.Utilization()), humanize.JoinLimited(by, 4))
	}
}

func (u Usage) printAddresses(out io.Writer, most int) {
	fmt.Fprintln(out, "ADDRESS\tPOOL\tWHO\tNODE\tCONNECTIONS\tPORTS\tFULL\tMOST TO")
	for i, a := range u.Addresses {
		if most > 0 && i == most {
			fmt.Fprintf(out, "and %d more: sallyport top addresses\t\t\t\t\t\t\t\n", len(u.Addresses)-most)
			break
		}
		connections, ports, full, to := "?", "?", "?", ""
		if a.Counted {
			connections, ports, full = fmt.Sprint(a.Connections), fmt.Sprint(a.PortsInUse),
				formatPercent(a.Utilization())
		}
		if a.PortsInUse > 0 {
			to = a.Protocol + " " + a.TopDestination.String()
		}
		who, nodes := humanize.JoinLimited(humanize.Strings(a.Owners), 2), cmp.Or(humanize.JoinLimited(a.Nodes, 2), "-")
		fmt.Fprintf(out, "%s\t%s\t%s\t%s\t%s\t%s\t%s\t%s\n", a.Address, a.Subnet, who, nodes, connections, ports, full,
			to)
	}
}

func (u Usage) printNodes(out io.Writer) {
	fmt.Fprintln(out, "NODE\tGATEWAYS\tEGRESS ADDRESSES\tCONNECTIONS")
	for _, n := range u.Nodes {
		connections := "?"
		switch {
		case n.GatewayPorts == 0:
			connections = "-"
		case n.Counted:
			connections = fmt.Sprint(n.Connections)
		case n.Problem != "":
			connections = "? (" + n.Problem + ")"
		}
		fmt.Fprintf(out, "%s\t%d\t%s\t%s\n", n.Name, n.GatewayPorts,
			cmp.Or(humanize.JoinLimited(humanize.Strings(n.EgressAddresses), 4), "-"), connections)
	}
}

func formatPercent(share float64) string { return fmt.Sprintf("%.0f %%", 100*share) }
