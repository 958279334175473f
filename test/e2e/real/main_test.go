// Package real is the tests of nodes as in production: containerd, a kubelet, kube-proxy and Kube-OVN's own daemon.
package real

import (
	"testing"

	"github.com/sallyport/sallyport/test/e2e/harness"
	"github.com/sallyport/sallyport/test/show"
)

// realItems is the list that `make show-real` prints.
var realItems = show.New("nodes as in production",
	"two real nodes are Ready; memory of a node; power cut and return",
	"the unmodified chart on real nodes: pods Ready, packets for every kind of address, doctor clean, PodSecurity",
	"the main packet tests of every theme on real nodes",
	"the kernel datapath on kernels 6.1 and 6.12, with ratios",
	"upgrades under live traffic: connections lost and longest silence",
	"virtual machines that move between nodes",
)

func TestMain(m *testing.M) { harness.Main(m, realItems) }
