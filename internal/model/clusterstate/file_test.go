package clusterstate_test

import (
	"bytes"
	"net/netip"
	"reflect"
	"strings"
	"testing"
	"time"

	"github.com/sallyport/sallyport/internal/model/clusterstate"
	"github.com/sallyport/sallyport/internal/model/intent"
	"github.com/sallyport/sallyport/internal/model/state"
)

// The facts of a verdict are read as the same type, for every kind.
func TestSurveyIsReadBackAsItWasWritten(t *testing.T) {
	a := netip.MustParseAddr("203.0.113.7")
	var verdicts []intent.Verdict
	for kind, facts := range map[intent.Kind]any{
		intent.Project: intent.ProjectFacts{Namespace: "acme-shop", ExternalIP: a},
		intent.EIp: intent.EIpFacts{
			Address: a,
			Holders: []intent.ObjectKey{{Kind: intent.FIp, Namespace: "acme-shop", Name: "web"}},
		},
		intent.FIp: intent.FIpFacts{External: a, VM: &intent.VMInterface{VM: "db", Address: a}},
		intent.Service: intent.ServiceFacts{
			Address: a,
			Ports:   []intent.PortFacts{{Number: 80, Protocol: "tcp", Refused: intent.Finding{Reason: "PortTaken"}}},
		},
		intent.ExternalNetwork: intent.NetworkFacts{
			Return:  "Connection",
			Subnets: []intent.SubnetFacts{{Name: "ext", Gateway: a, Free: 3}},
		},
		intent.EgressIP:      intent.EgressIPFacts{Items: []intent.EgressIPAssignment{{Node: "node1", Address: a}}},
		intent.EgressService: intent.EgressPolicyFacts{Network: "ext", Address: a},
		intent.EgressRoute:   intent.EgressPolicyFacts{Pods: 4},
	} {
		verdicts = append(verdicts, intent.Verdict{
			Object: intent.ObjectKey{Kind: kind, Namespace: "acme-shop", Name: "web"}, Generation: 2, Facts: facts,
			Waiting: intent.Finding{Reason: "Waiting", Message: "for Kube-OVN"},
			Through: []state.Ref{{Kind: "EIp", Namespace: "acme-shop", Name: "front"}},
		})
	}
	s := &clusterstate.State{
		Taken: time.Date(2030, 1, 2, 3, 4, 5, 6, time.UTC),
		Cluster: clusterstate.Cluster{EIps: []clusterstate.EIp{
			{Address: a, UsedBy: []state.Ref{{Kind: "FIp", Name: "web"}}},
			{},
		}},
		Shards: []clusterstate.Shard{{
			Name:     "acme-shop",
			Verdicts: verdicts,
			Differs:  []clusterstate.Difference{{Scope: "rows", Line: state.Line{Text: "+ a", Held: true}}},
		}},
		Inspected: map[string]clusterstate.NodeInspection{"node1": {Problem: "no answer"}},
	}
	var file bytes.Buffer
	if err := s.Write(&file); err != nil {
		t.Fatal(err)
	}
	again, err := clusterstate.Read(&file, clusterstate.DefaultLimit)
	if err != nil || !reflect.DeepEqual(s, again) {
		t.Errorf("%v\ngot  %+v\nwant %+v", err, again, s)
	}
}

func TestWhatIsNoSurveyIsRefused(t *testing.T) {
	for _, text := range []string{"", "kind: Pod", "{}", `{"Taken": 5}`} {
		if s, err := clusterstate.Read(strings.NewReader(text), clusterstate.DefaultLimit); err == nil ||
			!strings.Contains(err.Error(), "not a survey") {
			t.Errorf("%q: %+v, %v", text, s, err)
		}
	}
}
