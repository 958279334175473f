// Package target is the contract test of everything that is written, against a real API server and a real northbound
// database.
package target

import (
	"testing"

	"github.com/sallyport/sallyport/test/e2e/harness"
)

func TestMain(m *testing.M) { harness.Main(m) }
