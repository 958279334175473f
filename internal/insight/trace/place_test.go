package trace

import (
	"testing"

	"github.com/sallyport/sallyport/internal/model/state"
)

func TestPlacesOfAPath(t *testing.T) {
	router := func(action string) []Place { return atRouter("acme", "%s", action) }
	p := Path{
		Verdict: Delivered,
		RequestHops: []Hop{
			{Places: []Place{{Kind: AtClient, Label: "client"}, {Kind: AtNetwork, Label: "ext"}}},
			{Text: "allows it"},
			{Places: router("")},
			{Places: router("SNAT")},
			{Places: router("SNAT")},
			{Places: router("to gateway")},
		},
	}
	request, _ := p.Places()
	if len(request) != 3 || request[2].Action != "SNAT, to gateway" {
		t.Errorf("%+v", request)
	}
}

// A path that is not answered ends at the object that the verdict is about, in the direction that fails.
func TestPlacesOfABrokenPath(t *testing.T) {
	service, pod := state.Ref{Kind: "Service", Name: "web"}, state.Ref{Kind: "Pod", Name: "web-0"}
	at := Hop{About: service, Places: []Place{{Kind: AtAddress, Ref: service, Label: "192.0.2.7:80"}}}
	end := Hop{About: pod, Places: []Place{{Kind: AtPod, Ref: pod, Label: "web-0"}}}
	for name, c := range map[string]struct {
		path           Path
		request, reply int
		problem        bool
	}{
		"dropped at the last place": {
			Path{Verdict: Dropped, Code: NoEndpoints, About: []state.Ref{service}, RequestHops: []Hop{at}}, 1, 0, true,
		},
		"dropped further on": {
			Path{Verdict: Dropped, Code: TargetGone, About: []state.Ref{pod}, RequestHops: []Hop{at}}, 2, 0, true,
		},
		"dropped on request": {
			Path{Verdict: Dropped, Code: NetworkPolicyDrops, About: []state.Ref{pod}, RequestHops: []Hop{at}}, 2, 0, false,
		},
		"reply lost": {
			Path{Verdict: Lost, About: []state.Ref{service}, RequestHops: []Hop{at, end}, ReplyHops: []Hop{end}}, 2, 2, true,
		},
		"reply unknown": {
			Path{Verdict: Unknown, About: []state.Ref{service}, RequestHops: []Hop{at, end}}, 2, 0, false,
		},
	} {
		request, reply := c.path.Places()
		last := request[len(request)-1]
		if len(reply) > 0 {
			last = reply[len(reply)-1]
		}
		if len(request) != c.request || len(reply) != c.reply || last.Problem != c.problem {
			t.Errorf("%s: %+v and %+v", name, request, reply)
		}
		hops := c.path.EndedHops()
		if broken := hops[len(hops)-1].Broken; broken != c.problem {
			t.Errorf("%s: the last hop is %+v", name, hops[len(hops)-1])
		}
	}
}
