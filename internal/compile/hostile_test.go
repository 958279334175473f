package compile

import (
	"fmt"
	"math/rand/v2"
	"net/netip"
	"reflect"
	"strings"
	"testing"

	"github.com/sallyport/sallyport/internal/model/intent"
	"github.com/sallyport/sallyport/internal/model/snapshot"
)

// hostileMarker is in every hostile text, and nowhere else.
const hostileMarker = "hOsTiLe"

// hostileTexts are texts that would change the structure of rows, names or matches built from them.
var hostileTexts = []string{
	hostileMarker + ".acme-web:10.30.0.1 240.0.0.9=x", `" || ip4 || "` + hostileMarker, hostileMarker + ",10.9.9.9:80",
	hostileMarker + "\n10.0.0.7=x", "\x1b[2J" + hostileMarker, hostileMarker + "=10.0.0.1", hostileMarker,
}

// textInjector replaces user-written strings by hostile texts. Equal strings get equal texts, so that references stay
// intact. Names of objects are not replaced: Kubernetes has validated them.
type textInjector struct {
	random       *rand.Rand
	replacements map[string]string
	replaced     int
}

func (p *textInjector) replaceText(was string) string {
	if _, known := p.replacements[was]; !known {
		p.replacements[was] = was
		if p.random.IntN(3) == 0 {
			p.replacements[was] = hostileTexts[p.random.IntN(len(hostileTexts))]
		}
	}
	if p.replacements[was] != was {
		p.replaced++
	}
	return p.replacements[was]
}

func (p *textInjector) injectValue(v reflect.Value) {
	switch v.Kind() {
	case reflect.Pointer:
		if !v.IsNil() {
			p.injectValue(v.Elem())
		}
	case reflect.Slice:
		for i := range v.Len() {
			p.injectValue(v.Index(i))
		}
	case reflect.Struct:
		for i := range v.NumField() {
			checked := v.Type().Field(i).Type == reflect.TypeFor[snapshot.Meta]() ||
				v.Type().Field(i).Type == reflect.TypeFor[snapshot.Malformed]()
			if v.Type().Field(i).IsExported() && !checked {
				p.injectValue(v.Field(i))
			}
		}
	case reflect.String:
		v.SetString(p.replaceText(v.String()))
	}
}

// injectWorld replaces the user-written strings of a snapshot. It also adds a pod with a hostile name, so that the name
// itself has to be refused.
func (p *textInjector) injectWorld(w *snapshot.VpcInput) {
	for _, list := range []any{&w.Projects, &w.EIps, &w.FIps, &w.Services, &w.EgressServices, &w.EgressRoutes} {
		p.injectValue(reflect.ValueOf(list).Elem())
	}
	for was, is := range p.replacements {
		if addresses, there := w.Pods[snapshot.PodKey(testShard, was)]; there {
			w.Pods[snapshot.PodKey(testShard, is)] = addresses
		}
	}
}

// lbFixture returns a settled snapshot with a load balancer that has health checks.
func lbFixture() *snapshot.VpcInput {
	pod := podIP(5)
	return &snapshot.VpcInput{
		Shard: testShard, ExternalSubnets: []snapshot.ExternalSubnet{{
			Subnet: "x0", Network: "n", Type: "a", Default: true, Ready: true,
			Prefix: netip.MustParsePrefix("192.0.0.0/24"), Gateway: externalIP(0, 1), Free: 99,
		}},
		Projects: []snapshot.Project{{
			Meta:     snapshot.Meta{Namespace: "o", Name: "p-q"},
			Prefixes: []netip.Prefix{netip.MustParsePrefix("10.0.0.0/24")}, NetworkType: "a",
		}},
		Services: []snapshot.Service{{
			Meta: snapshot.Meta{Namespace: testShard, Name: "web", UID: "web"}, IsLoadBalancer: true,
			HealthCheck: &snapshot.HealthCheck{Interval: 1, Timeout: 1, Successes: 1, Failures: 1},
			Ports:       []snapshot.Port{{Name: "http", Protocol: intent.TCP, Number: 80}},
			Endpoints: []snapshot.Endpoint{{
				PortName: "http", Address: pod, Number: 8080, TargetPod: "web-0", Ready: true,
			}},
		}},
		Pods:   map[string][]netip.Addr{snapshot.PodKey(testShard, "web-0"): {pod}},
		Engine: snapshot.Engine{OwnedObjects: map[intent.ObjectKey]bool{}, OvnFips: map[string]snapshot.OvnFip{}},
	}
}

// No user-written text reaches a row, an entry of a Vpc's list, or the name of an object. Whatever does has a validated
// type.
func TestNoUserTextBecomesStructure(t *testing.T) {
	chance, balancers := rand.New(rand.NewPCG(5, 6)), 0
	for i := range 2000 {
		w := lbFixture()
		if i%2 == 1 {
			seed := make([]byte, 400)
			for i := range seed {
				seed[i] = byte(chance.Uint32())
			}
			w = randomWorld(&fuzzInput{seed})
		}
		p := &textInjector{random: chance, replacements: map[string]string{"": ""}}
		p.injectWorld(w)
		in, _ := Simulate(*w)
		for key, entry := range in.Rows {
			assertNoUserText(t, key, entry.Value)
			if _, is := entry.Value.(intent.VIP); is && p.replaced > 0 {
				balancers++
			}
		}
		for key, entry := range in.VpcEntries {
			assertNoUserText(t, key, entry.Value)
		}
		for key := range in.Objects {
			assertNoUserText(t, key)
		}
	}
	if balancers < 100 {
		t.Errorf("only %d load balancers were asked for in hostile words: this shows nothing", balancers)
	}
}

func assertNoUserText(t *testing.T, written ...any) {
	t.Helper()
	if text := fmt.Sprintf("%+v", written); strings.Contains(text, hostileMarker) {
		t.Errorf("%q has a user's text in it", text)
	}
}
