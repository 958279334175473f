package nodes

import (
	"regexp"
	"strings"
	"testing"
	"time"

	vm "github.com/sallyport/sallyport/internal/lab/machine"
	"github.com/sallyport/sallyport/test/e2e/harness"
	"github.com/sallyport/sallyport/test/show"
)

// TestAgent2VRF shows method VRF on the kernels that nodes have, with and without a veth pair. It fails if a kernel
// lacks VRF support.
func TestAgent2VRF(t *testing.T) {
	program := harness.BuildStaticBinary(t, "../testdata/vrf", "test", "-c")
	kit := harness.PrepareVMKit(t)
	kernels := vm.Kernels()
	for _, kernel := range kernels[show.ChooseSize(0, len(kernels)-1):] { // in CI, TestPlatform4VRFWithMarks has the first
		t.Run(kernel, func(t *testing.T) {
			item, live := agentItems.Item(t, 2), agentItems.Item(t, 4)
			begun := time.Now()
			got, err := harness.RunVM(t, kit, vm.Job{
				Kernel: kernel, Program: program, Args: []string{"-test.v", "-test.run", "^TestVRF$"},
				Programs: []string{"nft", "ip"},
				Spare:    []string{"vrf"}, // the test also checks the agent's message without the module
				Modules:  []string{"veth", "nf_tables", "nft_ct", "nft_chain_nat", "nft_nat", "nft_masq"},
			})
			if err != nil || got.Status != 0 {
				t.Fatalf("status %d, %v\n%s", got.Status, err, got.Output)
			}
			t.Log(got.Output)
			passed := regexp.MustCompile(`(?m)^ *--- PASS: (Test\S+)`).FindAllString(got.Output, -1)
			if strings.Contains(got.Output, "--- SKIP") ||
				!strings.Contains(got.Output, "--- PASS: TestVRF/legs_true") {
				t.Errorf("something did not run:\n%s", got.Output)
			}
			switched := regexp.MustCompile(`(?m)switched: (.*→.*)$`).FindAllStringSubmatch(got.Output, -1)
			if len(switched) == 0 {
				t.Errorf("no method was changed:\n%s", got.Output)
			}
			item.AddFigure("kernel %s: %d tests in %.0f s with its boot; after each of %d changes of the method new clients got their answers by TCP and UDP, "+
				"IPv4 and IPv6", kernel, len(passed), time.Since(begun).Seconds(), len(switched))
			for _, s := range switched {
				live.AddFigure("kernel %s: %s", kernel, s[1])
			}
		})
	}
}
