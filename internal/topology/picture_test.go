package topology

import (
	"encoding/xml"
	"errors"
	"fmt"
	"io"
	"regexp"
	"slices"
	"strings"
	"sync"
	"testing"

	"github.com/sallyport/sallyport/internal/survey/surveytest"
	"github.com/sallyport/sallyport/internal/topology/drawing"
)

// drawn are pictures of every kind: of no project, of some, folded and dense, of one project, and with names as long as they may be.
var drawn = sync.OnceValue(func() map[string]*Graph {
	all := map[string]*Graph{}
	for _, projects := range []int{0, 1, 5, foldAt - 1, foldAt, 50, denseAt - 1, denseAt, 1000} {
		all[fmt.Sprintf("%d projects", projects)] = Of(surveytest.Cluster(projects), nil)
	}
	five := all["5 projects"]
	for _, v := range five.Vpcs {
		all["project "+v.Name], _ = five.Project(v.Name)
	}
	for _, projects := range []int{5, 50} {
		g := Of(surveytest.Cluster(projects), nil)
		for i := range g.Vpcs {
			g.Vpcs[i].Name = strings.Repeat("m", 63)
			for k := range g.Vpcs[i].Services {
				g.Vpcs[i].Services[k].Ref.Name = strings.Repeat("W", 63)
			}
		}
		for i := range g.Nodes {
			g.Nodes[i].Name = strings.Repeat("node.", 40)
		}
		all[fmt.Sprintf("%d projects with long names", projects)] = g
	}
	return all
})

func TestTextStaysInItsRoom(t *testing.T) {
	for name, g := range drawn() {
		t.Run(name, func(t *testing.T) {
			p := g.draw()
			width, height := p.Size()
			picture := box{W: width, H: height}
			for _, x := range p.Texts {
				if w := drawing.Width(x.Text, x.Font); w > x.Room.W {
					t.Errorf("%q is %d wide and has %d", x.Text, w, x.Room.W)
				}
				if at := extent(x); !at.Inside(picture) {
					t.Errorf("%q at %v is not in the picture, %v", x.Text, at, picture)
				}
			}
			if width > wide {
				t.Errorf("the picture is %d wide", width)
			}
		})
	}
}

// extent is where a text is, as wide as it is at most.
func extent(x drawing.Text) box {
	w := drawing.Width(x.Text, x.Font)
	switch {
	case x.Font.Right:
		return box{X: x.Room.Right() - w, Y: x.Room.Y, W: w, H: x.Room.H}
	case x.Font.Middle:
		return box{X: x.Room.X + (x.Room.W-w)/2, Y: x.Room.Y, W: w, H: x.Room.H}
	}
	return box{X: x.Room.X, Y: x.Room.Y, W: w, H: x.Room.H}
}

func overlap(a, b box) bool {
	return a.X < b.Right() && b.X < a.Right() && a.Y < b.Bottom() && b.Y < a.Bottom()
}

func TestNoTextLiesOnAnother(t *testing.T) {
	for name, g := range drawn() {
		t.Run(name, func(t *testing.T) {
			texts := g.draw().Texts
			slices.SortStableFunc(texts, func(a, b drawing.Text) int { return a.Room.Y - b.Room.Y })
			for i, a := range texts {
				for _, b := range texts[i+1:] {
					if b.Room.Y > a.Room.Bottom() {
						break
					}
					if overlap(extent(a), extent(b)) {
						t.Errorf("%q at %v lies on %q at %v", a.Text, extent(a), b.Text, extent(b))
					}
				}
			}
		})
	}
}

// The straight parts of a rail: from its network, and after a bend.
var (
	straight = regexp.MustCompile(`<path class="rail n\d[^"]*" d="M(\d+) (\d+)([HV])(\d+)`)
	bent     = regexp.MustCompile(`Q\d+ \d+ (\d+) (\d+)([HV])(\d+)`)
)

// Networks are connected by lines beside the boxes, never through one: cards of networks, nodes and VPCs are what is at least as large as a node.
func TestLinesKeepClearOfBoxes(t *testing.T) {
	for name, g := range drawn() {
		t.Run(name, func(t *testing.T) {
			p := g.draw()
			svg := p.SVG("", "", drawing.Light)
			lines := append(straight.FindAllStringSubmatch(svg, -1), bent.FindAllStringSubmatch(svg, -1)...)
			if len(lines) == 0 {
				t.Error("there are no lines")
			}
			boxes := slices.DeleteFunc(p.Boxes, func(b box) bool { return b.W < nodeWide || b.H < nodeHigh })
			for _, m := range lines {
				at := slices.IndexFunc(boxes, func(b box) bool { return overlap(stretch(m), box{X: b.X + 3, Y: b.Y + 3, W: b.W - 6, H: b.H - 6}) })
				if at >= 0 {
					t.Errorf("%s goes through %v", m[0], boxes[at])
				}
			}
		})
	}
}

// stretch is the box of a straight line.
func stretch(m []string) box {
	var x, y, to int
	_, _ = fmt.Sscan(m[1], &x)
	_, _ = fmt.Sscan(m[2], &y)
	_, _ = fmt.Sscan(m[4], &to)
	if m[3] == "H" {
		return box{X: min(x, to), Y: y, W: max(x, to) - min(x, to) + 1, H: 1}
	}
	return box{X: x, Y: min(y, to), W: 1, H: max(y, to) - min(y, to) + 1}
}

func TestPicturesAreWellFormed(t *testing.T) {
	for name, g := range drawn() {
		t.Run(name, func(t *testing.T) {
			text := g.Picture(drawing.Auto)
			if text != g.Picture(drawing.Auto) {
				t.Error("the same graph gives two pictures")
			}
			n := elements(t, text)
			if n["title"] == 0 || n["desc"] != 1 || n["text"] < 10 {
				t.Errorf("it has %d titles, %d descriptions, %d texts", n["title"], n["desc"], n["text"])
			}
			for _, v := range g.Vpcs {
				if !strings.Contains(text, `data-ref="`+v.ref().String()+`"`) && !strings.Contains(text, `data-ref="`+v.Ref.String()+`"`) {
					t.Errorf("%s is not in the picture", v.Name)
				}
			}
		})
	}
}

// elements counts the elements of a document, by name.
func elements(t *testing.T, text string) map[string]int {
	t.Helper()
	count := map[string]int{}
	for d := xml.NewDecoder(strings.NewReader(text)); ; {
		token, err := d.Token()
		if errors.Is(err, io.EOF) {
			return count
		}
		if err != nil {
			t.Fatal(err)
		}
		if e, ok := token.(xml.StartElement); ok {
			count[e.Name.Local]++
		}
	}
}

func TestThemes(t *testing.T) {
	g := Of(surveytest.Cluster(1), nil)
	const query = "prefers-color-scheme"
	if !strings.Contains(g.Picture(drawing.Auto), query) {
		t.Error("a picture for everybody does not ask for the scheme")
	}
	light, dark := g.Picture(drawing.Light), g.Picture(drawing.Dark)
	if strings.Contains(light, query) || strings.Contains(dark, query) || light == dark {
		t.Error("a light or a dark picture asks for the scheme, or they are the same")
	}
}

// What is wrong is marked: without it there is no mark beside the legend's.
func TestProblemsAreMarked(t *testing.T) {
	marks := func(g *Graph) int { return strings.Count(g.Picture(drawing.Light), `class="mark"`) }
	g := Of(surveytest.Cluster(5), nil)
	healthy := Of(surveytest.Cluster(4), nil)
	if with, without := marks(g), marks(healthy); without != 2 || with < 4 {
		t.Errorf("%d marks with a problem, %d without", with, without)
	}
}
