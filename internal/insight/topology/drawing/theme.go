package drawing

import (
	"fmt"
	"strings"
)

// Theme is the colour theme of a picture.
type Theme string

// The themes. Auto follows the setting of the viewer.
const (
	Auto  Theme = "auto"
	Light Theme = "light"
	Dark  Theme = "dark"
)

// Themes lists all themes.
var Themes = []Theme{Auto, Light, Dark}

// palette holds the colours of a theme.
type palette struct {
	background, card, inner, edge, text, muted string
	errorColour, warningColour, onErrorColour  string
	networks                                   []string
}

// The colours of networks are based on those of Okabe and Ito, which are distinguishable with colour-vision deficiency,
// made darker or lighter for contrast with the background. Vermilion and orange are reserved for problems. The page of
// internal/insight/ui uses the same colours.
var (
	lightPalette = palette{
		background: "#ffffff", card: "#f6f8fa", inner: "#ffffff", edge: "#c4ccd4", text: "#1f2328", muted: "#59636e",
		errorColour: "#c8202b", warningColour: "#a15c00", onErrorColour: "#ffffff",
		networks: []string{"#0068a8", "#00855e", "#b2528c", "#8a7300", "#2b94cf", "#5c6670", "#7a4fb5", "#9a5b2e"},
	}
	darkPalette = palette{
		background: "#0d1117", card: "#161b22", inner: "#0d1117", edge: "#3d444d", text: "#e6edf3", muted: "#9aa4af",
		errorColour: "#ff7b72", warningColour: "#e3b341", onErrorColour: "#0d1117",
		networks: []string{"#4ea8ea", "#2fbd90", "#e28cc0", "#d3b73a", "#a3d8f7", "#a8b3bd", "#b79af0", "#d99a63"},
	}
)

// NetworkClass returns the CSS class for the colour of a network: kind is n for lines, f for filled and p for tinted
// shapes.
func NetworkClass(kind string, number int) string {
	if number < 0 {
		return kind + "x"
	}
	class := fmt.Sprintf("%s%d", kind, number%len(lightPalette.networks))
	if number >= len(lightPalette.networks) {
		class += " again"
	}
	return class
}

func (t Theme) styleSheet() string {
	switch t {
	case Light:
		return baseCSS + lightPalette.cssRules("  ")
	case Dark:
		return baseCSS + darkPalette.cssRules("  ")
	}
	return baseCSS + lightPalette.cssRules("  ") + "  @media (prefers-color-scheme: dark) {\n" +
		darkPalette.cssRules("   ") + "  }\n"
}

// baseCSS is the part of the style sheet that does not depend on the theme.
const baseCSS = `  .b { font-weight: 600 }
  .m { font-family: ui-monospace, 'Cascadia Mono', Menlo, Consolas, 'Liberation Mono', 'DejaVu Sans Mono', monospace }
  .rail { fill: none; stroke-width: 4; stroke-linecap: round; stroke-linejoin: round }
  .wire { fill: none; stroke-width: 1.75; stroke-linecap: round; stroke-linejoin: round }
  .back { stroke-dasharray: 5 4 }
  .again { stroke-dasharray: 10 5 }
  .o0, .o1 { fill-opacity: .3 } .o2 { fill-opacity: .5 } .o3 { fill-opacity: .75 }
`

func (p palette) cssRules(indent string) string {
	var b strings.Builder
	rule := func(format string, args ...any) { fmt.Fprintf(&b, indent+format+"\n", args...) }
	rule(".ground { fill: %s }", p.background)
	rule(".card { fill: %s; stroke: %s }", p.card, p.edge)
	rule(".inner { fill: %s; stroke: %s }", p.inner, p.edge)
	rule(".ill { fill: %s; stroke: %s; stroke-width: 1.5 }", p.inner, p.errorColour)
	rule(".poor { fill: %s; stroke: %s; stroke-width: 1.5 }", p.inner, p.warningColour)
	rule(".edge { fill: none; stroke: %s }", p.edge)
	rule(".track { fill: %s }", p.edge)
	rule(".halo { fill: none; stroke: %s; stroke-width: 9 }", p.background)
	rule(".t { fill: %s }", p.text)
	rule(".s { fill: %s }", p.muted)
	rule(".on { fill: %s }", p.background)
	rule(".wrong { fill: %s }", p.errorColour)
	rule(".warn { fill: %s }", p.warningColour)
	rule(".mark { fill: none; stroke: %s; stroke-width: 1.6 }", p.onErrorColour)
	rule(".nx { stroke: %s } .fx { fill: %s } .px { fill: %s; fill-opacity: .12 }", p.muted, p.muted, p.muted)
	for i, colour := range p.networks {
		rule(".n%d { stroke: %s } .f%d { fill: %s } .p%d { fill: %s; fill-opacity: .13 }", i, colour, i, colour, i,
			colour)
	}
	return b.String()
}
