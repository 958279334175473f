// Package nb is the part of the OVN northbound database that Sallyport uses, as models for libovsdb.
//
// Checked against schema 7.11.0 (OVN 25.03). The models have only the columns that we read or write: the server does
// not send the others, and an update can't change them. libovsdb compares the models with the server's schema at each
// connect. If the server lacks a column, the connection fails and the error names the column. Kube-OVN 1.16 needs a
// schema that has all of them.
package nb

import (
	"maps"
	"reflect"
	"slices"

	"github.com/ovn-kubernetes/libovsdb/client"
	"github.com/ovn-kubernetes/libovsdb/model"
	"github.com/ovn-kubernetes/libovsdb/ovsdb"

	"github.com/sallyport/sallyport/internal/model/ownership"
)

// Database is the name of the database.
const Database = "OVN_Northbound"

// The tables.
const (
	GlobalTable              = "NB_Global"
	LogicalRouterTable       = "Logical_Router"
	LogicalRouterPortTable   = "Logical_Router_Port"
	GatewayChassisTable      = "Gateway_Chassis"
	ChassisGroupTable        = "HA_Chassis_Group"
	GroupChassisTable        = "HA_Chassis"
	StaticMACBindingTable    = "Static_MAC_Binding"
	NATTable                 = "NAT"
	LogicalRouterPolicyTable = "Logical_Router_Policy"
	LoadBalancerTable        = "Load_Balancer"
	AddressSetTable          = "Address_Set"
	HealthCheckTable         = "Load_Balancer_Health_Check"
	LogicalSwitchTable       = "Logical_Switch"
	LogicalSwitchPortTable   = "Logical_Switch_Port"
	PortGroupTable           = "Port_Group"
	ACLTable                 = "ACL"
	QoSTable                 = "QoS"
	StaticRouteTable         = "Logical_Router_Static_Route"
)

var tableModels = map[string]model.Model{
	GlobalTable:              &Global{},
	LogicalRouterTable:       &LogicalRouter{},
	LogicalRouterPortTable:   &LogicalRouterPort{},
	GatewayChassisTable:      &GatewayChassis{},
	ChassisGroupTable:        &ChassisGroup{},
	GroupChassisTable:        &GroupChassis{},
	StaticMACBindingTable:    &StaticMACBinding{},
	NATTable:                 &NAT{},
	LogicalRouterPolicyTable: &LogicalRouterPolicy{},
	LoadBalancerTable:        &LoadBalancer{},
	HealthCheckTable:         &HealthCheck{},
	LogicalSwitchTable:       &LogicalSwitch{},
	AddressSetTable:          &AddressSet{},
	LogicalSwitchPortTable:   &LogicalSwitchPort{},
	PortGroupTable:           &PortGroup{},
	ACLTable:                 &ACL{},
	QoSTable:                 &QoS{},
	StaticRouteTable:         &StaticRoute{},
}

// DatabaseModel returns the description of the database for libovsdb. Columns used for lookups are indexed, so that a
// lookup does not get slower as the database grows.
func DatabaseModel() (model.ClientDBModel, error) {
	m, err := model.NewClientDBModel(Database, tableModels)
	if err != nil {
		return m, err
	}
	shard := model.ClientIndex{Columns: []model.ColumnKey{{Column: "external_ids", Key: ownership.RowShardKey}}}
	indexes := map[string][]model.ClientIndex{
		LogicalRouterTable:     {{Columns: []model.ColumnKey{{Column: "name"}}}},
		StaticMACBindingTable:  {{Columns: []model.ColumnKey{{Column: "logical_port"}}}},
		LoadBalancerTable:      {{Columns: []model.ColumnKey{{Column: "name"}}}, shard},
		HealthCheckTable:       {shard},
		GatewayChassisTable:    {shard},
		ChassisGroupTable:      {shard},
		LogicalSwitchTable:     {{Columns: []model.ColumnKey{{Column: "name"}}}},
		LogicalSwitchPortTable: {shard},
		AddressSetTable:        {shard},
		PortGroupTable:         {shard},
		ACLTable:               {shard},
		QoSTable:               {shard},
		StaticRouteTable:       {shard},
	}
	m.SetIndexes(indexes)
	return m, nil
}

// RouterPortType is the type of a switch port that leads to a router.
const RouterPortType = "router"

// tableConditions limit tables of which we need only some rows; for example, there are ACLs for each network policy. A
// row must meet one of the conditions. All switch ports are read: no condition on a column can find misplaced ports.
var tableConditions = map[string][]ovsdb.Condition{
	PortGroupTable:      {ownRowsOnly},
	ACLTable:            {ownRowsOnly},
	QoSTable:            {ownRowsOnly},
	StaticRouteTable:    {ownRowsOnly},
	HealthCheckTable:    {ownRowsOnly},
	GatewayChassisTable: {ownRowsOnly},
	ChassisGroupTable:   {ownRowsOnly},
	GroupChassisTable:   {ownRowsOnly},
}

var ownRowsOnly = ovsdb.NewCondition("external_ids", ovsdb.ConditionIncludes,
	ovsdb.OvsMap{GoMap: map[any]any{ownership.RowVendorKey: ownership.RowVendor}})

// MonitorRequest requests the rows of all tables, with the columns of the models.
//
// It does not use libovsdb's default method, monitor_cond_since: with that, libovsdb does not report an update that
// does not fit its cache.
func MonitorRequest() *client.Monitor {
	m := &client.Monitor{Method: ovsdb.ConditionalMonitorRPC}
	for _, table := range slices.Sorted(maps.Keys(tableModels)) {
		m.Tables = append(m.Tables, client.TableMonitor{
			Table:      table,
			Fields:     modelColumns(tableModels[table]),
			Conditions: tableConditions[table],
		})
	}
	return m
}

// modelColumns returns the columns of a model.
func modelColumns(m model.Model) (out []string) {
	fields := reflect.TypeOf(m).Elem()
	for i := range fields.NumField() {
		if column := fields.Field(i).Tag.Get("ovsdb"); column != "_uuid" {
			out = append(out, column)
		}
	}
	return out
}
