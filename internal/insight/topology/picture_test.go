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

	"github.com/sallyport/sallyport/internal/insight/topology/drawing"
	"github.com/sallyport/sallyport/internal/model/clusterstate/clusterstatetest"
)

// testGraphs returns graphs for every kind of picture: without projects, detailed, folded and dense, of one project,
// and with names of maximum length.
var testGraphs = sync.OnceValue(func() map[string]*Graph {
	all := map[string]*Graph{}
	for _, projects := range []int{
		0, 1, 5, foldThreshold - 1, foldThreshold, 50, denseThreshold - 1, denseThreshold,
		1000,
	} {
		all[fmt.Sprintf("%d projects", projects)] = BuildGraph(clusterstatetest.GenerateCluster(projects), nil)
	}
	five := all["5 projects"]
	for _, v := range five.Vpcs {
		all["project "+v.Name], _ = five.FocusProject(v.Name)
	}
	for _, projects := range []int{5, 50} {
		g := BuildGraph(clusterstatetest.GenerateCluster(projects), nil)
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

func TestTextFitsItsBox(t *testing.T) {
	for name, g := range testGraphs() {
		t.Run(name, func(t *testing.T) {
			p := g.drawPicture()
			width, height := p.Size()
			picture := box{W: width, H: height}
			for _, x := range p.Texts {
				if w := drawing.TextWidth(x.Text, x.Font); w > x.Room.W {
					t.Errorf("%q is %d wide and has %d", x.Text, w, x.Room.W)
				}
				if at := textExtent(x); !at.IsInside(picture) {
					t.Errorf("%q at %v is not in the picture, %v", x.Text, at, picture)
				}
			}
			if width > pictureWidth {
				t.Errorf("the picture is %d wide", width)
			}
		})
	}
}

// textExtent returns the box of a text with its maximum width.
func textExtent(x drawing.Text) box {
	w := drawing.TextWidth(x.Text, x.Font)
	switch {
	case x.Font.AlignRight:
		return box{X: x.Room.Right() - w, Y: x.Room.Y, W: w, H: x.Room.H}
	case x.Font.AlignCenter:
		return box{X: x.Room.X + (x.Room.W-w)/2, Y: x.Room.Y, W: w, H: x.Room.H}
	}
	return box{X: x.Room.X, Y: x.Room.Y, W: w, H: x.Room.H}
}

func boxesOverlap(a, b box) bool {
	return a.X < b.Right() && b.X < a.Right() && a.Y < b.Bottom() && b.Y < a.Bottom()
}

func TestTextsDoNotOverlap(t *testing.T) {
	for name, g := range testGraphs() {
		t.Run(name, func(t *testing.T) {
			texts := g.drawPicture().Texts
			slices.SortStableFunc(texts, func(a, b drawing.Text) int { return a.Room.Y - b.Room.Y })
			for i, a := range texts {
				for _, b := range texts[i+1:] {
					if b.Room.Y > a.Room.Bottom() {
						break
					}
					if boxesOverlap(textExtent(a), textExtent(b)) {
						t.Errorf("%q at %v lies on %q at %v", a.Text, textExtent(a), b.Text, textExtent(b))
					}
				}
			}
		})
	}
}

// The straight parts of a rail: from its network, and after the bend.
var (
	straightRail = regexp.MustCompile(`<path class="rail n\d[^"]*" d="M(\d+) (\d+)([HV])(\d+)`)
	bentRail     = regexp.MustCompile(`Q\d+ \d+ (\d+) (\d+)([HV])(\d+)`)
)

// Lines between networks and routers do not cross boxes. Boxes at least as large as a node are the cards of networks,
// nodes and VPCs.
func TestLinesAvoidBoxes(t *testing.T) {
	for name, g := range testGraphs() {
		t.Run(name, func(t *testing.T) {
			p := g.drawPicture()
			svg := p.SVG("", "", drawing.Light)
			lines := append(straightRail.FindAllStringSubmatch(svg, -1), bentRail.FindAllStringSubmatch(svg, -1)...)
			if len(lines) == 0 {
				t.Error("there are no lines")
			}
			boxes := slices.DeleteFunc(p.Boxes, func(b box) bool { return b.W < nodeTileWidth || b.H < nodeTileHeight })
			for _, m := range lines {
				at := slices.IndexFunc(boxes, func(b box) bool {
					return boxesOverlap(lineBox(m), box{X: b.X + 3, Y: b.Y + 3, W: b.W - 6, H: b.H - 6})
				})
				if at >= 0 {
					t.Errorf("%s goes through %v", m[0], boxes[at])
				}
			}
		})
	}
}

// lineBox returns the box of a straight line.
func lineBox(m []string) box {
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
	for name, g := range testGraphs() {
		t.Run(name, func(t *testing.T) {
			text := g.RenderSVG(drawing.Auto)
			if text != g.RenderSVG(drawing.Auto) {
				t.Error("the same graph gives two pictures")
			}
			n := countElements(t, text)
			if n["title"] == 0 || n["desc"] != 1 || n["text"] < 10 {
				t.Errorf("it has %d titles, %d descriptions, %d texts", n["title"], n["desc"], n["text"])
			}
			for _, v := range g.Vpcs {
				if !strings.Contains(text, `data-ref="`+v.projectOrVPCRef().String()+`"`) &&
					!strings.Contains(text, `data-ref="`+v.Ref.String()+`"`) {
					t.Errorf("%s is not in the picture", v.Name)
				}
			}
		})
	}
}

// countElements counts the elements of a document, by name.
func countElements(t *testing.T, text string) map[string]int {
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
	g := BuildGraph(clusterstatetest.GenerateCluster(1), nil)
	const query = "prefers-color-scheme"
	if !strings.Contains(g.RenderSVG(drawing.Auto), query) {
		t.Error("a picture for everybody does not ask for the scheme")
	}
	light, dark := g.RenderSVG(drawing.Light), g.RenderSVG(drawing.Dark)
	if strings.Contains(light, query) || strings.Contains(dark, query) || light == dark {
		t.Error("a light or a dark picture asks for the scheme, or they are the same")
	}
}

// Problems are marked. Without problems, only the legend has a mark.
func TestProblemsAreMarked(t *testing.T) {
	marks := func(g *Graph) int { return strings.Count(g.RenderSVG(drawing.Light), `class="mark"`) }
	g := BuildGraph(clusterstatetest.GenerateCluster(5), nil)
	healthy := BuildGraph(clusterstatetest.GenerateCluster(4), nil)
	if with, without := marks(g), marks(healthy); without != 2 || with < 4 {
		t.Errorf("%d marks with a problem, %d without", with, without)
	}
}
