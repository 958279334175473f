package humanize

import (
	"cmp"
	"slices"
	"strings"
)

// MaxSuggestions is the number of similar names that an error suggests.
const MaxSuggestions = 3

// maxComparedName is the length of the longest name that is compared with others. Names come from users' files.
const maxComparedName = 253

// NearestNames returns the names most similar to name, nearest first: names within a small edit distance (1 to 3,
// depending on the length of name), and names that start or end with it.
func NearestNames(name string, names []string) []string {
	if name == "" || len(name) > maxComparedName {
		return nil
	}
	limit := max(1, min(3, len(name)/3))
	away := map[string]int{}
	for _, n := range names {
		if len(n) > maxComparedName {
			continue
		}
		switch d := editDistance(name, n); {
		case d == 0:
		case d <= limit:
			away[n] = d
		case len(name) > 2 && (strings.HasPrefix(n, name) || strings.HasSuffix(n, name)):
			away[n] = limit + 1
		}
	}
	out := slices.DeleteFunc(slices.Clone(names), func(n string) bool { return away[n] == 0 })
	slices.SortFunc(out, func(a, b string) int { return cmp.Or(cmp.Compare(away[a], away[b]), strings.Compare(a, b)) })
	return out[:min(len(out), MaxSuggestions)]
}

// SuggestName returns the end of an error about an unknown name: "; did you mean X?", or nothing if no name is similar.
// Upper and lower case do not matter.
func SuggestName(name string, names []string) string {
	lower := map[string]string{}
	var all []string
	for _, n := range names {
		if strings.EqualFold(n, name) {
			return "; did you mean " + n + "?"
		}
		lower[strings.ToLower(n)] = n
		all = append(all, strings.ToLower(n))
	}
	near := NearestNames(strings.ToLower(name), all)
	if len(near) == 0 {
		return ""
	}
	return "; did you mean " + lower[near[0]] + "?"
}

// editDistance returns the number of insertions, deletions, substitutions and transpositions between two words.
func editDistance(a, b string) int {
	rows := make([][]int, len(a)+1)
	for i := range rows {
		rows[i] = make([]int, len(b)+1)
		rows[i][0] = i
	}
	for j := range rows[0] {
		rows[0][j] = j
	}
	for i := 1; i <= len(a); i++ {
		for j := 1; j <= len(b); j++ {
			change := rows[i-1][j-1]
			if a[i-1] != b[j-1] {
				change++
			}
			rows[i][j] = min(change, rows[i-1][j]+1, rows[i][j-1]+1)
			if i > 1 && j > 1 && a[i-1] == b[j-2] && a[i-2] == b[j-1] {
				rows[i][j] = min(rows[i][j], rows[i-2][j-2]+1)
			}
		}
	}
	return rows[len(a)][len(b)]
}
