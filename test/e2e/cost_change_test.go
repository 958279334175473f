package e2e

import (
	"context"
	"fmt"
	"os"
	"strconv"
	"strings"
	"testing"
	"time"

	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"

	"github.com/sallyport/sallyport/internal/lab/manifest"
)

// visitor is the EIp and the FIp that come and go.
const visitor = "visitor"

// make makes an EIp and a FIp in a project, and returns after how long the FIp is in force.
func (f *fleet) make(t *testing.T, i int) time.Duration {
	t.Helper()
	begin, ctx := time.Now(), within(t, time.Minute)
	if err := f.create(ctx, "EIp", f.space(f.chosen(i)), visitor, "externalNetworkType: cloud"); err != nil {
		t.Fatal(err)
	}
	if err := f.create(ctx, "FIp", f.space(f.chosen(i)), visitor, "eip: "+visitor+", ipAddress: 10.0.0.100"); err != nil {
		t.Fatal(err)
	}
	f.wait(t, "FIp", f.space(f.chosen(i)), visitor, manifest.True("Programmed"))
	return time.Since(begin)
}

// repoint leads the FIp to another address.
func (f *fleet) repoint(t *testing.T, i int) time.Duration {
	t.Helper()
	begin, namespace := time.Now(), f.space(f.chosen(i))
	err := f.objects.Apply(within(t, time.Minute), fmt.Sprintf(
		"{apiVersion: kube-dc.com/v1, kind: FIp, metadata: {namespace: %s, name: %s}, spec: {eip: %[2]s, ipAddress: 10.0.0.101}}", namespace, visitor))
	if err != nil {
		t.Fatal(err)
	}
	f.wait(t, "FIp", namespace, visitor, both(manifest.True("Programmed"), manifest.Field("10.0.0.101", "status", "resolvedTargetIP")))
	return time.Since(begin)
}

func both(a, b manifest.Condition) manifest.Condition {
	return func(o *unstructured.Unstructured) bool { return a(o) && b(o) }
}

// unmake takes both away again.
func (f *fleet) unmake(t *testing.T, i int) {
	t.Helper()
	err := f.objects.Delete(within(t, time.Minute), fmt.Sprintf(`
{apiVersion: kube-dc.com/v1, kind: EIp, metadata: {namespace: %[1]s, name: %[2]s}}
---
{apiVersion: kube-dc.com/v1, kind: FIp, metadata: {namespace: %[1]s, name: %[2]s}}`, f.space(f.chosen(i)), visitor))
	if err != nil {
		t.Fatal(err)
	}
}

// byHand makes what a FIp with a new EIp becomes, as Kube-OVN's objects, and returns after how long Kube-OVN says it is ready.
func (f *fleet) byHand(t *testing.T, i int) time.Duration {
	t.Helper()
	eip := fmt.Sprintf("{apiVersion: kubeovn.io/v1, kind: OvnEip, metadata: {name: %s}, spec: {externalSubnet: ext-cloud, type: nat}}", visitor)
	fip := fmt.Sprintf("{apiVersion: kubeovn.io/v1, kind: OvnFip, metadata: {name: %s}, spec: {ovnEip: %[1]s, vpc: %s, v4Ip: 10.0.0.102}}",
		visitor, f.space(f.chosen(i)))
	begin := time.Now()
	for f.readyByHand(t, "OvnEip", eip) == "" { // Kube-OVN sometimes calls one ready that never gets an address
		t.Log("Kube-OVN has made an OvnEip without an address; once more")
		f.undo(t, eip)
		begin = time.Now()
	}
	f.readyByHand(t, "OvnFip", fip)
	took := time.Since(begin)
	f.undo(t, eip+"\n---\n"+fip)
	return took
}

func (f *fleet) undo(t *testing.T, text string) {
	t.Helper()
	if err := f.objects.Delete(within(t, time.Minute), text); err != nil {
		t.Fatal(err)
	}
}

// readyByHand makes an object of Kube-OVN's, waits until it is ready, and returns the address that it has by then.
func (f *fleet) readyByHand(t *testing.T, kind, text string) (address string) {
	t.Helper()
	if err := f.objects.Apply(within(t, time.Minute), text); err != nil {
		t.Fatal(err)
	}
	f.wait(t, kind, "", visitor, func(o *unstructured.Unstructured) bool {
		if !manifest.Field("true", "status", "ready")(o) {
			return false
		}
		address, _, _ = unstructured.NestedString(o.Object, "status", "v4Ip")
		return true
	})
	return address
}

// chosen is a project that was there from the beginning.
func (f *fleet) chosen(i int) int { return i % 5 }

// quiet waits until the controller has had nothing to do for longer than it waits before it looks again by itself. After thousands of
// Services that takes minutes: Kube-OVN has a look at each, some forty in a second.
func (f *fleet) quiet(t *testing.T) {
	t.Helper()
	const still = 2500 * time.Millisecond
	since := time.Now()
	f.await(t, 15*time.Minute, func(now map[string]float64) bool {
		if done := runs(now); done != f.done || now["sallyport_shards_waiting"] > 0 {
			f.done, f.calm, since = done, false, time.Now()
		}
		f.calm = f.calm || time.Since(since) > still
		return f.calm // since the last time, if nothing has been run
	})
}

// await asks the controller for its counters until they are as they should be. A controller that has only just started does
// not answer.
func (f *fleet) await(t *testing.T, limit time.Duration, holds func(map[string]float64) bool) {
	t.Helper()
	ctx, cancel := context.WithTimeout(context.Background(), limit)
	defer cancel()
	ticks := time.NewTicker(500 * time.Millisecond) // each answer costs the controller some milliseconds
	defer ticks.Stop()
	for {
		if now, err := f.ctl.scrape(ctx); err == nil && holds(now) {
			return
		}
		select {
		case <-ticks.C:
		case <-ctx.Done():
			t.Fatalf("the controller's counters are not as they should be after %s: %v", limit, f.ctl.counters(t))
		}
	}
}

// kernel reads a file that the kernel has about the controller's process.
func (c *controller) kernel(t *testing.T, file string) string {
	t.Helper()
	c.mu.Lock()
	defer c.mu.Unlock()
	if c.process == nil {
		t.Fatal("the controller is not running")
	}
	raw, err := os.ReadFile(fmt.Sprintf("/proc/%d/%s", c.process.Process.Pid, file))
	if err != nil {
		t.Fatal(err)
	}
	return string(raw)
}

// cpu is the processor time that the controller has used, in user and kernel mode. The kernel counts in hundredths of a second.
func (c *controller) cpu(t *testing.T) time.Duration {
	t.Helper()
	stat := c.kernel(t, "stat")
	fields := strings.Fields(stat[strings.LastIndex(stat, ")")+2:]) // the name of the program may have spaces in it
	var ticks int
	for _, text := range fields[11:13] {
		n, err := strconv.Atoi(text)
		if err != nil {
			t.Fatal(err)
		}
		ticks += n
	}
	return time.Duration(ticks) * 10 * time.Millisecond
}

// memory is what the controller has in memory, and had at most, in MiB.
func (c *controller) memory(t *testing.T) (now, most int) {
	t.Helper()
	for line := range strings.Lines(c.kernel(t, "status")) {
		name, value, _ := strings.Cut(line, ":")
		kib, _ := strconv.Atoi(strings.TrimSuffix(strings.TrimSpace(value), " kB"))
		switch name {
		case "VmRSS":
			now = kib / 1024
		case "VmHWM":
			most = kib / 1024
		}
	}
	return now, most
}
