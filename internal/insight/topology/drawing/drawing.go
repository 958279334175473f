// Package drawing is a canvas for SVG pictures: boxes, lines, and text that fits into a given width.
package drawing

import (
	"fmt"
	"html"
	"strings"
)

// Font is the style of a text. Size 0 is the default size.
type Font struct {
	Size        int
	Bold, Mono  bool
	Muted       bool // less important
	AlignRight  bool // x is the end of the text
	AlignCenter bool // x is the middle of the text
	Class       string
}

func (f Font) sizeOrDefault() int {
	if f.Size == 0 {
		return 12
	}
	return f.Size
}

// Box is a rectangle in the picture.
type Box struct{ X, Y, W, H int }

// Right returns the x position of the right edge.
func (b Box) Right() int { return b.X + b.W }

// Bottom returns the y position of the lower edge.
func (b Box) Bottom() int { return b.Y + b.H }

// MiddleY returns the y position of the middle.
func (b Box) MiddleY() int { return b.Y + b.H/2 }

// IsInside reports whether the box lies inside another one.
func (b Box) IsInside(o Box) bool {
	return b.X >= o.X && b.Y >= o.Y && b.Right() <= o.Right() && b.Bottom() <= o.Bottom()
}

// Text is a text that was drawn, with its available space.
type Text struct {
	Text string
	Room Box
	Font Font
}

// Canvas is a picture that is being drawn.
type Canvas struct {
	body          strings.Builder
	width, height int
	depth         int
	// Texts and Boxes record what was drawn. Tests check that texts fit and that boxes are inside the picture.
	Texts []Text
	Boxes []Box
}

// Size returns the size of the picture.
func (c *Canvas) Size() (width, height int) { return c.width, c.height }

func (c *Canvas) growToFit(b Box) {
	c.width, c.height = max(c.width, b.Right()), max(c.height, b.Bottom())
}

func (c *Canvas) writeElement(format string, args ...any) {
	c.body.WriteString(strings.Repeat(" ", c.depth+1))
	fmt.Fprintf(&c.body, format, args...)
	c.body.WriteByte('\n')
}

// OpenGroup opens a group. ref names the object that the group represents, for scripts of a page. title is its tooltip.
// Both may be empty.
func (c *Canvas) OpenGroup(class, ref, title string) {
	attributes := ""
	if class != "" {
		attributes += fmt.Sprintf(` class="%s"`, html.EscapeString(class))
	}
	if ref != "" {
		attributes += fmt.Sprintf(` data-ref="%s"`, html.EscapeString(ref))
	}
	c.writeElement("<g%s>", attributes)
	c.depth++
	if title != "" {
		c.writeElement("<title>%s</title>", html.EscapeString(title))
	}
}

// CloseGroup closes a group.
func (c *Canvas) CloseGroup() {
	c.depth--
	c.writeElement("</g>")
}

// DrawRect draws a box; round is the radius of its corners.
func (c *Canvas) DrawRect(b Box, round int, class string) {
	c.growToFit(b)
	c.Boxes = append(c.Boxes, b)
	c.writeElement(`<rect class="%s" x="%d" y="%d" width="%d" height="%d" rx="%d"/>`, class, b.X, b.Y, b.W, b.H, round)
}

// DrawCircle draws a dot.
func (c *Canvas) DrawCircle(x, y, radius int, class string) {
	c.writeElement(`<circle class="%s" cx="%d" cy="%d" r="%d"/>`, class, x, y, radius)
}

// DrawPath draws an SVG path.
func (c *Canvas) DrawPath(class, d string) { c.writeElement(`<path class="%s" d="%s"/>`, class, d) }

// DrawText draws a text with its baseline at y. A text that is too wide is truncated with an ellipsis, and its tooltip
// shows the whole text.
func (c *Canvas) DrawText(x, y, room int, f Font, text string) {
	fits := TruncateText(text, room, f)
	if fits == "" {
		return
	}
	place := Box{X: x, Y: y - f.sizeOrDefault(), W: room, H: f.sizeOrDefault()}
	anchor := ""
	switch {
	case f.AlignRight:
		place.X, anchor = x-room, ` text-anchor="end"`
	case f.AlignCenter:
		place.X, anchor = x-room/2, ` text-anchor="middle"`
	}
	c.growToFit(place)
	c.Texts = append(c.Texts, Text{fits, place, f})
	title := ""
	if fits != text {
		title = "<title>" + html.EscapeString(text) + "</title>"
	}
	size := ""
	if f.Size != 0 {
		size = fmt.Sprintf(` font-size="%d"`, f.Size)
	}
	c.writeElement(`<text class="%s" x="%d" y="%d"%s%s>%s%s</text>`, f.cssClass(), x, y, size, anchor, title,
		html.EscapeString(fits))
}

func (f Font) cssClass() string {
	classes := []string{"t"}
	if f.Muted {
		classes[0] = "s"
	}
	if f.Bold {
		classes = append(classes, "b")
	}
	if f.Mono {
		classes = append(classes, "m")
	}
	if f.Class != "" {
		classes[0] = f.Class
	}
	return strings.Join(classes, " ")
}

// DrawWarning draws the sign of a problem: a triangle centred at x, y. Its shape is visible without colour vision.
func (c *Canvas) DrawWarning(x, y int, class string) {
	c.writeElement(`<path class="%s" d="M%d %dl7 13h-14z"/><path class="mark" d="M%d %dv5m0 2v1.5"/>`, class, x, y-7, x,
		y-3)
}

// SVG returns the picture. The title and description are for screen readers.
func (c *Canvas) SVG(title, description string, theme Theme) string {
	var out strings.Builder
	width, height := c.width+margin, c.height+margin
	fmt.Fprintf(&out, `<svg xmlns="http://www.w3.org/2000/svg" width="%d" height="%d" viewBox="0 0 %d %d" role="img" aria-labelledby="title desc" `+
		`font-family="%s" font-size="12">`+"\n", width, height, width, height, fontFamilies)
	fmt.Fprintf(&out, " <title id=\"title\">%s</title>\n <desc id=\"desc\">%s</desc>\n", html.EscapeString(title),
		html.EscapeString(description))
	out.WriteString(" <style>\n" + theme.styleSheet() + " </style>\n")
	fmt.Fprintf(&out, ` <rect class="ground" width="%d" height="%d"/>`+"\n", width, height)
	out.WriteString(c.body.String())
	out.WriteString("</svg>\n")
	return out.String()
}

// margin is the free space at the right and at the bottom.
const margin = 24

const fontFamilies = "-apple-system, 'Segoe UI', Roboto, Helvetica, 'Liberation Sans', Arial, 'DejaVu Sans', sans-serif"
