package explain_test

import (
	"flag"
	"net/netip"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"github.com/rogpeppe/go-internal/diff"

	"github.com/sallyport/sallyport/internal/insight/diagnosis"
	"github.com/sallyport/sallyport/internal/insight/explain"
	"github.com/sallyport/sallyport/internal/model/clusterstate"
	"github.com/sallyport/sallyport/internal/model/intent"
	"github.com/sallyport/sallyport/internal/model/state"
)

var update = flag.Bool("update", false, "rewrite what the cases in testdata want")

// gatewaySilent is a finding about a network.
var gatewaySilent = diagnosis.Finding{
	Code: "GatewaySilent", Severity: diagnosis.Error, About: []state.Ref{ref("ExternalNetwork", "", "public")},
	CauseRank: 5,
	Message:   "198.51.100.1 answers to no node", Remediation: "Look at the router of network public.",
}

// Each case is a file testdata/NAME.txt: the output of explain for a subject, after a change to the healthy survey.
var cases = map[string]struct {
	question string
	happens  func(*clusterstate.State)
	findings []diagnosis.Finding
	all      bool
}{
	"eip-shared":  {question: "eip/front"},
	"fip":         {question: "fip/db"},
	"fip-all":     {question: "fip/db", all: true},
	"service":     {question: "svc/web"},
	"service-all": {question: "service/web", all: true},
	"project":     {question: "project/prod"},
	"egressip":    {question: "egressip/out"},
	"egressip-outside": {question: "egressip/out", happens: func(s *clusterstate.State) {
		for _, name := range []string{"edge/d", "edge/b", "edge/a", "edge/c"} {
			s.Cluster.EgressIPs[0].Outside.AddPod(name)
		}
		s.Cluster.EgressIPs[0].Selects = 7
		s.Cluster.EgressIPs[0].Conditions = []clusterstate.Condition{{
			Type: "Programmed", Status: "False", Reason: intent.PodsNotServed,
			Message: "4 selected pods are of no project",
		}}
	}},
	"eip-refused": {question: "eip/fip-db-1", happens: func(s *clusterstate.State) {
		for i := range s.Cluster.EIps {
			if o := &s.Cluster.EIps[i]; o.Name == "fip-db-1" {
				o.Address, s.Cluster.FIps[0].External = netip.Addr{}, netip.Addr{}
			}
		}
	}},
	"fip-closed": {question: "fip/db", happens: func(s *clusterstate.State) {
		for i := range s.Cluster.Pods {
			if s.Cluster.Pods[i].Name == "db-0" {
				s.Cluster.Pods[i].Ports = []int{5432}
			}
		}
		s.Inspected = map[string]clusterstate.NodeInspection{"node1": {Ports: []clusterstate.PortAnswer{{
			LogicalPort: "db-0.acme-prod", Address: netip.MustParseAddrPort("10.0.0.9:5432"), Protocol: "tcp",
			Result: clusterstate.PortClosed,
		}}}}
	}},
	"egressroute":   {question: "egressroute/partners"},
	"network":       {question: "network/public"},
	"node":          {question: "node/node2"},
	"address-fip":   {question: "198.51.100.8"},
	"address-eip":   {question: "198.51.100.7"},
	"address-snat":  {question: "100.65.0.2"},
	"address-gw":    {question: "198.51.100.1"},
	"address-pod":   {question: "10.0.0.9"},
	"address-free":  {question: "198.51.100.200"},
	"address-alien": {question: "192.0.2.1"},
	"gateway-silent": {
		question: "eip/front", findings: []diagnosis.Finding{gatewaySilent, {
			Code: "Elsewhere", Severity: diagnosis.Error, About: []state.Ref{ref("ExternalNetwork", "", "other")},
			Message: "not this one's business",
		}},
	},
	"fip-row-deleted": {question: "fip/db", happens: func(s *clusterstate.State) {
		r := &s.Logical.Routers[0]
		r.NATs = slices.Delete(r.NATs, 2, 3)
		shard := &s.Shards[0]
		i := slices.IndexFunc(shard.Wanted, func(w clusterstate.DesiredEntry) bool {
			return strings.HasPrefix(w.Text, "NAT")
		})
		shard.Wanted[i].There = false
		line := shard.Wanted[i].Line
		line.Text = "+ " + line.Text
		shard.Differs = []clusterstate.Difference{{Scope: "rows", Line: line}}
	}},
	"service-refused": {question: "svc/mail", happens: func(s *clusterstate.State) {
		s.Cluster.Services[0].Ingress = nil
		s.Shards[0].Verdicts = append(s.Shards[0].Verdicts, intent.Verdict{
			Object: intent.ObjectKey{Kind: intent.Service, Namespace: "acme-prod", Name: "mail"},
			Facts:  intent.ServiceFacts{Lonely: true},
			Accepted: intent.Finding{
				Reason:  intent.PortTaken,
				Message: "Service acme-prod/web has tcp 25 of EIp front",
			},
		})
	}},
	"nobody-holds": {question: "fip/db", happens: func(s *clusterstate.State) { s.Logical.Routers[0].Ports[2].Holder = "" }},
	"northbound-unread": {question: "fip/db", happens: func(s *clusterstate.State) {
		s.Logical.Routers, s.Shards = nil, nil
		s.Unread = []clusterstate.ReadFailure{{System: clusterstate.Northbound, Problem: "tcp:10.0.0.1:6641: connection refused"}}
	}},
}

func TestExplanations(t *testing.T) {
	for name, c := range cases {
		t.Run(name, func(t *testing.T) {
			s := healthySurvey()
			if c.happens != nil {
				c.happens(s)
			}
			got := "$ sallyport explain " + c.question + "\n" + explainQuestion(t, s, c.question,
				c.findings).Text(c.all)
			path := filepath.Join("testdata", name+".txt")
			want, err := os.ReadFile(path)
			if err != nil && !*update {
				t.Fatal(err)
			}
			if got == string(want) {
				return
			}
			if !*update {
				t.Fatalf("differs (make golden rewrites it):\n%s", diff.Diff("wanted", want, "got", []byte(got)))
			}
			if err := os.WriteFile(path, []byte(got), 0o600); err != nil {
				t.Fatal(err)
			}
		})
	}
}

func explainQuestion(t *testing.T, s *clusterstate.State, question string,
	findings []diagnosis.Finding,
) explain.Explanation {
	t.Helper()
	subject, err := explain.Resolve(s, question, "")
	if err != nil {
		t.Fatal(err)
	}
	return subject.Explain(s, findings)
}
