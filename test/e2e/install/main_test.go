// Package install is the tests of what an operator installs: chart, examples and monitoring, as written.
package install

import (
	"testing"

	"github.com/sallyport/sallyport/test/e2e/harness"
)

func TestMain(m *testing.M) { harness.Main(m) }
