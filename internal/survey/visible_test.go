package survey_test

import (
	"bytes"
	"reflect"
	"strings"
	"testing"
	"time"

	"github.com/sallyport/sallyport/internal/intent"
	"github.com/sallyport/sallyport/internal/logical"
	"github.com/sallyport/sallyport/internal/state"
	"github.com/sallyport/sallyport/internal/survey"
	"github.com/sallyport/sallyport/internal/survey/surveytest"
)

// Texts are made visible wherever in a survey they are, and the survey that was given stays as it was.
func TestSurveyIsVisible(t *testing.T) {
	const bad, good = "x\x1b[2J\n\u202e", `x\u001b[2J\n\u202e`
	build := func(text string) survey.Survey {
		object := survey.Object{Labels: map[string]string{text: text}, Conditions: []survey.Condition{{Message: text}}}
		object.Name = text
		return survey.Survey{
			Taken: time.Unix(1, 0).UTC(),
			Cluster: survey.Cluster{
				Pods:   []survey.Pod{{Object: object, Waiting: text, PortNames: []string{"http", text}}},
				Absent: []string{"a", text},
				Events: []survey.Event{{About: state.Ref{Kind: text}, Message: text}},
			},
			Shards: []survey.Shard{{Verdicts: []intent.Verdict{{
				Accepted: intent.Finding{Reason: text, Message: text},
				Facts:    intent.FIpFacts{EIp: text, VM: &intent.VMInterface{VM: text}},
			}}}},
			Inspected: map[string]survey.NodeInspection{text: {Problems: []string{text}}},
			Unread:    []survey.ReadFailure{{Problem: text}},
		}
	}
	given := build(bad)
	if got := survey.EscapeControlChars(given); !reflect.DeepEqual(got, build(good)) {
		t.Errorf("got  %+v\nwant %+v", got, build(good))
	}
	if !reflect.DeepEqual(given, build(bad)) {
		t.Error("the survey that was given has changed")
	}
	rows := survey.Survey{Logical: logical.Network{Routers: []logical.Router{{Policies: []logical.RouterPolicy{{Match: "ip4.src == 10.0.0.1\n\t&& tcp\x1b"}}}}}}
	if got := survey.EscapeControlChars(rows).Logical.Routers[0].Policies[0].Match; got != `ip4.src == 10.0.0.1  && tcp\u001b` {
		t.Errorf("a match of two lines is %q", got)
	}
}

// What is read from a file is visible, too: whoever sent it may have written it.
func TestFileIsReadVisible(t *testing.T) {
	s := surveytest.GenerateCluster(1)
	s.Cluster.Name = "\x1b]0;pwned\x07"
	var file bytes.Buffer
	if err := s.Write(&file); err != nil {
		t.Fatal(err)
	}
	again, err := survey.Read(&file, survey.DefaultLimit)
	if err != nil || again.Cluster.Name != `\u001b]0;pwned\u0007` {
		t.Errorf("%v: %q", err, strings.ToValidUTF8(again.Cluster.Name, "?"))
	}
}

func BenchmarkEscapeControlChars(b *testing.B) {
	s := surveytest.GenerateCluster(1000)
	for b.Loop() {
		survey.EscapeControlChars(*s)
	}
}
