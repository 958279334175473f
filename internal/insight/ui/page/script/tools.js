// Tools of the bar: views, the theme, and help.

import {h} from "./element.js"
import {icons, severity} from "./icon.js"

const dark = matchMedia("(prefers-color-scheme: dark)")

export function isDark() {
  const chosen = document.documentElement.dataset.theme
  return chosen ? chosen === "dark" : dark.matches
}

// turn switches between light and dark. The choice is stored unless it is that of the system.
export function turn() {
  const now = isDark() ? "light" : "dark"
  const own = (now === "dark") === dark.matches
  try { own ? localStorage.removeItem("theme") : localStorage.setItem("theme", now) } catch { /* no storage: the choice is lost with the page */ }
  if (own) delete document.documentElement.dataset.theme
  else document.documentElement.dataset.theme = now
}

// bar creates the buttons; help opens the dialog. It returns a function that updates the number of findings.
export function bar(element, help) {
  const errors = h("span.count.error", {hidden: true}), warnings = h("span.count.warning", {hidden: true})
  const findings = h("a.button.tool", {href: "#findings", data: {view: "findings"}, title: "Findings (f)", "aria-keyshortcuts": "f"}, icons.findings(), h("span.word", {}, "Findings"), errors, warnings)
  element.append(findings,
    h("a.button.tool", {href: "#trace", data: {view: "trace"}, title: "Trace a packet (t)", "aria-keyshortcuts": "t"}, icons.trace(), h("span.word", {}, "Trace")),
    h("button.quiet", {type: "button", title: "Light or dark (d)", "aria-label": "Light or dark", "aria-keyshortcuts": "d", onclick: turn}, icons.theme()),
    h("button.quiet", {type: "button", title: "Keys (?)", "aria-label": "Keys", "aria-keyshortcuts": "?", onclick: help}, icons.help()))
  const say = (e, n, level, word) => {
    e.hidden = !n
    e.replaceChildren(severity(level), String(n))
    e.setAttribute("aria-label", `${n} ${word}`)
  }
  return {
    count: counts => { say(errors, counts?.error ?? 0, "error", "errors"); say(warnings, counts?.warning ?? 0, "warning", "warnings") },
    mark: view => element.querySelectorAll("[data-view]").forEach(e => e.classList.toggle("on", e.dataset.view === view)),
  }
}

const keys = [
  ["/", "search"], ["↑ ↓ Enter", "choose a result"], ["Esc", "close what is open"],
  ["m", "to the map"], ["← → ↑ ↓", "from project to project"], ["Enter", "open the project"],
  ["+ −", "larger, smaller"], ["0", "everything"],
  ["f", "findings"], ["t", "trace a packet"], ["d", "light or dark"], ["?", "these keys"],
]

// helpOf fills the help dialog with shortcuts and signs.
export function helpOf(dialog, networks) {
  dialog.replaceChildren(
    h("header", {}, h("h2", {id: "help-title"}, "Keys and signs"), h("button.quiet", {type: "button", "aria-label": "Close", onclick: () => dialog.close()}, icons.close())),
    h("div.columns", {},
      h("dl.keys", {}, keys.map(([k, what]) => h("div", {}, h("dt", {}, k.split(" ").map(x => h("kbd", {}, x))), h("dd", {}, what)))),
      h("div.legend", {},
        h("p", {}, severity("error"), " something does not work"),
        h("p", {}, severity("warning"), " something will break, or a part of it has"),
        h("p", {}, severity("info"), " worth knowing"),
        h("h3", {}, "Networks"), networks,
        h("p.small", {}, "A tile is a project. The marks on it are the networks that its router is on, its default first; each line is a way in: address, name, and how many backends are ready. An arrow is a way out."),
        h("p.small", {}, "Drag moves the map, the wheel zooms. Nothing on this page writes to the cluster."))))
}
