package scale

import (
	"bytes"
	"fmt"
	"maps"
	"net/netip"
	"regexp"
	"slices"
	"strconv"
	"strings"

	"github.com/sallyport/sallyport/internal/model/intent"
	"github.com/sallyport/sallyport/internal/model/ownership"
	"github.com/sallyport/sallyport/test/e2e/harness"
)

// A simulated cluster has one project that the controller and the stand-in for Kube-OVN have made. All others are copies
// of what is stored for it, in etcd and in the northbound database: no machine of a test admits a million objects one by
// one in minutes. Copies differ in names, identifiers and addresses. Each of these has a fixed length, so that objects in
// Kubernetes' binary form stay valid. The controller checks the copies: it writes nothing when it reads them.

// firstPooled is the least value of the last bytes of an address that may be copied: all have three digits.
const (
	firstPooled = 100
	pooledBytes = 256 - firstPooled // values of such a byte
)

// firstCopied is the number of the first external address of copies. Others are for what exists before.
const firstCopied = 20

// externalAddress returns an address of the external network of simulated projects.
func externalAddress(i int) netip.Addr {
	return netip.AddrFrom4([4]byte{100, 65, firstPooled + byte(i/pooledBytes), firstPooled + byte(i%pooledBytes)})
}

// clusterAddress returns a cluster IP of a simulated Service.
func clusterAddress(i int) netip.Addr {
	high := i / pooledBytes
	return netip.AddrFrom4([4]byte{
		10, 100 + byte(high/pooledBytes), firstPooled + byte(high%pooledBytes), firstPooled + byte(i%pooledBytes),
	})
}

// Texts of a project that its copies have in another form. The first alternative at a place is taken.
var variablePattern = regexp.MustCompile(`p0000|simulated-\d{4}|[0-9a-f]{8}(?:-[0-9a-f]{4}){3}-[0-9a-f]{12}|` +
	`10\.1\d\d\.1\d\d\.[12]\d\d|100\.65\.[12]\d\d\.[12]\d\d|0a:(?:01|5a)(?::[0-9a-f]{2}){4}`)

// copier makes the texts of copies.
type copier struct {
	nodes     int
	addresses []netip.Addr    // external ones of the project, sorted
	services  int             // Services with a cluster IP of each project
	own       map[string]bool // identifiers that belong to the project
}

// vary returns a text in its form for copy i.
func (c *copier) vary(text string, i int) string {
	switch {
	case text == harness.ProjectName(0):
		return harness.ProjectName(i)
	case strings.HasPrefix(text, simulatedNodePrefix):
		var n int
		_, _ = fmt.Sscanf(text, simulatedNodePrefix+"%d", &n)
		return simulatedNode((n + i) % c.nodes)
	case strings.HasPrefix(text, "0a:01:"):
		var b [4]byte
		_, _ = fmt.Sscanf(text, "0a:01:%02x:%02x:%02x:%02x", &b[0], &b[1], &b[2], &b[3])
		return standInMAC(c.varyAddress(netip.AddrFrom4(b), i))
	case strings.HasPrefix(text, ownership.MACPrefix):
		if text == onLinkMAC(0) {
			return onLinkMAC(i)
		}
		return text
	case len(text) == 36:
		if c.own[text] {
			return varyIdentifier(text, i)
		}
		return text
	default:
		return c.varyAddress(netip.MustParseAddr(text), i).String()
	}
}

// varyIdentifier returns an identifier for copy i: a bijection of the first 32 bits, which ovsdb-server uses as a hash.
func varyIdentifier(text string, i int) string {
	first, _ := strconv.ParseUint(text[:8], 16, 32) // the pattern allows nothing else
	const odd = 2654435761
	return fmt.Sprintf("%08x%s", uint32(first)^uint32(i*odd), text[8:])
}

// onLinkMAC returns the MAC address of the on-link loopback port of a project.
func onLinkMAC(i int) string {
	return intent.DeriveMAC(ownership.OnLinkLoopbackPort((&harness.ScaleFixture{}).NamespaceOf(i)))
}

func (c *copier) varyAddress(a netip.Addr, i int) netip.Addr {
	if k, found := slices.BinarySearchFunc(c.addresses, a, netip.Addr.Compare); found {
		return externalAddress(firstCopied + i*len(c.addresses) + k)
	}
	for k := range c.services {
		if clusterAddress(k) == a {
			return clusterAddress(i*c.services + k)
		}
	}
	return a
}

// storedText is a text with places that differ between copies.
type storedText struct {
	fixed     []string // one more than variables, around them
	variables []string
}

func newStoredText(text []byte) (out storedText) {
	end := 0
	for _, at := range variablePattern.FindAllIndex(text, -1) {
		out.fixed = append(out.fixed, string(text[end:at[0]]))
		out.variables = append(out.variables, string(text[at[0]:at[1]]))
		end = at[1]
	}
	out.fixed = append(out.fixed, string(text[end:]))
	return out
}

// appendCopy appends copy i to a buffer. Variables that occur often are computed once.
func (s storedText) appendCopy(to []byte, c *copier, i int, known map[string]string) []byte {
	for n, variable := range s.variables {
		text, computed := known[variable]
		if !computed {
			text = c.vary(variable, i)
			known[variable] = text
		}
		to = append(append(to, s.fixed[n]...), text...)
	}
	return append(to, s.fixed[len(s.variables)]...)
}

// learn finds the identifiers that belong to the project: those that occur nowhere else. It also finds its external
// addresses.
func (c *copier) learn(project, others [][]byte) {
	foreign := map[string]bool{}
	for _, text := range others {
		for _, found := range variablePattern.FindAll(text, -1) {
			foreign[string(found)] = true
		}
	}
	addresses := map[netip.Addr]bool{}
	for _, text := range project {
		for _, found := range variablePattern.FindAll(text, -1) {
			switch text := string(found); {
			case len(text) == 36 && !foreign[text]:
				c.own[text] = true
			case strings.HasPrefix(text, "100.65."):
				addresses[netip.MustParseAddr(text)] = true
			}
		}
	}
	if len(c.addresses) == 0 {
		c.addresses = slices.SortedFunc(maps.Keys(addresses), netip.Addr.Compare)
	}
}

// isOfProject reports whether a stored text is about the project that is copied.
func isOfProject(text []byte) bool { return bytes.Contains(text, []byte(harness.ProjectName(0))) }
