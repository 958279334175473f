package architecture

import (
	"bytes"
	"go/ast"
	"go/parser"
	"go/token"
	"go/types"
	"os"
	"os/exec"
	"path"
	"path/filepath"
	"regexp"
	"slices"
	"strconv"
	"strings"
	"testing"
	"unicode/utf8"

	"github.com/sallyport/sallyport/test/page"
	"github.com/sallyport/sallyport/test/show"
)

// list is what `make show-house` prints. Items without a test are not built yet.
var list = show.New("the house",
	"names of functions outside the lab: median of at least 11 letters, at most 25 % with 7 or fewer",
	"at most 0.7 % of lines over 120 columns, no function over 60 lines",
	"Kube-OVN in one place: its naming scheme in one file, no version in messages",
	"no file assumes an address family",
	"a new table, shard kind, annotation and quirk, each as a worked example",
	"one decoder for each OVN table, one description of a packet's path, at most three structs for an EIp",
	"fewer than 47,400 lines of production Go without the lab",
	"the same behaviour: golden cases, end-to-end tests, upgrade of a live cluster",
	"twenty questions of users, each with its page and the clicks from README.md",
)

func TestMain(m *testing.M) { os.Exit(show.Finish(m.Run(), list)) }

// productionFiles are the files of the product: no tests, no generated code, no lab.
func productionFiles(t *testing.T) (out []sourceFile) {
	t.Helper()
	for _, u := range parseTree(t) {
		inProduct := strings.HasPrefix(u.dir, "internal/") || strings.HasPrefix(u.dir, "cmd/") ||
			strings.HasPrefix(u.dir, "api/")
		if !inProduct || strings.HasPrefix(u.dir, "internal/lab") || u.dir == "internal/architecture" {
			continue
		}
		for _, f := range u.files {
			if !f.test && !strings.HasPrefix(path.Base(f.path), "zz_") {
				out = append(out, f)
			}
		}
	}
	return out
}

func readLines(t *testing.T, f sourceFile) []string {
	t.Helper()
	text, err := os.ReadFile(filepath.Join(moduleRoot(t), f.path))
	if err != nil {
		t.Fatal(err)
	}
	return strings.Split(strings.TrimSuffix(string(text), "\n"), "\n")
}

func TestHouse1Names(t *testing.T) {
	item := list.Item(t, 1)
	var lengths []int
	short := 0
	for _, f := range productionFiles(t) {
		for _, d := range f.file.Decls {
			if fn, ok := d.(*ast.FuncDecl); ok {
				lengths = append(lengths, len(fn.Name.Name))
				if len(fn.Name.Name) <= 7 {
					short++
				}
			}
		}
	}
	slices.Sort(lengths)
	median, share := lengths[len(lengths)/2], 100*float64(short)/float64(len(lengths))
	item.AddFigure("%d functions: median %d letters, %.1f %% with 7 or fewer (before: 6 and 67 %%; openperouter: 15 and 10 %%)",
		len(lengths), median, share)
	if median < 11 || share > 25 {
		t.Errorf("median %d, %.1f %% short", median, share)
	}
}

func TestHouse2Lines(t *testing.T) {
	item := list.Item(t, 2)
	total, wide := 0, 0
	var all sizes
	for _, f := range productionFiles(t) {
		all.addFile(f)
		for _, line := range readLines(t, f) {
			total++
			if utf8.RuneCountInString(strings.ReplaceAll(line, "\t", "    ")) > 120 {
				wide++
			}
		}
	}
	share, long := 100*float64(wide)/float64(total), all.countLongFunctions()
	item.AddFigure("%.2f %% of %d lines (before: 3.1 %%; tab = 4); functions over %d lines: %d", share, total,
		longFunction, long)
	if share > 0.7 || long > 0 {
		t.Errorf("%.2f %% of lines are over 120 columns, %d functions are over %d lines", share, long, longFunction)
	}
}

var (
	engineName    = regexp.MustCompile(`Kube-OVN|kube-ovn`)
	engineVersion = regexp.MustCompile(`Kube-OVN v?[0-9]+\.[0-9]+`)
	// portOperand is what is put together to the name of a port: a VPC and a subnet.
	portOperand = regexp.MustCompile(`^(vpc|Vpc|VPC|router|Router|shard|Shard|subnet|Subnet|network|Network)$`)
)

const engineRoom = "internal/engine/kubeovn/"

func TestHouse3Engine(t *testing.T) {
	item := list.Item(t, 3)
	mentions, schemes, versions := 0, 0, 0
	for _, f := range productionFiles(t) {
		outside := !strings.HasPrefix(f.path, engineRoom)
		if outside && engineName.MatchString(strings.Join(readLines(t, f), "\n")) {
			mentions++
		}
		ast.Inspect(f.file, func(n ast.Node) bool {
			if text, ok := n.(*ast.BasicLit); ok && outside && engineVersion.MatchString(text.Value) {
				versions++
				t.Errorf("%s: %s names a version of Kube-OVN", f.fset.Position(text.Pos()), text.Value)
			}
			if e, ok := n.(*ast.BinaryExpr); ok && outside && isPortName(e) &&
				path.Dir(f.path) != "internal/model/ownership" {
				schemes++
				t.Errorf("%s puts the name of a port together; use package kubeovn", f.fset.Position(e.Pos()))
			}
			return true
		})
	}
	item.AddFigure("files outside %s that name Kube-OVN: %d (before: about 60 with its behaviour); port names put together elsewhere: %d; versions in texts: %d",
		engineRoom, mentions, schemes, versions)
}

// isPortName recognizes a + "-" + b where a or b is called like a VPC or a subnet.
func isPortName(e *ast.BinaryExpr) bool {
	left, ok := e.X.(*ast.BinaryExpr)
	if e.Op != token.ADD || !ok || left.Op != token.ADD {
		return false
	}
	dash, ok := left.Y.(*ast.BasicLit)
	return ok && dash.Value == `"-"` && portOperand.MatchString(lastName(left.X)) &&
		portOperand.MatchString(lastName(e.Y))
}

func lastName(e ast.Expr) string {
	switch x := e.(type) {
	case *ast.Ident:
		return x.Name
	case *ast.SelectorExpr:
		return x.Sel.Name
	}
	return ""
}

// The rule has to find what it forbids.
func TestPortNamesAreRecognized(t *testing.T) {
	for text, want := range map[string]bool{
		`w.Shard + "-" + x.Subnet`: true,
		`subnet + "-" + vpc`:       true,
		`name + "-" + suffix`:      false,
		`vpc + "." + subnet`:       false,
	} {
		e, err := parser.ParseExpr(text)
		if err != nil {
			t.Fatal(err)
		}
		sum, ok := e.(*ast.BinaryExpr)
		if got := ok && isPortName(sum); got != want {
			t.Errorf("%s: %t", text, got)
		}
	}
}

// examples are the worked examples of ARCHITECTURE.md: what is searched, and the files that have it.
var examples = []struct {
	what, pattern string
	files         []string
}{
	{"OVN table", `intent\.QoS\b|nb\.QoS\b|type QoS struct|QoSTable`, []string{
		"internal/compile/returnport.go", "internal/engine/ovn/nb/nb.go", "internal/engine/ovn/nb/tables.go",
		"internal/engine/ovn/network.go", "internal/engine/ovn/recompute.go", "internal/engine/ovn/rowtables.go",
		"internal/engine/ovn/tablerows.go",
		"internal/model/intent/switchrows.go", "internal/model/logical/logical.go",
	}},
	{
		"Service annotation", `HealthAnnotation|type HealthCheck struct{ Interval|snapshot\.HealthCheck|s\.HealthCheck\.`,
		[]string{
			"api/kubedc/v1/names.go", "internal/compile/backends.go", "internal/engine/kube/services.go",
			"internal/insight/explain/describe.go", "internal/model/snapshot/snapshot.go",
		},
	},
	{"kind of shard", `OfNetworks|shard\.Networks|\bNetworkInput\b|compile\.Networks`, []string{
		"internal/compile/networks.go", "internal/controller/shard.go", "internal/controller/triggers.go",
		"internal/engine/kube/networks.go", "internal/engine/kube/watch.go", "internal/model/shard/shard.go",
		"internal/model/snapshot/snapshot.go",
	}},
	{"engine quirk", `RemovesLoadBalancersOnStart`, []string{"internal/engine/kubeovn/quirks.go"}},
}

// tellFamiliesApart are the files that may tell IPv4 from IPv6, and why. All others take the family as a value.
var tellFamiliesApart = map[string]string{
	"internal/model/ipfamily/ipfamily.go":  "names the families",
	"internal/model/match/build.go":        "prints ip4 and ip6",
	"internal/model/match/field.go":        "OVN's fields: EtherTypes, ICMP and ICMPv6",
	"internal/model/match/number.go":       "OVN's constants",
	"internal/engine/kubeovn/kubeovn.go":   "Kube-OVN's fields v4Ip and v6Ip",
	"internal/engine/kubeovn/leftovers.go": "Kube-OVN's names of port groups",
	"internal/compile/family.go":           "a table with a row for each family: addresses inside OVN",
	"internal/compile/prefix.go":           "a table with a row for each family: widest prefixes",
	"internal/insight/diagnosis/nodes.go":  "the IPv6 header is longer",
	"internal/model/nodepath/entries.go":   "the kernel's words: ip -6, the metric of an IPv6 route",
	"internal/model/nodepath/nft.go":       "nft's words: ip and ip6",
	"internal/model/nodepath/nodepath.go":  "IPv6 forwarding is one setting for all interfaces",
	"internal/model/nodepath/vrf.go":       "addresses of veth pairs; interfaces lose IPv6 addresses in a VRF",
	"internal/engine/kernel/kernel.go":     "the kernel adds link-local addresses in IPv6",
	"internal/engine/kernel/nft.go":        "nft's types of sets",
	"internal/engine/kernel/routes.go":     "the kernel has scopes of routes in IPv4",
	"internal/engine/kernel/rules.go":      "the kernel's numbers of families",
	"internal/engine/probe/frame.go":       "ARP and neighbour discovery",
	"internal/engine/probe/marked.go":      "IP and ICMP headers",
	"internal/engine/probe/packet.go":      "IP and ICMP headers",
	"internal/engine/probe/port.go":        "a filter for IP headers",
}

// familyNames are functions and constants that tell families apart.
var familyNames = []string{"Is4", "Is6", "As4", "AddrFrom4", "IPv4Unspecified", "IPv6Unspecified", "V4", "V6"}

// familyText recognizes a family in a string other than prose.
var familyText = regexp.MustCompile(`\bip[46]\b|ipv[46]_addr`)

func TestHouse4Families(t *testing.T) {
	item := list.Item(t, 4)
	apart := map[string]bool{}
	for _, f := range productionFiles(t) {
		if strings.HasSuffix(path.Dir(f.path), "test") { // packages for tests
			continue
		}
		ast.Inspect(f.file, func(n ast.Node) bool {
			if s, ok := n.(*ast.SelectorExpr); ok && slices.Contains(familyNames, s.Sel.Name) {
				apart[f.path] = true
			}
			if text, ok := n.(*ast.BasicLit); ok && text.Kind == token.STRING && familyText.MatchString(text.Value) {
				apart[f.path] = true
			}
			return true
		})
	}
	assume := 0
	for file := range apart {
		if tellFamiliesApart[file] == "" {
			assume++
			t.Errorf("%s tells IPv4 from IPv6; take the family as a value, or say why not", file)
		}
	}
	for file := range tellFamiliesApart {
		if !apart[file] {
			t.Errorf("%s does not tell IPv4 from IPv6 any more; remove it from the list", file)
		}
	}
	item.AddFigure("%d files assume a family; %d tell families apart, each with a reason", assume, len(tellFamiliesApart))
	if !show.IsFullSize() {
		return // `make test` runs it in its own package
	}
	// without cgo, as make build: what it has compiled is used
	out := runInRoot(t, []string{"CGO_ENABLED=0"}, "go", "test", "-count=1", "-v", "-run", "^TestGoldenInIPv6$", "./internal/compile/golden")
	_, figure, found := strings.Cut(out, "family_test.go:")
	if !found {
		t.Fatalf("no figure in\n%s", out)
	}
	_, figure, _ = strings.Cut(figure, ": ")
	figure, _, _ = strings.Cut(figure, "\n")
	item.AddFigure("an IPv6-only world: %s", figure)
}

func TestHouse5Examples(t *testing.T) {
	item := list.Item(t, 5)
	guide, err := os.ReadFile(filepath.Join(moduleRoot(t), "ARCHITECTURE.md"))
	if err != nil {
		t.Fatal(err)
	}
	for _, e := range examples {
		var found []string
		pattern := regexp.MustCompile(e.pattern)
		for _, f := range productionFiles(t) {
			if pattern.MatchString(strings.Join(readLines(t, f), "\n")) {
				found = append(found, f.path)
			}
		}
		slices.Sort(found)
		if !slices.Equal(found, e.files) {
			t.Errorf("%s: the files are %q, the example says %q", e.what, found, e.files)
		}
		for _, file := range e.files {
			if !bytes.Contains(guide, []byte("`"+file+"`")) {
				t.Errorf("%s: ARCHITECTURE.md does not name %s", e.what, file)
			}
		}
		item.AddFigure("%s: %d files", e.what, len(e.files))
	}
}

// typeNames returns where the product declares a type with one of these names, in lower case.
func typeNames(t *testing.T, names ...string) (out []string) {
	t.Helper()
	for _, f := range productionFiles(t) {
		for _, d := range f.file.Decls {
			block, ok := d.(*ast.GenDecl)
			if !ok || block.Tok != token.TYPE {
				continue
			}
			for _, spec := range block.Specs {
				if name := spec.(*ast.TypeSpec).Name.Name; slices.Contains(names, strings.ToLower(name)) {
					out = append(out, path.Base(path.Dir(f.path))+"."+name)
				}
			}
		}
	}
	slices.Sort(out)
	return out
}

// rowDecoders returns the functions of a package that turn a row into a value, by their parameter and result.
func rowDecoders(t *testing.T, parameter, result string) (out []string) {
	t.Helper()
	for _, f := range productionFiles(t) {
		for _, d := range f.file.Decls {
			fn, ok := d.(*ast.FuncDecl)
			if !ok || path.Dir(f.path) != "internal/engine/ovn" || fn.Type.Results == nil {
				continue
			}
			text := types.ExprString(fn.Type)
			in, results, _ := strings.Cut(text, ") ")
			if strings.Contains(in, parameter) && strings.Contains(results, result) && strings.Count(in, ",") < 2 {
				out = append(out, fn.Name.Name)
			}
		}
	}
	return out
}

// oneOfEach is what item 6 counts.
type oneOfEach struct {
	models  []string // functions of the controller that decode models of rows
	generic []string // functions of surveys that decode rows into models
	second  []string // functions of surveys that decode rows by themselves
	paths   []string // descriptions of a packet's path
	structs []string // structs for an EIp
}

func countOneOfEach(t *testing.T) oneOfEach {
	t.Helper()
	out := oneOfEach{
		models:  rowDecoders(t, "*nb.", "intent."),
		generic: rowDecoders(t, "row ovsdb.Row", "*M"),
		second:  rowDecoders(t, "ovsdb.Row", "logical."),
		paths: slices.DeleteFunc(typeNames(t, "path", "step"), func(name string) bool {
			return strings.HasPrefix(name, "controller.") // a step of a run
		}),
		structs: typeNames(t, "eip"),
	}
	if len(out.models) == 0 || len(out.generic) == 0 || len(out.paths) == 0 || len(out.structs) == 0 {
		t.Fatalf("nothing is found: the test can't tell: %+v", out)
	}
	return out
}

// What item 6 has reached stays so.
func TestOneDecoderAndOnePath(t *testing.T) {
	if found := countOneOfEach(t); len(found.second) > 0 || len(found.paths) > 1 {
		t.Errorf("second decoders: %q; descriptions of a path: %q", found.second, found.paths)
	}
}

func TestHouse6OneOfEach(t *testing.T) {
	if !show.IsFullSize() {
		t.Skip("not reached yet for EIps: shown at full size only")
	}
	item, found := list.Item(t, 6), countOneOfEach(t)
	item.AddFigure("columns of a table are described once, in its model: %d functions of the controller decode models, "+
		"surveys decode rows into models by %s, and %d functions decode rows by themselves", len(found.models),
		strings.Join(found.generic, ", "), len(found.second))
	item.AddFigure("descriptions of a packet's path: %s", strings.Join(found.paths, ", "))
	item.AddFigure("structs for an EIp: %s", strings.Join(found.structs, ", "))
	if len(found.second) > 0 || len(found.paths) > 1 || len(found.structs) > 3 {
		t.Errorf("%d second decoders, %d descriptions of a path and %d structs for an EIp; wanted 0, 1 and at most 3",
			len(found.second), len(found.paths), len(found.structs))
	}
}

func TestHouse7Size(t *testing.T) {
	if !show.IsFullSize() {
		t.Skip("not reached yet: shown at full size only")
	}
	item := list.Item(t, 7)
	lines, comments := 0, 0
	for _, f := range productionFiles(t) {
		for _, line := range readLines(t, f) {
			lines++
			if strings.HasPrefix(strings.TrimSpace(line), "//") {
				comments++
			}
		}
	}
	item.AddFigure("%d lines, %d of them comments", lines, comments)
	if lines >= 47400 {
		t.Errorf("%d lines: narrower lines are more lines, and maps have three layouts of one graph", lines)
	}
}

// goldenRow recognizes a row, an object or an entry of a Vpc's list in the difference of a golden case.
var goldenRow = regexp.MustCompile(`^[-+]  [A-Z][A-Za-z_]+ .*(→|  # )|^[-+]  (policyRoutes|staticRoutes|extraExternalSubnets) `)

// listedRows are the rows that golden cases want since then, on purpose.
var listedRows = []string{
	"options:always_learn_from_arp_request", // ADR 31
}

// TestHouse8Behaviour compares with the commit before the tree was changed: the golden cases want the same rows, and a
// live cluster is upgraded without a write.
func TestHouse8Behaviour(t *testing.T) {
	if !show.IsFullSize() {
		t.Skip("needs a lab and the history of the repository")
	}
	item := list.Item(t, 8)
	before := strings.TrimSpace(runInRoot(t, nil, "git", "log", "--diff-filter=A", "--format=%H", "-1", "--",
		"docs/glossary.md")) + "~1"
	changed := 0
	for line := range strings.Lines(runInRoot(t, nil, "git", "diff", before, "HEAD", "--",
		"internal/compile/testdata")) {
		if slices.ContainsFunc(listedRows, func(listed string) bool { return strings.Contains(line, listed) }) {
			continue
		}
		if goldenRow.MatchString(line) {
			changed++
			t.Errorf("a golden case wants something else: %s", line)
		}
	}
	item.AddFigure("rows, objects and entries that golden cases want: %d changed", changed)
	out := runInRoot(t, []string{"SALLYPORT_UPGRADE_FROM=" + before}, "go", "test", "-count=1", "-v", "-run",
		"^TestUpgradeWritesNothing$", "./test/e2e/install")
	for line := range strings.Lines(out) {
		if _, figure, found := strings.Cut(line, "upgrade from "); found {
			item.AddFigure("upgrade of a live cluster from %s", strings.TrimSpace(figure))
		}
	}
}

func runInRoot(t *testing.T, env []string, name string, args ...string) string {
	t.Helper()
	cmd := exec.Command(name, args...)
	cmd.Dir, cmd.Env = moduleRoot(t), append(os.Environ(), env...)
	out, err := cmd.CombinedOutput()
	if err != nil {
		t.Fatalf("%s %s: %v\n%s", name, strings.Join(args, " "), err, out)
	}
	return string(out)
}

// questions are what users look for, with words that the right page has. Clicks are counted from README.md.
var questions = []struct{ what, page, words string }{
	{"install with TLS to the databases", "docs/howto/install.md", "tlsSecret"},
	{"try it on one machine", "docs/howto/lab.md", "lab up"},
	{"give a pod a floating IP", "docs/howto/addresses.md", "FIp"},
	{"ask for one particular address", "docs/howto/addresses.md", "ipAddress"},
	{"bind a Service to an address that I have", "docs/reference/load-balancers.md", "bind-on-eip"},
	{"limit who may reach a load balancer", "docs/reference/load-balancers.md", "loadBalancerSourceRanges"},
	{"a stable source address for pods", "docs/howto/egress.md", "EgressIP"},
	{"send some pods out by another network", "docs/reference/egress.md", "EgressRoute"},
	{"what does condition Programmed mean", "docs/reference/conditions.md", "Programmed"},
	{"what does reason NetworkNotSupported mean", "docs/reference/conditions.md", "NetworkNotSupported"},
	{"my address does not answer", "docs/howto/night.md", "trace"},
	{"what does doctor's finding mean", "docs/reference/findings.md", "LabelOverwritten"},
	{"which alerts are there", "docs/reference/alerts.md", "Sallyport"},
	{"why do replies leave by the same network", "docs/concepts/return-path.md", "return"},
	{"can tenants reach each other", "docs/concepts/isolation.md", "Tenants"},
	{"what can an attacker do", "docs/security/threat-model.md", "compromised node"},
	{"which Kube-OVN behaviour matters when I upgrade it", "docs/reference/engine.md", "RemovesLoadBalancersOnStart"},
	{"what is not supported", "docs/limits.md", "IPv6"},
	{"what does this word mean", "docs/glossary.md", "return port"},
	{"which flags does the controller have", "docs/reference/controller.md", "--"},
}

func TestHouse9Questions(t *testing.T) {
	item := list.Item(t, 9)
	clicks, longest := clicksFromReadme(t), 0
	for _, q := range questions {
		text, err := os.ReadFile(filepath.Join(moduleRoot(t), q.page))
		n, found := clicks[q.page]
		switch {
		case err != nil:
			t.Errorf("%s: %v", q.what, err)
		case !bytes.Contains(text, []byte(q.words)):
			t.Errorf("%s: %s does not mention %q", q.what, q.page, q.words)
		case !found:
			t.Errorf("%s: no links lead from README.md to %s", q.what, q.page)
		}
		longest = max(longest, n)
		item.AddFigure("%s: %s, %s", q.what, q.page, strconv.Itoa(n)+" clicks")
	}
	if longest > 3 {
		t.Errorf("a page is %d clicks away", longest)
	}
}

// clicksFromReadme counts how many links lead from README.md to each page.
func clicksFromReadme(t *testing.T) map[string]int {
	t.Helper()
	links := map[string][]page.Link{}
	err := walkFiles(moduleRoot(t), func(rel string) error {
		if path.Ext(rel) != ".md" {
			return nil
		}
		text, err := os.ReadFile(filepath.Join(moduleRoot(t), rel))
		links[rel] = page.ParseLinks(rel, string(text))
		return err
	})
	if err != nil {
		t.Fatal(err)
	}
	return page.CountClicks(links, "README.md")
}

// matchText recognizes a piece of OVN's match language in a string.
var matchText = regexp.MustCompile(`\bip[46]\b|\b(inport|outport) ==|pkt\.mark|ct_label|\bct\.(trk|new|rpl)|eth\.(src|dst|mcast)`)

// OVN only logs a match that it cannot parse and continues without the rule. So matches are built from values by the
// package that parses them, and nobody else prints a family.
func TestMatchesAreBuilt(t *testing.T) {
	for _, f := range productionFiles(t) {
		dir := path.Dir(f.path)
		if dir != "internal/compile" && dir != "internal/model/intent" && dir != "internal/model/ownership" {
			continue
		}
		ast.Inspect(f.file, func(n ast.Node) bool {
			if text, ok := n.(*ast.BasicLit); ok && text.Kind == token.STRING && matchText.MatchString(text.Value) {
				t.Errorf("%s: %s is a match; build it with package match", f.fset.Position(text.Pos()), text.Value)
			}
			return true
		})
	}
	if !matchText.MatchString(`inport == %q && ip4.src == %s`) ||
		matchText.MatchString(`an IPv4 address of the project`) {
		t.Error("the pattern does not recognize matches")
	}
}
