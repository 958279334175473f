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

// guard only passes requests from the browser of the user who started the server, made by this page.
type guard struct {
	next        http.Handler
	allowRemote bool
	token       string
}

// tokenName is the URL parameter with the token.
const tokenName = "token"

// contentSecurityPolicy allows the page to load only its own files, and prevents text from becoming a script.
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
		writeError(w, http.StatusMisdirectedRequest, "this server is not "+r.Host+"; use its IP address in the URL")
	case r.Method != http.MethodGet:
		h.Set("Allow", http.MethodGet)
		writeError(w, http.StatusMethodNotAllowed, "this page is read-only: use GET")
	case r.Header.Get("Sec-Fetch-Site") == "cross-site" && r.Header.Get("Sec-Fetch-Mode") != "navigate":
		writeError(w, http.StatusForbidden,
			"requests from pages of other sites are not allowed; open this page directly")
	case r.URL.Query().Has(tokenName):
		g.exchangeToken(w, r)
	case !g.hasTokenCookie(r):
		writeError(w, http.StatusUnauthorized,
			"token missing: open the full URL that sallyport ui printed")
	default:
		g.next.ServeHTTP(w, r)
	}
}

// exchangeToken moves the token from the URL to a cookie and redirects, so that the token is neither visible in the
// address bar nor kept in the history.
func (g guard) exchangeToken(w http.ResponseWriter, r *http.Request) {
	q := r.URL.Query()
	if !g.isValidToken(q.Get(tokenName)) {
		writeError(w, http.StatusForbidden,
			"invalid token: open the URL that sallyport ui printed when it was started")
		return
	}
	q.Del(tokenName)
	to := url.URL{Path: "/" + strings.TrimLeft(r.URL.Path, "/"), RawQuery: q.Encode()}
	http.SetCookie(w, &http.Cookie{ //nolint:gosec // not Secure: browsers would not return it over HTTP
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

// cookieName returns a name that contains the port, because browsers share cookies among the ports of a host.
func cookieName(host string) string {
	_, port, _ := net.SplitHostPort(host)
	if _, err := strconv.ParseUint(port, 10, 16); err != nil {
		port = "80"
	}
	return "sallyport-ui-" + port
}

// isTrustedHost reports whether a Host header is accepted. Against DNS rebinding, where an attacker's name resolves to
// this server, only IP addresses and localhost, which DNS does not resolve, are accepted.
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
