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

	// consoleErrors are what its console says of errors, and asked the addresses that it has asked for. The browser's
	// lock holds them.
	consoleErrors, requestedURLs []string
}

// Window is how somebody looks at a page.
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

// URLWithoutQuery is the part of an address that stays: the page of sallyport ui takes the token out of it.
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

// recordEvent keeps what a page does beside what it is asked.
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
		return // an event of another shape
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

// ConsoleErrors are what the console says of errors and warnings.
func (p *Page) ConsoleErrors() []string {
	p.browser.mu.Lock()
	defer p.browser.mu.Unlock()
	return slices.Clone(p.consoleErrors)
}

// RequestedURLs are the addresses that the page has asked for.
func (p *Page) RequestedURLs() []string {
	p.browser.mu.Lock()
	defer p.browser.mu.Unlock()
	return slices.Clone(p.requestedURLs)
}

// Resize changes how somebody looks at the page.
func (p *Page) Resize(w Window) {
	p.t.Helper()
	scheme := map[bool]string{false: "light", true: "dark"}[w.Dark]
	p.callMethod("Emulation.setDeviceMetricsOverride",
		cdpParams{"width": w.Width, "height": w.Height, "deviceScaleFactor": 1, "mobile": false}, nil)
	p.callMethod("Emulation.setEmulatedMedia", cdpParams{"features": []cdpParams{
		{"name": "prefers-color-scheme", "value": scheme}, {"name": "prefers-reduced-motion", "value": "reduce"},
	}}, nil)
}

// Evaluate is the value of an expression in the page; a promise is waited for.
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

// WaitUntil waits until an expression is true. The page looks at it before every frame.
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

// ElementText is the text of the first element of a selector; it waits for one.
func (p *Page) ElementText(selector string) string {
	p.t.Helper()
	p.WaitUntil(fmt.Sprintf("document.querySelector(%q)", selector))
	var text string
	p.Evaluate(fmt.Sprintf("document.querySelector(%q).innerText", selector), &text)
	return text
}

// Click clicks in the middle of the first element of a selector, as a mouse would.
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

// ScrollWheel turns the mouse wheel at a place of the window; less than nothing is away from the person.
func (p *Page) ScrollWheel(x, y, delta float64) {
	p.t.Helper()
	p.callMethod("Input.dispatchMouseEvent",
		cdpParams{"type": "mouseWheel", "x": x, "y": y, "deltaX": 0, "deltaY": delta}, nil)
}

// keyCodes are the keys that have a name.
var keyCodes = map[string]int{
	"Enter": 13, "Escape": 27, "Tab": 9, "ArrowUp": 38, "ArrowDown": 40, "ArrowLeft": 37, "ArrowRight": 39, "Home": 36,
	"End": 35, "Backspace": 8,
}

// PressKeys presses keys one after the other: a name such as Enter, or a character.
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

// TypeText types a text, character by character.
func (p *Page) TypeText(text string) {
	p.t.Helper()
	p.PressKeys(strings.Split(text, "")...)
}

// Screenshot is what the window shows, as PNG.
func (p *Page) Screenshot() []byte {
	p.t.Helper()
	p.Evaluate("new Promise(done => requestAnimationFrame(() => requestAnimationFrame(() => done(true))))", nil)
	var out struct{ Data []byte }
	p.callMethod("Page.captureScreenshot", cdpParams{"format": "png"}, &out)
	return out.Data
}
