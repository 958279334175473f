// The panel beside the map: an object, a trace, or the list of findings.

import {h} from "./element.js"
import {icons} from "./icon.js"
import {leave} from "./place.js"

export class Panel {
  constructor(element) {
    this.element = element
    this.turn = 0
  }

  get open() { return !this.element.hidden }

  // show fills the panel with the result of a promise. If only the data of the same place has changed, it keeps the
  // scroll position, open sections and focus.
  async show(place, coming) {
    const turn = ++this.turn, again = this.place === place && this.open
    if (!again) this.wait(place)
    let what
    try {
      what = await coming
    } catch (problem) {
      what = {kind: "", title: "Not found", body: [h("p.empty", {}, problem.message)]}
    }
    if (turn !== this.turn) return null
    const top = this.element.querySelector(".body")?.scrollTop ?? 0
    const open = again && new Map([...this.element.querySelectorAll("details[data-title]")].map(d => [d.dataset.title, d.open]))
    this.fill(what)
    if (again) {
      for (const d of this.element.querySelectorAll("details[data-title]")) d.open = open.get(d.dataset.title) ?? d.open
      this.element.querySelector(".body").scrollTop = top
    }
    return what
  }

  wait(place) {
    const opened = this.element.hidden
    this.place = place
    this.element.hidden = false
    this.element.classList.add("waiting")
    if (opened) this.back = document.activeElement
  }

  fill(what) {
    const title = h("h2.title", {tabindex: -1, id: "panel-title"}, what.title)
    this.element.classList.remove("waiting")
    this.element.setAttribute("aria-labelledby", "panel-title")
    this.element.replaceChildren(
      h("header", {},
        h("div.heading", {}, h("span.kind", {}, what.kind, what.under && h("span.under", {}, ` in ${what.under}`)), title),
        h("button.quiet", {type: "button", "aria-label": "Close (Esc)", title: "Close (Esc)", onclick: leave}, icons.close())),
      h("div.body", {tabindex: -1}, (what.body ?? []).filter(Boolean)))
  }

  focus() { this.element.querySelector(".title")?.focus({preventScroll: true}) }

  close() {
    this.turn++
    if (!this.open) return
    this.place = null
    this.element.hidden = true
    this.element.replaceChildren()
    if (this.back?.isConnected) this.back.focus({preventScroll: true})
  }
}
