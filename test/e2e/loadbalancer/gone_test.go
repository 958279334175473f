package loadbalancer

import (
	"context"
	"fmt"
	"slices"
	"strings"
	"sync"
	"syscall"
	"testing"
	"time"

	"github.com/sallyport/sallyport/test/e2e/harness"
	"github.com/sallyport/sallyport/test/show"
)

// maxOutage is the maximum outage of an address, as the 99th percentile.
var maxOutage = harness.TimeLimit(250 * time.Millisecond)

// TestBalancer4Restarts shows that the rows of load balancers, which Kube-OVN's controller deletes when it starts, are
// restored before clients notice, and that open connections continue. Without our controller the rows stay away.
func TestBalancer4Restarts(t *testing.T) {
	harness.RunAlone(t) // a stream that sends while load balancers are gone can be reset
	item := balancerItems.Item(t, 4)
	h := newBackendProject(t, "restarts", "10.53.0.0/24")
	var addresses []string
	for i := range show.ChooseSize(10, 4) {
		kind := harness.NetworkTypes[i%2]
		addresses = append(addresses, h.CreateService(t, harness.ServiceSpec{
			Name:        fmt.Sprintf("s%d", i),
			Annotations: "network.kube-dc.com/external-network-type: " + kind,
		}))
	}
	var streams []*harness.Stream
	for _, a := range addresses {
		streams = append(streams, h.StartStream(t, "internet", a))
	}
	restarts := show.ChooseSize(10, 2)
	var gaps []time.Duration
	noise := time.Duration(0) // the longest gap on a path that bypasses OVN: caused by the machine
	for range restarts {
		before := balancerUUIDs(t, h)
		all := measureGaps(t, h, append(slices.Clone(addresses), h.Network(t, "cloud").ClientAddress), func() {
			restartKubeOVN(t, h, before)
		})
		gaps, noise = append(gaps, all[:len(addresses)]...), max(noise, all[len(addresses)])
	}
	silent := harness.ExpectStreamsContinue(t, "restarts", streams...)
	slices.Sort(gaps)
	p99 := gaps[(len(gaps)*99+99)/100-1]
	item.AddFigure("%d restarts, %d addresses: gone for %s (median), %s (99th percentile), %s (longest; outside OVN %s); %d streams go on, silent for %s at most",
		restarts, len(addresses), gaps[len(gaps)/2].Round(time.Millisecond), p99.Round(time.Millisecond),
		gaps[len(gaps)-1].Round(time.Millisecond), noise.Round(time.Millisecond),
		len(streams), silent.Round(time.Millisecond))
	if p99 > maxOutage+noise {
		t.Errorf("an address was gone for %s (99th percentile), wanted %s; outside OVN it was %s", p99, maxOutage,
			noise)
	}
	checkNoRepair(t, h, item, addresses[0])
}

// checkNoRepair repeats the restart without our controller, and then starts it again.
func checkNoRepair(t *testing.T, h *harness.BackendProject, item *show.Item, address string) {
	t.Helper()
	harness.SharedController.Stop(syscall.SIGKILL)
	h.ControlLab(t, "kill", "kube-ovn-controller")
	h.ControlLab(t, "start", "kube-ovn-controller")
	harness.Eventually(t, "Kube-OVN has removed all load balancers", func() bool {
		return len(balancerUUIDs(t, h)) == 0
	})
	<-time.After(show.ChooseSize(30*time.Second, 5*time.Second))
	_, err := h.SendRequest("internet", "http://"+address)
	gone := len(balancerUUIDs(t, h)) == 0
	harness.SharedController.Start(t)
	if err == nil || !gone {
		t.Error("with nobody to put it back the address still answers")
	}
	harness.Eventually(t, "all are back with us", func() bool {
		_, err := h.SendRequest("internet", "http://"+address)
		return err == nil
	})
	item.AddFigure("with nobody repairing it was still gone after %s", show.ChooseSize(30*time.Second, 5*time.Second))
}

// balancerUUIDs returns the UUIDs of the project's load balancers.
func balancerUUIDs(t *testing.T, h *harness.BackendProject) map[string]bool {
	t.Helper()
	out := map[string]bool{}
	for _, uuid := range strings.Fields(h.RunNbctl(t, "--bare", "--columns=_uuid", "find", "Load_Balancer",
		"external_ids:sallyport-vpc="+h.Namespace)) {
		out[uuid] = true
	}
	return out
}

// restartKubeOVN restarts Kube-OVN's controller and waits until it has deleted every load balancer and all are
// restored.
func restartKubeOVN(t *testing.T, h *harness.BackendProject, before map[string]bool) {
	t.Helper()
	h.ControlLab(t, "kill", "kube-ovn-controller")
	h.ControlLab(t, "start", "kube-ovn-controller")
	begun := time.Now()
	for time.Since(begun) < harness.Patience {
		now := balancerUUIDs(t, h)
		same := 0
		for uuid := range now {
			if before[uuid] {
				same++
			}
		}
		if same == 0 && len(now) == len(before) {
			<-time.After(time.Second) // late deletions count, too
			return
		}
		<-time.After(50 * time.Millisecond)
	}
	t.Error("30 s after its start Kube-OVN has not removed all load balancers")
}

// measureGaps opens connections to addresses as fast as possible while something happens, and returns for each address
// the longest time without a new connection.
func measureGaps(t *testing.T, h *harness.BackendProject, addresses []string, happens func()) []time.Duration {
	t.Helper()
	ctx, cancel := context.WithCancel(context.Background())
	gaps := make([]time.Duration, len(addresses))
	var all sync.WaitGroup
	for i, a := range addresses {
		all.Go(func() {
			last := time.Now()
			for ctx.Err() == nil {
				if canConnect(ctx, h, a) {
					gaps[i] = max(gaps[i], time.Since(last))
					last = time.Now()
				}
				<-time.After(5 * time.Millisecond)
			}
			gaps[i] = max(gaps[i], time.Since(last))
		})
	}
	happens()
	cancel()
	all.Wait()
	return gaps
}

// canConnect opens a connection. It waits for one SYN only: the next would be sent a second later.
func canConnect(ctx context.Context, h *harness.BackendProject, address string) bool {
	ctx, cancel := context.WithTimeout(ctx, 60*time.Millisecond)
	defer cancel()
	conn, err := h.NS("internet").Dial(ctx, "tcp", address+":80")
	if err != nil {
		return false
	}
	return conn.Close() == nil
}
