package monitoring

import (
	"encoding/json"
	"regexp"
	"strings"
	"testing"

	"github.com/sallyport/sallyport/internal/controller"
)

// panel is what is looked at of a panel.
type panel struct {
	ID          int    `json:"id"`
	Type        string `json:"type"`
	Title       string `json:"title"`
	Description string `json:"description"`
	GridPos     struct{ X, Y, W, H int }
	Targets     []struct{ Expr, LegendFormat string }
}

func loadPanels(t *testing.T) []panel {
	t.Helper()
	var dashboard struct{ Panels []panel }
	if err := json.Unmarshal([]byte(readFile(t, "../../charts/sallyport/monitoring/dashboard.json")),
		&dashboard); err != nil {
		t.Fatal(err)
	}
	if len(dashboard.Panels) < 15 {
		t.Fatalf("the dashboard has %d panels", len(dashboard.Panels))
	}
	return dashboard.Panels
}

var legendPattern = regexp.MustCompile(`\{\{(\w+)\}\}`)

// Every panel asks for what there is, and its legend names labels that the answer has.
func TestDashboardAsksForWhatThereIs(t *testing.T) {
	for _, p := range loadPanels(t) {
		if (p.Type == "row") == (len(p.Targets) > 0) {
			t.Errorf("%s: a row has no queries, and everything else has", p.Title)
		}
		for _, q := range p.Targets {
			for _, wrong := range findQueryMistakes(q.Expr) {
				t.Errorf("%s: %s", p.Title, wrong)
			}
			for _, l := range legendPattern.FindAllStringSubmatch(q.LegendFormat, -1) {
				if !resultHasLabel(q.Expr, l[1]) {
					t.Errorf("%s: what %q gives has no label %s", p.Title, q.Expr, l[1])
				}
			}
		}
	}
	if resultHasLabel(`sum by (kind) (sallyport_objects)`, "reason") ||
		!resultHasLabel(`sum by (kind) (sallyport_objects)`, "kind") {
		t.Error("which labels an answer has is not told")
	}
}

// resultHasLabel says whether what an expression gives has a label: one of those that it is grouped by, or any of an
// expression that is not.
func resultHasLabel(expression, label string) bool {
	groups := grouping.FindAllStringSubmatch(expression, -1)
	for _, g := range groups {
		for l := range strings.SplitSeq(g[1], ", ") {
			if l == label {
				return true
			}
		}
	}
	return len(groups) == 0
}

// A metric that nobody shows is one that nobody looks at.
func TestDashboardShowsEveryMetric(t *testing.T) {
	var all strings.Builder
	for _, p := range loadPanels(t) {
		for _, q := range p.Targets {
			all.WriteString(q.Expr + "\n")
		}
	}
	for _, m := range controller.Metrics {
		if !regexp.MustCompile(`\b` + m.Name + `(_bucket)?\b`).MatchString(all.String()) {
			t.Errorf("no panel shows %s", m.Name)
		}
	}
}

// Panels are told apart, say what they are, and do not lie on each other.
func TestDashboardCanBeRead(t *testing.T) {
	ids, cells := map[int]bool{}, map[[2]int]string{}
	for _, p := range loadPanels(t) {
		if p.Title == "" || ids[p.ID] || p.Type != "row" && !strings.HasSuffix(p.Description, ".") {
			t.Errorf("%d %q: a panel has a number and a title of its own, and a description that is a sentence", p.ID,
				p.Title)
		}
		ids[p.ID] = true
		for x := p.GridPos.X; x < p.GridPos.X+p.GridPos.W; x++ {
			for y := p.GridPos.Y; y < p.GridPos.Y+p.GridPos.H; y++ {
				if other := cells[[2]int{x, y}]; other != "" || x > 23 {
					t.Fatalf("%q lies on %q, or beside the page", p.Title, other)
				}
				cells[[2]int{x, y}] = p.Title
			}
		}
	}
}
