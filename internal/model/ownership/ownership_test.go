package ownership

import (
	"go/ast"
	"go/constant"
	"go/parser"
	"go/token"
	"go/types"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"testing"

	"github.com/sallyport/sallyport/internal/engine/kubeovn"
)

// kubeOVNPriorities are the priorities of Kube-OVN 1.16's own router policies on our VPCs. 30000 is not among them:
// Kube-OVN uses it only on its default VPC, where we claim other bands.
var kubeOVNPriorities = []int{29000, 29090, 29100, 29150, 29190, 29200, 29250, 29400, 29500, 30050, 30060, 30100, 31000}

func TestBandsAreApart(t *testing.T) {
	for i, b := range PriorityBands {
		if b.First > b.Last || b.First < 1 || b.Last > 32767 || b.Purpose == "" {
			t.Errorf("%+v is no range of OVN's priorities, or says not what for", b)
		}
		for _, o := range PriorityBands[:i] {
			if b.First <= o.Last && o.First <= b.Last {
				t.Errorf("%+v and %+v overlap", b, o)
			}
		}
		for _, p := range kubeOVNPriorities {
			if b.First <= p && p <= b.Last {
				t.Errorf("%+v has %d, which is Kube-OVN's", b, p)
			}
		}
	}
}

// priority is a constant of the block of priorities in this package's source.
type priority struct {
	name  string
	value int
}

// sourcePriorities reads the priorities from the source, in order, so that no new one is forgotten.
func sourcePriorities(t *testing.T) (out []priority) {
	t.Helper()
	const title = "Priorities of router policies."
	fset, files := parsePackage(t)
	// Imports are not resolved: no priority depends on another package, and the rest may be in error.
	checked := types.Info{Defs: map[*ast.Ident]types.Object{}}
	_, _ = (&types.Config{Error: func(error) {}}).Check("ownership", fset, files, &checked)
	for _, name := range titledConstants(files, title) {
		value, exact := constant.Int64Val(checked.Defs[name].(*types.Const).Val())
		if !exact {
			t.Fatalf("%s is not a number", name.Name)
		}
		out = append(out, priority{name.Name, int(value)})
	}
	if len(out) == 0 {
		t.Fatalf("no block of constants begins with %q", title)
	}
	return out
}

// parsePackage returns the files of the package without tests.
func parsePackage(t *testing.T) (*token.FileSet, []*ast.File) {
	t.Helper()
	names, err := filepath.Glob("*.go")
	if err != nil {
		t.Fatal(err)
	}
	fset := token.NewFileSet()
	var files []*ast.File
	for _, name := range names {
		if strings.HasSuffix(name, "_test.go") {
			continue
		}
		file, err := parser.ParseFile(fset, name, nil, parser.ParseComments)
		if err != nil {
			t.Fatal(err)
		}
		files = append(files, file)
	}
	return fset, files
}

// titledConstants returns the names in blocks of constants whose comment begins with a title.
func titledConstants(files []*ast.File, title string) (out []*ast.Ident) {
	for _, file := range files {
		for _, decl := range file.Decls {
			block, ok := decl.(*ast.GenDecl)
			if !ok || block.Tok != token.CONST || !strings.HasPrefix(block.Doc.Text(), title) {
				continue
			}
			for _, spec := range block.Specs {
				out = append(out, spec.(*ast.ValueSpec).Names...)
			}
		}
	}
	return out
}

func TestPrioritiesAreInBands(t *testing.T) {
	management := []string{
		"Reach", "ReachOnLink", "ManagementFIP", "ManagementFIPOnLink", "ManagementFailClosed", "ManagementEgressIP",
		"ReturnReply", "ReturnLeave", "NodeBackend", "FIPSubnets", "NodeBackendReply", "ReturnForged",
	}
	for _, p := range sourcePriorities(t) {
		if !IsOwnPriority("acme-web", p.value) {
			t.Errorf("%s (%d) is used and not claimed", p.name, p.value)
		}
		if ours := slices.Contains(management, p.name); IsOwnPriority(kubeovn.ManagementVpc, p.value) != ours {
			t.Errorf("on Kube-OVN's own VPC %s (%d) is claimed: %v", p.name, p.value, !ours)
		}
	}
	free := []int{
		0, 999, 1011, EgressFailClosed - 1, EgressServiceOnLink + 1, EgressRouteFirst - 1, EgressRouteLast + 1, 29899,
		29902, 29904, 29907, 29909, 29921, 29999, 30002, 30009, 30012, 31099, 31101, 32767,
	}
	for _, p := range append(free, kubeOVNPriorities...) {
		if IsOwnPriority("acme-web", p) {
			t.Errorf("%d is claimed and not used", p)
		}
	}
}

// The constants are in ascending order of precedence: more specific policies take precedence over the default egress.
func TestPrioritiesAreInOrder(t *testing.T) {
	all := sourcePriorities(t)
	for i, p := range all[1:] {
		if before := all[i]; before.value >= p.value {
			t.Errorf("%s (%d) is listed before %s (%d)", before.name, before.value, p.name, p.value)
		}
	}
}

// Kube-OVN's policy for traffic inside the subnets takes precedence over all of ours, except for the one that drops
// forged packets, the one for replies to an address that no pod has, and the one that Kube-OVN's own routes require.
func TestPrioritiesLeaveSubnetsAlone(t *testing.T) {
	const inside = 31000
	for _, p := range sourcePriorities(t) {
		if over := p.value > inside; over != slices.Contains([]string{"ReturnForged", "NodeBackendReply", "FIPSubnets"}, p.name) {
			t.Errorf("%s (%d) comes before Kube-OVN's %d: %v", p.name, p.value, inside, over)
		}
	}
}

// What the API server accepts.
var (
	domain = regexp.MustCompile(`^[a-z0-9]([-a-z0-9]*[a-z0-9])?(\.[a-z0-9]([-a-z0-9]*[a-z0-9])?)*$`)
	word   = regexp.MustCompile(`^[A-Za-z0-9]([-A-Za-z0-9_.]*[A-Za-z0-9])?$`)
)

func TestNamesAreValid(t *testing.T) {
	for _, name := range []string{ManagedByLabel, ShardLabel, OriginAnnotation, ReminderAnnotation, Finalizer} {
		prefix, rest, found := strings.Cut(name, "/")
		if !found || !domain.MatchString(prefix) || !word.MatchString(rest) || len(rest) > 63 {
			t.Errorf("%s can't be the name of a label, annotation or finalizer", name)
		}
	}
	if !word.MatchString(ManagedBy) || len(ManagedBy) > 63 {
		t.Errorf("%s can't be the value of a label", ManagedBy)
	}
	for _, manager := range []string{FieldManager, StatusManager} {
		if manager == "" || len(manager) > 128 {
			t.Errorf("%q can't be a field manager", manager)
		}
	}
	if FieldManager == StatusManager {
		t.Error("spec and status have one manager, and each would take the other's fields away")
	}
	if RowOwnerKey == RowShardKey {
		t.Error("two keys of external_ids are one")
	}
}

func TestOurs(t *testing.T) {
	for name, c := range map[string]struct {
		labels map[string]string
		ours   bool
	}{
		"both labels":        {ManagedLabels("acme-web"), true},
		"no labels":          {nil, false},
		"managed by another": {map[string]string{ManagedByLabel: "helm", ShardLabel: "acme-web"}, false},
		"of no VPC":          {map[string]string{ManagedByLabel: ManagedBy}, false},
		"of a nameless VPC":  {map[string]string{ManagedByLabel: ManagedBy, ShardLabel: ""}, false},
		"and labels of others": {
			map[string]string{ManagedByLabel: ManagedBy, ShardLabel: "acme-web", "team": "x"},
			true,
		},
	} {
		if got := IsManagedObject(c.labels); got != c.ours {
			t.Errorf("%s: ours is %t", name, got)
		}
	}
}
