package browser

import (
	"context"
	"encoding/json"
	"fmt"
	"slices"
	"strings"
	"testing"
)

// Page is an open page.
type Page struct {
	t       testing.TB
	browser *Browser
	session string

	// consoleErrors are the errors of the console, and requestedURLs the URLs that the page has requested. The
	// browser's lock protects them.
	consoleErrors, requestedURLs []string
}

// Window is the size and appearance of the browser window.
type Window struct {
	Width, Height int
	Dark          bool
}

// OpenPage opens a page and waits until it is loaded.
func (b *Browser) OpenPage(t testing.TB, url string, w Window) *Page {
	t.Helper()
	ctx, cancel := context.WithTimeout(t.Context(), callTimeout)
	defer cancel()
	var target struct{ TargetID string }
	var attached struct{ SessionID string }
	failOnError(t, b.callMethod(ctx, "", "Target.createTarget", cdpParams{"url": "about:blank"}, &target))
	failOnError(t, b.callMethod(ctx, "", "Target.attachToTarget",
		cdpParams{"targetId": target.TargetID, "flatten": true}, &attached))
	p := &Page{t: t, browser: b, session: attached.SessionID}
	b.mu.Lock()
	b.pages[p.session] = p
	b.mu.Unlock()
	for _, domain := range []string{"Page", "Runtime", "Log", "Network"} {
		p.callMethod(domain+".enable", cdpParams{}, nil)
	}
	p.Resize(w)
	p.callMethod("Page.navigate", cdpParams{"url": url}, nil)
	p.WaitUntil(fmt.Sprintf("document.readyState == 'complete' && location.href.startsWith(%q)", URLWithoutQuery(url)))
	return p
}

// URLWithoutQuery returns a URL without query and fragment, because the page of sallyport ui removes the token from its
// URL.
func URLWithoutQuery(url string) string {
	if i := strings.IndexAny(url, "?#"); i >= 0 {
		return url[:i]
	}
	return url
}

type cdpParams map[string]any

func failOnError(t testing.TB, err error) {
	t.Helper()
	if err != nil {
		t.Fatal(err)
	}
}

func (p *Page) callMethod(method string, params cdpParams, result any) {
	p.t.Helper()
	ctx, cancel := context.WithTimeout(p.t.Context(), callTimeout)
	defer cancel()
	failOnError(p.t, p.browser.callMethod(ctx, p.session, method, params, result))
}

// recordEvent records console errors and warnings, and requests of a page.
func (p *Page) recordEvent(m message) {
	var body struct {
		Request          struct{ URL string }
		ExceptionDetails struct {
			Text      string
			URL       string
			Exception struct{ Description string }
		}
		Entry struct{ Level, Text, URL string }
		Type  string
		Args  []struct{ Value, Description any }
	}
	if json.Unmarshal(m.Params, &body) != nil {
		return // an event with other parameters
	}
	switch m.Method {
	case "Network.requestWillBeSent":
		p.requestedURLs = append(p.requestedURLs, body.Request.URL)
	case "Runtime.exceptionThrown":
		p.consoleErrors = append(p.consoleErrors,
			body.ExceptionDetails.Text+" "+body.ExceptionDetails.Exception.Description)
	case "Log.entryAdded":
		if body.Entry.Level == "error" || body.Entry.Level == "warning" {
			p.consoleErrors = append(p.consoleErrors, body.Entry.Text+" "+body.Entry.URL)
		}
	case "Runtime.consoleAPICalled":
		if body.Type == "error" || body.Type == "warning" {
			p.consoleErrors = append(p.consoleErrors, fmt.Sprint(body.Args))
		}
	}
}

// ConsoleErrors returns the errors and warnings of the console.
func (p *Page) ConsoleErrors() []string {
	p.browser.mu.Lock()
	defer p.browser.mu.Unlock()
	return slices.Clone(p.consoleErrors)
}

// RequestedURLs returns the URLs that the page has requested.
func (p *Page) RequestedURLs() []string {
	p.browser.mu.Lock()
	defer p.browser.mu.Unlock()
	return slices.Clone(p.requestedURLs)
}

// Resize changes the window.
func (p *Page) Resize(w Window) {
	p.t.Helper()
	scheme := map[bool]string{false: "light", true: "dark"}[w.Dark]
	p.callMethod("Emulation.setDeviceMetricsOverride",
		cdpParams{"width": w.Width, "height": w.Height, "deviceScaleFactor": 1, "mobile": false}, nil)
	p.callMethod("Emulation.setEmulatedMedia", cdpParams{"features": []cdpParams{
		{"name": "prefers-color-scheme", "value": scheme}, {"name": "prefers-reduced-motion", "value": "reduce"},
	}}, nil)
}

// Evaluate stores the value of an expression in the page. It waits for promises.
func (p *Page) Evaluate(expression string, value any) {
	p.t.Helper()
	var out struct {
		Result           struct{ Value json.RawMessage }
		ExceptionDetails *struct {
			Text      string
			Exception struct{ Description string }
		}
	}
	p.callMethod("Runtime.evaluate", cdpParams{"expression": expression, "awaitPromise": true, "returnByValue": true},
		&out)
	if out.ExceptionDetails != nil {
		p.t.Fatalf("%s: %s %s", expression, out.ExceptionDetails.Text, out.ExceptionDetails.Exception.Description)
	}
	if value != nil && len(out.Result.Value) > 0 {
		failOnError(p.t, json.Unmarshal(out.Result.Value, value))
	}
}

// WaitUntil waits until an expression is true. The page evaluates it before every frame.
func (p *Page) WaitUntil(expression string) {
	p.t.Helper()
	var met bool
	p.Evaluate(`new Promise(done => {
		const late = performance.now() + 20000
		const look = () => (`+expression+`) ? done(true) : performance.now() > late ? done(false) : setTimeout(look, 16)
		look()
	})`, &met)
	if !met {
		p.t.Fatalf("not true after 20 s: %s\nthe console says %q", expression, p.ConsoleErrors())
	}
}

// ElementText waits for an element that matches the selector and returns its text.
func (p *Page) ElementText(selector string) string {
	p.t.Helper()
	p.WaitUntil(fmt.Sprintf("document.querySelector(%q)", selector))
	var text string
	p.Evaluate(fmt.Sprintf("document.querySelector(%q).innerText", selector), &text)
	return text
}

// Click sends a mouse click to the centre of the first element that matches the selector.
func (p *Page) Click(selector string) {
	p.t.Helper()
	p.WaitUntil(fmt.Sprintf("document.querySelector(%q)", selector))
	var at struct{ X, Y float64 }
	p.Evaluate(fmt.Sprintf(`(() => { const e = document.querySelector(%q); e.scrollIntoView({block: "nearest", inline: "nearest"});
		const r = e.getBoundingClientRect(); return {X: r.x + r.width/2, Y: r.y + r.height/2} })()`, selector), &at)
	for _, kind := range []string{"mouseMoved", "mousePressed", "mouseReleased"} {
		p.callMethod("Input.dispatchMouseEvent",
			cdpParams{"type": kind, "x": at.X, "y": at.Y, "button": "left", "clickCount": 1}, nil)
	}
}

// ScrollWheel turns the mouse wheel at a position of the window. A negative delta scrolls up.
func (p *Page) ScrollWheel(x, y, delta float64) {
	p.t.Helper()
	p.callMethod("Input.dispatchMouseEvent",
		cdpParams{"type": "mouseWheel", "x": x, "y": y, "deltaX": 0, "deltaY": delta}, nil)
}

// keyCodes are the codes of named keys.
var keyCodes = map[string]int{
	"Enter": 13, "Escape": 27, "Tab": 9, "ArrowUp": 38, "ArrowDown": 40, "ArrowLeft": 37, "ArrowRight": 39, "Home": 36,
	"End": 35, "Backspace": 8,
}

// PressKeys presses keys in order: a name such as Enter, or a character.
func (p *Page) PressKeys(keys ...string) {
	p.t.Helper()
	for _, key := range keys {
		down := cdpParams{"type": "keyDown", "key": key}
		if code, named := keyCodes[key]; named {
			down["windowsVirtualKeyCode"], down["code"] = code, key
			if key == "Enter" {
				down["text"] = "\r"
			}
		} else {
			down["text"] = key
		}
		p.callMethod("Input.dispatchKeyEvent", down, nil)
		up := cdpParams{"type": "keyUp", "key": key}
		if code, named := keyCodes[key]; named {
			up["windowsVirtualKeyCode"], up["code"] = code, key
		}
		p.callMethod("Input.dispatchKeyEvent", up, nil)
	}
}

// TypeText types a text character by character.
func (p *Page) TypeText(text string) {
	p.t.Helper()
	p.PressKeys(strings.Split(text, "")...)
}

// Screenshot returns the content of the window as PNG.
func (p *Page) Screenshot() []byte {
	p.t.Helper()
	p.Evaluate("new Promise(done => requestAnimationFrame(() => requestAnimationFrame(() => done(true))))", nil)
	var out struct{ Data []byte }
	p.callMethod("Page.captureScreenshot", cdpParams{"format": "png"}, &out)
	return out.Data
}
