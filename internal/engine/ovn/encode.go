package ovn

import (
	"fmt"
	"maps"
	"net/netip"
	"strings"

	"github.com/ovn-kubernetes/libovsdb/model"

	"github.com/sallyport/sallyport/internal/engine/ovn/nb"
	"github.com/sallyport/sallyport/internal/model/intent"
	"github.com/sallyport/sallyport/internal/model/ownership"
	"github.com/sallyport/sallyport/internal/model/state"
)

// Values in the northbound database.
const (
	natTypeDNATAndSNAT = "dnat_and_snat"
	natTypeDNAT        = "dnat"
	natTypeSNAT        = "snat"
	policyReroute      = "reroute"
	kubeOVNVendor      = "kube-ovn" // vendor of Kube-OVN's rows
)

// rowDraft is an encoded row.
type rowDraft struct {
	row         model.Model
	fields      []any // columns with the value; the others are the key and the owner
	externalIDs any   // the external_ids; nil if the table has none
}

// encodeRow encodes a row. have is the existing row to update, nil for a new row.
func encodeRow(row intent.Row, uuid string, ids map[string]string, have model.Model) (rowDraft, error) {
	switch r := row.(type) {
	case intent.LogicalRouterPort:
		return encodeRouterPort(r, uuid, ids, have), nil
	case intent.HAChassisGroup:
		g := &nb.ChassisGroup{UUID: uuid, Name: r.Name, ExternalIDs: ids}
		return rowDraft{row: g, fields: []any{&g.Chassis}, externalIDs: &g.ExternalIDs}, nil
	case intent.StaticMACBinding:
		b := &nb.StaticMACBinding{
			UUID: uuid, LogicalPort: r.Port, IP: r.Address.String(), MAC: r.MAC, OverrideDynamicMAC: true,
		}
		return rowDraft{row: b, fields: []any{&b.MAC, &b.OverrideDynamicMAC}}, nil
	case intent.DNATAndSNAT, intent.DNAT, intent.SNAT, intent.GatewayPortSNAT:
		return encodeNAT(row, uuid, ids), nil
	case intent.LogicalRouterPolicy:
		return encodeRouterPolicy(r, uuid, ids), nil
	case intent.LoadBalancer:
		return encodeLoadBalancer(r, uuid, ids, have), nil
	case intent.PortGroup:
		return encodePortGroup(r, uuid, ids), nil
	}
	for _, t := range rowTables {
		if d, is := t.encode(row, uuid, ids); is {
			return d, nil
		}
	}
	return rowDraft{}, fmt.Errorf("unsupported type of northbound row: %T", row)
}

func encodeNAT(row intent.Row, uuid string, ids map[string]string) rowDraft {
	n := &nb.NAT{UUID: uuid, Type: natTypeSNAT, ExternalIDs: ids}
	out := rowDraft{row: n, fields: []any{&n.ExternalIP}, externalIDs: &n.ExternalIDs}
	switch r := row.(type) {
	case intent.DNATAndSNAT:
		// For a floating IP that is translated on a gateway, Kube-OVN sets this option and no external_ids.
		n.Type, n.Options = natTypeDNATAndSNAT, map[string]string{"stateless": "false"}
		n.ExternalIP, n.LogicalIP = r.External.String(), r.Logical.String()
		out.fields = []any{&n.LogicalIP}
	case intent.DNAT:
		n.Type, n.ExternalIP, n.LogicalIP = natTypeDNAT, r.External.String(), r.Logical.String()
		out.fields = []any{&n.LogicalIP, &n.GatewayPort}
	case intent.SNAT:
		n.ExternalIP, n.LogicalIP = r.External.String(), formatPrefix(r.Logical)
	case intent.GatewayPortSNAT:
		n.ExternalIP, n.LogicalIP = r.External.String(), formatPrefix(r.Logical)
		n.Match, n.Priority = r.Match, r.Priority
		out.fields = []any{&n.ExternalIP, &n.GatewayPort, &n.Priority}
	}
	return out
}

func encodeRouterPolicy(r intent.LogicalRouterPolicy, uuid string, ids map[string]string) rowDraft {
	p := &nb.LogicalRouterPolicy{
		UUID: uuid, Priority: r.Priority, Match: r.Match, Action: r.Action, ExternalIDs: ids,
	}
	if p.Nexthops = strings.Fields(r.NextHops); len(p.Nexthops) == 0 {
		p.Nexthops = nil
	}
	if ownership.IsRowOnlyPriority(r.Priority) {
		p.ExternalIDs[ownership.PolicyKeepKey] = ownership.RowVendor
	}
	return rowDraft{row: p, fields: []any{&p.Action, &p.Nexthop, &p.Nexthops}, externalIDs: &p.ExternalIDs}
}

func encodeRouterPort(r intent.LogicalRouterPort, uuid string, ids map[string]string, have model.Model) rowDraft {
	p := &nb.LogicalRouterPort{
		UUID: uuid, Name: r.Name, MAC: r.MAC, Options: map[string]string{}, ExternalIDs: ids,
		Networks: strings.Fields(intent.FormatNetworks(r.Network, r.SecondNetwork)),
	}
	if r.Peer != "" {
		p.Peer = &r.Peer
	}
	if before, ok := have.(*nb.LogicalRouterPort); ok {
		maps.Copy(p.Options, before.Options) // keep options that are not ours
	}
	delete(p.Options, routeTableOption)
	if r.RouteTable != "" {
		p.Options[routeTableOption] = r.RouteTable
	}
	return rowDraft{
		row:         p,
		fields:      []any{&p.MAC, &p.Networks, &p.Peer, &p.Group, &p.Options},
		externalIDs: &p.ExternalIDs,
	}
}

// formatPrefix formats a prefix like the tools of OVN and Kube-OVN: a single address has no length.
func formatPrefix(p netip.Prefix) string {
	if p.IsSingleIP() {
		return p.Addr().String()
	}
	return p.String()
}

// ownerExternalIDs returns the external_ids with the owner of a row. Policies get Kube-OVN's vendor, because Kube-OVN
// recognizes its policies by it. It does not touch those that a Vpc lists, whatever else is in their external_ids.
func ownerExternalIDs(table, shard string, by state.Ref) map[string]string {
	ids := map[string]string{
		ownership.RowOwnerKey:  by.Kind + "/" + by.Namespace + "/" + by.Name,
		ownership.RowShardKey:  shard,
		ownership.RowVendorKey: ownership.RowVendor,
	}
	if table == nb.LogicalRouterPolicyTable {
		ids[ownership.RowVendorKey] = kubeOVNVendor
	}
	return ids
}
