package ovn

import (
	"fmt"
	"strconv"
	"strings"

	"github.com/sallyport/sallyport/internal/engine/ovn/nb"
	"github.com/sallyport/sallyport/internal/model/logical"
)

// firstNorthdWithLabels is the first ovn-northd that applies the label of an ACL that allows, as year and month.
var firstNorthdWithLabels = [2]int{24, 9}

// MissingCapabilities returns what the engine lacks for the connection-based return path. Empty: nothing, or not
// connected.
func (c *Client) MissingCapabilities() string {
	s := c.current.Load()
	if s == nil {
		return ""
	}
	return s.missingCapabilities
}

// findMissingCapabilities returns what the engine lacks for return ports.
func (s *session) findMissingCapabilities() string {
	for _, m := range s.tableCache.Table(nb.GlobalTable).RowsShallow() {
		if version := m.(*nb.Global).Options[logical.NorthdVersionOption]; isOlderVersion(version, firstNorthdWithLabels) {
			return fmt.Sprintf("its ovn-northd is %s, older than %d.%02d", version, firstNorthdWithLabels[0],
				firstNorthdWithLabels[1])
		}
	}
	return ""
}

// isOlderVersion reports whether a version is older than another. Unreadable versions are not.
func isOlderVersion(version string, than [2]int) bool {
	parts := strings.SplitN(version, ".", 3)
	if len(parts) < 2 {
		return false
	}
	year, err := strconv.Atoi(parts[0])
	month, err2 := strconv.Atoi(strings.TrimFunc(parts[1], func(r rune) bool { return r < '0' || r > '9' }))
	if err != nil || err2 != nil {
		return false
	}
	return year < than[0] || year == than[0] && month < than[1]
}
