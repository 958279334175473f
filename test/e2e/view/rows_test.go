package view

import (
	"fmt"
	"strings"
	"syscall"
	"testing"

	"github.com/sallyport/sallyport/test/e2e/harness"
)

// unattended lets the controller be away until the test ends: what is then done to rows, stays.
func unattended(hand func(*faultLab, *testing.T)) func(*faultLab, *testing.T) {
	return func(w *faultLab, t *testing.T) {
		w.Stop(syscall.SIGTERM)
		t.Cleanup(func() { w.Start(t) })
		hand(w, t)
		w.SyncFlows(t)
	}
}

// northbound does something with ovn-nbctl. {row TABLE CONDITION} stands for the rows that meet a condition.
func northbound(args ...string) func(*faultLab, *testing.T) {
	return func(w *faultLab, t *testing.T) {
		var words []string
		for _, arg := range args {
			if query, found := strings.CutPrefix(arg, "row "); found {
				rows := strings.Fields(w.RunNbctl(t, append([]string{"--bare", "--columns=_uuid", "find"}, strings.Fields(query)...)...))
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

// faultsOfRows are rows that somebody has changed while the controller was away.
var faultsOfRows = []fault{
	{
		what: "the load balancer's row is deleted", from: "internet", asks: pinged, types: "trace {out} {shop}:80", cause: "RowMissing", about: "Service hall-ward/shop", sample: true,
		inject: unattended(northbound("--all", "destroy", "load_balancer")),
	},
	{
		what: "the load balancer is taken off the router", from: "internet", asks: pinged, types: "trace {out} {shop}:80", cause: "RowChanged", about: "Service hall-ward/shop",
		inject: unattended(northbound("clear", "logical_router", "hall-ward", "load_balancer")),
	},
	{
		what: "the load balancer leads elsewhere", from: "internet", asks: pinged, types: "trace {out} {shop}:80", cause: "RowChanged", about: "Service hall-ward/shop",
		inject: unattended(func(w *faultLab, t *testing.T) {
			for _, row := range strings.Fields(w.RunNbctl(t, "--bare", "--columns=_uuid", "find", "load_balancer", "external_ids:sallyport-vpc=hall-ward", "protocol=tcp")) {
				w.RunNbctl(t, "set", "load_balancer", row, fmt.Sprintf(`vips:"%s:80"="10.70.0.250:80"`, shopAddress))
			}
		}),
	},
	{
		what: "the floating IP's translation is deleted", from: "internet", asks: dialed, types: "trace {out} {desk}:80", cause: "RowMissing", about: "FIp hall-ward/desk",
		inject: unattended(northbound("lr-nat-del", "hall-ward", "dnat_and_snat", deskAddress)),
	},
	{
		what: "the floating IP's translation leads elsewhere", from: "internet", asks: dialed, types: "trace {out} {desk}:80", cause: "RowChanged", about: "FIp hall-ward/desk",
		inject: unattended(northbound("set", "nat", "row nat external_ip="+deskAddress, "logical_ip=10.70.0.251")),
	},
	{
		what: "the translation of the way out is deleted", from: "pod/b1", asks: calls, types: "trace --from pod/b1 -n hall-ward {out}:80", cause: "RowMissing", about: "Project hall/ward",
		sample: true,
		inject: unattended(northbound("lr-nat-del", "hall-ward", "snat", "10.70.0.0/24")),
	},
	{
		what: "the policy of the way out has another next hop", from: "pod/b1", asks: calls, types: "trace --from pod/b1 -n hall-ward {out}:80",
		cause: "RowChanged", about: "Project hall/ward",
		inject: unattended(func(w *faultLab, t *testing.T) { w.policy(t, "1900", "nexthops=100.65.0.99") }), // that of pods without an EgressIP
	},
	{
		what: "the policy of replies is gone", from: "internet", asks: pinged, types: "trace {out} {shop}:80", cause: "RowMissing", about: "ReturnPath hall-ward/ext-public",
		inject: unattended(northbound("lr-policy-del", "hall-ward", "30010")),
	},
	{
		what: "the return leg's port is gone", from: "internet", asks: pinged, types: "trace {out} {shop}:80", cause: "RowMissing", about: "ReturnPath hall-ward/ext-public",
		inject: unattended(northbound("lrp-del", "hall-ward-hall-ward-default-return-ext-public")),
	},
	{
		what: "the return leg has another MAC address", from: "internet", asks: pinged, types: "trace {out} {shop}:80", cause: "RowChanged", about: "ReturnPath hall-ward/ext-public",
		inject: unattended(northbound("set", "logical_router_port", "hall-ward-hall-ward-default-return-ext-public", `mac="0a:00:00:00:00:01"`)),
	},
	{
		what: "the marks of replies are gone", from: "internet", asks: pinged, types: "trace {out} {shop}:80",
		cause: "RowMissing", about: "ReturnPath hall-ward/ext-public",
		inject: unattended(northbound("remove", "logical_switch", "hall-ward-default", "qos_rules", "row qos external_ids:sallyport-owner=ReturnPath/hall-ward/ext-public")),
	},
	{
		what: "the egress address is no longer translated", from: "pod/b3", asks: calls, types: "trace --from pod/b3 -n hall-ward {out}:80", cause: "RowMissing", about: "EgressIP mail",
		inject: unattended(func(w *faultLab, t *testing.T) {
			row := strings.Fields(w.RunNbctl(t, "--bare", "--columns=_uuid", "find", "nat", "external_ip="+mailAddress))
			router := w.RunNbctl(t, "--bare", "--columns=name", "find", "logical_router", "nat{>=}"+row[0])
			w.RunNbctl(t, "remove", "logical_router", router, "nat", row[0])
		}),
	},
}

// faultsOfOthers are rows that somebody else has made.
var faultsOfOthers = []fault{
	{
		what: "somebody's policy drops it", from: "internet", asks: pinged, types: "trace {out} {shop}:80", cause: "ForeignPolicyDrops", about: "Project hall/ward", sample: true,
		inject: func(w *faultLab, t *testing.T) {
			w.RunNbctl(t, "--", "--id=@p", "create", "logical_router_policy", "priority=32000", `match="ip4.dst == 10.70.0.0/24 || ip4.src == 10.70.0.0/24"`, "action=drop",
				"external_ids:vpc-egress-gateway=manual", "--", "add", "logical_router", "hall-ward", "policies", "@p")
			t.Cleanup(func() { w.RunNbctl(t, "lr-policy-del", "hall-ward", "32000") })
		},
	},
	{
		what: "somebody's rule on the switch drops it", from: "internet", asks: pinged, types: "trace {out} {shop}:80", cause: "RuleDrops", about: "Project hall/ward",
		inject: func(w *faultLab, t *testing.T) {
			w.RunNbctl(t, "acl-add", "hall-ward-default", "to-lport", "3000", "ip4.dst == "+w.address(t), "drop")
			t.Cleanup(func() { w.RunNbctl(t, "acl-del", "hall-ward-default", "to-lport", "3000", "ip4.dst == "+w.address(t)) })
		},
	},
	{
		what: "another router has the address too", types: "explain {shop}", cause: "AddressClash", about: "Service hall-ward/shop",
		inject: func(w *faultLab, t *testing.T) {
			other := w.CreateProject(t, "hall", "rival", "10.71.0.0/24", "cloud")
			w.CreateEIP(t, other, "foothold", "{externalNetworkType: public}")
			w.RunNbctl(t, "lr-nat-add", other, "dnat_and_snat", shopAddress, "10.71.0.9")
			t.Cleanup(func() { w.RunNbctl(t, "--if-exists", "lr-nat-del", other, "dnat_and_snat", shopAddress) })
		},
	},
	{
		what: "somebody has written a route to a project's router", types: "doctor", cause: "RowForeign", about: "Router hall-ward",
		inject: func(w *faultLab, t *testing.T) {
			w.RunNbctl(t, "lr-route-add", "hall-ward", "198.51.100.0/24", "100.65.0.77")
			t.Cleanup(func() { w.RunNbctl(t, "--if-exists", "lr-route-del", "hall-ward", "198.51.100.0/24") })
		},
	},
	{
		what: "somebody's policy leads it elsewhere", from: "pod/b1", asks: calls, types: "trace --from pod/b1 -n hall-ward {out}:80",
		cause: "WrongGateway", about: "Subnet ext-cloud",
		inject: func(w *faultLab, t *testing.T) {
			w.RunNbctl(t, "lr-policy-add", "hall-ward", "31500", "ip4.dst == "+harness.InternetAddress, "reroute", "100.65.0.77")
			t.Cleanup(func() { w.RunNbctl(t, "lr-policy-del", "hall-ward", "31500") })
		},
	},
}

// address is the address of the pod behind the Service.
func (w *faultLab) address(t *testing.T) string {
	return w.ReadField(t, "Pod", w.Ns, "till", "status", "podIP")
}

// policy changes the policies of a priority of the lab's router.
func (w *faultLab) policy(t *testing.T, priority, set string) {
	t.Helper()
	on := w.RunNbctl(t, "--bare", "--columns=policies", "list", "logical_router", "hall-ward")
	for _, row := range strings.Fields(w.RunNbctl(t, "--bare", "--columns=_uuid", "find", "logical_router_policy", "priority="+priority)) {
		if strings.Contains(on, row) {
			w.RunNbctl(t, "set", "logical_router_policy", row, set)
		}
	}
}
