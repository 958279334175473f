package page

import (
	"fmt"
	"path"
	"regexp"
	"strings"
)

// RepositoryURL is how files of the repository are linked to from outside of it.
const RepositoryURL = "https://github.com/sallyport/sallyport/blob/main/"

// Anchor returns what makes an entry of a page the target of links: PAGE#name, in lower case.
func Anchor(name string) string { return fmt.Sprintf(`<a id="%s"></a>`, strings.ToLower(name)) }

// Link is a link to a file of the repository, or to a place in it.
type Link struct{ Target, Anchor string }

var (
	fencedBlock = regexp.MustCompile("(?ms)^```.*?^```")
	codeSpan    = regexp.MustCompile("`[^`]*`")
	inlineLink  = regexp.MustCompile(`\]\(([^()\s]+(?:\([^()]*\))?[^()\s]*)\)`)
)

// ParseLinks returns the links of a page to files of the repository, as paths from its root.
func ParseLinks(file, text string) (out []Link) {
	text = codeSpan.ReplaceAllString(fencedBlock.ReplaceAllString(text, ""), "")
	for _, m := range inlineLink.FindAllStringSubmatch(text, -1) {
		target, anchor, _ := strings.Cut(m[1], "#")
		switch here, inside := strings.CutPrefix(target, RepositoryURL); {
		case inside:
			out = append(out, Link{here, anchor})
		case strings.Contains(target, "://"), strings.HasPrefix(target, "mailto:"):
		case target == "":
			out = append(out, Link{file, anchor})
		default:
			out = append(out, Link{path.Join(path.Dir(file), target), anchor})
		}
	}
	return out
}

// CountClicks returns the pages that links lead to from a page, with the number of clicks. Only pages with an entry count.
func CountClicks(links map[string][]Link, from string) map[string]int {
	clicks := map[string]int{from: 0}
	for queue := []string{from}; len(queue) > 0; queue = queue[1:] {
		for _, l := range links[queue[0]] {
			_, isPage := links[l.Target]
			if _, seen := clicks[l.Target]; isPage && !seen {
				clicks[l.Target] = clicks[queue[0]] + 1
				queue = append(queue, l.Target)
			}
		}
	}
	return clicks
}
