package topology

import (
	"strings"
	"unicode/utf8"
)

// drawFrame draws a frame of box characters around a title and lines. Frames can be nested and placed side by side.
func drawFrame(title string, lines []string) []string {
	wide := utf8.RuneCountInString(title)
	for _, l := range lines {
		wide = max(wide, utf8.RuneCountInString(l))
	}
	pad := func(l string) string {
		return "│ " + l + strings.Repeat(" ", wide-utf8.RuneCountInString(l)) + " │"
	}
	out := []string{"┌" + strings.Repeat("─", wide+2) + "┐", pad(title)}
	if len(lines) > 0 {
		out = append(out, "├"+strings.Repeat("─", wide+2)+"┤")
	}
	for _, l := range lines {
		out = append(out, pad(l))
	}
	return append(out, "└"+strings.Repeat("─", wide+2)+"┘")
}

// layoutSideBySide places blocks of lines side by side, as many as fit into the width, and the others below.
func layoutSideBySide(blocks [][]string, room int) (out []string) {
	for len(blocks) > 0 {
		row, n, used := []string{}, 0, 0
		for ; n < len(blocks); n++ {
			wide := utf8.RuneCountInString(blocks[n][0])
			if n > 0 && used+2+wide > room {
				break
			}
			row, used = mergeBlocks(row, blocks[n], used), used+2+wide
		}
		out, blocks = append(out, row...), blocks[n:]
	}
	return out
}

// mergeBlocks places a block to the right of others with this total width, two characters apart.
func mergeBlocks(left, right []string, wide int) []string {
	for len(left) < len(right) {
		left = append(left, "")
	}
	for i, l := range right {
		if wide > 0 {
			left[i] += strings.Repeat(" ", wide-utf8.RuneCountInString(left[i]))
		}
		left[i] += l
	}
	for i := range left {
		left[i] += "  "
	}
	return left
}

// drawDownArrow draws an arrow from one block to the next.
func drawDownArrow(label string) []string {
	if label == "" {
		return []string{"      │", "      ▼"}
	}
	return []string{"      │  " + label, "      ▼"}
}

// treeNode is a line of a tree with its children.
type treeNode struct {
	text     string
	children []treeNode
}

// renderTree returns the lines of a tree, drawn with box characters.
func (b treeNode) renderTree() []string {
	out := []string{b.text}
	for i, sub := range b.children {
		first, rest := "├─ ", "│  "
		if i == len(b.children)-1 {
			first, rest = "└─ ", "   "
		}
		for j, l := range sub.renderTree() {
			if j == 0 {
				out = append(out, first+l)
			} else {
				out = append(out, rest+l)
			}
		}
	}
	return out
}

func formatCodeBlock(lines []string) string {
	for i, l := range lines {
		lines[i] = strings.TrimRight(l, " ")
	}
	return "```\n" + strings.Join(lines, "\n") + "\n```\n"
}

func formatMarkdownTable(heads []string, rows [][]string) string {
	var b strings.Builder
	line := func(cells []string) { b.WriteString("| " + strings.Join(cells, " | ") + " |\n") }
	line(heads)
	b.WriteString(strings.Repeat("|---", len(heads)) + "|\n")
	for _, r := range rows {
		for i, cell := range r {
			r[i] = strings.NewReplacer("|", "\\|", "\n", " ").Replace(cell)
			if cell == "" {
				r[i] = "–"
			}
		}
		line(r)
	}
	return b.String()
}
