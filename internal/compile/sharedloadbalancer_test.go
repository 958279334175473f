package compile

import (
	"fmt"
	"testing"

	"github.com/sallyport/sallyport/internal/model/intent"
	"github.com/sallyport/sallyport/internal/model/ownership"
	"github.com/sallyport/sallyport/internal/model/snapshot"
)

// loadBalancersByVIP returns the load balancer of each VIP.
func loadBalancersByVIP(in *intent.Intent) map[string]string {
	out := map[string]string{}
	for _, entry := range in.Rows {
		if v, is := entry.Value.(intent.VIP); is {
			out[intent.FormatVIP(v.Protocol, v.Address)] = v.LoadBalancer
		}
	}
	return out
}

// A shared load balancer has a limited number of VIPs, and a VIP stays where it is when others are removed.
func TestVIPsStayInTheirLoadBalancer(t *testing.T) {
	w := manyPortsFixture(100, 100)
	in, _ := Simulate(*w)
	before, count := loadBalancersByVIP(in), map[string]int{}
	for _, name := range before {
		count[name]++
	}
	prefix := testShard + "-lb-tcp-"
	if want := map[string]int{prefix + "0": 64, prefix + "1": 64, prefix + "2": 64, prefix + "3": 8}; fmt.Sprint(want) != fmt.Sprint(count) {
		t.Fatalf("the VIPs are divided into %v, wanted %v", count, want)
	}
	c := newCompiler(w)
	c.w.Engine.VIPs = map[string]snapshot.VIP{}
	for vip, name := range before {
		c.w.Engine.VIPs[vip] = snapshot.VIP{LoadBalancer: name}
	}
	var half []intent.VIP // of Services that are left: every second one
	for _, entry := range in.Rows {
		if v, is := entry.Value.(intent.VIP); is && v.Address.Port()%2 == 0 {
			half = append(half, v)
		}
	}
	c.assignLoadBalancers(vipClass{protocol: intent.TCP}, half)
	after := loadBalancersByVIP(c.out)
	if len(after) != 100 {
		t.Fatalf("%d VIPs are left, wanted 100", len(after))
	}
	for vip, name := range after {
		if before[vip] != name {
			t.Errorf("%s has moved from %s to %s", vip, before[vip], name)
		}
	}
}

// Without Services a project has its load balancers nevertheless, so that none is removed with the last Service.
func TestProjectKeepsItsLoadBalancers(t *testing.T) {
	in, _ := Simulate(*manyPortsFixture())
	for _, p := range protocols {
		key := intent.LoadBalancer{Name: testShard + "-lb-" + string(p) + "-0"}.Key(testShard)
		if _, there := in.Rows[key]; !there {
			t.Errorf("there is no %s", key)
		}
	}
}

// Services whose names have the same hash drain at different addresses. Tenants choose the names.
func TestDrainAddressesDiffer(t *testing.T) {
	first, second := collidingNames(t)
	w := manyPortsFixture(1, 1)
	for i, name := range []string{first, second} {
		w.Services[i].Name, w.Services[i].UID = name, name
		w.Services[i].Endpoints[0].Ready, w.Services[i].Endpoints[0].Serving = false, false
	}
	in, verdicts := Simulate(*w)
	if err := in.Err(); err != nil {
		t.Fatal(err, verdicts)
	}
	if n := len(loadBalancersByVIP(in)); n != 4 {
		t.Errorf("two Services with a draining endpoint each have %d VIPs, wanted 4", n)
	}
}

// collidingNames returns names of Services that drain at the same address of the pool.
func collidingNames(t *testing.T) (first, second string) {
	t.Helper()
	seen := map[uint32]string{}
	for i := range 100_000 {
		name := fmt.Sprintf("n%d", i)
		hash := ownership.HashName(testShard+"/"+name) & (1<<24 - 1)
		if other, taken := seen[hash]; taken {
			return other, name
		}
		seen[hash] = name
	}
	t.Fatal("no two names have the same hash")
	return "", ""
}
