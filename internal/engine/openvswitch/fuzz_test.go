package openvswitch

import (
	"bufio"
	"bytes"
	"encoding/json"
	"fmt"
	"regexp"
	"strings"
	"testing"
	"unicode/utf8"
)

// FuzzReply: any bytes are a reply or an error, and the output is not longer than the input. Text is unchanged, except
// for control characters.
func FuzzReply(f *testing.F) {
	for _, text := range []string{
		`{"id":0,"result":"tcp,orig=(src=10.0.0.1)\nudp","error":null}`, `{"id":0,"result":null,"error":"\"x\" is not a valid command\n"}`,
		`{"result":"\b\f\u0007\\\"\/"}`, `{"result":"`, `{`, "two\nlines\n", "\x00\b\f\t<&>\u2028é",
	} {
		f.Add([]byte(text))
	}
	f.Fuzz(func(t *testing.T, data []byte) {
		if n := len(readReplyLines(data)); n > len(data)+1 {
			t.Errorf("%d bytes became %d", len(data), n)
		}
		if !utf8.Valid(data) {
			return
		}
		var answer bytes.Buffer
		encoder := json.NewEncoder(&answer)
		encoder.SetEscapeHTML(false)
		if err := encoder.Encode(map[string]any{"id": 0, "result": string(data), "error": nil}); err != nil {
			t.Fatal(err)
		}
		if got, want := readReplyLines(answer.Bytes()), strings.TrimSuffix(replaceControlChars(string(data)), "\n"); strings.TrimSuffix(got, "\n") != strings.TrimSuffix(want, "\n") {
			t.Errorf("%q came as %q", data, got)
		}
	})
}

// readReplyLines returns the output of readReply, one line each.
func readReplyLines(data []byte) string {
	var out []string
	_ = readReply(bufio.NewReader(bytes.NewReader(data)), func(line []byte) { out = append(out, string(line)) })
	return strings.Join(out, "\n")
}

// replaceControlChars replaces what readReply replaces: control characters, and what encoding/json escapes besides
// them.
func replaceControlChars(text string) string {
	return strings.Map(func(r rune) rune {
		if r < ' ' && !strings.ContainsRune("\n\t\r", r) || r == '\u2028' || r == '\u2029' {
			return '?'
		}
		return r
	}, text)
}

// FuzzConnection: any line is a connection or not. A connection is the same when it is written and parsed again.
func FuzzConnection(f *testing.F) {
	for _, line := range []string{
		"tcp,orig=(src=10.1.0.2,dst=10.1.0.3,sport=1024,dport=80),reply=(src=10.1.0.3,dst=10.1.0.2,sport=80,dport=1024),zone=5,protoinfo=(state=ESTABLISHED)",
		"icmp,orig=(src=10.0.0.1,dst=10.0.0.2,id=7,type=8,code=0),reply=(src=10.0.0.2,dst=10.0.0.1,id=7,type=0,code=0)",
		"udp,orig=(src=fd00::1,dst=fd00::2,sport=53,dport=70000),reply=(src=fe80::2%eth0,dst=::ffff:10.0.0.1),zone=-1",
		"sctp,orig=(((),reply=)(,zone=99999999999999999999", ",,,",
	} {
		f.Add(line)
	}
	word := regexp.MustCompile(`^[A-Za-z0-9_]*$`)
	f.Fuzz(func(t *testing.T, line string) {
		c, ok := parseConnection(line)
		if !ok || !word.MatchString(c.Protocol) || !word.MatchString(c.State) {
			return
		}
		if c.Zone < 0 || c.Zone > 0xffff {
			t.Errorf("%s: zone %d", line, c.Zone)
		}
		for _, end := range c.endpoints() {
			if !end.Addr().IsValid() || end.Addr().Zone() != "" {
				t.Errorf("%s: address %s", line, end)
			}
		}
		write := func(x Tuple) string {
			return fmt.Sprintf("(src=%s,dst=%s,sport=%d,dport=%d)", x.From.Addr(), x.To.Addr(), x.From.Port(), x.To.Port())
		}
		text := fmt.Sprintf("%s,orig=%s,reply=%s,zone=%d,protoinfo=(state=%s)", c.Protocol, write(c.Original), write(c.Reply), c.Zone, c.State)
		if again, ok := parseConnection(text); !ok || again != c {
			t.Errorf("%s\nis    %+v\nagain %+v", line, c, again)
		}
	})
}

// FuzzRow: whatever JSON a column has, reading it returns values that were in it.
func FuzzRow(f *testing.F) {
	for _, column := range []string{
		`"br-int"`, `["uuid","1-2-3"]`, `["set",[]]`, `["set",["a",["uuid","b"]]]`, `["map",[["system-id","node1"]]]`, `[]`, `null`, `["set"]`, `[[]]`, `{}`, `7`,
	} {
		f.Add([]byte(`{"c":` + column + `}`))
	}
	f.Fuzz(func(t *testing.T, data []byte) {
		var r row
		if json.Unmarshal(data, &r) != nil {
			return
		}
		for name := range r {
			size := len(r.stringValue(name))
			for _, text := range r.stringValues(name) {
				size += len(text)
			}
			for key, value := range r.mapValue(name) {
				size += len(key) + len(value)
			}
			if size > 12*len(r[name]) { // each at most three times; an invalid byte becomes three
				t.Errorf("%s became %d bytes", data, size)
			}
		}
		indexByUUID([]row{r})
	})
}
