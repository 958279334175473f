// Package view is the tests of the operator's view: status, explain, trace, map, doctor, ui and how-tos, compared with
// packets.
package view

import (
	"testing"

	"github.com/sallyport/sallyport/test/e2e/harness"
	"github.com/sallyport/sallyport/test/show"
)

// viewItems is the list that `make show-view` prints.
var viewItems = show.New("the operator's view",
	"a catalogue of faults, each named by one command",
	"trace agrees with packets",
	"the seed's document, drawn by the cluster",
	"pictures of the ui and of maps",
	"documentation as a product's",
)

// platformItems is the part of the list of `make show-platform` that is shown here.
var platformItems = show.New("Kube-OVN's default VPC", "", "", "", "", "trace agrees with packets in 500 of 500 questions")

// dayItems is the part of the list of `make show-day` that is shown here.
var dayItems = show.New("from day one on",
	"",
	"every command works with only a kubeconfig",
	"check names what is wrong before an installation, and tests one with packets; interrupted tests leave nothing",
	"verdicts are right: trace asks the pod, status begins with a verdict, causes come before symptoms",
	"plan names mistakes in files, and what applying them makes",
	"columns and events say what happened",
)

func TestMain(m *testing.M) { harness.Main(m, viewItems, platformItems, dayItems) }
