package drawing

import "strings"

// Widths of the printable ASCII characters of DejaVu Sans, in thousandths of the font size. It is the widest of the
// fonts in the style sheet, so a text that fits in it fits in all of them.
var (
	regularWidths = [95]int{
		318, 401, 460, 838, 636, 950, 780, 275, 390, 390, 500, 838, 318, 361, 318, 337, 636, 636, 636, 636, 636, 636,
		636, 636,
		636, 636, 337, 337, 838, 838, 838, 531, 1000, 684, 686, 698, 770, 632, 575, 775, 752, 295, 295, 656, 557, 863,
		748, 787,
		603, 787, 695, 635, 611, 732, 684, 989, 685, 611, 685, 390, 337, 390, 838, 500, 500, 613, 635, 550, 635, 615,
		352, 635,
		634, 278, 278, 579, 278, 974, 634, 612, 635, 635, 411, 521, 392, 634, 592, 818, 592, 592, 525, 636, 337, 636,
		838,
	}
	boldWidths = [95]int{
		348, 456, 521, 838, 696, 1002, 872, 306, 457, 457, 523, 838, 380, 415, 380, 365, 696, 696, 696, 696, 696, 696,
		696, 696,
		696, 696, 400, 400, 838, 838, 838, 580, 1000, 774, 762, 734, 830, 683, 683, 821, 837, 372, 372, 775, 637, 995,
		837, 850,
		733, 850, 770, 720, 682, 812, 774, 1103, 771, 724, 725, 457, 365, 457, 838, 500, 500, 675, 716, 593, 716, 678,
		435, 716,
		712, 343, 343, 665, 343, 1042, 712, 687, 716, 716, 493, 595, 478, 712, 652, 924, 645, 652, 582, 712, 365, 712,
		838,
	}
	otherWidths = map[rune]int{'·': 380, '→': 1000, '←': 1000, '…': 1000, '–': 556, '×': 838}
)

// monoWidth is the width of every character of the monospaced fonts for addresses.
const monoWidth = 602

// TextWidth returns the maximum width of a text in pixels.
func TextWidth(text string, f Font) int {
	total := 0
	for _, r := range text {
		total += f.advanceWidth(r)
	}
	return (total*f.sizeOrDefault() + 999) / 1000
}

func (f Font) advanceWidth(r rune) int {
	known := r >= ' ' && r <= '~'
	switch {
	case f.Mono && known:
		return monoWidth
	case known && f.Bold:
		return boldWidths[r-' ']
	case known:
		return regularWidths[r-' ']
	case otherWidths[r] > 0:
		return otherWidths[r]
	}
	return 1000 // not in the tables: assume a square character
}

// TruncateText truncates a text to a width, with an ellipsis.
func TruncateText(text string, room int, f Font) string {
	if TextWidth(text, f) <= room {
		return text
	}
	runes := []rune(text)
	for n := len(runes) - 1; n > 0; n-- {
		if short := strings.TrimRight(string(runes[:n]), " ,·-") + "…"; TextWidth(short, f) <= room {
			return short
		}
	}
	return ""
}

// WrapText wraps a text into lines of a width, up to a number of lines. If the text is longer, the last line ends with
// an ellipsis.
func WrapText(text string, room, lines int, f Font) []string {
	var all []string
	words := strings.Fields(text)
	for len(words) > 0 && len(all) < lines {
		line := words[0]
		n := 1
		for n < len(words) && TextWidth(line+" "+words[n], f) <= room {
			line += " " + words[n]
			n++
		}
		if len(all) == lines-1 && n < len(words) {
			line = strings.Join(words, " ")
			n = len(words)
		}
		all, words = append(all, TruncateText(line, room, f)), words[n:]
	}
	return all
}
