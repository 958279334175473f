package cli

import (
	"testing"

	"github.com/sallyport/sallyport/test/page"
)

func TestReferencePageHasEveryCommand(t *testing.T) {
	t.Setenv("SALLYPORT_LAB", "") // it is the default of a flag
	page.CheckCommandReference(t, "../../docs/reference/cli.md",
		"Also as `kubectl sallyport`: [how to install it](../howto/cli.md).", New(""))
}
