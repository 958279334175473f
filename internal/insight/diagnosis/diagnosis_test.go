package diagnosis

import (
	"cmp"
	"encoding/json"
	"net/netip"
	"reflect"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/sallyport/sallyport/internal/model/clusterstate"
	"github.com/sallyport/sallyport/internal/model/intent"
	"github.com/sallyport/sallyport/internal/model/logical"
	"github.com/sallyport/sallyport/internal/model/state"
)

// fault changes a healthy cluster. The test wants exactly these findings, the cause first.
type fault struct {
	name      string
	inject    func(*clusterstate.State)
	code      string
	severity  Severity
	about     state.Ref // among others
	message   string    // fragment of the message
	followUps []string  // codes of its consequences
}

func nodeAt(s *clusterstate.State, i int) *clusterstate.Node { return &s.Cluster.Nodes[i] }

// changeInspection changes the inspection of a node.
func changeInspection(name string, change func(*clusterstate.NodeInspection)) func(*clusterstate.State) {
	return func(s *clusterstate.State) {
		i := s.Inspected[name]
		change(&i)
		s.Inspected[name] = i
	}
}

func changeLease(i int, change func(*clusterstate.Lease)) func(*clusterstate.State) {
	return func(s *clusterstate.State) { change(&s.Cluster.Leases[i]) }
}

func expireLease(l *clusterstate.Lease) { l.Renewed = noon.Add(-time.Hour) }

func addDifference(text, key string, by state.Ref) func(*clusterstate.State) {
	return func(s *clusterstate.State) {
		s.Shards[0].Differs = append(s.Shards[0].Differs, clusterstate.Difference{Line: state.Line{
			Text: text, Key: key, Origin: by, Removes: strings.HasPrefix(text, "-"),
			Held: strings.HasPrefix(text, "-") && by == (state.Ref{}),
		}})
	}
}

// setConditionFalse sets a condition of an object to False, one hour ago unless it has a time.
func setConditionFalse(c clusterstate.Condition, of func(*clusterstate.State) *clusterstate.Object) func(*clusterstate.State) {
	return func(s *clusterstate.State) {
		o := of(s)
		o.Conditions = slices.DeleteFunc(o.Conditions, func(x clusterstate.Condition) bool { return x.Type == c.Type })
		if c.Status = "False"; c.Since.IsZero() {
			c.Since = noon.Add(-time.Hour)
		}
		o.Conditions = append(o.Conditions, c)
	}
}

func combine(changes ...func(*clusterstate.State)) func(*clusterstate.State) {
	return func(s *clusterstate.State) {
		for _, c := range changes {
			c(s)
		}
	}
}

const (
	natKey     = "NAT acme-prod [dnat_and_snat 100.65.0.13]"
	policyKey  = "Logical_Router_Policy acme-prod [30010 pkt.mark == 1]"
	elementKey = "Vpc acme-prod policyRoutes [1000 ip4]"
	objectKey  = "OvnEip eip-acme-prod-x"
)

var readingFaults = []fault{
	{
		"Kubernetes can't be read", func(s *clusterstate.State) {
			*s = clusterstate.State{
				Taken:  noon,
				Unread: []clusterstate.ReadFailure{{System: clusterstate.Kubernetes, Problem: "connection refused"}},
			}
		}, KubernetesUnreachable, Error, ClusterRef, "connection refused", nil,
	},
	{
		"the northbound database can't be read", func(s *clusterstate.State) {
			s.Logical, s.Shards = logical.Network{}, []clusterstate.Shard{{Name: "acme-prod", Problem: "not connected"}}
			s.Unread = []clusterstate.ReadFailure{{System: clusterstate.Northbound, Problem: "timeout"}}
		}, NorthboundUnreachable, Error, ClusterRef, "the OVN northbound database can't be read: timeout", nil,
	},
	{
		"the southbound database can't be read", func(s *clusterstate.State) {
			s.Logical.Chassis, s.Unread = nil, []clusterstate.ReadFailure{{System: clusterstate.Southbound, Problem: "timeout"}}
		}, SouthboundUnreachable, Error, ClusterRef, "timeout", nil,
	},
	{
		"a permission is missing", func(s *clusterstate.State) {
			s.Unread = []clusterstate.ReadFailure{{System: "Gateways", Problem: "forbidden"}}
		},
		NotRead, Warning, ClusterRef, "forbidden", nil,
	},
	{"a shard fails", func(s *clusterstate.State) {
		s.Shards[0].Problem = "gather: no"
	}, NotWorkedOut, Error, project, "acme-prod", nil},
	{"a CRD is missing", func(s *clusterstate.State) {
		s.Cluster.Absent = []string{"EgressIP"}
	}, KindMissing, Error, ClusterRef, "EgressIP", nil},
	{"Kubernetes is old", func(s *clusterstate.State) {
		s.Cluster.Version = "v1.28.1"
	}, KubernetesTooOld, Warning, ClusterRef, "v1.28.1", nil},
	{
		"a certificate ends soon", func(s *clusterstate.State) { s.Certificates[0].Expires = noon.Add(72 * time.Hour) },
		CertificateExpires, Warning, ClusterRef, "3 days", nil,
	},
	{
		"a certificate has ended", func(s *clusterstate.State) { s.Certificates[0].Expires = noon.Add(-72 * time.Hour) },
		CertificateExpires, Error, ClusterRef, "expired on", nil,
	},
}

var controlPlaneFaults = []fault{
	{
		"the controller was killed", changeLease(0, expireLease), ControllerDead, Error, ClusterRef,
		"a last renewed its lease 1h0m ago", nil,
	},
	{"the controller ended", changeLease(0, func(l *clusterstate.Lease) {
		l.Holder = ""
	}), ControllerDead, Error, ClusterRef, "gave up its lease", nil},
	{"the controller never ran", func(s *clusterstate.State) {
		s.Cluster.Leases = s.Cluster.Leases[1:]
	}, ControllerDead, Error, ClusterRef, "does not exist", nil},
	{
		"Kube-OVN was killed", changeLease(1, expireLease), KubeOVNDead, Error, ClusterRef,
		"kube-ovn-controller does not run", nil,
	},
	{
		"the northbound database was lost", func(s *clusterstate.State) { s.Logical.Switches = nil }, LogicalSwitchMissing, Error, ClusterRef,
		"no logical switch for 1 of 1 Subnets (acme-prod-default); the database seems to be new", nil,
	},
	{
		"the switch of a Subnet was deleted", func(s *clusterstate.State) {
			s.Logical.Switches = []logical.Switch{{Name: "acme-dev-default"}}
			s.Cluster.Subnets = append(s.Cluster.Subnets, clusterstate.Subnet{
				Object: clusterstate.Object{Ref: state.Ref{Kind: "Subnet", Name: "acme-dev-default"}}, Ready: true,
			})
		},
		LogicalSwitchMissing, Error,
		state.Ref{Kind: "Subnet", Name: "acme-prod-default"},
		"for 1 of 2 Subnets", nil,
	},
	{"northd hangs", func(s *clusterstate.State) {
		s.Logical.Progress.Translated = 6
	}, NorthdBehind, Error, ClusterRef, "nb_cfg 6", nil},
	{"ovn-controller hangs", func(s *clusterstate.State) {
		s.Logical.Chassis[0].Seen = 6
	}, ChassisBehind, Error, node1, "pod acme-prod/web", nil},
	{"an EIp that nobody looked at", func(s *clusterstate.State) {
		s.Cluster.EIps[0].Conditions = nil
	}, Unattended, Error, eip, "has not written its conditions", nil},
	{
		"an EIp while the controller is dead", combine(changeLease(0, expireLease), func(s *clusterstate.State) {
			s.Cluster.EIps[0].Generation = 2
		}),
		ControllerDead, Error, ClusterRef, "",
		[]string{Unattended},
	},
	{"a node without a chassis", func(s *clusterstate.State) {
		s.Logical.Chassis = s.Logical.Chassis[1:]
		s.Logical.Routers[0].Ports[1].Chassis = []string{"chassis-node2"}
	}, ChassisMissing, Error, node1, "no chassis for node node1", nil},
	{
		"a gateway that nobody holds", func(s *clusterstate.State) {
			s.Logical.Routers[0].Ports[1].Chassis = []string{"ghost"}
		},
		ChassisMissing, Error, project, "ghost", nil,
	},
	{
		"a gateway that one too few may hold", func(s *clusterstate.State) {
			s.Logical.Routers[0].Ports[1].Chassis[1] = "ghost"
		},
		ChassisMissing, Warning, project, "ghost", nil,
	},
	{"a noted chassis that is another", func(s *clusterstate.State) {
		nodeAt(s, 0).Chassis = "old"
	}, ChassisMismatch, Error, node1, "names chassis old", nil},
	{
		"a node that is another chassis", changeInspection("node1", func(i *clusterstate.NodeInspection) {
			i.Switch.Chassis = "new"
		}),
		ChassisMismatch, Error, node1, "has chassis name new", nil,
	},
}

var nodeFaults = []fault{
	{"a gateway node that lost its label", func(s *clusterstate.State) {
		nodeAt(s, 1).Gateway = false
	}, GatewayNotMoved, Warning, node2, "still holds acme-prod-ext-cloud", nil},
	{"a node is down", func(s *clusterstate.State) {
		nodeAt(s, 0).Ready = false
	}, NodeNotReady, Error, node1, "pod acme-prod/web", nil},
	{
		"the node of an egress address is down", func(s *clusterstate.State) { nodeAt(s, 1).Ready = false },
		NodeNotReady, Error, node2, "egress address 100.65.0.20, gateway acme-prod-ext-cloud",
		[]string{EgressHolderDown},
	},
	{
		"a node that has nothing is down", func(s *clusterstate.State) {
			s.Cluster.Nodes = append(s.Cluster.Nodes,
				clusterstate.Node{Object: clusterstate.Object{Ref: clusterstate.NodeRef("node3")}, Chassis: "chassis-node3"})
			s.Logical.Chassis = append(s.Logical.Chassis, logical.Chassis{Name: "chassis-node3", Host: "node3"})
		}, NodeNotReady, Warning, clusterstate.NodeRef("node3"), "no gateways, egress addresses or pods", nil,
	},
	{"a kubelet is dead", func(s *clusterstate.State) {
		nodeAt(s, 0).Heartbeat = noon.Add(-30 * time.Second)
	}, NodeSilent, Warning, node1, "for 30s", nil},
	{
		"a node was just cut off", combine(func(s *clusterstate.State) {
			nodeAt(s, 0).Heartbeat = noon.Add(-30 * time.Second)
		},
			func(s *clusterstate.State) {
				s.Inspected["node1"] = clusterstate.NodeInspection{Problem: "no answer"}
			}), NodeSilent, Error, node1, "", []string{AgentMissing},
	},
	{
		"an agent is dead", func(s *clusterstate.State) {
			s.Inspected["node1"] = clusterstate.NodeInspection{Problem: "no answer within 5s"}
		},
		AgentMissing, Warning, node1, "within 5s", nil,
	},
	{
		"there are no agents", func(s *clusterstate.State) {
			s.Inspected = map[string]clusterstate.NodeInspection{
				"node1": {Problem: "no answer"},
				"node2": {Problem: "no answer"},
			}
		}, AgentsAbsent, Info, ClusterRef, "", nil,
	},
	{"a clock is wrong", changeInspection("node2", func(i *clusterstate.NodeInspection) {
		i.Clock = noon.Add(time.Hour)
	}), ClockSkew, Warning, node2, "1h0m off", nil},
	{"the clock here is wrong", func(s *clusterstate.State) {
		s.Taken = noon.Add(time.Hour)
	}, ClockSkew, Warning, ClusterRef, "this machine", nil},
	{"vswitchd is dead", changeInspection("node1", func(i *clusterstate.NodeInspection) {
		i.Switch.Problem = "no socket"
	}), SwitchSilent, Error, node1, "no socket", nil},
	{
		"vswitchd is dead, and nothing is carried out", combine(func(s *clusterstate.State) {
			s.Logical.Chassis[0].Seen = 6
		}, changeInspection("node1", func(i *clusterstate.NodeInspection) {
			i.Switch.Problem, i.Interfaces[0].Up = "no socket", false
		})), SwitchSilent, Error, node1, "no socket", nil,
	},
	{
		"ovn-controller does not answer", changeInspection("node1", func(i *clusterstate.NodeInspection) {
			i.Switch = clusterstate.OpenVSwitch{Version: "3.5.0", Problem: "ask ovn-controller: i/o timeout"}
		}), SwitchNotConnected, Error, node1, "i/o timeout", nil,
	},
	{
		"ovn-controller is not connected", changeInspection("node1", func(i *clusterstate.NodeInspection) {
			i.Switch.Controller = "not connected"
		}),
		SwitchNotConnected, Error, node1, "not connected", nil,
	},
	{"a cable is out", changeInspection("node2", func(i *clusterstate.NodeInspection) {
		i.Interfaces[1].Up = false
	}), LinkDown, Error, cloud, "interface eth1 of node node2", nil},
	{
		"an interface is not there", changeInspection("node2", func(i *clusterstate.NodeInspection) {
			i.Interfaces[1].Name = "ens1"
		}),
		LinkDown, Error, node2, "no interface eth1", nil,
	},
	{"the tunnel's cable is out", changeInspection("node2", func(i *clusterstate.NodeInspection) {
		i.Interfaces[0].Up = false
	}), LinkDown, Error, node2, "to other nodes", nil},
	{"a wire with a small MTU", changeInspection("node2", func(i *clusterstate.NodeInspection) {
		i.Interfaces[1].MTU = 1400
	}), MTUTooSmall, Error, cloud, "MTU 1400", nil},
	{
		"a tunnel with a small MTU", changeInspection("node1", func(i *clusterstate.NodeInspection) {
			i.Interfaces[0].MTU = 1500
		}),
		MTUTooSmall, Error, node1, "plus 58 bytes of encapsulation", nil,
	},
	{
		"a strict filter", changeInspection("node1", func(i *clusterstate.NodeInspection) {
			i.Settings["net.ipv4.conf.eth2.rp_filter"] = "1"
		}),
		RPFilterStrict, Error, uplinkNet, "interface eth2 of node node1", nil,
	},
	{
		"a rule before ours", changeInspection("node1", func(i *clusterstate.NodeInspection) { i.Routes[0].Output = "eth0" }),
		AsymmetricRoute, Error, node1, "sends replies to 203.0.113.1 through interface eth0", nil,
	},
	{
		"an uplink that nobody leads back", changeInspection("node2", func(i *clusterstate.NodeInspection) {
			i.Routes = []clusterstate.RouteLookup{{From: addr("192.0.2.12"), To: addr("203.0.113.10"), Output: "eth0"}}
		}), AsymmetricRoute, Error, node2, "through interface eth0, but requests arrive on eth2; no ExternalNetwork", nil,
	},
	{
		"too many connections", changeInspection("node1", func(i *clusterstate.NodeInspection) {
			i.Settings[conntrackCountKey] = "262144"
		}),
		ConntrackFull, Error, node1, "262144 connections", nil,
	},
	{
		"Open vSwitch tracks no more connections", changeInspection("node1", func(i *clusterstate.NodeInspection) {
			i.Switch.Tracked, i.Switch.MaxTracked = 3000000, 3000000
		}),
		ConntrackFull, Error, node1, "Open vSwitch of node node1 tracks 3000000 connections", nil,
	},
	{"many connections", changeInspection("node1", func(i *clusterstate.NodeInspection) {
		i.Settings[conntrackCountKey] = "220000"
	}), ConntrackLow, Warning, node1, "220000", nil},
	{"no port is left", changeInspection("node2", func(i *clusterstate.NodeInspection) {
		i.Usage[0].Ports = 64000
	}), SNATExhausted, Error, project, "203.0.113.10:443", nil},
	{"few ports are left", changeInspection("node2", func(i *clusterstate.NodeInspection) {
		i.Usage[0].Ports = 55000
	}), SNATLow, Warning, project, "55000 of 64512", nil},
	{
		"no port of a range is left", combine(changeInspection("node2", func(i *clusterstate.NodeInspection) {
			i.Usage[0].Ports = 49
		}), func(s *clusterstate.State) {
			for i := range s.Logical.Routers[0].NATs {
				s.Logical.Routers[0].NATs[i].PortRange = "20000-20049"
			}
		}), SNATExhausted, Error, project, "49 of 50 ports", nil,
	},
	{
		"a flow to where a floating IP led before", changeInspection("node2", func(i *clusterstate.NodeInspection) {
			i.Connection = append(i.Connection, clusterstate.Connection{
				Protocol: "udp", Source: port("203.0.113.10:5353"), Destination: port("100.65.0.13:53"),
				ReplySource: port("10.20.0.3:53"),
			})
		}), StaleConnection, Error, fip, "to 10.20.0.3:53, which is no longer a backend", nil,
	},
	{
		"a connection to a pod that is gone", changeInspection("node1", func(i *clusterstate.NodeInspection) {
			i.Connection[0].ReplySource = port("10.20.0.9:8080")
		}),
		StaleConnection, Error, service, "to 10.20.0.9:8080, which is no longer a backend", nil,
	},
}

var wireFaults = []fault{
	{
		"the gateway is silent", combine(changeInspection("node1", func(i *clusterstate.NodeInspection) {
			i.Neighbours[0].MACs = nil
		}), changeInspection("node2",
			func(i *clusterstate.NodeInspection) { i.Neighbours[0].MACs = nil })),
		GatewaySilent, Error, cloud, "nobody answers for gateway 100.65.0.1", nil,
	},
	{
		"the gateway is silent on one node", changeInspection("node2", func(i *clusterstate.NodeInspection) {
			i.Neighbours[0].MACs = nil
		}),
		GatewaySilent, Error, node2, "nobody answers node node2", nil,
	},
	{
		"two gateways", changeInspection("node1", func(i *clusterstate.NodeInspection) {
			i.Neighbours[0].MACs = append(i.Neighbours[0].MACs, "02:00:00:00:00:09")
		}),
		GatewayDuplicate, Error, cloud, "02:00:00:00:00:01 and 02:00:00:00:00:09", nil,
	},
	{
		"somebody else has the address of the floating IP", changeInspection("node1",
			func(i *clusterstate.NodeInspection) {
				i.Neighbours[3].MACs = append(i.Neighbours[3].MACs, "02:00:00:00:00:66")
			}),
		AddressDuplicate, Error, fip, "02:00:00:00:00:66", nil,
	},
	{
		"OVN does not answer for an address", changeInspection("node1", func(i *clusterstate.NodeInspection) {
			i.Neighbours[4].MACs = nil
		}),
		AddressSilent, Error, service, "100.65.0.15", nil,
	},
}

// addForeignACL adds a return port with its labels, and a foreign port group with an ACL for a pod on the same switch.
func addForeignACL(rule logical.ACL) func(*clusterstate.State) {
	return func(s *clusterstate.State) {
		rule.Direction = cmp.Or(rule.Direction, "to-lport")
		s.Logical.Switches[0].Ports = []logical.SwitchPort{{Name: "return"}, {Name: "web.acme-prod"}}
		s.Logical.Groups = []logical.PortGroup{
			{Name: "ours", Ports: []string{"return"}, IDs: ownedBy(project), ACLs: []logical.ACL{
				{
					Tier:      1,
					Priority:  100,
					Direction: "to-lport",
					Match:     `inport == "return"`,
					Action:    "pass",
					Label:     0x53500001,
					IDs:       ownedBy(project),
				},
				{
					Tier:      3,
					Direction: "to-lport",
					Match:     `inport == "return"`,
					Action:    "allow-related",
					Label:     0x53500001,
					IDs:       ownedBy(project),
				},
			}},
			{Name: "watched", Ports: []string{"elsewhere", "web.acme-prod"}, ACLs: []logical.ACL{rule}},
		}
	}
}

// An ACL without label and sample, one that decides before ours, and one on a switch without our labels do not
// overwrite labels.
func TestLabelsThatStay(t *testing.T) {
	sampled := logical.ACL{Tier: 3, Priority: 10, Match: "ip4", Action: "allow-related", Sampled: true}
	change := func(change func(*logical.ACL)) func(*clusterstate.State) {
		rule := sampled
		change(&rule)
		return addForeignACL(rule)
	}
	for name, wrong := range map[string]func(*clusterstate.State){
		"neither label nor sample": change(func(a *logical.ACL) { a.Sampled = false }),
		"of what pods send":        change(func(a *logical.ACL) { a.Direction = "from-lport" }),
		"drops":                    change(func(a *logical.ACL) { a.Action = "drop" }),
		"passes before ours":       change(func(a *logical.ACL) { a.Action, a.Tier = "pass", 0 }),
		"passes to ours":           change(func(a *logical.ACL) { a.Action, a.Tier = "pass", 2 }),
		"after ours in its tier":   change(func(a *logical.ACL) { a.Tier, a.Priority = 1, 99 }),
		"ours":                     change(func(a *logical.ACL) { a.IDs = ownedBy(project) }),
		"on another switch": combine(addForeignACL(sampled), func(s *clusterstate.State) {
			s.Logical.Groups[1].Ports = []string{"elsewhere"}
		}),
		"without return ports": combine(addForeignACL(sampled), func(s *clusterstate.State) {
			s.Logical.Groups = s.Logical.Groups[1:]
		}),
	} {
		s := healthySurvey()
		wrong(s)
		if found := CheckCluster(s); len(found) > 0 {
			t.Errorf("%s: %+v", name, found)
		}
	}
}

var driftFaults = []fault{
	{"two default networks", func(s *clusterstate.State) {
		s.Cluster.Networks[0].Default, s.Cluster.Networks[1].Default = true, true
	}, SeveralDefaults, Warning, uplinkNet, "2 networks are labelled as the default: ExternalNetwork vlan1, Subnet ext-cloud", nil},
	{
		"a NAT row is gone", addDifference("+ "+natKey+" 10.20.0.2", natKey, eip), RowMissing, Error, fip,
		"address translation of EIp", nil,
	},
	{
		"a NAT row is gone and nobody is there",
		combine(addDifference("+ "+natKey+" 10.20.0.2", natKey, fip), changeLease(0, expireLease)),
		ControllerDead, Error, ClusterRef, "",
		[]string{RowMissing},
	},
	{
		"a policy was changed", addDifference("~ "+policyKey+" drop → reroute 169.254.91.2", policyKey, returnPathRef),
		RowChanged, Error, fip, "replies on secondary networks", nil,
	},
	{
		"a row that should go", addDifference("- "+natKey+" 10.20.0.2", natKey, fip), RowLeft, Warning, fip,
		"should have been deleted", nil,
	},
	{
		"a NAT of somebody else", addDifference("- NAT acme-prod [snat 10.20.0.9/32] 100.65.0.99",
			"NAT acme-prod [snat 10.20.0.9/32]", state.Ref{}),
		RowForeign, Warning, project, "10.20.0.9/32", nil,
	},
	{"a policy of somebody else", func(s *clusterstate.State) {
		s.Logical.Routers[0].Policies = append(s.Logical.Routers[0].Policies,
			logical.RouterPolicy{Priority: 31500, Match: "ip4.src == 10.20.0.2", Action: "drop"})
	}, RowForeign, Warning, clusterstate.RouterRef("acme-prod"), "policy 31500", nil},
	{"a route of somebody else", func(s *clusterstate.State) {
		s.Logical.Routers[0].Routes = []logical.StaticRoute{{
			Prefix:  prefix("172.20.0.0/16"),
			NextHop: addr("10.20.0.66"),
		}}
	}, RowForeign, Warning, project, "a route to 172.20.0.0/16 via 10.20.0.66", nil},
	{"a rule of somebody else", func(s *clusterstate.State) {
		s.Logical.Switches[0].ACLs = []logical.ACL{{Priority: 1, Match: "tcp", Action: "drop"}}
	}, RowForeign, Warning, project, "on switch acme-prod-default", nil},
	{
		"a sample on a rule of somebody else's port group",
		addForeignACL(logical.ACL{
			Tier: 3, Priority: 10, Match: "outport == @watched", Action: "allow-related", Sampled: true,
		}),
		LabelOverwritten, Error, project,
		`ACL 10 "outport == @watched" allow-related (tier 3, to-lport) of port group watched has a sample`, nil,
	},
	{
		"a label on a rule of Kube-OVN",
		addForeignACL(logical.ACL{
			Tier:     2,
			Priority: 2001,
			Match:    "ip4",
			Action:   "allow-related",
			Label:    7,
			IDs:      logical.ExternalIDs{"vendor": "kube-ovn"},
		}),
		LabelOverwritten, Error, project, "has label 7", nil,
	},
	{
		"a label on a rule of the switch", combine(addForeignACL(logical.ACL{}), func(s *clusterstate.State) {
			s.Logical.Switches[0].ACLs = []logical.ACL{{
				Tier: 1, Priority: 100, Direction: "to-lport", Match: "ip4", Action: "pass", Label: 7,
			}}
		}), LabelOverwritten, Error,
		state.Ref{Kind: "Subnet", Name: "acme-prod-default"},
		"of switch acme-prod-default",
		[]string{RowForeign},
	},
	{
		"an OvnEip is gone", addDifference("+ "+objectKey+" {}", objectKey, eip), ObjectMissing, Error, fip, objectKey,
		nil,
	},
	{
		"an OvnEip was changed", addDifference("~ "+objectKey+" {} → {a}", objectKey, eip), ObjectChanged, Error, eip,
		objectKey, nil,
	},
	{
		"an OvnEip that should go", addDifference("- "+objectKey+" {}", objectKey, eip), ObjectLeft, Warning, eip,
		objectKey, nil,
	},
	{
		"an element is gone", addDifference("+ "+elementKey+" {}", elementKey, project), ElementMissing, Error,
		clusterstate.RouterRef("acme-prod"), "default egress", nil,
	},
	{
		"an element was changed", addDifference("~ "+elementKey+" {} → {a}", elementKey, project), ElementChanged,
		Error,
		project, "policyRoutes", nil,
	},
	{
		"a row of nobody", func(s *clusterstate.State) {
			s.Logical.Routers[0].NATs[1].IDs = ownedBy(state.Ref{Kind: "FIp", Namespace: "acme-prod", Name: "gone"})
		}, LeakedRow, Warning,
		state.Ref{Kind: "FIp", Namespace: "acme-prod", Name: "gone"},
		"dnat_and_snat 100.65.0.13",
		nil,
	},
	{"an old question", func(s *clusterstate.State) {
		s.Cluster.Inspections = []clusterstate.Object{programmedObject(state.Ref{Kind: "Inspection", Name: "q"})}
	}, LeakedQuestion, Info, ClusterRef, "q", nil},
}

var addressFaults = []fault{
	{
		"a network is nearly full", func(s *clusterstate.State) {
			s.Cluster.Subnets[0].Free, s.Cluster.Subnets[0].Used = 5, 250
		},
		PoolLow, Warning, cloud, "5 of 255", nil,
	},
	{
		"a network is full", func(s *clusterstate.State) { s.Cluster.Subnets[0].Free, s.Cluster.Subnets[0].Used = 0, 250 },
		PoolLow, Warning, cloud, "no address left", nil,
	},
	{"another router has the address", func(s *clusterstate.State) {
		s.Logical.Routers = append(s.Logical.Routers, logical.Router{Name: "foe", NATs: []logical.NAT{{
			Type: "snat", External: addr("100.65.0.13"),
			Logical: prefix("10.0.0.0/8"),
		}}})
	}, AddressClash, Error, fip, "on router foe", nil},
	{"another load balancer has the port", func(s *clusterstate.State) {
		s.Logical.Routers[0].Balancers = append(s.Logical.Routers[0].Balancers, logical.LoadBalancer{
			Name: "foe", Protocol: "tcp", VIPs: []logical.VIP{{Address: port("100.65.0.15:80")}},
			IDs: logical.ExternalIDs{"vendor": "kube-ovn"},
		})
	}, AddressClash, Error, service, "load balancer foe", nil},
	{
		"an EIp has the gateway's address", func(s *clusterstate.State) { s.Cluster.EIps[0].Address = addr("100.65.0.1") },
		AddressClash, Error, eip, "gateway of network", nil,
	},
	{
		"a node has the address", func(s *clusterstate.State) {
			nodeAt(s, 0).Addresses = append(nodeAt(s, 0).Addresses, addr("100.65.0.15"))
		},
		AddressClash, Error, service, "node node1", nil,
	},
	{
		"a project overlaps with its network", func(s *clusterstate.State) {
			s.Cluster.Projects[0].Prefixes[0] = prefix("100.65.4.0/24")
		},
		Overlap, Error, project, "external network ext-cloud", nil,
	},
	{
		"a project overlaps with Services", func(s *clusterstate.State) {
			s.Cluster.Projects[0].Prefixes[0] = prefix("10.97.0.0/24")
		},
		Overlap, Warning, project, "of Services", nil,
	},
	{
		"a project overlaps with nodes", func(s *clusterstate.State) {
			s.Cluster.Projects[0].Prefixes[0] = prefix("172.30.0.0/16")
		},
		Overlap, Warning, project, "node node1", nil,
	},
	{"two subnets of a VPC overlap", func(s *clusterstate.State) {
		twin := s.Cluster.Subnets[1]
		twin.Name = "twin"
		s.Cluster.Subnets = append(s.Cluster.Subnets, twin)
		s.Logical.Switches = append(s.Logical.Switches, logical.Switch{Name: "twin"})
	}, Overlap, Error, state.Ref{Kind: "Subnet", Name: "twin"}, "acme-prod-default", nil},
}

func removeEndpoints(s *clusterstate.State) {
	s.Cluster.Services[0].Endpoints = nil
	s.Logical.Routers[0].Balancers[0].VIPs[0].Backends = []netip.AddrPort{port("10.20.0.3:8080")}
	setConditionFalse(clusterstate.Condition{Type: intent.HasEndpoints, Reason: intent.NoEndpoints}, serviceObject)(s)
}

func serviceObject(s *clusterstate.State) *clusterstate.Object { return &s.Cluster.Services[0].Object }
func eipObject(s *clusterstate.State) *clusterstate.Object     { return &s.Cluster.EIps[0].Object }
func fipObject(s *clusterstate.State) *clusterstate.Object     { return &s.Cluster.FIps[0].Object }

var serviceFaults = []fault{
	{
		"a wrong selector", combine(removeEndpoints, func(s *clusterstate.State) {
			s.Cluster.Services[0].Selector["app"] = "shp"
		}),
		SelectorMatchesNothing, Error, service, "app=shp", nil,
	},
	{
		"no pod is ready", combine(removeEndpoints, func(s *clusterstate.State) {
			s.Cluster.Pods[1].Ready, s.Cluster.Pods[1].Waiting = false, "ImagePullBackOff"
		}), PodsNotReady, Error, shopPod, "pod shop-1 is waiting: ImagePullBackOff", nil,
	},
	{
		"a port with a wrong name", combine(removeEndpoints, func(s *clusterstate.State) {
			s.Cluster.Services[0].Ports[0].Target = "http"
		}),
		NamedPortMissing, Error, service, `"http"`, nil,
	},
	{"a wrong port", func(s *clusterstate.State) {
		s.Cluster.Services[0].Ports[0].Target = "9090"
	}, TargetPortNotDeclared, Warning, service, "declare 8080", nil},
	{
		"endpoints that others write are missing", combine(removeEndpoints, func(s *clusterstate.State) {
			s.Cluster.Services[0].Selector = nil
		}),
		intent.NoEndpoints, Error, service, "", nil,
	},
	{"a backend that does not answer", func(s *clusterstate.State) {
		s.Logical.Monitors[0].Status = "offline"
	}, HealthCheckOffline, Error, shopPod, "1 of 1", nil},
	{"one of two backends that does not answer", func(s *clusterstate.State) {
		s.Logical.Monitors[0].Status = "offline"
		s.Cluster.Services[0].Endpoints = append(s.Cluster.Services[0].Endpoints,
			clusterstate.Endpoint{Address: port("10.20.0.2:8080"), Ready: true})
	}, HealthCheckOffline, Warning, service, "1 of 2", nil},
	{
		"a pod that does not listen on the target port", answerPort(clusterstate.PortClosed), NothingListens, Error, shopPod,
		"port 80 of Service acme-prod/shop leads to 10.20.0.3:8080 of pod shop-1, where nothing listens (1 of 1", nil,
	},
	{"one of two pods that does not listen", combine(answerPort(clusterstate.PortClosed), func(s *clusterstate.State) {
		s.Cluster.Services[0].Endpoints = append(s.Cluster.Services[0].Endpoints,
			clusterstate.Endpoint{Address: port("10.20.0.2:8080"), Ready: true, Pod: "web"})
		one := s.Inspected["node1"]
		one.Ports = []clusterstate.PortAnswer{
			{LogicalPort: "web.acme-prod", Address: port("10.20.0.2:8080"), Protocol: "tcp", Result: clusterstate.PortOpen},
		}
		s.Inspected["node1"] = one
	}), NothingListens, Warning, shopPod, "(1 of 2", nil},
	{"a firewall in a pod", answerPort(clusterstate.PortSilent), PortBlocked, Error, shopPod, "does not answer", nil},
	{"a firewall in a pod that rejects", answerPort(clusterstate.PortRejected), PortBlocked, Error, service, "", nil},
	{"a Service of another class", func(s *clusterstate.State) {
		s.Cluster.Services[0].Ours, s.Cluster.Services[0].Class, s.Cluster.Services[0].Ingress = false,
			"example.com/other", nil
	}, ServiceNotOurs, Warning, service, "example.com/other", nil},
}

// answerPort lets node2 report a result for the port of pod shop-1.
func answerPort(result string) func(*clusterstate.State) {
	return func(s *clusterstate.State) {
		two := s.Inspected["node2"]
		two.Ports = []clusterstate.PortAnswer{
			{LogicalPort: "shop-1.acme-prod", Address: port("10.20.0.3:8080"), Protocol: "tcp", Result: result},
		}
		s.Inspected["node2"] = two
	}
}

var floatingFaults = []fault{
	{
		"the pod crashes", func(s *clusterstate.State) {
			s.Cluster.Pods[0].Ready, s.Cluster.Pods[0].Waiting = false, "CrashLoopBackOff"
		},
		TargetNotReady, Error, fip, "CrashLoopBackOff", nil,
	},
	{
		"the pod's node is down", func(s *clusterstate.State) { nodeAt(s, 0).Ready, s.Cluster.Pods[0].Ready = false, false },
		NodeNotReady, Error, node1, "pod acme-prod/web",
		[]string{TargetNotReady},
	},
	{"the pod is not ready", func(s *clusterstate.State) {
		s.Cluster.Pods[0].Ready = false
	}, TargetNotReady, Warning, webPod, "is running but not ready", nil},
	{
		"the pod has another address", func(s *clusterstate.State) { s.Cluster.Pods[0].Addresses[0] = addr("10.20.0.7") },
		TargetMoved, Error, fip, "has 10.20.0.7", nil,
	},
	{
		"nobody has the target", func(s *clusterstate.State) {
			s.Cluster.FIps[0].Pod, s.Cluster.FIps[0].Target = "", addr("10.20.0.77")
		},
		TargetAbsent, Warning, fip, "10.20.0.77", nil,
	},
	{"an EgressIP for nobody", func(s *clusterstate.State) {
		s.Cluster.EgressIPs[0].Selects = 0
	}, EgressSelectsNothing, Warning, egressIP, "", nil},
	{
		"an egress address on a node that is gone", func(s *clusterstate.State) {
			s.Cluster.EgressIPs[0].Held["100.65.0.20"] = "node9"
		},
		EgressHolderDown, Error, egressIP, "node9", nil,
	},
	{
		"an EgressIP for pods of no project", selectsOutside, EgressOutsideProject, Error, egressIP,
		"edge/a, edge/b, edge/c and 1 more", nil,
	},
}

// selectsOutside makes an EgressIP select pods outside projects. Its condition says so as well, and is not reported
// again.
func selectsOutside(s *clusterstate.State) {
	for _, name := range []string{"edge/d", "edge/b", "edge/a", "edge/c"} {
		s.Cluster.EgressIPs[0].Outside.AddPod(name)
	}
	setConditionFalse(clusterstate.Condition{Type: "Programmed", Reason: intent.PodsNotServed},
		func(s *clusterstate.State) *clusterstate.Object {
			return &s.Cluster.EgressIPs[0].Object
		})(s)
}

var conditionFaults = []fault{
	{
		"an address that is taken", setConditionFalse(clusterstate.Condition{
			Type:    "Accepted",
			Reason:  intent.AddressTaken,
			Message: "held by x",
		}, eipObject),
		intent.AddressTaken, Error, eip, "held by x", nil,
	},
	{
		"a pool without addresses", setConditionFalse(clusterstate.Condition{
			Type:   "Programmed",
			Reason: intent.PoolExhausted,
		}, eipObject),
		intent.PoolExhausted, Error, eip, "No subnet of the network", nil,
	},
	{
		"a pod that does not exist", combine(setConditionFalse(clusterstate.Condition{
			Type:   "ResolvedRefs",
			Reason: intent.PodNotFound,
		}, fipObject),
			setConditionFalse(clusterstate.Condition{Type: "Programmed", Reason: intent.NotAccepted}, fipObject),
			func(s *clusterstate.State) { s.Cluster.FIps[0].Target = netip.Addr{} }),
		intent.PodNotFound, Error, fip, "", nil,
	},
	{
		"some ports are taken", setConditionFalse(clusterstate.Condition{Type: "Programmed", Reason: intent.SomePortTaken},
			serviceObject),
		intent.SomePortTaken, Warning, service, "", nil,
	},
	{
		"Kube-OVN does not do its part",
		setConditionFalse(clusterstate.Condition{Type: "Programmed", Reason: intent.WaitingForEngine}, eipObject),
		intent.WaitingForEngine, Error, eip, "", nil,
	},
	{
		"a NodePath that is disturbed", setConditionFalse(clusterstate.Condition{
			Type:   "Undisturbed",
			Reason: intent.Disturbed,
		},
			func(s *clusterstate.State) *clusterstate.Object { return &s.Cluster.NodePaths[0].Object }),
		intent.Disturbed, Warning,
		state.Ref{Kind: "NodePath", Name: "node1"},
		"", nil,
	},
}

func faults() []fault {
	return slices.Concat(readingFaults, controlPlaneFaults, nodeFaults, wireFaults, driftFaults, addressFaults,
		serviceFaults, floatingFaults, conditionFaults)
}

func TestHealthy(t *testing.T) {
	for _, f := range CheckCluster(healthySurvey()) {
		t.Errorf("a healthy cluster has %+v", f)
	}
}

func TestFaults(t *testing.T) {
	for _, f := range faults() {
		t.Run(f.name, func(t *testing.T) {
			s := healthySurvey()
			f.inject(s)
			found := CheckCluster(s)
			if len(found) == 0 {
				t.Fatalf("nothing is found, and %s should be", f.code)
			}
			first := found[0]
			if first.Code != f.code || first.Severity != f.severity {
				t.Errorf("found %s %s first, wanted %s %s; all: %+v", first.Severity, first.Code, f.severity, f.code,
					found)
			}
			if !slices.Contains(first.About, f.about) || !strings.Contains(first.Message, f.message) ||
				first.Remediation == "" {
				t.Errorf("%+v is not about %s, or does not say %q, or knows no cure", first, f.about, f.message)
			}
			var also []string
			for _, x := range found[1:] {
				also = append(also, x.Code)
			}
			slices.Sort(also)
			if also = slices.Compact(also); !slices.Equal(also, f.followUps) {
				t.Errorf("besides that, found %v, wanted %v: %+v", also, f.followUps, found[1:])
			}
		})
	}
}

// Every code has a fault that produces it.
func TestFaultsHaveEveryCode(t *testing.T) {
	shown := map[string]bool{}
	for _, f := range faults() {
		shown[f.code] = true
		for _, c := range f.followUps {
			shown[c] = true
		}
	}
	for _, c := range Codes {
		if !shown[c.Name] {
			t.Errorf("no fault shows %s", c.Name)
		}
	}
}

// Transient states are not reported.
func TestPassing(t *testing.T) {
	for what, young := range map[string]func(*clusterstate.State){
		"an object that is being programmed": setConditionFalse(clusterstate.Condition{
			Type: "Programmed", Reason: intent.Programming,
			Since: noon.Add(-time.Second),
		}, eipObject),
		"a new object without a status": func(s *clusterstate.State) {
			s.Cluster.EIps[0].Conditions, s.Cluster.EIps[0].Created = nil, noon.Add(-time.Second)
		},
		"what is written for an object that is not in force yet": combine(setConditionFalse(clusterstate.Condition{
			Type: "Programmed", Reason: intent.Programming,
			Since: noon.Add(-time.Second),
		}, eipObject),
			addDifference("+ "+natKey+" 10.20.0.2", natKey, eip)),
		"a lease that will soon be renewed": changeLease(0, func(l *clusterstate.Lease) {
			l.Renewed = noon.Add(-12 * time.Second)
		}),
		"a finalizer": addDifference("+ EIp acme-prod/fip-web finalizer", "EIp acme-prod/fip-web",
			eip),
		"a reply to nobody's connection": changeInspection("node1", func(i *clusterstate.NodeInspection) {
			i.Connection[0].State, i.Connection[0].ReplySource = "TIME_WAIT", port("10.20.0.9:8080")
		}),
		"an address that is none of ours": changeInspection("node1", func(i *clusterstate.NodeInspection) {
			i.Neighbours = append(i.Neighbours,
				clusterstate.Neighbour{Interface: "eth1", Address: addr("100.65.0.99"), MACs: []string{"02:00:00:00:00:66"}})
		}),
		"an address that only a router's port has": changeInspection("node1", func(i *clusterstate.NodeInspection) {
			i.Neighbours[1].MACs = nil
		}),
		"an address that its own node asks for": changeInspection("node1", func(i *clusterstate.NodeInspection) {
			i.Neighbours = i.Neighbours[:1]
		}),
	} {
		t.Run(what, func(t *testing.T) {
			s := healthySurvey()
			young(s)
			if found := CheckCluster(s); len(found) > 0 {
				t.Errorf("found %+v", found)
			}
		})
	}
}

// The same survey always gives the same findings, in the same order.
func TestSurveyInAFile(t *testing.T) {
	s := healthySurvey()
	for _, f := range nodeFaults[:6] {
		f.inject(s)
	}
	want := CheckCluster(s)
	raw, err := json.Marshal(want)
	if err != nil || len(want) < 3 {
		t.Fatalf("%d findings: %v", len(want), err)
	}
	for range 20 {
		if again, _ := json.Marshal(CheckCluster(s)); string(again) != string(raw) {
			t.Fatalf("once\n%s\nand once\n%s", raw, again)
		}
	}
	if !reflect.DeepEqual(CheckCluster(s), want) {
		t.Error("the order is not always the same")
	}
}

// The form of a key tells rows, Vpc list entries and objects apart.
func TestRead(t *testing.T) {
	row := intent.DNATAndSNAT{External: addr("100.65.0.13")}.Key("acme-prod")
	element, _ := intent.ExternalSubnetEntry("acme-prod", "ext-cloud")
	object := intent.ObjectKey{Kind: intent.OvnEip, Name: "x"}
	for _, c := range []struct {
		line state.Line
		want planTarget
	}{
		{
			state.Line{Key: row.String(), Text: "+ " + row.String()},
			planTarget{row: true, table: "NAT", id: "dnat_and_snat 100.65.0.13"},
		},
		{
			state.Line{Key: element.String(), Text: "+ " + element.String()},
			planTarget{vpcEntry: true, table: "Vpc", id: "ext-cloud"},
		},
		{state.Line{Key: object.String(), Text: "+ " + object.String()}, planTarget{id: "OvnEip x"}},
		{
			state.Line{Key: object.String(), Text: "+ " + object.String() + " " + intent.Finalizer{}.String()},
			planTarget{ignored: true},
		},
	} {
		if got := parsePlanLine(c.line); got != c.want {
			t.Errorf("%s is %+v, wanted %+v", c.line.Key, got, c.want)
		}
	}
}
