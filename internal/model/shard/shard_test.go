package shard

import "testing"

func TestNamesAreUnique(t *testing.T) {
	for _, s := range []Shard{Egress, NodePaths, Networks, {OfVPC, "acme-web"}, {OfVPC, "ovn-cluster"}} {
		if got := Named(s.Name); got != s {
			t.Errorf("the shard named %s is %+v, want %+v", s, got, s)
		}
	}
}
