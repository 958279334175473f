// Package sb is the part of the OVN southbound database that we read: chassis, and the chassis of router ports.
package sb

import (
	"maps"

	"github.com/ovn-kubernetes/libovsdb/client"
	"github.com/ovn-kubernetes/libovsdb/model"
	"github.com/ovn-kubernetes/libovsdb/ovsdb"
)

// Database is the name of the database.
const Database = "OVN_Southbound"

// The tables.
const (
	ChassisTable     = "Chassis"
	PortBindingTable = "Port_Binding"
)

// ChassisRedirectType is the type of the port binding that represents a router port on its chassis. Its name is that of
// the router port with ChassisRedirectPrefix.
const (
	ChassisRedirectType   = "chassisredirect"
	ChassisRedirectPrefix = "cr-"
)

// LocalnetType is the type of the port binding of a logical switch's uplink to a network of the nodes.
const LocalnetType = "localnet"

// Chassis is a node in OVN.
type Chassis struct {
	UUID string `ovsdb:"_uuid"`
	Name string `ovsdb:"name"`
}

// PortBinding is the location of a port.
type PortBinding struct {
	UUID        string  `ovsdb:"_uuid"`
	LogicalPort string  `ovsdb:"logical_port"`
	Type        string  `ovsdb:"type"`
	Chassis     *string `ovsdb:"chassis"`
	// Unique together. libovsdb requires the columns of unique indexes.
	Datapath  string `ovsdb:"datapath"`
	TunnelKey int    `ovsdb:"tunnel_key"`
}

// CloneModel copies the row.
func (c *Chassis) CloneModel() model.Model { out := *c; return &out }

// CloneModelInto copies the row into another.
func (c *Chassis) CloneModelInto(to model.Model) { *to.(*Chassis) = *c }

// CloneModel copies the row.
func (p *PortBinding) CloneModel() model.Model {
	out := *p
	if p.Chassis != nil {
		chassis := *p.Chassis
		out.Chassis = &chassis
	}
	return &out
}

// CloneModelInto copies the row into another.
func (p *PortBinding) CloneModelInto(to model.Model) {
	*to.(*PortBinding) = *p.CloneModel().(*PortBinding)
}

var tableModels = map[string]model.Model{ChassisTable: &Chassis{}, PortBindingTable: &PortBinding{}}

// DatabaseModel returns the description of the database for libovsdb.
func DatabaseModel() (model.ClientDBModel, error) {
	return model.NewClientDBModel(Database, maps.Clone(tableModels))
}

// MonitorRequest requests all chassis, and the port bindings of type chassisredirect.
func MonitorRequest() *client.Monitor {
	return &client.Monitor{Method: ovsdb.ConditionalMonitorRPC, Tables: []client.TableMonitor{
		{Table: ChassisTable, Fields: []string{"name"}},
		{
			Table: PortBindingTable, Fields: []string{"logical_port", "type", "chassis", "datapath", "tunnel_key"},
			Conditions: []ovsdb.Condition{ovsdb.NewCondition("type", ovsdb.ConditionEqual, ChassisRedirectType)},
		},
	}}
}
