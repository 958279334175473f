package view

import (
	"fmt"
	"strings"
	"syscall"
	"testing"

	"github.com/sallyport/sallyport/test/e2e/harness"
)

// whileControllerStopped stops the controller until the test ends, so that changes of rows are not repaired.
func whileControllerStopped(hand func(*faultFixture, *testing.T)) func(*faultFixture, *testing.T) {
	return func(w *faultFixture, t *testing.T) {
		w.Stop(syscall.SIGTERM)
		t.Cleanup(func() { w.Start(t) })
		hand(w, t)
		w.SyncFlows(t)
	}
}

// nbctlAction runs ovn-nbctl. {row TABLE CONDITION} is replaced by the rows that match a condition.
func nbctlAction(args ...string) func(*faultFixture, *testing.T) {
	return func(w *faultFixture, t *testing.T) {
		var words []string
		for _, arg := range args {
			if query, found := strings.CutPrefix(arg, "row "); found {
				rows := strings.Fields(w.RunNbctl(t,
					append([]string{"--bare", "--columns=_uuid", "find"}, strings.Fields(query)...)...))
				if len(rows) == 0 {
					t.Fatalf("there is no row %s", query)
				}
				words = append(words, rows...)
				continue
			}
			words = append(words, arg)
		}
		w.RunNbctl(t, words...)
	}
}

// rowFaults are rows that were changed while the controller was stopped.
var rowFaults = []fault{
	{
		what: "the load balancer's row is deleted", from: "internet", target: shopURL, command: "trace {out} {shop}:80",
		wantCode: "RowMissing", wantAbout: "Service hall-ward/shop", inCI: true,
		inject: whileControllerStopped(nbctlAction("--all", "destroy", "load_balancer")),
	},
	{
		what: "the load balancer is taken off the router", from: "internet", target: shopURL,
		command: "trace {out} {shop}:80", wantCode: "RowChanged", wantAbout: "LoadBalancer hall-ward/shared",
		inject: whileControllerStopped(nbctlAction("clear", "logical_router", "hall-ward", "load_balancer")),
	},
	{
		what: "the load balancer leads elsewhere", from: "internet", target: shopURL, command: "trace {out} {shop}:80",
		wantCode: "RowChanged", wantAbout: "Service hall-ward/shop",
		inject: whileControllerStopped(func(w *faultFixture, t *testing.T) {
			for _, row := range strings.Fields(w.RunNbctl(t, "--bare", "--columns=_uuid", "find", "load_balancer",
				"external_ids:sallyport-vpc=hall-ward", "protocol=tcp")) {
				w.RunNbctl(t, "set", "load_balancer", row, fmt.Sprintf(`vips:"%s:80"="10.70.0.250:80"`, shopAddress))
			}
		}),
	},
	{
		what: "the floating IP's translation is deleted", from: "internet", target: deskURL,
		command: "trace {out} {desk}:80", wantCode: "RowMissing", wantAbout: "FIp hall-ward/desk",
		inject: whileControllerStopped(nbctlAction("lr-nat-del", "hall-ward", "dnat_and_snat", deskAddress)),
	},
	{
		what: "the floating IP's translation leads elsewhere", from: "internet", target: deskURL,
		command: "trace {out} {desk}:80", wantCode: "RowChanged", wantAbout: "FIp hall-ward/desk",
		inject: whileControllerStopped(nbctlAction("set", "nat", "row nat external_ip="+deskAddress,
			"logical_ip=10.70.0.251")),
	},
	{
		what: "the translation of the way out is deleted", from: "pod/b1", target: internetURL,
		command: "trace --from pod/b1 -n hall-ward {out}:80", wantCode: "RowMissing", wantAbout: "Project hall/ward",
		inCI:   true,
		inject: whileControllerStopped(nbctlAction("lr-nat-del", "hall-ward", "snat", "10.70.0.0/24")),
	},
	{
		what: "the policy of the way out has another next hop", from: "pod/b1", target: internetURL,
		command:  "trace --from pod/b1 -n hall-ward {out}:80",
		wantCode: "RowChanged", wantAbout: "Project hall/ward",
		// the policy for pods without an EgressIP
		inject: whileControllerStopped(func(w *faultFixture, t *testing.T) {
			w.setRouterPolicy(t, "1900", "nexthops=100.65.0.99")
		}),
	},
	{
		what: "the policy of replies is gone", from: "internet", target: shopURL, command: "trace {out} {shop}:80",
		wantCode: "RowMissing", wantAbout: "ReturnPath hall-ward/ext-public",
		inject: whileControllerStopped(nbctlAction("lr-policy-del", "hall-ward", "30010")),
	},
	{
		what: "the return leg's port is gone", from: "internet", target: shopURL, command: "trace {out} {shop}:80",
		wantCode: "RowMissing", wantAbout: "ReturnPath hall-ward/ext-public",
		inject: whileControllerStopped(nbctlAction("lrp-del", "hall-ward-hall-ward-default-return-ext-public")),
	},
	{
		what: "the return leg has another MAC address", from: "internet", target: shopURL,
		command: "trace {out} {shop}:80", wantCode: "RowChanged", wantAbout: "ReturnPath hall-ward/ext-public",
		inject: whileControllerStopped(nbctlAction("set", "logical_router_port",
			"hall-ward-hall-ward-default-return-ext-public", `mac="0a:00:00:00:00:01"`)),
	},
	{
		what: "the marks of replies are gone", from: "internet", target: shopURL, command: "trace {out} {shop}:80",
		wantCode: "RowMissing", wantAbout: "ReturnPath hall-ward/ext-public",
		inject: whileControllerStopped(nbctlAction("remove", "logical_switch", "hall-ward-default", "qos_rules",
			"row qos external_ids:sallyport-owner=ReturnPath/hall-ward/ext-public")),
	},
	{
		what: "the egress address is no longer translated", from: "pod/b3", target: internetURL,
		command: "trace --from pod/b3 -n hall-ward {out}:80", wantCode: "RowMissing", wantAbout: "EgressIP mail",
		inject: whileControllerStopped(func(w *faultFixture, t *testing.T) {
			row := strings.Fields(w.RunNbctl(t, "--bare", "--columns=_uuid", "find", "nat", "external_ip="+mailAddress))
			router := w.RunNbctl(t, "--bare", "--columns=name", "find", "logical_router", "nat{>=}"+row[0])
			w.RunNbctl(t, "remove", "logical_router", router, "nat", row[0])
		}),
	},
}

// foreignRowFaults are rows that others created.
var foreignRowFaults = []fault{
	{
		what: "somebody's policy drops it", from: "internet", target: shopURL, command: "trace {out} {shop}:80",
		wantCode: "ForeignPolicyDrops", wantAbout: "Project hall/ward", inCI: true,
		inject: func(w *faultFixture, t *testing.T) {
			w.RunNbctl(t, "--", "--id=@p", "create", "logical_router_policy", "priority=32000",
				`match="ip4.dst == 10.70.0.0/24 || ip4.src == 10.70.0.0/24"`, "action=drop",
				"external_ids:vpc-egress-gateway=manual", "--", "add", "logical_router", "hall-ward", "policies", "@p")
			t.Cleanup(func() { w.RunNbctl(t, "lr-policy-del", "hall-ward", "32000") })
		},
	},
	{
		what: "somebody's rule on the switch drops it", from: "internet", target: shopURL,
		command: "trace {out} {shop}:80", wantCode: "RuleDrops", wantAbout: "Project hall/ward",
		inject: func(w *faultFixture, t *testing.T) {
			w.RunNbctl(t, "acl-add", "hall-ward-default", "to-lport", "3000", "ip4.dst == "+w.backendAddress(t), "drop")
			t.Cleanup(func() {
				w.RunNbctl(t, "acl-del", "hall-ward-default", "to-lport", "3000", "ip4.dst == "+w.backendAddress(t))
			})
		},
	},
	{
		what: "another router has the address too", command: "explain {shop}", wantCode: "AddressClash",
		wantAbout: "Service hall-ward/shop",
		inject: func(w *faultFixture, t *testing.T) {
			other := w.CreateProject(t, "hall", "rival", "10.71.0.0/24", "cloud")
			w.CreateEIP(t, other, "foothold", "{externalNetworkType: public}")
			w.RunNbctl(t, "lr-nat-add", other, "dnat_and_snat", shopAddress, "10.71.0.9")
			t.Cleanup(func() { w.RunNbctl(t, "--if-exists", "lr-nat-del", other, "dnat_and_snat", shopAddress) })
		},
	},
	{
		what: "somebody has written a route to a project's router", command: "doctor", wantCode: "RowForeign",
		wantAbout: "Router hall-ward",
		inject: func(w *faultFixture, t *testing.T) {
			w.RunNbctl(t, "lr-route-add", "hall-ward", "198.51.100.0/24", "100.65.0.77")
			t.Cleanup(func() { w.RunNbctl(t, "--if-exists", "lr-route-del", "hall-ward", "198.51.100.0/24") })
		},
	},
	{
		what: "somebody's policy leads it elsewhere", from: "pod/b1", target: internetURL,
		command:  "trace --from pod/b1 -n hall-ward {out}:80",
		wantCode: "WrongGateway", wantAbout: "Subnet ext-cloud",
		inject: func(w *faultFixture, t *testing.T) {
			w.RunNbctl(t, "lr-policy-add", "hall-ward", "31500", "ip4.dst == "+harness.InternetAddress, "reroute",
				"100.65.0.77")
			t.Cleanup(func() { w.RunNbctl(t, "lr-policy-del", "hall-ward", "31500") })
		},
	},
}

// backendAddress returns the address of the pod behind the Service.
func (w *faultFixture) backendAddress(t *testing.T) string {
	return w.ReadField(t, "Pod", w.Namespace, "till", "status", "podIP")
}

// setRouterPolicy changes the policies of a priority on the lab's router.
func (w *faultFixture) setRouterPolicy(t *testing.T, priority, set string) {
	t.Helper()
	on := w.RunNbctl(t, "--bare", "--columns=policies", "list", "logical_router", "hall-ward")
	for _, row := range strings.Fields(w.RunNbctl(t, "--bare", "--columns=_uuid", "find", "logical_router_policy",
		"priority="+priority)) {
		if strings.Contains(on, row) {
			w.RunNbctl(t, "set", "logical_router_policy", row, set)
		}
	}
}
