package clusterstatetest_test

import (
	"fmt"
	"net/netip"
	"reflect"
	"slices"
	"testing"

	"github.com/sallyport/sallyport/internal/model/clusterstate"
	"github.com/sallyport/sallyport/internal/model/clusterstate/clusterstatetest"
)

func TestClusterIsTheSameEachTime(t *testing.T) {
	if !reflect.DeepEqual(clusterstatetest.GenerateCluster(60), clusterstatetest.GenerateCluster(60)) {
		t.Error("two surveys of 60 projects differ")
	}
}

// Pictures of these surveys should look like a real cluster: no accidental duplicate addresses, and some problems.
func TestClusterIsPlausible(t *testing.T) {
	for _, projects := range []int{0, 5, 50, 1000} {
		t.Run(fmt.Sprint(projects), func(t *testing.T) {
			c := clusterstatetest.GenerateCluster(projects).Cluster
			if len(c.Projects) != projects || len(c.EIps) < projects {
				t.Errorf("there are %d projects, with %d EIps", len(c.Projects), len(c.EIps))
			}
			checkAddresses(t, c)
			wrong := slices.ContainsFunc(c.FIps, func(f clusterstate.FIp) bool {
				return f.Condition("Programmed").Status != "True"
			})
			if projects >= 5 && !wrong {
				t.Error("nothing is wrong with any FIp")
			}
		})
	}
}

// checkAddresses finds addresses that two EIps have, or that are not of their network.
func checkAddresses(t *testing.T, c clusterstate.Cluster) {
	t.Helper()
	held, prefixes := map[netip.Addr]string{}, map[string]netip.Prefix{}
	for _, s := range c.Subnets {
		prefixes[s.Name] = s.Prefixes[0]
	}
	for _, e := range c.EIps {
		if !e.Address.IsValid() {
			continue
		}
		if other := held[e.Address]; other != "" {
			t.Errorf("%s has the address of %s", e.Ref, other)
		}
		held[e.Address] = e.String()
		if !prefixes[e.Network].Contains(e.Address) {
			t.Errorf("%s: %s is not of %s", e.Ref, e.Address, e.Network)
		}
	}
}
