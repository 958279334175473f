package platform

import (
	"regexp"
	"strings"
	"testing"
	"time"

	vm "github.com/sallyport/sallyport/internal/lab/machine"
	"github.com/sallyport/sallyport/test/e2e/harness"
	"github.com/sallyport/sallyport/test/show"
)

// TestPlatform4VRFWithMarks shows method VRF with packet and connection marks on the kernels that nodes have, with and
// without a veth pair, and the names of the routing tables. It fails if a kernel lacks VRF support.
func TestPlatform4VRFWithMarks(t *testing.T) {
	item := platformItems.Item(t, 4)
	program := harness.BuildStaticBinary(t, "../testdata/vrf", "test", "-c")
	kit := harness.PrepareVMKit(t)
	kernels := vm.Kernels()
	for _, kernel := range kernels[:show.ChooseSize(len(kernels), 1)] {
		t.Run(kernel, func(t *testing.T) {
			begun := time.Now()
			got, err := harness.RunVM(t, kit, vm.Job{
				Kernel: kernel, Program: program, Args: []string{"-test.v", "-test.run", "^TestMarks$"},
				Programs: []string{"nft", "ip"}, Spare: []string{"vrf"}, // the program loads it
				Modules: []string{"veth", "nf_tables", "nft_ct", "nft_chain_nat", "nft_nat", "nft_masq"},
			})
			if err != nil || got.Status != 0 {
				t.Fatalf("status %d, %v\n%s", got.Status, err, got.Output)
			}
			t.Log(got.Output)
			passed := regexp.MustCompile(`(?m)^ *--- PASS: TestMarks/((?:Mark|Connection)_legs_\S+)`).
				FindAllStringSubmatch(got.Output, -1)
			var names []string
			for _, p := range passed {
				names = append(names, strings.ReplaceAll(p[1], "_", " "))
			}
			if len(names) != 4 {
				t.Fatalf("only %q ran:\n%s", names, got.Output)
			}
			item.AddFigure("kernel %s: %s, each by TCP and UDP, IPv4 and IPv6, under a strict rp_filter; no answer "+
				"without the rule for marks; tables have names; removed, the node is as found (%.0f s)", kernel,
				strings.Join(names, ", "), time.Since(begun).Seconds())
		})
	}
}
