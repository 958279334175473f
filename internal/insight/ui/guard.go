package ui

import (
	"crypto/subtle"
	"net"
	"net/http"
	"net/netip"
	"net/url"
	"slices"
	"strconv"
	"strings"
)

// guard lets only those requests through that the browser of whoever started the server makes for this page.
type guard struct {
	next        http.Handler
	allowRemote bool
	token       string
}

// tokenName is the parameter of the first request that has the token.
const tokenName = "token"

// contentSecurityPolicy is what the page may load and do: its own files, and nothing that text could turn into a
// script.
const contentSecurityPolicy = "default-src 'none'; script-src 'self'; style-src 'self'; img-src 'self' data:; connect-src 'self'; " +
	"base-uri 'none'; form-action 'none'; frame-ancestors 'none'; require-trusted-types-for 'script'; trusted-types 'none'"

func (g guard) ServeHTTP(w http.ResponseWriter, r *http.Request) {
	h := w.Header()
	h.Set("Content-Security-Policy", contentSecurityPolicy)
	h.Set("X-Content-Type-Options", "nosniff")
	h.Set("X-Frame-Options", "DENY")
	h.Set("Referrer-Policy", "no-referrer")
	h.Set("Cross-Origin-Opener-Policy", "same-origin")
	h.Set("Cross-Origin-Resource-Policy", "same-origin")
	h.Set("Permissions-Policy", "camera=(), geolocation=(), microphone=()")
	h.Set("Cache-Control", "no-cache")
	switch {
	case !g.isTrustedHost(r.Host):
		writeError(w, http.StatusMisdirectedRequest, "this server is not "+r.Host+"; open it by its address")
	case r.Method != http.MethodGet:
		h.Set("Allow", http.MethodGet)
		writeError(w, http.StatusMethodNotAllowed, "this page is only read: use GET")
	case r.Header.Get("Sec-Fetch-Site") == "cross-site" && r.Header.Get("Sec-Fetch-Mode") != "navigate":
		writeError(w, http.StatusForbidden, "another site's page asked; open this one instead")
	case r.URL.Query().Has(tokenName):
		g.exchangeToken(w, r)
	case !g.hasTokenCookie(r):
		writeError(w, http.StatusUnauthorized,
			"open the page by the whole address that sallyport ui printed, with its token")
	default:
		g.next.ServeHTTP(w, r)
	}
}

// exchangeToken takes the token from an address and gives it to the browser as a cookie, so that it does not stay in
// the address: neither in the history nor where somebody looks over a shoulder.
func (g guard) exchangeToken(w http.ResponseWriter, r *http.Request) {
	q := r.URL.Query()
	if !g.isValidToken(q.Get(tokenName)) {
		writeError(w, http.StatusForbidden,
			"this token is not that of this server; open the address that it printed when it was started")
		return
	}
	q.Del(tokenName)
	to := url.URL{Path: "/" + strings.TrimLeft(r.URL.Path, "/"), RawQuery: q.Encode()}
	http.SetCookie(w, &http.Cookie{ //nolint:gosec // it is not Secure: the page is not encrypted, and browsers would not send it back
		Name: cookieName(r.Host), Value: g.token, Path: "/", HttpOnly: true, SameSite: http.SameSiteStrictMode,
	})
	w.Header().Set("Location", to.String())
	w.WriteHeader(http.StatusSeeOther)
}

func (g guard) isValidToken(text string) bool {
	return g.token != "" && subtle.ConstantTimeCompare([]byte(text), []byte(g.token)) == 1
}

func (g guard) hasTokenCookie(r *http.Request) bool {
	return slices.ContainsFunc(r.CookiesNamed(cookieName(r.Host)), func(c *http.Cookie) bool {
		return g.isValidToken(c.Value)
	})
}

// cookieName is another one for each port: browsers share cookies among the ports of a host.
func cookieName(host string) string {
	_, port, _ := net.SplitHostPort(host)
	if _, err := strconv.ParseUint(port, 10, 16); err != nil {
		port = "80"
	}
	return "sallyport-ui-" + port
}

// isTrustedHost says whether a browser that means this server would ask for this host. A name could be one that
// somebody else's DNS leads here, so that his page may read ours: only addresses are believed, and the one name that no
// DNS answers.
func (g guard) isTrustedHost(host string) bool {
	if name, _, err := net.SplitHostPort(host); err == nil {
		host = name
	}
	host = strings.Trim(host, "[]")
	if isLoopbackHost(host) {
		return true
	}
	_, err := netip.ParseAddr(host)
	return g.allowRemote && err == nil
}
