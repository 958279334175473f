package crd_test

import (
	"fmt"
	"maps"
	"slices"
	"strings"
	"testing"

	"sigs.k8s.io/yaml"

	"github.com/sallyport/sallyport/test/page"
)

// kindOrder is the kinds as people meet them, and what each is for.
var kindOrder = []struct{ kind, who, more string }{
	{"Project", "tenants", "[how to](../howto/addresses.md#a-project)"},
	{"EIp", "tenants", "[how to](../howto/addresses.md#an-external-address)"},
	{"FIp", "tenants", "[how to](../howto/addresses.md#a-floating-ip)"},
	{"EgressRoute", "tenants", "[how to](../howto/egress.md#by-destination)"},
	{"EgressService", "tenants", "[how to](../howto/egress.md#with-the-address-of-a-load-balancer)"},
	{"EgressIP", "operators", "[how to](../howto/egress.md)"},
	{"ExternalNetwork", "operators", "[how to](../howto/install.md#external-networks), [on nodes](../howto/nodes.md)"},
	{"NodePath", "the controller", "[what the agent makes of it](nodes.md)"},
	{"Inspection", "the commands of operators", "a question to the agent of a node"},
}

// definition is what is told of a kind.
type definition struct {
	Spec struct {
		Group, Scope string
		Names        struct {
			Plural     string
			ShortNames []string
		}
		Versions []struct {
			Name   string
			Schema struct {
				OpenAPIV3Schema schema `json:"openAPIV3Schema"`
			}
		}
	}
}

// schema is what is told of a field.
type schema struct {
	Type, Description, Format, Pattern string
	Properties                         map[string]schema
	AdditionalProperties               *schema
	Items                              *schema
	Required                           []string
	Enum                               []any
	Default                            any
	Minimum, Maximum                   *float64
	MaxItems                           *int
	Rules                              []struct{ Message string } `json:"x-kubernetes-validations"`
}

func TestReferencePageHasEveryField(t *testing.T) {
	defined := loadDefinitions(t)
	var out strings.Builder
	out.WriteString("# API\n\n" +
		"Every kind, field by field. `make golden` writes this page from the CustomResourceDefinitions, which have the same descriptions:\n" +
		"`kubectl explain fip.spec` prints them. A field with \\* is required. What a rule refuses, the API server refuses with that sentence.\n\n" +
		"| kind | API | written by | |\n|---|---|---|---|\n")
	var bodies strings.Builder
	for _, o := range kindOrder {
		d := parseDefinition(t, defined[o.kind])
		delete(defined, o.kind)
		for _, v := range d.Spec.Versions {
			fmt.Fprintf(&out, "| [%s](#%s) | `%s/%s` | %s | %s |\n", o.kind, strings.ToLower(o.kind), d.Spec.Group,
				v.Name, o.who, o.more)
		}
		d.writeReference(&bodies, o.kind)
	}
	if len(defined) > 0 {
		t.Errorf("not in the list of kinds: %v", slices.Collect(maps.Keys(defined)))
	}
	page.Check(t, "../../docs/reference/api.md", out.String()+bodies.String())
}

func parseDefinition(t *testing.T, object map[string]any) (out definition) {
	t.Helper()
	raw, err := yaml.Marshal(object)
	if err == nil {
		err = yaml.Unmarshal(raw, &out)
	}
	if err != nil || len(out.Spec.Versions) == 0 {
		t.Fatalf("a kind has no definition: %v", err)
	}
	return out
}

func (d definition) writeReference(out *strings.Builder, kind string) {
	for _, v := range d.Spec.Versions {
		s := v.Schema.OpenAPIV3Schema
		names := "`" + strings.Join(append([]string{d.Spec.Names.Plural}, d.Spec.Names.ShortNames...), "`, `") + "`"
		fmt.Fprintf(out, "\n## %s\n\n`%s/%s`, %s, %s\n\n%s\n", kind, d.Spec.Group, v.Name,
			strings.ToLower(d.Spec.Scope), names, collapseSpace(s.Description))
		for _, part := range []string{"spec", "status"} {
			top, there := s.Properties[part]
			if !there {
				continue
			}
			fmt.Fprintf(out, "\n| %s | type | |\n|---|---|---|\n", part)
			top.writeRows(out, "")
			if len(top.Rules) > 0 {
				out.WriteString("\nRules:\n\n")
			}
			for _, r := range top.Rules {
				fmt.Fprintf(out, "- %s\n", r.Message)
			}
		}
	}
}

// writeRows is the fields of an object, and below each those in it.
func (s schema) writeRows(out *strings.Builder, prefix string) {
	for _, name := range slices.Sorted(maps.Keys(s.Properties)) {
		f := s.Properties[name]
		mark := ""
		if slices.Contains(s.Required, name) {
			mark = " \\*"
		}
		fmt.Fprintf(out, "| `%s%s`%s | %s | %s |\n", prefix, name, mark, f.typeName(), escapeCell(f.describeField()))
		if name == "conditions" || strings.HasSuffix(name, "Selector") {
			continue // Kubernetes' own
		}
		below, suffix := f, "."
		if f.Items != nil {
			below, suffix = *f.Items, "[]."
		}
		below.writeRows(out, prefix+name+suffix)
	}
}

func (s schema) typeName() string {
	switch {
	case s.Items != nil:
		return "list of " + s.Items.typeName()
	case s.AdditionalProperties != nil:
		return "map of " + s.AdditionalProperties.typeName()
	case s.Format == "date-time":
		return "time"
	default:
		return s.Type
	}
}

// describeField is what a field means and may be.
func (s schema) describeField() string {
	said := []string{collapseSpace(s.Description)}
	var values []string
	for _, v := range s.Enum {
		values = append(values, fmt.Sprintf("`%v`", v))
	}
	if len(values) > 0 {
		said = append(said, "One of "+strings.Join(values, ", ")+".")
	}
	if s.Default != nil && s.Default != "" {
		said = append(said, fmt.Sprintf("Default: `%v`.", s.Default))
	}
	switch {
	case s.Minimum != nil && s.Maximum != nil:
		said = append(said, fmt.Sprintf("%v to %v.", *s.Minimum, *s.Maximum))
	case s.Minimum != nil:
		said = append(said, fmt.Sprintf("%v at least.", *s.Minimum))
	}
	if s.MaxItems != nil {
		said = append(said, fmt.Sprintf("%d at most.", *s.MaxItems))
	}
	for _, r := range s.Rules {
		said = append(said, "Rule: "+r.Message+".")
	}
	return strings.Join(said, " ")
}

func collapseSpace(text string) string { return strings.Join(strings.Fields(text), " ") }

func escapeCell(text string) string {
	return strings.NewReplacer("|", "\\|", "<", "&lt;").Replace(strings.TrimSpace(strings.ReplaceAll(text, "\n", " ")))
}
