package topology

import (
	"strings"
	"unicode/utf8"
)

// frame is lines in a frame of box characters, with a title above a line of its own. Frames may be put into others and side by side.
func frame(title string, lines []string) []string {
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

// beside puts blocks of lines side by side, as many as fit into so many characters, and the others below.
func beside(blocks [][]string, room int) (out []string) {
	for len(blocks) > 0 {
		row, n, used := []string{}, 0, 0
		for ; n < len(blocks); n++ {
			wide := utf8.RuneCountInString(blocks[n][0])
			if n > 0 && used+2+wide > room {
				break
			}
			row, used = merge(row, blocks[n], used), used+2+wide
		}
		out, blocks = append(out, row...), blocks[n:]
	}
	return out
}

// merge puts a block to the right of others that are so wide, with two characters between them.
func merge(left, right []string, wide int) []string {
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

// down draws an arrow from one block to the next.
func down(label string) []string {
	if label == "" {
		return []string{"      │", "      ▼"}
	}
	return []string{"      │  " + label, "      ▼"}
}

// branch is a line with what is below it.
type branch struct {
	text  string
	below []branch
}

// lines are a branch as a drawing.
func (b branch) lines() []string {
	out := []string{b.text}
	for i, sub := range b.below {
		first, rest := "├─ ", "│  "
		if i == len(b.below)-1 {
			first, rest = "└─ ", "   "
		}
		for j, l := range sub.lines() {
			if j == 0 {
				out = append(out, first+l)
			} else {
				out = append(out, rest+l)
			}
		}
	}
	return out
}

// code is lines as they are in a document.
func code(lines []string) string {
	for i, l := range lines {
		lines[i] = strings.TrimRight(l, " ")
	}
	return "```\n" + strings.Join(lines, "\n") + "\n```\n"
}

// grid is a table of a document.
func grid(heads []string, rows [][]string) string {
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
