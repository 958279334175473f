package intent

import (
	"encoding/json"
	"math/rand/v2"
	"testing"
)

// The fast path writes the same as encoding/json.
func TestCanonicalIsJSON(t *testing.T) {
	random := rand.New(rand.NewPCG(1, 2))
	for range 2000 {
		v := randomValue(random, 4)
		text := CanonicalJSON(v)
		var back any
		if err := json.Unmarshal([]byte(text), &back); err != nil {
			t.Fatalf("%v: %s: %v", v, text, err)
		}
		if again := CanonicalJSON(back); again != text {
			t.Errorf("read back and written again\n%s\nis\n%s", text, again)
		}
		type wrapped struct {
			V any `json:"v"`
		}
		if want, got := CanonicalJSON(map[string]any{"v": v}), CanonicalJSON(wrapped{v}); got != want {
			t.Errorf("by way of encoding/json it is\n%s, not\n%s", got, want)
		}
	}
}

func randomValue(random *rand.Rand, depth int) any {
	texts := []string{"", "plain", `"quoted" \ back`, "<a>&b", "Grüße\n\t\x01", "\u2028", "\xff"}
	text := func() string { return texts[random.IntN(len(texts))] }
	scalars := []any{nil, true, false, 0, 80, int64(-1 << 50), 1.5, text(), text()}
	if depth == 0 {
		return scalars[random.IntN(len(scalars))]
	}
	switch random.IntN(7) {
	case 0:
		m := map[string]any{}
		for range random.IntN(4) {
			m[text()] = randomValue(random, depth-1)
		}
		return m
	case 1:
		return map[string]string{text(): text()}
	case 2:
		return map[string]string{}
	case 3:
		var list []any
		for range random.IntN(4) {
			list = append(list, randomValue(random, depth-1))
		}
		return list
	case 4:
		return []string{text(), text()}
	case 5:
		return []map[string]any{{text(): randomValue(random, depth-1)}, {}}
	default:
		return scalars[random.IntN(len(scalars))]
	}
}

func TestCanonicalLeavesOutWhatIsEmpty(t *testing.T) {
	got := CanonicalJSON(map[string]any{
		"z": "", "a": []any{}, "b": map[string]any{"c": map[string]string{}, "d": nil}, "e": []string(nil),
		"list": []any{nil, map[string]any{}}, "false": false, "none": 0,
	})
	if want := `{"false":false,"list":[null,{}],"none":0,"z":""}`; got != want {
		t.Errorf("%s, want %s", got, want)
	}
}
