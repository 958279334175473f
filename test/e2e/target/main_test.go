package target

import (
	"testing"

	"github.com/sallyport/sallyport/test/e2e/harness"
)

func TestMain(m *testing.M) { harness.Main(m) }
