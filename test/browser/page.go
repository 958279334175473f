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

	// complaints are what its console says of errors, and asked the addresses that it has asked for. The browser's lock holds them.
	complaints, asked []string
}

// Window is how somebody looks at a page.
type Window struct {
	Width, Height int
	Dark          bool
}

// Open opens a page and waits until it is loaded.
func (b *Browser) Open(t testing.TB, url string, w Window) *Page {
	t.Helper()
	ctx, cancel := context.WithTimeout(t.Context(), patience)
	defer cancel()
	var target struct{ TargetID string }
	var attached struct{ SessionID string }
	must(t, b.call(ctx, "", "Target.createTarget", values{"url": "about:blank"}, &target))
	must(t, b.call(ctx, "", "Target.attachToTarget", values{"targetId": target.TargetID, "flatten": true}, &attached))
	p := &Page{t: t, browser: b, session: attached.SessionID}
	b.mu.Lock()
	b.pages[p.session] = p
	b.mu.Unlock()
	for _, domain := range []string{"Page", "Runtime", "Log", "Network"} {
		p.call(domain+".enable", values{}, nil)
	}
	p.Resize(w)
	p.call("Page.navigate", values{"url": url}, nil)
	p.Wait(fmt.Sprintf("document.readyState == 'complete' && location.href.startsWith(%q)", Place(url)))
	return p
}

// Place is the part of an address that stays: the page of sallyport ui takes the token out of it.
func Place(url string) string {
	if i := strings.IndexAny(url, "?#"); i >= 0 {
		return url[:i]
	}
	return url
}

type values map[string]any

func must(t testing.TB, err error) {
	t.Helper()
	if err != nil {
		t.Fatal(err)
	}
}

func (p *Page) call(method string, params values, result any) {
	p.t.Helper()
	ctx, cancel := context.WithTimeout(p.t.Context(), patience)
	defer cancel()
	must(p.t, p.browser.call(ctx, p.session, method, params, result))
}

// note keeps what a page does beside what it is asked.
func (p *Page) note(m message) {
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
		p.asked = append(p.asked, body.Request.URL)
	case "Runtime.exceptionThrown":
		p.complaints = append(p.complaints, body.ExceptionDetails.Text+" "+body.ExceptionDetails.Exception.Description)
	case "Log.entryAdded":
		if body.Entry.Level == "error" || body.Entry.Level == "warning" {
			p.complaints = append(p.complaints, body.Entry.Text+" "+body.Entry.URL)
		}
	case "Runtime.consoleAPICalled":
		if body.Type == "error" || body.Type == "warning" {
			p.complaints = append(p.complaints, fmt.Sprint(body.Args))
		}
	}
}

// Complaints are what the console says of errors and warnings.
func (p *Page) Complaints() []string {
	p.browser.mu.Lock()
	defer p.browser.mu.Unlock()
	return slices.Clone(p.complaints)
}

// Asked are the addresses that the page has asked for.
func (p *Page) Asked() []string {
	p.browser.mu.Lock()
	defer p.browser.mu.Unlock()
	return slices.Clone(p.asked)
}

// Resize changes how somebody looks at the page.
func (p *Page) Resize(w Window) {
	p.t.Helper()
	scheme := map[bool]string{false: "light", true: "dark"}[w.Dark]
	p.call("Emulation.setDeviceMetricsOverride", values{"width": w.Width, "height": w.Height, "deviceScaleFactor": 1, "mobile": false}, nil)
	p.call("Emulation.setEmulatedMedia", values{"features": []values{
		{"name": "prefers-color-scheme", "value": scheme}, {"name": "prefers-reduced-motion", "value": "reduce"},
	}}, nil)
}

// Eval is the value of an expression in the page; a promise is waited for.
func (p *Page) Eval(expression string, value any) {
	p.t.Helper()
	var out struct {
		Result           struct{ Value json.RawMessage }
		ExceptionDetails *struct {
			Text      string
			Exception struct{ Description string }
		}
	}
	p.call("Runtime.evaluate", values{"expression": expression, "awaitPromise": true, "returnByValue": true}, &out)
	if out.ExceptionDetails != nil {
		p.t.Fatalf("%s: %s %s", expression, out.ExceptionDetails.Text, out.ExceptionDetails.Exception.Description)
	}
	if value != nil && len(out.Result.Value) > 0 {
		must(p.t, json.Unmarshal(out.Result.Value, value))
	}
}

// Wait waits until an expression is true. The page looks at it before every frame.
func (p *Page) Wait(expression string) {
	p.t.Helper()
	var met bool
	p.Eval(`new Promise(done => {
		const late = performance.now() + 20000
		const look = () => (`+expression+`) ? done(true) : performance.now() > late ? done(false) : setTimeout(look, 16)
		look()
	})`, &met)
	if !met {
		p.t.Fatalf("not true after 20 s: %s\nthe console says %q", expression, p.Complaints())
	}
}

// Text is the text of the first element of a selector; it waits for one.
func (p *Page) Text(selector string) string {
	p.t.Helper()
	p.Wait(fmt.Sprintf("document.querySelector(%q)", selector))
	var text string
	p.Eval(fmt.Sprintf("document.querySelector(%q).innerText", selector), &text)
	return text
}

// Click clicks in the middle of the first element of a selector, as a mouse would.
func (p *Page) Click(selector string) {
	p.t.Helper()
	p.Wait(fmt.Sprintf("document.querySelector(%q)", selector))
	var at struct{ X, Y float64 }
	p.Eval(fmt.Sprintf(`(() => { const e = document.querySelector(%q); e.scrollIntoView({block: "nearest", inline: "nearest"});
		const r = e.getBoundingClientRect(); return {X: r.x + r.width/2, Y: r.y + r.height/2} })()`, selector), &at)
	for _, kind := range []string{"mouseMoved", "mousePressed", "mouseReleased"} {
		p.call("Input.dispatchMouseEvent", values{"type": kind, "x": at.X, "y": at.Y, "button": "left", "clickCount": 1}, nil)
	}
}

// Wheel turns the mouse wheel at a place of the window; less than nothing is away from the person.
func (p *Page) Wheel(x, y, delta float64) {
	p.t.Helper()
	p.call("Input.dispatchMouseEvent", values{"type": "mouseWheel", "x": x, "y": y, "deltaX": 0, "deltaY": delta}, nil)
}

// codes are the keys that have a name.
var codes = map[string]int{
	"Enter": 13, "Escape": 27, "Tab": 9, "ArrowUp": 38, "ArrowDown": 40, "ArrowLeft": 37, "ArrowRight": 39, "Home": 36, "End": 35, "Backspace": 8,
}

// Press presses keys one after the other: a name such as Enter, or a character.
func (p *Page) Press(keys ...string) {
	p.t.Helper()
	for _, key := range keys {
		down := values{"type": "keyDown", "key": key}
		if code, named := codes[key]; named {
			down["windowsVirtualKeyCode"], down["code"] = code, key
			if key == "Enter" {
				down["text"] = "\r"
			}
		} else {
			down["text"] = key
		}
		p.call("Input.dispatchKeyEvent", down, nil)
		up := values{"type": "keyUp", "key": key}
		if code, named := codes[key]; named {
			up["windowsVirtualKeyCode"], up["code"] = code, key
		}
		p.call("Input.dispatchKeyEvent", up, nil)
	}
}

// Type types a text, character by character.
func (p *Page) Type(text string) {
	p.t.Helper()
	p.Press(strings.Split(text, "")...)
}

// Picture is what the window shows, as PNG.
func (p *Page) Picture() []byte {
	p.t.Helper()
	p.Eval("new Promise(done => requestAnimationFrame(() => requestAnimationFrame(() => done(true))))", nil)
	var out struct{ Data []byte }
	p.call("Page.captureScreenshot", values{"format": "png"}, &out)
	return out.Data
}
