package scale

import (
	"testing"

	"github.com/sallyport/sallyport/internal/engine/ovn"
)

// classifiedChanges are the changes of engineChanges that the controller classifies by table: + added, ~ changed, -
// removed. The rows of Logical_Router and NB_Global are single options.
var classifiedChanges = map[string]string{
	"Load_Balancer: created, in no set":             "+Load_Balancer",
	"Load_Balancer: added to a router and a switch": "+Load_Balancer",
	"Load_Balancer: another backend":                "~Load_Balancer vips",
	"Load_Balancer: another VIP":                    "+Load_Balancer vips",
	"Load_Balancer: a VIP removed":                  "-Load_Balancer vips",
	"Load_Balancer: another option":                 "~Load_Balancer",
	"Load_Balancer_Health_Check: added":             "+Load_Balancer_Health_Check",
	"Load_Balancer_Health_Check: removed":           "-Load_Balancer_Health_Check",
	"Load_Balancer: removed":                        "-Load_Balancer",
	"NAT: added":                                    "+NAT",
	"NAT: removed":                                  "-NAT",
	"Logical_Router_Policy: added":                  "+Logical_Router_Policy",
	"Logical_Router_Policy: removed":                "-Logical_Router_Policy",
	"Logical_Router_Static_Route: added":            "+Logical_Router_Static_Route",
	"Logical_Router_Static_Route: removed":          "-Logical_Router_Static_Route",
	"Logical_Router_Port: added":                    "+Logical_Router_Port",
	"Logical_Switch_Port of type router: added":     "+Logical_Switch_Port",
	"Static_MAC_Binding: added":                     "+Static_MAC_Binding",
	"Static_MAC_Binding: removed":                   "-Static_MAC_Binding",
	"Logical_Router_Port: another option":           "~Logical_Router_Port",
	"Logical_Switch_Port of type router: removed":   "-Logical_Switch_Port",
	"Gateway_Chassis: added":                        "+Gateway_Chassis",
	"Gateway_Chassis: another priority":             "~Gateway_Chassis",
	"Gateway_Chassis: removed":                      "-Gateway_Chassis",
	"HA_Chassis_Group: created, in no port":         "+HA_Chassis_Group",
	"HA_Chassis_Group: another priority":            "~HA_Chassis_Group",
	"HA_Chassis_Group: removed":                     "-HA_Chassis_Group",
	"Logical_Router_Port: removed":                  "-Logical_Router_Port",
	"Logical_Router: another option":                "+Logical_Router",
	"Logical_Router: option removed":                "-Logical_Router",
	"NB_Global: another option":                     "+NB_Global",
	"NB_Global: option removed":                     "-NB_Global",
	"Address_Set: created":                          "+Address_Set",
	"Address_Set: another address":                  "~Address_Set",
	"Address_Set: removed":                          "-Address_Set",
	"QoS: added":                                    "+QoS",
	"QoS: removed":                                  "-QoS",
	"Port_Group with an ACL: added":                 "+Port_Group",
	"ACL: added":                                    "+ACL",
	"Port_Group with its ACLs: removed":             "-Port_Group",
}

// The controller's limit of full recomputes uses what was measured. Changes of a table that were not measured count as
// what the most expensive measured change of the table is.
func TestHandlingIsAsMeasured(t *testing.T) {
	handlings := map[string]ovn.Handling{
		incremental: ovn.Incremental, lflowOnly: ovn.RecomputesFlows, full: ovn.RecomputesAll,
	}
	measured, most := map[string]bool{}, map[string]ovn.Handling{}
	for _, c := range engineChanges {
		row, is := classifiedChanges[c.what]
		if !is {
			continue
		}
		measured[row], most[row[1:]] = true, max(most[row[1:]], handlings[c.handling])
		if got := handlingOf(t, row); got != handlings[c.handling] {
			t.Errorf("%s: the controller has %d, measured is %s", c.what, got, c.handling)
		}
	}
	for table := range ovn.NorthdHandling() {
		for _, how := range []string{"+", "~", "-"} {
			if got := handlingOf(t, how+table); !measured[how+table] && got != most[table] {
				t.Errorf("%s%s was not measured; the controller has %d, and the most expensive change is %d", how, table,
					got, most[table])
			}
		}
	}
	for row := range measured { // control: the names of tables are those of the controller
		if _, known := ovn.NorthdHandling()[row[1:]]; !known {
			t.Errorf("the controller does not know %s", row[1:])
		}
	}
}

func handlingOf(t *testing.T, row string) ovn.Handling {
	t.Helper()
	h := ovn.NorthdHandling()[row[1:]]
	switch row[0] {
	case '+':
		return h.Added
	case '~':
		return h.Changed
	default:
		return h.Removed
	}
}
