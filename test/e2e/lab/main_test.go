// Package lab is the tests of the lab itself: start, end, faults, and the problem that Sallyport solves.
package lab

import (
	"testing"

	"github.com/sallyport/sallyport/test/e2e/harness"
	"github.com/sallyport/sallyport/test/show"
)

// labItems is the list that `make show-lab` prints.
var labItems = show.New("the lab",
	"`make lab` builds and starts; a warm start takes 30 s at most, the end 3 s",
	"pods reach each other across nodes, and Services in a VPC; VPCs with the same addresses do not",
	"the problem: one source policy for a secondary network breaks the default network for that pod",
	"OVN raft: the northbound leader dies under a stream of writes, and none is lost",
	"scale mode: hundreds of fake nodes, thousands of fake pods with addresses from Kube-OVN",
	"ups and downs in a row leave no trace",
	"the lab explains itself: help, errors, progress, docs",
)

func TestMain(m *testing.M) { harness.Main(m, labItems) }
