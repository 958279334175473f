// Package tenancy is attacks on Sallyport: by tenants, nodes, outsiders and other users of the operator's workstation.
package tenancy

import (
	"testing"

	"github.com/sallyport/sallyport/test/e2e/harness"
	"github.com/sallyport/sallyport/test/show"
)

// tenancyItems is the list that `make show-tenancy` prints.
var tenancyItems = show.New("tenancy",
	"every finding of the security review as an attack with a positive control: refused or harmless",
	"at least 100 distinct attacks from all identities: none succeeds",
	"a random attacker with every right in one namespace, against three victims with live streams",
	"pools, quotas and isolation on the external segment, by packets",
	"what the policies and the port isolation cost",
	"scanners: vulnerabilities, gosec, fuzzers",
)

func TestMain(m *testing.M) { harness.Main(m, tenancyItems) }
