package ovn

import (
	"github.com/sallyport/sallyport/internal/engine/ovn/nb"
	"github.com/sallyport/sallyport/internal/engine/ovn/sb"
)

// The rows of surveys. They embed the models that the controller uses, so that each column is described once, and add
// the columns that only surveys read. The controller's models can't have those: libovsdb monitors every column of a
// model, and refuses a database without one of them.

type globalRow struct {
	nb.Global
	Asked      int `ovsdb:"nb_cfg"`
	Translated int `ovsdb:"sb_cfg"`
	Done       int `ovsdb:"hv_cfg"`
}

type routerRow struct {
	nb.LogicalRouter
	Enabled            *bool             `ovsdb:"enabled"`
	StaticRoutes       []string          `ovsdb:"static_routes"`
	LoadBalancerGroups []string          `ovsdb:"load_balancer_group"`
	ExternalIDs        map[string]string `ovsdb:"external_ids"`
}

type routerPortRow struct {
	nb.LogicalRouterPort
	Enabled        *bool    `ovsdb:"enabled"`
	GatewayChassis []string `ovsdb:"gateway_chassis"`
}

type staticRouteRow struct {
	nb.StaticRoute
	Policy  string            `ovsdb:"policy"`
	Options map[string]string `ovsdb:"options"`
}

type policyRow struct {
	nb.LogicalRouterPolicy
	Options map[string]string `ovsdb:"options"`
}

type natRow struct {
	nb.NAT
	ExternalMAC string   `ovsdb:"external_mac"`
	PortRange   string   `ovsdb:"external_port_range"`
	LogicalPort string   `ovsdb:"logical_port"`
	Allowed     []string `ovsdb:"allowed_ext_ips"`
	Exempted    []string `ovsdb:"exempted_ext_ips"`
}

type switchRow struct {
	nb.LogicalSwitch
	Ports              []string          `ovsdb:"ports"`
	ACLs               []string          `ovsdb:"acls"`
	QoSRules           []string          `ovsdb:"qos_rules"`
	LoadBalancerGroups []string          `ovsdb:"load_balancer_group"`
	OtherConfig        map[string]string `ovsdb:"other_config"`
	ExternalIDs        map[string]string `ovsdb:"external_ids"`
}

type switchPortRow struct {
	nb.LogicalSwitchPort
	DynamicAddresses []string `ovsdb:"dynamic_addresses"`
	Security         []string `ovsdb:"port_security"`
	Tag              int      `ovsdb:"tag"`
	Enabled          *bool    `ovsdb:"enabled"`
	Up               bool     `ovsdb:"up"`
}

type loadBalancerRow struct {
	nb.LoadBalancer
	SelectionFields []string `ovsdb:"selection_fields"`
	HealthChecks    []string `ovsdb:"health_check"`
}

type loadBalancerGroupRow struct {
	LoadBalancers []string `ovsdb:"load_balancer"`
}

type portGroupRow struct {
	nb.PortGroup
	ACLs []string `ovsdb:"acls"`
}

type aclRow struct {
	nb.ACL
	Name      string            `ovsdb:"name"`
	SampleNew []string          `ovsdb:"sample_new"`
	SampleEst []string          `ovsdb:"sample_est"`
	Options   map[string]string `ovsdb:"options"`
}

type chassisRow struct {
	sb.Chassis
	Hostname    string            `ovsdb:"hostname"`
	Encaps      []string          `ovsdb:"encaps"`
	OtherConfig map[string]string `ovsdb:"other_config"`
}

type chassisPrivateRow struct {
	Name string `ovsdb:"name"`
	Seen int    `ovsdb:"nb_cfg"`
}

type encapRow struct {
	Type string `ovsdb:"type"`
	IP   string `ovsdb:"ip"`
}

// portBindingRow does not embed the model: the table is large, and surveys need two columns of it.
type portBindingRow struct {
	LogicalPort string   `ovsdb:"logical_port"`
	Chassis     []string `ovsdb:"chassis"`
}

type serviceMonitorRow struct {
	IP          string `ovsdb:"ip"`
	Port        int    `ovsdb:"port"`
	Protocol    string `ovsdb:"protocol"`
	LogicalPort string `ovsdb:"logical_port"`
	Status      string `ovsdb:"status"`
}

// Tables that only surveys read.
const (
	loadBalancerGroupTable = "Load_Balancer_Group"
	chassisPrivateTable    = "Chassis_Private"
	encapTable             = "Encap"
	macBindingTable        = "MAC_Binding"
	serviceMonitorTable    = "Service_Monitor"
)

// northboundColumns are the columns that ReadNorthbound reads.
var northboundColumns = map[string][]string{
	nb.GlobalTable:              columnsOf[globalRow](),
	nb.LogicalRouterTable:       columnsOf[routerRow](),
	nb.LogicalRouterPortTable:   columnsOf[routerPortRow](),
	nb.StaticRouteTable:         columnsOf[staticRouteRow](),
	nb.LogicalRouterPolicyTable: columnsOf[policyRow](),
	nb.NATTable:                 columnsOf[natRow](),
	nb.GatewayChassisTable:      columnsOf[nb.GatewayChassis](),
	nb.ChassisGroupTable:        columnsOf[nb.ChassisGroup](),
	nb.GroupChassisTable:        columnsOf[nb.GroupChassis](),
	nb.LogicalSwitchTable:       columnsOf[switchRow](),
	nb.LogicalSwitchPortTable:   columnsOf[switchPortRow](),
	nb.LoadBalancerTable:        columnsOf[loadBalancerRow](),
	loadBalancerGroupTable:      columnsOf[loadBalancerGroupRow](),
	nb.HealthCheckTable:         columnsOf[nb.HealthCheck](),
	nb.PortGroupTable:           columnsOf[portGroupRow](),
	nb.ACLTable:                 columnsOf[aclRow](),
	nb.QoSTable:                 columnsOf[nb.QoS](),
	nb.AddressSetTable:          columnsOf[nb.AddressSet](),
	nb.StaticMACBindingTable:    columnsOf[nb.StaticMACBinding](),
}

// southboundColumns are the columns that ReadSouthbound reads.
var southboundColumns = map[string][]string{
	sb.ChassisTable:     columnsOf[chassisRow](),
	chassisPrivateTable: columnsOf[chassisPrivateRow](),
	encapTable:          columnsOf[encapRow](),
	sb.PortBindingTable: columnsOf[portBindingRow](),
	macBindingTable:     columnsOf[nb.StaticMACBinding](), // the same columns
	serviceMonitorTable: columnsOf[serviceMonitorRow](),
}
