package explain

import (
	"strings"

	"github.com/sallyport/sallyport/internal/model/state"
)

// formatCommands returns a sallyport explain command for each object, one per line.
func formatCommands(refs []state.Ref) string {
	var out []string
	for _, r := range refs {
		out = append(out, "  sallyport explain "+FormatArgument(r))
	}
	return strings.Join(out, "\n")
}
