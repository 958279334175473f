package loadbalancer

import (
	"context"
	"sync"
	"testing"

	"k8s.io/client-go/rest"

	"github.com/sallyport/sallyport/internal/lab/manifest"
	"github.com/sallyport/sallyport/test/e2e/harness"
	"github.com/sallyport/sallyport/test/show"
)

// The cores of TestScale9Abuse: in a cluster, Kubernetes and its clients do not run where OVN and Sallyport compute.
const (
	kubernetesCore = 0
	networkCore    = 1
)

// TestScale9Abuse lets three tenants abuse the cluster at once, in projects of their own. All tenants send their requests
// as Kubernetes' priority level for tenants expects (examples/07-priority). The others' 99th percentile, from Kubernetes'
// yes to the row, must not exceed twice its usual value.
func TestScale9Abuse(t *testing.T) {
	harness.RunQuietly(t)
	item := scaleItems.Item(t, 9)
	c := &serviceScaleFixture{ScaleFixture: harness.NewScaleFixture(t)}
	c.balancers = harness.NewLoadBalancerWatch(t, c.Cluster)
	abuses := c.listAbuses()
	c.GrowTo(t, len(abuses)+2)
	c.createServices(t, item, show.ChooseSize(50, 10))
	c.Apply(t, harness.ReadFile(t, "../../../examples/07-priority/tenants.yaml"))
	c.actAsTenants(t)
	c.pinCores(t)

	rounds := show.ChooseSize(3, 1)
	c.measureVictims(t, len(abuses)) // warm up
	quiet, during := c.measureVictims(t, len(abuses)), latencies{}
	for range rounds {
		during = during.merge(c.measureUnderAbuse(t, abuses))
		quiet = quiet.merge(c.measureVictims(t, len(abuses)))
	}
	ratio := func(of func(latencies) float64) float64 { return of(during) / of(quiet) }
	row := func(l latencies) float64 { return harness.PercentileMillis(l.row, 99) }
	bare := func(l latencies) float64 { return harness.PercentileMillis(l.bare, 99) }
	item.AddFigure("%d changes of others while three tenants abuse the cluster, %d while it is quiet; from Kubernetes' yes to "+
		"the row: %s; %s. Kubernetes' yes: %s; %s. A bare transaction: %s; %s", len(during.row), len(quiet.row),
		harness.FormatMedianAndP99(during.row), harness.FormatMedianAndP99(quiet.row),
		harness.FormatMedianAndP99(during.accepted), harness.FormatMedianAndP99(quiet.accepted),
		harness.FormatMedianAndP99(during.bare), harness.FormatMedianAndP99(quiet.bare))
	item.AddFigure("the 99th percentile of others is %.1f times that of the quiet cluster, that of a bare transaction %.1f times",
		ratio(row), ratio(bare))
	if show.IsFullSize() && ratio(row) > 2 {
		t.Errorf("the 99th percentile of others is %.1f times that of the quiet cluster, wanted 2; the slowest: %v", ratio(row),
			during.row[len(during.row)-5:])
	}
}

// measureUnderAbuse measures the others while every abuse goes on in a project of its own.
func (c *serviceScaleFixture) measureUnderAbuse(t *testing.T, abuses []abuse) latencies {
	t.Helper()
	ctx, cancel := context.WithCancel(t.Context())
	var abusers sync.WaitGroup
	for project, a := range abuses {
		abusers.Go(func() {
			for pass := 0; ctx.Err() == nil; pass++ {
				a.do(ctx, t, abuser{project, pass})
			}
		})
	}
	during := c.measureVictims(t, len(abuses))
	cancel()
	abusers.Wait()
	c.WaitIdle(t)
	return during
}

// actAsTenants sends the fixture's requests as a ServiceAccount of tenants would: Kubernetes' FlowSchema for tenants
// selects their group. Administrators are exempt from priority and fairness.
func (c *serviceScaleFixture) actAsTenants(t *testing.T) {
	t.Helper()
	c.Apply(t, `{apiVersion: rbac.authorization.k8s.io/v1, kind: ClusterRoleBinding, metadata: {name: tenants-of-the-test},
  subjects: [{apiGroup: rbac.authorization.k8s.io, kind: Group, name: tenants-of-the-test}],
  roleRef: {apiGroup: rbac.authorization.k8s.io, kind: ClusterRole, name: cluster-admin}}`)
	config := harness.LoadConfig(t, c.Kubeconfig())
	config.Impersonate = rest.ImpersonationConfig{
		UserName: "tenant", Groups: []string{"system:serviceaccounts", "system:authenticated", "tenants-of-the-test"},
	}
	objects, err := manifest.New(config)
	if err != nil {
		t.Fatal(err)
	}
	administrator := c.Objects
	c.Objects = objects
	t.Cleanup(func() { c.Objects = administrator })
}

// pinCores divides the processes of the lab, and this one, among two cores.
func (c *serviceScaleFixture) pinCores(t *testing.T) {
	t.Helper()
	pinned, err := harness.PinProcesses(c.Dir, func(program string) int {
		switch program {
		case "ovsdb-server of nb", "ovsdb-server of sb", "ovn-northd", "sallyport-controller":
			return networkCore
		default:
			return kubernetesCore
		}
	})
	if err != nil {
		t.Fatal(err)
	}
	if pinned[networkCore] != 4 || pinned[kubernetesCore] < 4 {
		t.Fatalf("processes on each core: %v", pinned)
	}
	restore, err := harness.PinSelf(kubernetesCore)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		if err := restore(); err != nil {
			t.Error(err)
		}
	})
}
