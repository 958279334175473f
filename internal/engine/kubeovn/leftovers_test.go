package kubeovn

import "testing"

func TestVpcOfALoadBalancer(t *testing.T) {
	for _, vpc := range []string{"acme-prod", "tcp", "a-sess", "vpc-load"} {
		for _, name := range LoadBalancerNames(vpc) {
			if got := LoadBalancerVpc(name); got != vpc {
				t.Errorf("%s is said to be of %q; it was made for %q", name, got, vpc)
			}
		}
	}
	for _, name := range []string{"cluster-tcp-loadbalancer", "vpc-acme-load", "acme-tcp-load", ""} {
		if got := LoadBalancerVpc(name); got != "" {
			t.Errorf("%q is said to be of %q; it is of no Vpc", name, got)
		}
	}
}
