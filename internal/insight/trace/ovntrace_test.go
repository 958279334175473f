package trace

import (
	"slices"
	"strings"
	"testing"
)

// A packet to a floating IP has a step in every router and switch on its path and on that of its reply.
func TestStepsOfAWay(t *testing.T) {
	p := traceOnePath(t, shopSurvey(), queryFromClient(internet, floatingIP+":80"))
	hairpin := "acme-shop-acme-shop-default-return"
	want := []string{
		"> ext-public 198.51.100.20:80 → ext-public-acme-shop",
		"> acme-shop 198.51.100.20:80 → " + hairpin + "-ext-public",
		"> acme-shop-default 10.0.0.2:80 → web.acme-shop",
		"< acme-shop-default 203.0.113.10:50000 → acme-shop-default-acme-shop",
		"< acme-shop 203.0.113.10:50000 → " + hairpin,
		"< acme-shop-default 203.0.113.10:50000 → acme-shop-default-acme-shop-return-ext-public",
		"< acme-shop 203.0.113.10:50000 → acme-shop-ext-public",
		"< ext-public 203.0.113.10:50000 → localnet.ext-public",
	}
	var got []string
	for _, s := range p.Steps {
		direction := "> "
		if s.IsReply {
			direction = "< "
		}
		got = append(got, direction+s.Datapath+" "+flowField(s.Microflow, "ip4.dst")+":"+flowField(s.Microflow,
			"tcp.dst")+" → "+s.Outport)
	}
	if !slices.Equal(got, want) {
		t.Errorf("asks\n%s\nwanted\n%s", strings.Join(got, "\n"), strings.Join(want, "\n"))
	}
	if reply := p.Steps[3].OVNTraceArgs(); reply[0] != "--ct=trk,est,rpl" ||
		!strings.Contains(p.Steps[4].Microflow, "pkt.mark == ") {
		t.Errorf("the reply is asked about as %q, then as %q", reply, p.Steps[4].Microflow)
	}
}

// flowField returns the value of a field in a microflow.
func flowField(flow, field string) string {
	_, rest, _ := strings.Cut(flow, field+" == ")
	value, _, _ := strings.Cut(rest, " ")
	return value
}

// The step of a load balancer names the backend of the path. Drops by ACLs have a step; drops by nodes have none.
func TestStepsOfChoicesAndDrops(t *testing.T) {
	for i, p := range New(shopSurvey()).Trace(queryFromClient(internet, loadBalancerIP+":80")).Paths {
		backend := []string{"--lb-dst=10.0.0.2:8080", "--lb-dst=10.0.0.3:8080"}[i]
		if !slices.ContainsFunc(p.Steps, func(s DatapathStep) bool {
			return slices.Contains(s.OVNTraceArgs(), backend)
		}) {
			t.Errorf("nobody is asked about %s: %+v", backend, p.Steps)
		}
	}
	sticky := shopSurvey()
	sticky.Logical.Router(shop).Balancers[0].Options["affinity_timeout"] = "10800" // ovn-trace stops there
	for _, p := range New(sticky).Trace(queryFromClient(internet, loadBalancerIP+":80")).Paths {
		if slices.ContainsFunc(p.Steps, func(s DatapathStep) bool { return s.Datapath == shop && !s.IsReply }) {
			t.Errorf("ovn-trace is asked about a load balancer with affinity: %+v", p.Steps)
		}
	}
	// nor does ovn-trace hairpin
	for _, p := range New(shopSurvey()).Trace(queryFromPod("web", loadBalancerIP+":80")).Paths {
		if slices.ContainsFunc(p.Steps, func(s DatapathStep) bool {
			return s.Outport == "web.acme-shop" && strings.Contains(s.Microflow, `inport == "web.acme-shop"`)
		}) {
			t.Errorf("ovn-trace is asked about a pod that asks itself: %+v", p.Steps)
		}
	}
	s := shopSurvey()
	addNetworkPolicy(s, "198.51.100.0/24")
	steps := traceOnePath(t, s, queryFromClient(internet, floatingIP+":80")).Steps
	if last := steps[len(steps)-1]; last.Datapath != pods || last.Outport != "" {
		t.Errorf("the last step is %+v", last)
	}
	s = shopSurvey()
	s.Logical.Switch(pods).Ports[0].Chassis = ""
	steps = traceOnePath(t, s, queryFromClient(internet, floatingIP+":80")).Steps
	if last := steps[len(steps)-1]; last.Datapath != shop {
		t.Errorf("flows are asked about a pod on no node: %+v", last)
	}
}

// A frame for a gateway port that another node holds is sent there over the physical network. ovn-trace does not model
// nodes: there is a step only where the frame arrives.
func TestStepsOverTheWire(t *testing.T) {
	s := shopSurvey()
	addEgressIP(s)
	for _, r := range s.Logical.Routers {
		for i := range r.Ports {
			if p := &r.Ports[i]; p.Name == "egress-ext-public" || p.Name == "shop-end" {
				r.Ports[i].Holder = "c2"
			}
		}
	}
	p := traceOnePath(t, s, queryFromPod("db", floatingIP+":80"))
	assertVerdict(t, p, Delivered, "")
	var crossed []string
	for _, step := range p.Steps {
		if step.Datapath == "ext-public" && !step.IsReply {
			crossed = append(crossed, step.Outport)
		}
	}
	if !slices.Equal(crossed, []string{"ext-public-acme-shop"}) {
		t.Errorf("on the wire it goes to %v\n%s", crossed, formatPath(p))
	}
}

// ovnTraceOutput is output of ovn-trace for a packet that leaves a router and enters a switch.
const ovnTraceOutput = `# tcp,reg14=0x2,vlan_tci=0x0000,nw_src=203.0.113.10,nw_dst=198.51.100.20

ingress(dp="acme-shop", inport="acme-shop-ext-public")
------------------------------------------------------
 0. lr_in_admission (northd.c:13): eth.dst == 0a:5a:a6:e9:c3:c3, priority 50, uuid 00000001
    next;
 4. lr_in_dnat (northd.c:16): ip && ip4.dst == 198.51.100.20, priority 100, uuid 00000002
    ct_dnat(10.0.0.2);

egress(dp="acme-shop", inport="acme-shop-ext-public", outport="acme-shop-acme-shop-default")
-------------------------------------------------------------------------------------------
 6. lr_out_delivery (northd.c:16): outport == "acme-shop-acme-shop-default", priority 100, uuid 00000003
    output;
    /* output to "acme-shop-acme-shop-default", type "patch" */

ingress(dp="acme-shop-default", inport="acme-shop-default-acme-shop")
---------------------------------------------------------------------
egress(dp="acme-shop-default", inport="acme-shop-default-acme-shop", outport="web.acme-shop")
---------------------------------------------------------------------------------------------
    /* output to "web.acme-shop", type "" */
`

func TestStepAgrees(t *testing.T) {
	dropped := ovnTraceOutput[:strings.Index(ovnTraceOutput, "egress(")] + "drop;\n"
	for _, c := range []struct {
		output, said string
		agrees       bool
		instead      string
	}{
		{"acme-shop-acme-shop-default", ovnTraceOutput, true, ""},
		{"acme-shop-ext-cloud", ovnTraceOutput, false, "to port acme-shop-acme-shop-default"},
		{"", ovnTraceOutput, false, "to port acme-shop-acme-shop-default"},
		{"acme-shop-acme-shop-default", dropped, false, "nowhere"},
		{"", dropped, true, ""},
		{"web.acme-shop", ovnTraceOutput, false, "to port acme-shop-acme-shop-default"}, // belongs to the next step
		{"", `unknown datapath "acme-shop"`, false, `do not know it: unknown datapath "acme-shop"`},
	} {
		agrees, instead := DatapathStep{Datapath: shop, Outport: c.output}.AgreesWithOutput(c.said)
		if agrees != c.agrees || !agrees && instead != c.instead {
			t.Errorf("rows lead it to %q: %t, flows %s", c.output, agrees, instead)
		}
	}
}
