package main

import (
	"testing"

	"github.com/sallyport/sallyport/test/page"
)

func TestReferencePageHasEveryFlag(t *testing.T) {
	t.Setenv("NODE_NAME", "") // it is the default of a flag
	page.Commands(t, "../../docs/reference/agent.md", "The chart sets these flags from its values.", command())
}
