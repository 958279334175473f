// Search finds objects by any text. It is an ARIA combobox, for keyboards and screen readers.

import {h} from "./element.js"
import {icons, severity} from "./icon.js"
import {addressOf, go} from "./place.js"
import {ask} from "./server.js"
import {kindOf} from "./words.js"

export class Search {
  constructor(element) {
    this.input = h("input", {
      type: "search", id: "query", placeholder: "Search an address, a name, a kind", autocomplete: "off", spellcheck: "false", role: "combobox",
      "aria-label": "Search an address, a name, a namespace or a kind", "aria-expanded": "false", "aria-controls": "results", "aria-autocomplete": "list", "aria-keyshortcuts": "/",
      oninput: () => this.look(), onkeydown: e => this.keys(e), onfocus: () => { if (this.input.value) this.look() }, onblur: () => setTimeout(() => this.close(), 150),
    })
    this.list = h("ul.results", {id: "results", role: "listbox", "aria-label": "Results", hidden: true})
    this.said = h("div.unseen", {role: "status"})
    element.append(icons.search(), this.input, h("kbd", {"aria-hidden": "true"}, "/"), this.list, this.said)
    this.results = []
    this.asked = 0
  }

  focus() {
    this.input.focus()
    this.input.select()
  }

  async look() {
    const q = this.input.value.trim(), turn = ++this.asked
    if (!q) return this.close()
    const begun = performance.now()
    try {
      const {results, all} = await ask("api/search", {q})
      if (turn !== this.asked || document.activeElement !== this.input) return
      this.show(results ?? [], all, q)
      this.took = performance.now() - begun
    } catch (problem) {
      this.list.replaceChildren(h("li.none", {}, problem.message))
      this.open()
    }
  }

  show(results, all, q) {
    this.results = results
    this.list.replaceChildren(...results.map((r, i) => this.result(r, i, q)))
    if (!results.length) this.list.append(h("li.none", {}, `Nothing has ${q}. Part of a name or address is enough.`))
    if (all > results.length) this.list.append(h("li.none", {}, `${(all - results.length).toLocaleString("en")} more; type on`))
    this.said.textContent = all === 1 ? "1 result" : `${all} results`
    this.open()
    this.point(results.length ? 0 : -1)
  }

  result(r, i, q) {
    return h("li", {id: `result-${i}`, role: "option", "aria-selected": "false", onpointerdown: e => { e.preventDefault(); this.pick(i) }, onpointermove: () => this.point(i)},
      h("span.kind", {}, kindOf(r.ref)),
      h("span.name", {}, r.ref.namespace && h("span.ns", {}, emphasized(r.ref.namespace, q), "/"), emphasized(r.ref.name, q)),
      r.severity && severity(r.severity),
      r.detail && h("span.detail", {}, emphasized(r.detail, q)))
  }

  point(i) {
    this.at = i
    for (const [j, e] of [...this.list.querySelectorAll("[role=option]")].entries()) {
      e.setAttribute("aria-selected", String(j === i))
      if (j === i) e.scrollIntoView({block: "nearest"})
    }
    if (i >= 0) this.input.setAttribute("aria-activedescendant", `result-${i}`)
    else this.input.removeAttribute("aria-activedescendant")
  }

  pick(i) {
    const chosen = this.results[i]
    if (!chosen) return
    this.close()
    this.input.blur()
    go(addressOf(chosen.ref))
  }

  keys(e) {
    const n = this.results.length
    switch (e.key) {
      case "ArrowDown": if (n) this.point((this.at + 1) % n); break
      case "ArrowUp": if (n) this.point((this.at + n - 1) % n); break
      case "Enter": this.pick(this.at); break
      case "Escape":
        if (this.list.hidden) this.input.blur()
        else this.close()
        break
      default: return
    }
    e.preventDefault()
    e.stopPropagation()
  }

  open() { this.list.hidden = false; this.input.setAttribute("aria-expanded", "true") }
  close() { this.list.hidden = true; this.input.setAttribute("aria-expanded", "false"); this.results = []; this.point(-1) }
}

// emphasized highlights the first word of a query in a text.
function emphasized(text, query) {
  const term = query.toLowerCase().split(/\s+/).find(t => text.toLowerCase().includes(t))
  if (!term) return text
  const at = text.toLowerCase().indexOf(term)
  return [text.slice(0, at), h("mark", {}, text.slice(at, at + term.length)), text.slice(at + term.length)]
}
