package real

import (
	"encoding/json"
	"strings"
	"testing"

	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"

	"github.com/sallyport/sallyport/test/e2e/harness"
)

// traceOutput is the part of the output of `sallyport trace` that is compared with packets.
type traceOutput struct {
	Answered bool
	Ways     []struct{ Verdict, Code, Server, Seen string }
}

// traceCase is a request that is traced and sent. wantAnswer is what both must say.
type traceCase struct {
	where, client string // place, and what trace takes for it: an address, or "--from pod/NAME -n NAMESPACE"
	target        string // ADDRESS:PORT
	wantAnswer    bool
}

// checkTraces compares the verdicts of `sallyport trace` with packets.
func (f *themeFixture) checkTraces(t *testing.T) {
	h := f.shopProject()
	fip, service := f.createFIP(t, "traced", "public", "web"), h.CreateService(t, harness.ServiceSpec{Name: "traced"})
	unused := f.CreateEIP(t, f.shop, "unused", "{externalNetworkType: public}")
	internet := harness.InternetAddress
	for _, c := range []traceCase{
		{"internet", internet, fip + ":80", true},
		{f.cloud.Client, f.cloud.ClientAddress, fip + ":80", true},
		{"internet", internet, service + ":80", true},
		{"internet", internet, service + ":81", false},
		{"internet", internet, unused + ":80", false},
		{"web." + f.shop, "--from pod/web -n " + f.shop, internet + ":80", true},
		{"db." + f.shop, "--from pod/db -n " + f.shop, f.pods["web"] + ":80", true},
		{"mallory." + f.rival, "--from pod/mallory -n " + f.rival, fip + ":80", true},
	} {
		f.compareTrace(t, c)
	}
}

// compareTrace traces one request and sends it.
func (f *themeFixture) compareTrace(t *testing.T, c traceCase) {
	t.Helper()
	out := f.trace(t, c.client+" "+c.target)
	if out.Answered != c.wantAnswer {
		t.Errorf("%s → %s: trace says %+v", c.where, c.target, out)
	}
	if !c.wantAnswer {
		f.ExpectSilence(t, c.where, "http://"+c.target)
		return
	}
	a, err := f.SendRequest(c.where, "http://"+c.target)
	for range 2 { // a packet can be lost during ARP resolution
		if err != nil {
			a, err = f.SendRequest(c.where, "http://"+c.target)
		}
	}
	if err != nil {
		t.Errorf("%s → %s: trace says it is answered: %v", c.where, c.target, err)
		return
	}
	for _, w := range out.Ways {
		pod, known := f.podOf(w.Server)
		if w.Seen == a.Saw.Addr().String() && (a.Name == pod || !known) {
			return
		}
	}
	t.Errorf("%s → %s: got %q; trace says %+v", c.where, c.target, a.Text, out.Ways)
}

// podOf returns the pod with the address of a server; known is false for a host outside.
func (f *themeFixture) podOf(server string) (pod string, known bool) {
	for name, address := range f.pods {
		if strings.HasPrefix(server, address+":") {
			return name, true
		}
	}
	return "", false
}

// trace runs `sallyport trace`. Its exit code is 1 if there is no answer.
func (f *themeFixture) trace(t *testing.T, args string) (out traceOutput) {
	t.Helper()
	f.readJSON(t, "sallyport trace "+args+" -o json", &out)
	return out
}

// readJSON runs a command of `sallyport` whose exit code is 0 or 1, and decodes its output.
func (f *themeFixture) readJSON(t *testing.T, command string, out any) {
	t.Helper()
	said := f.run(t, command+where+" || [ $? = 1 ]")
	if err := json.Unmarshal([]byte(said), out); err != nil {
		t.Fatalf("%s: %v\n%s", command, err, said)
	}
}

// checkLiveTrace compares each step of traces with the logical flows that northd has computed, and with the nodes.
func (f *themeFixture) checkLiveTrace(t *testing.T) {
	fip := f.createFIP(t, "live", "public", "web")
	service := f.shopProject().CreateService(t, harness.ServiceSpec{Name: "live"})
	for _, args := range []string{
		harness.InternetAddress + " " + fip + ":80", harness.InternetAddress + " " + service + ":80",
		"--from pod/db -n " + f.shop + " " + harness.InternetAddress + ":80",
	} {
		said := f.run(t, "sallyport trace --live "+args+where) // exit code 0: every step agrees
		harness.ExpectContains(t, said, "Answered")
	}
	f.expectInbound(t, f.public, fip, "web")
	f.ExpectAnswer(t, "db."+f.shop, "http://"+harness.InternetAddress, "internet", f.projectAddress(t))
}

// checkRelay reads OVN's databases through the API server, the kubelet and the relay in the controller's container: no
// address of theirs is known here.
func (f *themeFixture) checkRelay(t *testing.T) {
	fip := f.createFIP(t, "relayed", "public", "web")
	said := f.run(t, "unset OVN_NB_DB OVN_SB_DB\nsallyport trace "+harness.InternetAddress+" "+fip+":80"+where)
	harness.ExpectContains(t, said, "Answered by "+f.pods["web"]+":80")
	f.expectInbound(t, f.public, fip, "web")
}

// checkExplanations looks at a floating IP of a pod that does not exist yet, while it does, and when it is gone.
func (f *themeFixture) checkExplanations(t *testing.T) {
	f.waitHealthy(t)
	f.ApplyObject(t, "FIp", f.shop, "late", "{externalNetworkType: public, podTarget: {podName: late}}")
	notFound := func() {
		t.Helper()
		f.WaitForObject(t, "FIp", f.shop, "late", func(o *unstructured.Unstructured) bool {
			return harness.FalseReason(o, "ResolvedRefs") == "PodNotFound"
		})
		f.SyncFlows(t)
		if f.explainWorks(t) {
			t.Error("explain says that a floating IP without a pod works")
		}
		harness.ExpectContains(t, f.tryRun("sallyport doctor"+where), "late", "PodNotFound")
	}
	notFound()
	f.RunPod(t, harness.Pod{Namespace: f.shop, Name: "late", Node: "node2"})
	f.WaitProgrammedOnNodes(t, "FIp", f.shop, "late")
	address := f.ReadField(t, "FIp", f.shop, "late", "status", "externalIP")
	f.expectInbound(t, f.public, address, "late")
	if !f.explainWorks(t) {
		t.Error("explain says that a floating IP that answers does not work")
	}
	f.waitHealthy(t)
	f.DeleteAndWait(t, "Pod", f.shop, "late")
	notFound()
	f.ExpectSilence(t, "internet", "http://"+address)
	f.DeleteAndWait(t, "FIp", f.shop, "late")
	f.waitHealthy(t)
}

// waitHealthy waits until `sallyport doctor` finds nothing: the cluster may still be busy with what came before.
func (f *themeFixture) waitHealthy(t *testing.T) {
	t.Helper()
	said, healthy := "", false
	harness.Eventually(t, "doctor finds nothing", func() bool {
		said = f.tryRun("sallyport doctor" + where)
		healthy = strings.Contains(said, "nothing is wrong") && strings.Contains(said, "2 nodes, of which 2 answered")
		return healthy
	})
	if !healthy {
		t.Log(said)
	}
}

// explainWorks asks `sallyport explain` whether floating IP late works.
func (f *themeFixture) explainWorks(t *testing.T) bool {
	t.Helper()
	var out struct{ Works bool }
	f.readJSON(t, "sallyport explain fip/late -n "+f.shop+" -o json", &out)
	return out.Works
}
