package ovn

import (
	"maps"
	"net/netip"
	"strings"

	"github.com/ovn-kubernetes/libovsdb/model"

	"github.com/sallyport/sallyport/internal/intent"
	"github.com/sallyport/sallyport/internal/ovn/nb"
	"github.com/sallyport/sallyport/internal/ownership"
	"github.com/sallyport/sallyport/internal/state"
)

// Words of the northbound database.
const (
	floating = "dnat_and_snat"
	source   = "snat"
	reroute  = "reroute"
	kubeOVN  = "kube-ovn" // the vendor of its rows
)

// draft is a row as it is to be written.
type draft struct {
	row    model.Model
	fields []any // what of it states the value; the rest is the row's name, or whose it is
	ids    any   // its external_ids; nil where the table has none
}

// encode writes a row. have is the row that it is to become, nil for a new one.
func encode(row intent.Row, uuid string, ids map[string]string, have model.Model) (draft, error) {
	switch r := row.(type) {
	case intent.RouterPort:
		return encodePort(r, uuid, ids, have), nil
	case intent.Gateway:
		g := &nb.GatewayChassis{UUID: uuid, Name: r.Port + "-" + r.Chassis, ChassisName: r.Chassis, Priority: r.Priority, ExternalIDs: in(ids, r.Port)}
		return draft{row: g, fields: []any{&g.Priority}, ids: &g.ExternalIDs}, nil
	case intent.Holders:
		g := &nb.ChassisGroup{UUID: uuid, Name: r.Name, ExternalIDs: ids}
		return draft{row: g, fields: []any{&g.Chassis}, ids: &g.ExternalIDs}, nil
	case intent.MACBinding:
		b := &nb.StaticMACBinding{UUID: uuid, LogicalPort: r.Port, IP: r.Address.String(), MAC: r.MAC, OverrideDynamicMAC: true}
		return draft{row: b, fields: []any{&b.MAC, &b.OverrideDynamicMAC}}, nil
	case intent.FloatingNAT:
		// Kube-OVN writes the option, and no external_ids, for a floating IP that is translated on a gateway.
		n := &nb.NAT{
			UUID: uuid, Type: floating, ExternalIP: r.External.String(), LogicalIP: r.Logical.String(),
			Options: map[string]string{"stateless": "false"}, ExternalIDs: ids,
		}
		return draft{row: n, fields: []any{&n.LogicalIP}, ids: &n.ExternalIDs}, nil
	case intent.SourceNAT:
		n := &nb.NAT{UUID: uuid, Type: source, ExternalIP: r.External.String(), LogicalIP: short(r.Logical), ExternalIDs: ids}
		return draft{row: n, fields: []any{&n.ExternalIP}, ids: &n.ExternalIDs}, nil
	case intent.PortNAT:
		n := &nb.NAT{
			UUID: uuid, Type: source, ExternalIP: r.External.String(), LogicalIP: short(r.Logical), Match: r.Match, Priority: r.Priority, ExternalIDs: ids,
		}
		return draft{row: n, fields: []any{&n.ExternalIP, &n.GatewayPort, &n.Priority}, ids: &n.ExternalIDs}, nil
	case intent.RouterPolicy:
		p := &nb.LogicalRouterPolicy{UUID: uuid, Priority: r.Priority, Match: r.Match, Action: r.Action, ExternalIDs: ids}
		if p.Nexthops = strings.Fields(r.NextHops); len(p.Nexthops) == 0 {
			p.Nexthops = nil
		}
		if ownership.Unlisted(r.Priority) {
			p.ExternalIDs[ownership.KeptKey] = ownership.RowVendor
		}
		return draft{row: p, fields: []any{&p.Action, &p.Nexthop, &p.Nexthops}, ids: &p.ExternalIDs}, nil
	case intent.LoadBalancer:
		return encodeBalancer(r, uuid, ids), nil
	case intent.HealthCheck:
		return encodeCheck(r, uuid, ids), nil
	default:
		return encodeLeg(row, uuid, ids)
	}
}

func encodePort(r intent.RouterPort, uuid string, ids map[string]string, have model.Model) draft {
	p := &nb.LogicalRouterPort{
		UUID: uuid, Name: r.Name, MAC: r.MAC, Networks: []string{r.Network.String()}, Options: map[string]string{}, ExternalIDs: ids,
	}
	if r.Peer != "" {
		p.Peer = &r.Peer
	}
	if before, ok := have.(*nb.LogicalRouterPort); ok {
		maps.Copy(p.Options, before.Options) // others than ours stay
	}
	delete(p.Options, routeTable)
	if r.Table != "" {
		p.Options[routeTable] = r.Table
	}
	return draft{row: p, fields: []any{&p.MAC, &p.Networks, &p.Peer, &p.Group, &p.Options}, ids: &p.ExternalIDs}
}

// short is a prefix as OVN's and Kube-OVN's tools write it: that of one address without its length.
func short(p netip.Prefix) string {
	if p.IsSingleIP() {
		return p.Addr().String()
	}
	return p.String()
}

// externalIDs says whose a row is. Kube-OVN marks its policies, and leaves those that an element of a Vpc's list asks for alone
// whatever else is written there.
func externalIDs(table, shard string, by state.Ref) map[string]string {
	ids := map[string]string{
		ownership.RowOwnerKey:  by.Kind + "/" + by.Namespace + "/" + by.Name,
		ownership.RowShardKey:  shard,
		ownership.RowVendorKey: ownership.RowVendor,
	}
	if table == nb.LogicalRouterPolicyTable {
		ids[ownership.RowVendorKey] = kubeOVN
	}
	return ids
}
