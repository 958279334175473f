package manifest

import (
	"testing"

	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime/schema"
)

func TestParse(t *testing.T) {
	for _, c := range []struct {
		what, text string
		names      []string
		bad        bool
	}{
		{what: "nothing"},
		{what: "one", text: "{apiVersion: v1, kind: Namespace, metadata: {name: a}}", names: []string{"a"}},
		{
			what: "in order", names: []string{"b", "a"},
			text: "kind: X\napiVersion: v1\nmetadata: {name: b}\n---\n{kind: X, apiVersion: v1, metadata: {name: a}}",
		},
		{
			what:  "empty documents",
			text:  "---\n---\nkind: X\napiVersion: v1\nmetadata: {name: a}\n---\n\n---\n",
			names: []string{"a"},
		},
		{what: "comments", text: "# a file\n---\n# first\nkind: X\napiVersion: v1\nmetadata: {name: a}\n---\n# the end\n", names: []string{"a"}},
		{what: "JSON", text: `{"kind": "X", "apiVersion": "v1", "metadata": {"name": "a"}}`, names: []string{"a"}},
		{what: "no kind", text: "apiVersion: v1\nmetadata: {name: a}", bad: true},
		{what: "no YAML", text: "kind: [X", bad: true},
		{what: "a bad one after a good one", text: "kind: X\napiVersion: v1\n---\nkind: [X", bad: true},
	} {
		objects, err := Parse(c.text)
		if (err != nil) != c.bad || len(objects) != len(c.names) {
			t.Errorf("%s: %d objects, %v; want %v", c.what, len(objects), err, c.names)
			continue
		}
		for i, o := range objects {
			if o.GetName() != c.names[i] {
				t.Errorf("%s: object %d is %s, want %s", c.what, i, o.GetName(), c.names[i])
			}
		}
	}
}

func TestConditions(t *testing.T) {
	objects, err := Parse(`
apiVersion: v1
kind: X
metadata: {name: a}
status:
  phase: Running
  replicas: 3
  conditions:
  - {type: Ready, status: "True"}
  - {type: Validated, status: "False"}
  - {type: Odd, status: true}
---
apiVersion: v1
kind: X
metadata: {name: bare}`)
	if err != nil {
		t.Fatal(err)
	}
	full, bare := objects[0], objects[1]
	for _, c := range []struct {
		what   string
		fact   Condition
		object *unstructured.Unstructured
		want   bool
	}{
		{"exists", Exists, bare, true},
		{"exists", Exists, nil, false},
		{"gone", Gone, nil, true},
		{"gone", Gone, bare, false},
		{"Ready", True("Ready"), full, true},
		{"Ready", True("Ready"), bare, false},
		{"Ready", True("Ready"), nil, false},
		{"Validated", True("Validated"), full, false},
		{"phase", Field("Running", "status", "phase"), full, true},
		{"another phase", Field("Pending", "status", "phase"), full, false},
		{"a number", Field("3", "status", "replicas"), full, true},
		{"no such field", Field("<nil>", "status", "phase"), bare, false},
		{"a field below a text", Field("Running", "status", "phase", "x"), full, false},
		{"a field of nothing", Field("Running", "status", "phase"), nil, false},
	} {
		if got := c.fact(c.object); got != c.want {
			t.Errorf("%s of %v holds: %t", c.what, c.object, got)
		}
	}
}

func TestRefIsReadable(t *testing.T) {
	pod, node := schema.GroupVersionKind{Kind: "Pod"}, schema.GroupVersionKind{Kind: "Node"}
	for want, ref := range map[string]Ref{
		"Pod a/b": {GVK: pod, Namespace: "a", Name: "b"},
		"Node b":  {GVK: node, Name: "b"},
	} {
		if got := ref.String(); got != want {
			t.Errorf("%q, want %q", got, want)
		}
	}
}
