package address

import (
	"context"
	"fmt"
	"slices"
	"testing"
	"time"

	"golang.org/x/sync/errgroup"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"

	"github.com/sallyport/sallyport/internal/lab/manifest"
	"github.com/sallyport/sallyport/test/e2e/harness"
	"github.com/sallyport/sallyport/test/show"
)

// TestCore6Conditions has two parts: statuses are correct, and their messages are useful.
func TestCore6Conditions(t *testing.T) {
	item := coreItems.Item(t, 6)
	c := harness.SharedSallyport(t)
	t.Run("never before the row", func(t *testing.T) {
		for _, figure := range checkNoEarlyClaims(t, c, show.ChooseSize(200, 20)) {
			item.AddFigure("%s", figure)
		}
	})
	t.Run("mistakes", func(t *testing.T) {
		if figure := checkMistakes(t, c); !t.Failed() {
			item.AddFigure("%s", figure)
		}
	})
}

// checkNoEarlyClaims creates many FIps, changes their targets and deletes them, while the northbound database is paused
// repeatedly, so that sent rows are not in the database for a while. Two watchers record the statuses of objects and
// the lifetimes of rows.
func checkNoEarlyClaims(t *testing.T, c *harness.Cluster, size int) []string {
	rows := watchRowHistory(t, c)
	said := recordClaims(t, c, "claims")
	c.CreateOrganization(t, "claims")
	ctx, stop := context.WithCancel(t.Context())
	var stops errgroup.Group
	stops.Go(func() error { return pauseNBRepeatedly(ctx, c) })

	c.CreateProject(t, "claims", "one", "10.61.0.0/16", "cloud")
	c.CreateProject(t, "claims", "two", "10.61.0.0/16", "public")
	all := make([]int, size)
	for i := range all {
		all[i] = i
	}
	kinds, projects := []string{"cloud", "public", "third"}, []string{"claims-one", "claims-two"}
	fip := func(i, block int) string {
		return fmt.Sprintf("{apiVersion: kube-dc.com/v1, kind: FIp, metadata: {name: f%d, namespace: %s}, spec: {ipAddress: 10.61.%d.%d, externalNetworkType: %s}}",
			i, projects[i%2], block, 2+i, kinds[i%3])
	}
	for block := range 2 { // created, then with another target
		runConcurrently(t, all, func(ctx context.Context, i int) error {
			if err := c.Objects.Apply(ctx, fip(i, block)); err != nil {
				return err
			}
			return c.Objects.Wait(ctx, harness.ObjectRef("FIp", projects[i%2], fmt.Sprintf("f%d", i)),
				pointsTo(fmt.Sprintf("10.61.%d.%d", block, 2+i)))
		})
	}
	runConcurrently(t, all, func(ctx context.Context, i int) error { return c.Objects.Delete(ctx, fip(i, 0)) })
	// Some are deleted before they are Programmed: they must never report it.
	runConcurrently(t, all, func(ctx context.Context, i int) error {
		if err := c.Objects.Apply(ctx, fip(i, 2)); err != nil {
			return err
		}
		if err := c.Objects.Wait(ctx, harness.ObjectRef("OvnFip", "", fmt.Sprintf("%s-f%d", projects[i%2], i)),
			manifest.Exists); err != nil {
			return err
		}
		return c.Objects.Delete(ctx, fip(i, 2))
	})
	stop()
	if err := stops.Wait(); err != nil {
		t.Error(err)
	}
	claims := said.allClaims()
	for _, early := range rows.findEarlyClaims(claims) {
		t.Error(early)
	}
	lie := writeFalseStatus(t, c)
	caught := rows.findEarlyClaims(said.claimsOf(lie))
	if len(caught) == 0 {
		t.Fatal("a FIp that says it is in force, written by hand and without any row, was not found: the test can't fail")
	}
	return []string{
		summarizeClaims(claims, rows),
		fmt.Sprintf("control: a status written by hand was found (%s)", caught[0]),
	}
}

// runConcurrently calls a function for each of many items, a few at a time.
func runConcurrently(t *testing.T, all []int, do func(ctx context.Context, i int) error) {
	t.Helper()
	ctx, cancel := context.WithTimeout(t.Context(), 5*time.Minute)
	defer cancel()
	group, ctx := errgroup.WithContext(ctx)
	group.SetLimit(20)
	for _, i := range all {
		group.Go(func() error { return do(ctx, i) })
	}
	if err := group.Wait(); err != nil {
		t.Fatal(err)
	}
}

// pauseNBRepeatedly pauses the northbound database for 300 ms, repeatedly.
func pauseNBRepeatedly(ctx context.Context, c *harness.Cluster) error {
	pause := func(limit time.Duration) {
		select {
		case <-time.After(limit):
		case <-ctx.Done():
		}
	}
	for ctx.Err() == nil {
		if err := c.Order(context.Background(), "pause", "ovn-nb1"); err != nil {
			return err
		}
		pause(300 * time.Millisecond)
		if err := c.Order(context.Background(), "resume", "ovn-nb1"); err != nil {
			return err
		}
		pause(500 * time.Millisecond)
	}
	return nil
}

// writeFalseStatus sets the status of a FIp without a row to Programmed, and returns its name. The controller corrects
// it.
func writeFalseStatus(t *testing.T, c *harness.Cluster) string {
	t.Helper()
	c.CreateNamespace(t, "claims-nobodys", "")
	c.ApplyObject(t, "FIp", "claims-nobodys", "lie", "{ipAddress: 10.61.9.9}")
	refused := func(o *unstructured.Unstructured) bool {
		return harness.FalseReason(o, "Accepted") == "TargetOutsideProject"
	}
	c.WaitForObject(t, "FIp", "claims-nobodys", "lie", refused)
	now := time.Now().UTC().Format(time.RFC3339)
	text := fmt.Sprintf(`
apiVersion: kube-dc.com/v1
kind: FIp
metadata: {name: lie, namespace: claims-nobodys}
spec: {ipAddress: 10.61.9.9}
status:
  externalIP: 100.65.200.200
  resolvedTargetIP: 10.61.9.9
  ready: true
  conditions: [{type: Programmed, status: "True", reason: Lie, message: "", lastTransitionTime: %q}]`, now)
	if err := c.Objects.Apply(harness.Within(t, harness.Patience), text); err != nil {
		t.Fatal(err)
	}
	c.WaitForObject(t, "FIp", "claims-nobodys", "lie", func(o *unstructured.Unstructured) bool {
		return refused(o) && !manifest.True("Programmed")(o)
	})
	return "FIp claims-nobodys/lie"
}

// summarizeClaims formats how many objects became Programmed, and for how long their last row had existed then.
func summarizeClaims(claims []claim, rows *rowHistory) string {
	count := map[string]int{}
	var leads []time.Duration
	for _, c := range claims {
		count[c.kind]++
		if lead, ok := rows.leadTime(c); ok && c.kind == "FIp" {
			leads = append(leads, lead)
		}
	}
	slices.Sort(leads)
	if len(leads) == 0 {
		return "nobody said anything"
	}
	return fmt.Sprintf("FIps said %d times that they are in force, EIps %d times, Projects %d times, and their rows were there; a FIp's last row for %s (shortest), %s (median)",
		count["FIp"], count["EIp"], count["Project"], leads[0].Round(time.Millisecond),
		leads[len(leads)/2].Round(time.Millisecond))
}
