// Package nb is the part of the OVN northbound database that Sallyport knows, as models for libovsdb.
//
// Checked against schema 7.11.0 (OVN 25.03). The models have only the columns that we read or write: the others are not sent
// to us, and an update can't touch them. libovsdb compares the models with the server's schema at every connect, so a server
// without one of the columns is refused with its name.
package nb

import (
	"maps"
	"reflect"
	"slices"

	"github.com/ovn-kubernetes/libovsdb/client"
	"github.com/ovn-kubernetes/libovsdb/model"
	"github.com/ovn-kubernetes/libovsdb/ovsdb"
)

// Database is the name of the database.
const Database = "OVN_Northbound"

// The tables.
const (
	LogicalRouterTable       = "Logical_Router"
	LogicalRouterPortTable   = "Logical_Router_Port"
	StaticMACBindingTable    = "Static_MAC_Binding"
	NATTable                 = "NAT"
	LogicalRouterPolicyTable = "Logical_Router_Policy"
	LoadBalancerTable        = "Load_Balancer"
	AddressSetTable          = "Address_Set"
	LogicalSwitchTable       = "Logical_Switch" // known by name only
	LogicalSwitchPortTable   = "Logical_Switch_Port"
)

var tables = map[string]model.Model{
	LogicalRouterTable:       &LogicalRouter{},
	LogicalRouterPortTable:   &LogicalRouterPort{},
	StaticMACBindingTable:    &StaticMACBinding{},
	NATTable:                 &NAT{},
	LogicalRouterPolicyTable: &LogicalRouterPolicy{},
	LoadBalancerTable:        &LoadBalancer{},
	AddressSetTable:          &AddressSet{},
	LogicalSwitchPortTable:   &LogicalSwitchPort{},
}

// Model is the database as libovsdb wants it described. What is found by name has an index, so that finding it costs the same
// in a database of any size.
func Model() (model.ClientDBModel, error) {
	m, err := model.NewClientDBModel(Database, tables)
	if err != nil {
		return m, err
	}
	m.SetIndexes(map[string][]model.ClientIndex{
		LogicalRouterTable:    {{Columns: []model.ColumnKey{{Column: "name"}}}},
		StaticMACBindingTable: {{Columns: []model.ColumnKey{{Column: "logical_port"}}}},
		LoadBalancerTable:     {{Columns: []model.ColumnKey{{Column: "name"}}}},
	})
	return m, nil
}

// RouterPort is the type of a switch port that leads to a router.
const RouterPort = "router"

// some are conditions for tables of which we do not want all rows: there is a switch port for each pod.
var some = map[string][]ovsdb.Condition{
	LogicalSwitchPortTable: {ovsdb.NewCondition("type", ovsdb.ConditionEqual, RouterPort)},
}

// Monitor asks for the rows of the tables, with the columns of the models.
//
// The method is not libovsdb's default, monitor_cond_since: there it would not report an update that does not fit its cache.
func Monitor() *client.Monitor {
	m := &client.Monitor{Method: ovsdb.ConditionalMonitorRPC}
	for _, table := range slices.Sorted(maps.Keys(tables)) {
		m.Tables = append(m.Tables, client.TableMonitor{Table: table, Fields: columns(tables[table]), Conditions: some[table]})
	}
	return m
}

// columns are the columns of a model.
func columns(m model.Model) (out []string) {
	fields := reflect.TypeOf(m).Elem()
	for i := range fields.NumField() {
		if column := fields.Field(i).Tag.Get("ovsdb"); column != "_uuid" {
			out = append(out, column)
		}
	}
	return out
}
