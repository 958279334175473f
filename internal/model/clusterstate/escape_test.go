package clusterstate_test

import (
	"bytes"
	"reflect"
	"strings"
	"testing"
	"time"

	"github.com/sallyport/sallyport/internal/model/clusterstate"
	"github.com/sallyport/sallyport/internal/model/clusterstate/clusterstatetest"
	"github.com/sallyport/sallyport/internal/model/intent"
	"github.com/sallyport/sallyport/internal/model/logical"
	"github.com/sallyport/sallyport/internal/model/state"
)

// All strings in a survey are escaped, and the original is not changed.
func TestSurveyIsVisible(t *testing.T) {
	const bad, good = "x\x1b[2J\n\u202e", `x\u001b[2J\n\u202e`
	build := func(text string) clusterstate.State {
		object := clusterstate.Object{Labels: map[string]string{text: text}, Conditions: []clusterstate.Condition{{Message: text}}}
		object.Name = text
		return clusterstate.State{
			Taken: time.Unix(1, 0).UTC(),
			Cluster: clusterstate.Cluster{
				Pods:   []clusterstate.Pod{{Object: object, Waiting: text, PortNames: []string{"http", text}}},
				Absent: []string{"a", text},
				Events: []clusterstate.Event{{About: state.Ref{Kind: text}, Message: text}},
			},
			Shards: []clusterstate.Shard{{Verdicts: []intent.Verdict{{
				Accepted: intent.Finding{Reason: text, Message: text},
				Facts:    intent.FIpFacts{EIp: text, VM: &intent.VMInterface{VM: text}},
			}}}},
			Inspected: map[string]clusterstate.NodeInspection{text: {Problems: []string{text}}},
			Unread:    []clusterstate.ReadFailure{{Problem: text}},
		}
	}
	given := build(bad)
	if got := clusterstate.EscapeControlChars(given); !reflect.DeepEqual(got, build(good)) {
		t.Errorf("got  %+v\nwant %+v", got, build(good))
	}
	if !reflect.DeepEqual(given, build(bad)) {
		t.Error("the survey that was given has changed")
	}
	rows := clusterstate.State{Logical: logical.Network{Routers: []logical.Router{{Policies: []logical.RouterPolicy{{Match: "ip4.src == 10.0.0.1\n\t&& tcp\x1b"}}}}}}
	if got := clusterstate.EscapeControlChars(rows).Logical.Routers[0].Policies[0].Match; got != `ip4.src == 10.0.0.1  && tcp\u001b` {
		t.Errorf("a match of two lines is %q", got)
	}
}

// Strings read from a file are escaped too: the file may come from an attacker.
func TestFileIsReadVisible(t *testing.T) {
	s := clusterstatetest.GenerateCluster(1)
	s.Cluster.Name = "\x1b]0;pwned\x07"
	var file bytes.Buffer
	if err := s.Write(&file); err != nil {
		t.Fatal(err)
	}
	again, err := clusterstate.Read(&file, clusterstate.DefaultLimit)
	if err != nil || again.Cluster.Name != `\u001b]0;pwned\u0007` {
		t.Errorf("%v: %q", err, strings.ToValidUTF8(again.Cluster.Name, "?"))
	}
}

func BenchmarkEscapeControlChars(b *testing.B) {
	s := clusterstatetest.GenerateCluster(1000)
	for b.Loop() {
		clusterstate.EscapeControlChars(*s)
	}
}
