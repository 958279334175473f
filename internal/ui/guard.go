package ui

import (
	"net"
	"net/http"
	"net/netip"
	"strings"
)

// guard lets only those requests through that a person's browser makes for this page.
type guard struct {
	next   http.Handler
	remote bool
}

// policy is what the page may load and do: its own files, and nothing that text could turn into a script.
const policy = "default-src 'none'; script-src 'self'; style-src 'self'; img-src 'self' data:; connect-src 'self'; " +
	"base-uri 'none'; form-action 'none'; frame-ancestors 'none'; require-trusted-types-for 'script'; trusted-types 'none'"

func (g guard) ServeHTTP(w http.ResponseWriter, r *http.Request) {
	h := w.Header()
	h.Set("Content-Security-Policy", policy)
	h.Set("X-Content-Type-Options", "nosniff")
	h.Set("X-Frame-Options", "DENY")
	h.Set("Referrer-Policy", "no-referrer")
	h.Set("Cross-Origin-Opener-Policy", "same-origin")
	h.Set("Cross-Origin-Resource-Policy", "same-origin")
	h.Set("Permissions-Policy", "camera=(), geolocation=(), microphone=()")
	h.Set("Cache-Control", "no-cache")
	switch {
	case !g.known(r.Host):
		refuse(w, http.StatusMisdirectedRequest, "this server is not "+r.Host+"; open it by its address")
	case r.Method != http.MethodGet:
		h.Set("Allow", http.MethodGet)
		refuse(w, http.StatusMethodNotAllowed, "this page is only read: use GET")
	case r.Header.Get("Sec-Fetch-Site") == "cross-site" && r.Header.Get("Sec-Fetch-Mode") != "navigate":
		refuse(w, http.StatusForbidden, "another site's page asked; open this one instead")
	default:
		g.next.ServeHTTP(w, r)
	}
}

// known says whether a browser that means this server would ask for this host. A name could be one that somebody else's DNS leads here, so that
// his page may read ours: only addresses are believed, and the one name that no DNS answers.
func (g guard) known(host string) bool {
	if name, _, err := net.SplitHostPort(host); err == nil {
		host = name
	}
	host = strings.Trim(host, "[]")
	if loopback(host) {
		return true
	}
	_, err := netip.ParseAddr(host)
	return g.remote && err == nil
}
