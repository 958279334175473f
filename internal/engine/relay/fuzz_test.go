package relay

import (
	"bytes"
	"encoding/json"
	"testing"
)

// FuzzRequest checks that what is passed on is, byte for byte, something that only reads the one database.
func FuzzRequest(f *testing.F) {
	for _, seed := range []string{
		goodSelect, `{"id":null,"method":"echo","params":[]}`, `{"method":"lock","params":["x"],"id":0}`,
		`{"id":"echo","result":[],"error":null}`, `{"method":"transact","params":["OVN_Northbound",{"op":"select","op":"insert"}]}`,
	} {
		f.Add([]byte(seed))
	}
	f.Fuzz(func(t *testing.T, raw []byte) {
		reader := newMessageReader(bytes.NewReader(raw), 4096)
		for range 10 {
			m, err := reader.readMessage()
			if err != nil {
				return
			}
			if checkMessage(m, Northbound) != nil {
				continue
			}
			sent, err := json.Marshal(m)
			if err != nil {
				t.Fatal(err)
			}
			checkSent(t, sent)
		}
	})
}

// checkSent reads a message as a server would, with a parser of its own.
func checkSent(t *testing.T, sent []byte) {
	t.Helper()
	if len(sent) > 8*4096 { // a control character becomes six
		t.Fatalf("%d bytes of at most 4096", len(sent))
	}
	var m struct {
		Method string            `json:"method"`
		Params []json.RawMessage `json:"params"`
	}
	if err := json.Unmarshal(sent, &m); err != nil {
		t.Fatalf("%s: %v", sent, err)
	}
	switch m.Method {
	case "", "echo", "list_dbs", "cancel", "monitor_cancel", "set_db_change_aware":
		return
	case "get_schema", "monitor", "monitor_cond", "monitor_cond_since", "transact":
	default:
		t.Fatalf("sent %s", sent)
	}
	if database := string(m.Params[0]); database != `"OVN_Northbound"` && database != `"_Server"` {
		t.Fatalf("sent %s", sent)
	}
	for _, o := range m.Params[1:] {
		var operation map[string]json.RawMessage
		if m.Method == "transact" && (json.Unmarshal(o, &operation) != nil || string(operation["op"]) != `"select"`) {
			t.Fatalf("sent %s", sent)
		}
	}
}

// FuzzStreamPosition checks that the end of a message is found, and no end inside of one.
func FuzzStreamPosition(f *testing.F) {
	f.Add([]byte(`{"a":["\\\"}",{}]}`), 3)
	f.Fuzz(func(t *testing.T, raw []byte, cut int) {
		if !json.Valid(raw) || len(raw) == 0 || bytes.TrimSpace(raw)[0] != '{' {
			return
		}
		raw = bytes.TrimSpace(raw)
		cut = max(1, min(cut, len(raw)-1))
		var p streamPosition
		if p.advance(raw[:cut]); !p.isInMessage() {
			t.Fatalf("%q ends after %d bytes", raw, cut)
		}
		if p.advance(raw[cut:]); p.isInMessage() {
			t.Fatalf("%q has no end", raw)
		}
	})
}
