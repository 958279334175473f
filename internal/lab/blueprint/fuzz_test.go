package blueprint

import (
	"reflect"
	"testing"

	"sigs.k8s.io/yaml"
)

// FuzzTopology: any file is a topology or an error. One that Check accepts has nothing twice, and is the same when it is written and read again.
func FuzzTopology(f *testing.F) {
	for _, text := range []string{
		"", "nodes: 2", "networks: []\nuplinks: []", "networks: [{name: ext, prefixes: [198.51.100.0/24], vlan: 5, default: true}]",
		"uplinks: [{name: up, prefixes: [\"2001:db8::/64\"], bgp: true, reserved: 9}]", "pods: 10.0.0.0/8\njoin: 10.1.0.0/16", "a: &a [*a]", "nodes: 1e3",
	} {
		f.Add([]byte(text))
	}
	f.Fuzz(func(t *testing.T, data []byte) {
		b, err := Parse(data)
		if err != nil || b.Check() != nil {
			return
		}
		for _, c := range clashes(b) {
			t.Error(c)
		}
		text, err := yaml.Marshal(b)
		if err != nil {
			t.Fatal(err)
		}
		if again, err := Parse(text); err != nil || !reflect.DeepEqual(again, b) {
			t.Errorf("%v\nfirst  %+v\nsecond %+v", err, b, again)
		}
	})
}
