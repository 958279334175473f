package peer

import (
	"context"
	"net"
	"net/http"
	"net/http/httptest"
	"net/netip"
	"strings"
	"testing"
)

// TestPeersAnswerAndAsk lets a peer request another one, a server that redirects, one that fails, and a closed port.
func TestPeersAnswerAndAsk(t *testing.T) {
	server := httptest.NewServer(answerAs("ns/one"))
	defer server.Close()
	client := httptest.NewServer(http.HandlerFunc(forwardRequest))
	defer client.Close()
	mux := http.NewServeMux()
	mux.Handle("/away", http.RedirectHandler(server.URL, http.StatusFound))
	mux.HandleFunc("/broken", func(w http.ResponseWriter, _ *http.Request) { http.Error(w, "broken", http.StatusInternalServerError) })
	other := httptest.NewServer(mux)
	defer other.Close()
	dial := func(ctx context.Context) (net.Conn, error) {
		return (&net.Dialer{}).DialContext(ctx, "tcp", client.Listener.Addr().String())
	}

	text, err := Ask(t.Context(), dial, server.URL)
	if err != nil {
		t.Fatal(err)
	}
	answer, err := ParseAnswer(text)
	if want := (Answer{Name: "ns/one", Client: netip.MustParseAddr("127.0.0.1")}); answer != want || err != nil {
		t.Errorf("%q: %v, %v", text, answer, err)
	}
	for target, want := range map[string]string{
		other.URL + "/away": "302", other.URL + "/broken": "500", "http://127.0.0.1:1": "refused", "file:///etc/passwd": "unsupported",
	} {
		if text, err := Ask(t.Context(), dial, target); err == nil || !strings.Contains(err.Error(), want) {
			t.Errorf("%s: %q, %v; wanted an error with %q", target, text, err, want)
		}
	}
}

func TestOtherAnswersAreNotParsed(t *testing.T) {
	for _, text := range []string{"", "one", "one saw", "one saw you", " saw 192.0.2.1", "<html>"} {
		if a, err := ParseAnswer(text); err == nil {
			t.Errorf("%q is %v", text, a)
		}
	}
}
