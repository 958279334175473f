package ovn

import (
	"maps"
	"net/netip"
	"strings"

	"github.com/ovn-kubernetes/libovsdb/model"

	"github.com/sallyport/sallyport/internal/engine/ovn/nb"
	"github.com/sallyport/sallyport/internal/model/intent"
	"github.com/sallyport/sallyport/internal/model/ownership"
	"github.com/sallyport/sallyport/internal/model/state"
)

// Words of the northbound database.
const (
	natTypeDNATAndSNAT = "dnat_and_snat"
	natTypeSNAT        = "snat"
	policyReroute      = "reroute"
	kubeOVNVendor      = "kube-ovn" // the vendor of its rows
)

// rowDraft is a row as it is to be written.
type rowDraft struct {
	row         model.Model
	fields      []any // what of it states the value; the rest is the row's name, or whose it is
	externalIDs any   // its external_ids; nil where the table has none
}

// encodeRow writes a row. have is the row that it is to become, nil for a new one.
func encodeRow(row intent.Row, uuid string, ids map[string]string, have model.Model) (rowDraft, error) {
	switch r := row.(type) {
	case intent.LogicalRouterPort:
		return encodeRouterPort(r, uuid, ids, have), nil
	case intent.GatewayChassis:
		g := &nb.GatewayChassis{
			UUID:        uuid,
			Name:        r.Port + "-" + r.Chassis,
			ChassisName: r.Chassis,
			Priority:    r.Priority,
			ExternalIDs: withParentID(ids, r.Port),
		}
		return rowDraft{row: g, fields: []any{&g.Priority}, externalIDs: &g.ExternalIDs}, nil
	case intent.HAChassisGroup:
		g := &nb.ChassisGroup{UUID: uuid, Name: r.Name, ExternalIDs: ids}
		return rowDraft{row: g, fields: []any{&g.Chassis}, externalIDs: &g.ExternalIDs}, nil
	case intent.StaticMACBinding:
		b := &nb.StaticMACBinding{
			UUID: uuid, LogicalPort: r.Port, IP: r.Address.String(), MAC: r.MAC, OverrideDynamicMAC: true,
		}
		return rowDraft{row: b, fields: []any{&b.MAC, &b.OverrideDynamicMAC}}, nil
	case intent.DNATAndSNAT:
		// Kube-OVN writes the option, and no external_ids, for a floating IP that is translated on a gateway.
		n := &nb.NAT{
			UUID: uuid, Type: natTypeDNATAndSNAT, ExternalIP: r.External.String(), LogicalIP: r.Logical.String(),
			Options: map[string]string{"stateless": "false"}, ExternalIDs: ids,
		}
		return rowDraft{row: n, fields: []any{&n.LogicalIP}, externalIDs: &n.ExternalIDs}, nil
	case intent.SNAT:
		n := &nb.NAT{
			UUID:        uuid,
			Type:        natTypeSNAT,
			ExternalIP:  r.External.String(),
			LogicalIP:   formatPrefix(r.Logical),
			ExternalIDs: ids,
		}
		return rowDraft{row: n, fields: []any{&n.ExternalIP}, externalIDs: &n.ExternalIDs}, nil
	case intent.GatewayPortSNAT:
		n := &nb.NAT{
			UUID: uuid, Type: natTypeSNAT, ExternalIP: r.External.String(), LogicalIP: formatPrefix(r.Logical),
			Match: r.Match, Priority: r.Priority, ExternalIDs: ids,
		}
		return rowDraft{row: n, fields: []any{&n.ExternalIP, &n.GatewayPort, &n.Priority}, externalIDs: &n.ExternalIDs},
			nil
	case intent.LogicalRouterPolicy:
		p := &nb.LogicalRouterPolicy{
			UUID: uuid, Priority: r.Priority, Match: r.Match, Action: r.Action, ExternalIDs: ids,
		}
		if p.Nexthops = strings.Fields(r.NextHops); len(p.Nexthops) == 0 {
			p.Nexthops = nil
		}
		if ownership.IsRowOnlyPriority(r.Priority) {
			p.ExternalIDs[ownership.PolicyKeepKey] = ownership.RowVendor
		}
		return rowDraft{row: p, fields: []any{&p.Action, &p.Nexthop, &p.Nexthops}, externalIDs: &p.ExternalIDs}, nil
	case intent.LoadBalancer:
		return encodeLoadBalancer(r, uuid, ids), nil
	case intent.LoadBalancerHealthCheck:
		return encodeHealthCheck(r, uuid, ids), nil
	default:
		return encodeMarkedRow(row, uuid, ids)
	}
}

func encodeRouterPort(r intent.LogicalRouterPort, uuid string, ids map[string]string, have model.Model) rowDraft {
	p := &nb.LogicalRouterPort{
		UUID: uuid, Name: r.Name, MAC: r.MAC, Networks: []string{r.Network.String()}, Options: map[string]string{},
		ExternalIDs: ids,
	}
	if r.Peer != "" {
		p.Peer = &r.Peer
	}
	if before, ok := have.(*nb.LogicalRouterPort); ok {
		maps.Copy(p.Options, before.Options) // others than ours stay
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

// formatPrefix is a prefix as OVN's and Kube-OVN's tools write it: that of one address without its length.
func formatPrefix(p netip.Prefix) string {
	if p.IsSingleIP() {
		return p.Addr().String()
	}
	return p.String()
}

// ownerExternalIDs says whose a row is. Kube-OVN marks its policies, and leaves those that an element of a Vpc's list
// asks for alone whatever else is written there.
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
