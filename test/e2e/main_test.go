// Package e2e is Sallyport shown by packets, on labs with real parts.
package e2e

import (
	"context"
	"flag"
	"fmt"
	"os"
	"testing"

	"github.com/go-logr/logr"
	"sigs.k8s.io/controller-runtime/pkg/log"

	"github.com/sallyport/sallyport/internal/lab"
	"github.com/sallyport/sallyport/internal/lab/daemon"
	"github.com/sallyport/sallyport/test/show"
)

// list is what `make show-lab` prints.
var list = show.New("the lab",
	"`make lab` builds and starts; a warm start takes 30 s at most, the end 3 s",
	"pods reach each other across nodes, and Services in a VPC; VPCs with the same addresses do not",
	"the problem: one source policy for a secondary network breaks the default network for that pod",
	"OVN raft: the northbound leader dies under a stream of writes, and none is lost",
	"scale mode: hundreds of fake nodes, thousands of fake pods with addresses from Kube-OVN",
	"ups and downs in a row leave no trace",
	"the lab explains itself: help, errors, progress, docs",
)

// core is what `make show-core` prints.
var core = show.New("the core",
	"by packets: a project's way out, and floating IPs on the default, a secondary and a third network",
	"deletion: projects with addresses, deleted in any order and by namespace, leave nothing",
	"drift: what we own and somebody changes or deletes is back within 2 s; what others own is never touched",
	"crash: the controller killed at random moments of a storm converges to the same state, and no address is given twice",
	"the same with Kube-OVN restarted, the northbound leader killed, the API server restarted",
	"Programmed is never true before the row is in OVN; every mistake gives a condition and an event with the next step",
	"cost: 1,000 projects; a steady state and a restart write nothing; a change costs the same at 10 and at 1,000",
	"compile: goldens, shuffled inputs, fuzz",
)

// returns is what `make show-return` prints.
var returns = show.New("the return path",
	"matrix: a pod answers on three networks at once, on one port and to one client address",
	"the pod on any node; gateways that fail, pods that move, network policies that filter",
	"switching a live project and adding a network keep connections; hairpin",
	"rows: the same number for 1, 100 and 1,000 floating IPs",
	"cost of the data path against OVN without a return path",
	"an attacker can't leave by a network it has no address on, nor reach another VPC",
	"soak: an hour of streams and new connections",
	"the documentation explains it",
)

// agents is what `make show-agent` prints.
var agents = show.New("return traffic on nodes",
	"every method: without it the reply leaves by the default uplink, with it the client gets its answer",
	"VRF on real kernels",
	"rules, programming time and speed of each method",
	"the method changes on a live node",
	"the seed's commands, one by one",
	"least privilege",
)

// balancers is what `make show-lb` prints.
var balancers = show.New("load balancers",
	"every feature, by packets",
	"Kubernetes' own conformance of Services: for each behaviour a test, or why it does not apply",
	"a rolling update of ten pods under load: no request fails",
	"Kube-OVN's controller restarts and removes every load balancer: back in 250 ms, connections go on",
	"speed against a bare transaction, with 1,000 and 10,000 Services",
	"abuse by one tenant does not slow down others",
)

// egresses is what `make show-egress` prints.
var egresses = show.New("egress addresses",
	"every feature, by packets",
	"failover: how long nothing comes back, and no packet ever with another address",
	"100 addresses on 10 nodes, of which one is lost; 1,000 EgressIPs and 20,000 pods",
	"a node that comes and goes: the address does not follow every time",
)

// views is what `make show-view` prints.
var views = show.New("the operator's view",
	"a catalogue of faults, each named by one command",
	"trace agrees with packets",
	"the seed's document, drawn by the cluster",
	"pictures of the ui and of maps",
	"documentation as a product's",
)

var everything = flag.Bool("show", false, "fail when an item of a list did not run")

func TestMain(m *testing.M) {
	daemon.Hook()
	flag.Parse()
	log.SetLogger(logr.Discard()) // a client without a logger complains after some time
	if os.Geteuid() != 0 {
		fmt.Fprintln(os.Stderr, "these tests start labs and need root")
		os.Exit(1)
	}
	code := m.Run()
	endShared()
	for _, l := range []*show.List{list, core, returns, balancers, egresses, agents, views} {
		if l.Ran() && !l.Print(os.Stdout) && *everything {
			code = 1
		}
	}
	os.Exit(code)
}

func endShared() {
	sharedController.end()
	if sharedLab.lab != nil {
		if err := lab.Down(context.Background(), sharedLab.lab.Name); err != nil {
			fmt.Fprintln(os.Stderr, err)
		}
	}
}
