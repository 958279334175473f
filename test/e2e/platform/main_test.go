// Package platform is the tests of Kube-OVN's default VPC, where the platform's own pods run, in a cluster without
// projects.
package platform

import (
	"testing"

	"github.com/sallyport/sallyport/test/e2e/harness"
	"github.com/sallyport/sallyport/test/show"
)

// platformItems is the list that `make show-platform` prints. Items without a test are not built yet.
var platformItems = show.New("Kube-OVN's default VPC",
	"EgressIP for pods of the default VPC, by packets",
	"floating IPs: inbound, outbound, both, on two networks",
	"Services on three subnets, and with a backend on the host network",
	"VRF with marks, on kernels 6.1 and 6.12",
	"", // trace agrees with packets: in test/e2e/view, which has random clusters
	"a namespace that moves into a Project and back while an EgressIP selects it",
	"ten restarts of Kube-OVN, and policies of Kube-OVN that are rewritten: nothing is lost",
	"rows and flows of 1, 100 and 1,000 EgressIPs with 20,000 pods, and the time until a new pod has its address",
)

func TestMain(m *testing.M) { harness.Main(m, platformItems) }
