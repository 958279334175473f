package compile

import (
	"fmt"
	"math/rand/v2"
	"net/netip"
	"reflect"
	"strings"
	"testing"

	"github.com/sallyport/sallyport/internal/intent"
	"github.com/sallyport/sallyport/internal/snapshot"
)

// mark is in every hostile text, and nowhere else.
const mark = "hOsTiLe"

// hostile are texts that would become structure where rows, names or matches were built of them.
var hostile = []string{
	mark + ".acme-web:10.30.0.1 240.0.0.9=x", `" || ip4 || "` + mark, mark + ",10.9.9.9:80", mark + "\n10.0.0.7=x", "\x1b[2J" + mark, mark + "=10.0.0.1", mark,
}

// poison replaces strings that users write by hostile texts: those that are equal by the same, so that what names something still does. Names of
// objects are Kubernetes' own, which it has checked.
type poison struct {
	chance *rand.Rand
	with   map[string]string
	done   int
}

func (p *poison) text(was string) string {
	if _, known := p.with[was]; !known {
		p.with[was] = was
		if p.chance.IntN(3) == 0 {
			p.with[was] = hostile[p.chance.IntN(len(hostile))]
		}
	}
	if p.with[was] != was {
		p.done++
	}
	return p.with[was]
}

func (p *poison) value(v reflect.Value) {
	switch v.Kind() {
	case reflect.Pointer:
		if !v.IsNil() {
			p.value(v.Elem())
		}
	case reflect.Slice:
		for i := range v.Len() {
			p.value(v.Index(i))
		}
	case reflect.Struct:
		for i := range v.NumField() {
			checked := v.Type().Field(i).Type == reflect.TypeFor[snapshot.Meta]() || v.Type().Field(i).Type == reflect.TypeFor[snapshot.Malformed]()
			if v.Type().Field(i).IsExported() && !checked {
				p.value(v.Field(i))
			}
		}
	case reflect.String:
		v.SetString(p.text(v.String()))
	}
}

// world poisons what users write in a world. A pod of a hostile name is there, too: the name alone has to be refused.
func (p *poison) world(w *snapshot.World) {
	for _, list := range []any{&w.Projects, &w.EIps, &w.FIps, &w.Services, &w.EgressServices, &w.EgressRoutes} {
		p.value(reflect.ValueOf(list).Elem())
	}
	for was, is := range p.with {
		if addresses, there := w.Pods[snapshot.PodName(shard, was)]; there {
			w.Pods[snapshot.PodName(shard, is)] = addresses
		}
	}
}

// balancedWorld is a world at rest with a load balancer whose backends are checked.
func balancedWorld() *snapshot.World {
	pod := inside(5)
	return &snapshot.World{
		Shard: shard, Externals: []snapshot.External{{
			Subnet: "x0", Network: "n", Type: "a", Default: true, Ready: true, Prefix: netip.MustParsePrefix("192.0.0.0/24"), Gateway: address(0, 1), Free: 99,
		}},
		Projects: []snapshot.Project{{
			Meta: snapshot.Meta{Namespace: "o", Name: "p-q"}, Prefixes: []netip.Prefix{netip.MustParsePrefix("10.0.0.0/24")}, Network: "a",
		}},
		Services: []snapshot.Service{{
			Meta: snapshot.Meta{Namespace: shard, Name: "web", UID: "web"}, Balancer: true, Check: &snapshot.Check{Interval: 1, Timeout: 1, Successes: 1, Failures: 1},
			Ports:     []snapshot.Port{{Name: "http", Protocol: intent.TCP, Number: 80}},
			Endpoints: []snapshot.Endpoint{{Port: "http", Address: pod, Number: 8080, Target: "web-0", Ready: true}},
		}},
		Pods:   map[string][]netip.Addr{snapshot.PodName(shard, "web-0"): {pod}},
		Engine: snapshot.Engine{Objects: map[intent.ObjectKey]bool{}, OvnFips: map[string]snapshot.OvnFip{}},
	}
}

// No text that a user writes reaches a row, an entry of a list of a Vpc, or the name of an object: what does is of a type that was checked.
func TestNoUserTextBecomesStructure(t *testing.T) {
	chance, balancers := rand.New(rand.NewPCG(5, 6)), 0
	for i := range 2000 {
		w := balancedWorld()
		if i%2 == 1 {
			seed := make([]byte, 400)
			for i := range seed {
				seed[i] = byte(chance.Uint32())
			}
			w = worldOf(&dice{seed})
		}
		p := &poison{chance: chance, with: map[string]string{"": ""}}
		p.world(w)
		in, _ := Rehearse(*w)
		for key, entry := range in.Rows {
			refuse(t, key, entry.Value)
			if _, is := entry.Value.(intent.LoadBalancer); is && p.done > 0 {
				balancers++
			}
		}
		for key, entry := range in.Elements {
			refuse(t, key, entry.Value)
		}
		for key := range in.Objects {
			refuse(t, key)
		}
	}
	if balancers < 100 {
		t.Errorf("only %d load balancers were asked for in hostile words: this shows nothing", balancers)
	}
}

func refuse(t *testing.T, written ...any) {
	t.Helper()
	if text := fmt.Sprintf("%+v", written); strings.Contains(text, mark) {
		t.Errorf("%q has a user's text in it", text)
	}
}
