package main

import (
	"testing"

	"github.com/sallyport/sallyport/test/page"
)

func TestReferencePageHasEveryFlag(t *testing.T) {
	page.CheckCommandReference(t, "../../docs/reference/controller.md", "The chart sets these flags from its values.",
		newRootCommand())
}
