package real

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"sync"
	"syscall"
	"testing"
	"time"

	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"

	"github.com/sallyport/sallyport/internal/lab/blueprint"
	"github.com/sallyport/sallyport/internal/lab/manifest"
	"github.com/sallyport/sallyport/internal/lab/program"
	"github.com/sallyport/sallyport/test/e2e/harness"
	"github.com/sallyport/sallyport/test/show"
)

const (
	// maxUpgradeSilence is how long a stream may be silent during what does not touch OVN's own programs.
	maxUpgradeSilence = 500 * time.Millisecond
	// upgradeFromVariable names the commit to upgrade from. There is no release yet: by default it is an older commit.
	upgradeFromVariable = "SALLYPORT_UPGRADE_FROM"
	upgradeFromDefault  = "HEAD~50"
	// apiServerOutage is how long the API server is away.
	apiServerOutage = time.Minute
)

// TestReal5Upgrades measures connections through every kind of address while parts of the cluster are replaced. It runs
// on the lab's own nodes: no part of a node is replaced.
func TestReal5Upgrades(t *testing.T) {
	item := realItems.Item(t, 5)
	from := cmp.Or(os.Getenv(upgradeFromVariable), upgradeFromDefault)
	f := newUpgradeFixture(t, buildController(t, from))
	for _, u := range []struct {
		what string
		run  func(*upgradeFixture, *testing.T)
	}{
		{"nothing happens", (*upgradeFixture).waitIdly}, // control
		{"Sallyport is upgraded, replica by replica", (*upgradeFixture).upgrade},
		{"Sallyport is rolled back", (*upgradeFixture).rollBack},
		{"Sallyport is upgraded again", (*upgradeFixture).upgrade},
		{"Kube-OVN's controller restarts", (*upgradeFixture).restartKubeOVN},
		{"the CRDs gain a field", (*upgradeFixture).extendCRDs},
		{"the API server is down for a minute", (*upgradeFixture).stopAPIServer},
	} {
		t.Run(u.what, func(t *testing.T) {
			f.ResetDrops(t)
			load := f.startLoad(t)
			u.run(f, t)
			silence, opened, lost := load.finish(t)
			item.AddFigure("%s: %d streams, longest silence %d ms; %d of %d new connections lost", u.what,
				len(load.streams), silence.Milliseconds(), lost, opened)
			if lost > 0 || silence > maxUpgradeSilence {
				t.Errorf("%d connections lost, silence of %v; allowed are none and %v", lost, silence, maxUpgradeSilence)
			}
			f.expectDrops(t, item)
		})
	}
	f.expectFailureSeen(t)
	item.AddFigure("upgraded from commit %s; OVN's programs and nodes are not replaced by this test", from)
}

// expectDrops fails the test if routers outside have dropped a packet. Replies of the Services' backend are only counted:
// Kube-OVN deletes all load balancers when it starts, and until they are written again replies are not translated.
func (f *upgradeFixture) expectDrops(t *testing.T, item *show.Item) {
	t.Helper()
	if f.untranslated == "" {
		f.ExpectNoDrops(t)
		return
	}
	replies := 0
	for router, dropped := range f.CountDrops(t) {
		for _, flow := range f.ReadDroppedFlows(t, router) {
			if flow.Source.Addr().String() == f.untranslated {
				replies++
			} else {
				t.Errorf("%s dropped %d packets: %v", router, dropped, flow)
			}
		}
	}
	item.AddFigure("replies of the Services' backend in %d connections left untranslated and were sent again", replies)
	f.untranslated = ""
}

// upgradeFixture is a project with every kind of address, and two replicas of the controller.
type upgradeFixture struct {
	*harness.Cluster
	replicas  []*harness.Controller
	older     string            // program of the older version
	addresses map[string]string // by kind
	namespace string
	mail      string // the address of the Services' backend
	// untranslated is a source whose packets routers outside may drop in the step that runs now; "": none may be.
	untranslated string
}

func newUpgradeFixture(t *testing.T, older string) *upgradeFixture {
	t.Helper()
	f := &upgradeFixture{
		Cluster: harness.StartLab(t, "upgrades", blueprint.Default()), older: older, addresses: map[string]string{},
	}
	f.InstallSallyport(t)
	for range 2 {
		r := f.NewController(t, t.TempDir(), "--leader-elect=true")
		r.Program = older
		r.StartForTest(t)
		f.replicas = append(f.replicas, r)
	}
	f.CreateOrganization(t, "up")
	ns := f.CreateProject(t, "up", "grade", "10.91.0.0/24", "cloud")
	f.namespace = ns
	f.RunPod(t, harness.Pod{Namespace: ns, Name: "web", Node: "node1", Labels: map[string]string{"app": "web"}})
	f.mail = f.RunPod(t, harness.Pod{Namespace: ns, Name: "mail", Node: "node2", Labels: map[string]string{"app": "mail"}})
	f.RunPod(t, harness.Pod{Namespace: ns, Name: "job", Node: "node3"})
	f.RunPod(t, harness.Pod{Namespace: ns, Name: "spare", Node: "node3"})
	for _, network := range []string{"cloud", "public"} {
		f.addresses["FIp "+network] = f.CreateFIP(t, ns, network,
			fmt.Sprintf("{externalNetworkType: %s, podTarget: {podName: web}}", network))
		f.Apply(t, fmt.Sprintf(`{apiVersion: v1, kind: Service, metadata: {name: %[1]s, namespace: %[2]s, annotations:
  {network.kube-dc.com/external-network-type: %[1]s}}, spec: {type: LoadBalancer, selector: {app: mail}, ports: [{port: 80}]}}`,
			network, ns))
		f.WaitForObject(t, "Service", ns, network, func(o *unstructured.Unstructured) bool {
			if !manifest.True("Programmed")(o) {
				return false
			}
			f.addresses["Service "+network] = harness.IngressIP(o)
			return f.addresses["Service "+network] != ""
		})
	}
	return f
}

// buildController builds the controller of another commit.
func buildController(t *testing.T, commit string) string {
	t.Helper()
	dir := t.TempDir()
	source, built := filepath.Join(dir, "source"), filepath.Join(dir, "sallyport-controller")
	for _, argv := range [][]string{
		{"git", "-C", "../../..", "worktree", "add", "--detach", source, commit},
		{"go", "-C", source, "build", "-o", built, "./cmd/sallyport-controller"},
	} {
		if out, err := exec.Command(argv[0], argv[1:]...).CombinedOutput(); err != nil {
			t.Fatalf("%s: %v\n%s", strings.Join(argv, " "), err, out)
		}
	}
	t.Cleanup(func() {
		_ = exec.Command("git", "-C", "../../..", "worktree", "remove", "--force", source).Run()
	})
	return built
}

// replace replaces one replica after the other, as a rolling update of the Deployment does.
func (f *upgradeFixture) replace(t *testing.T, program string) {
	t.Helper()
	for _, r := range f.replicas {
		r.Stop(syscall.SIGTERM)
		r.Program = program
		r.Start(t)
		f.expectProgress(t)
	}
}

// expectProgress waits until a change is in force: a replica leads.
func (f *upgradeFixture) expectProgress(t *testing.T) {
	t.Helper()
	f.CreateFIP(t, f.namespace, "progress", "{externalNetworkType: public, podTarget: {podName: spare}}")
	f.DeleteAndWait(t, "FIp", f.namespace, "progress")
}

func (f *upgradeFixture) waitIdly(t *testing.T) { f.expectProgress(t) }
func (f *upgradeFixture) upgrade(t *testing.T)  { f.replace(t, "") }
func (f *upgradeFixture) rollBack(t *testing.T) { f.replace(t, f.older) }

func (f *upgradeFixture) restartKubeOVN(t *testing.T) {
	f.untranslated = f.mail
	f.ControlLab(t, "kill", "kube-ovn-controller")
	f.ControlLab(t, "start", "kube-ovn-controller")
	f.RunPod(t, harness.Pod{Namespace: f.namespace, Name: "after", Node: "node1"}) // it works
	f.expectProgress(t)
}

// extendCRDs adds an optional field to the CRDs, as a newer version would.
func (f *upgradeFixture) extendCRDs(t *testing.T) {
	for _, crd := range []string{"eips", "fips"} {
		name := crd + ".kube-dc.com"
		kubectl(t, f.Cluster, "patch", "crd", name, "--type=json", "-p", `[{"op": "add", "path":
  "/spec/versions/0/schema/openAPIV3Schema/properties/spec/properties/newField", "value": {"type": "string", "maxLength": 10}}]`)
	}
	f.CreateFIP(t, f.namespace, "newer", "{externalNetworkType: public, newField: x, podTarget: {podName: spare}}")
	if got := f.ReadField(t, "FIp", f.namespace, "newer", "spec", "newField"); got != "x" {
		t.Errorf("the new field is %q", got)
	}
	f.DeleteAndWait(t, "FIp", f.namespace, "newer")
}

// stopAPIServer also restarts Kube-OVN's controller, which exits when it loses its Lease.
func (f *upgradeFixture) stopAPIServer(t *testing.T) {
	f.untranslated = f.mail
	f.ControlLab(t, "kill", "kube-apiserver")
	select {
	case <-time.After(show.ChooseSize(apiServerOutage, 10*time.Second)):
	case <-t.Context().Done():
	}
	f.ControlLab(t, "start", "kube-apiserver")
	harness.Eventually(t, "the API server answers", func() bool { // it knows CRDs last
		_, err := f.Objects.Get(harness.Within(t, time.Second), harness.ObjectRef("FIp", f.namespace, "cloud"))
		return err == nil
	})
	for _, r := range f.replicas { // one that lost its Lease has exited, and its kubelet starts it again
		select {
		case <-r.Exited:
			r.Stop(syscall.SIGTERM)
			r.Start(t)
		default:
		}
	}
	f.expectProgress(t)
}

// upgradeLoad is open streams, and new connections, through every address of the project and out of it.
type upgradeLoad struct {
	streams []*harness.Stream
	stop    context.CancelFunc
	running sync.WaitGroup

	mu           sync.Mutex
	opened, lost int
	errors       []error
}

func (f *upgradeFixture) startLoad(t *testing.T) *upgradeLoad {
	t.Helper()
	ctx, cancel := context.WithCancel(t.Context())
	l := &upgradeLoad{stop: cancel}
	connect := func(where, address string) {
		l.streams = append(l.streams, f.StartStream(t, where, address))
		l.running.Go(func() { l.openConnections(ctx, f.NS(where), "http://"+address) })
	}
	for _, address := range f.addresses {
		connect("internet", address)
	}
	connect("client-ext-public", f.addresses["FIp public"])
	connect("client-ext-public", f.addresses["Service public"])
	connect("job."+f.namespace, harness.InternetAddress) // by the project's own address
	connect("web."+f.namespace, harness.InternetAddress) // by the floating IP
	harness.ExpectStreamsContinue(t, "before", l.streams...)
	harness.ResetGaps(l.streams...)
	return l
}

// openConnections opens a new connection ten times a second.
func (l *upgradeLoad) openConnections(ctx context.Context, from program.Net, target string) {
	pace := time.NewTicker(100 * time.Millisecond)
	defer pace.Stop()
	for ctx.Err() == nil {
		limited, cancel := context.WithTimeout(ctx, harness.AnswerTimeout)
		_, err := program.Ask(limited, from, target)
		cancel()
		if ctx.Err() != nil {
			return
		}
		l.mu.Lock()
		if l.opened++; err != nil {
			l.lost++
			l.errors = append(l.errors, fmt.Errorf("%s: %w", target, err))
		}
		l.mu.Unlock()
		<-pace.C
	}
}

// finish stops the load and returns the longest silence of a stream, and how many connections were opened and lost.
func (l *upgradeLoad) finish(t *testing.T) (silence time.Duration, opened, lost int) {
	t.Helper()
	silence = harness.ExpectStreamsContinue(t, "after", l.streams...)
	l.stop()
	l.running.Wait()
	if err := errors.Join(l.errors[:min(len(l.errors), 3)]...); err != nil {
		t.Log(err)
	}
	return silence, l.opened, l.lost
}

// expectFailureSeen is the control: connections to an address that goes away are lost.
func (f *upgradeFixture) expectFailureSeen(t *testing.T) {
	t.Helper()
	load := f.startLoad(t)
	f.DeleteAndWait(t, "FIp", f.namespace, "cloud")
	harness.Eventually(t, "connections are lost without the FIp", func() bool {
		load.mu.Lock()
		defer load.mu.Unlock()
		return load.lost > 0
	})
	load.stop()
	load.running.Wait()
}
