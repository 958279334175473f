// Findings, most severe first, each with its remedy.

import {h} from "./element.js"
import {severity} from "./icon.js"
import {link} from "./place.js"
import {ask} from "./server.js"
import {capital, kindOf, nameOf, same} from "./words.js"

// card shows one finding; about is the object of the panel.
export function card(f, about) {
  const others = (f.about ?? []).filter(r => r.kind !== "Cluster" && !same(r, about))
  return h("article.finding", {class: f.severity},
    h("header", {}, severity(f.severity), h("h3", {}, f.code), f.runbook && h("a.runbook", {
      href: f.runbook, target: "_blank", rel: "noreferrer", "aria-label": `Runbook of ${f.code}`, title: "What it means and what to do, on the documentation's page",
    }, "Runbook")),
    h("p", {}, capital(f.message)),
    f.cure && h("p.cure", {}, h("span.lead", {}, "Cure"), capital(f.cure)),
    others.length > 0 && h("p.about", {}, others.slice(0, 6).map(r => h("span.chip", {}, h("span.kind", {}, kindOf(r)), link(r, nameOf(r)))),
      others.length > 6 && h("span.more", {}, `and ${others.length - 6} more`)))
}

const names = {error: "Errors", warning: "Warnings", info: "Notes"}
const page = 50 // findings drawn at a time
const few = 3 // findings of one code that are not folded

// show returns the panel with all findings.
export async function show() {
  const all = await ask("api/findings") ?? []
  const list = h("div.list")
  const filter = h("input.filter", {
    type: "search", placeholder: "Filter by code, object or text", "aria-label": "Filter findings", oninput: () => fill(list, all, filter.value),
  })
  fill(list, all, "")
  return {kind: "cluster", title: "Findings", body: [all.length > 5 && filter, list]}
}

function fill(list, all, text) {
  const terms = text.toLowerCase().split(/\s+/).filter(Boolean)
  const chosen = all.filter(f => {
    const words = [f.code, f.message, f.cure, ...(f.about ?? []).map(r => `${r.kind} ${nameOf(r)}`)].join(" ").toLowerCase()
    return terms.every(t => words.includes(t))
  })
  list.replaceChildren()
  if (!all.length) return list.append(h("p.empty", {}, severity(""), " Nothing is wrong, as far as this survey tells."))
  if (!chosen.length) return list.append(h("p.empty", {}, "No finding has all of these words."))
  for (const level of ["error", "warning", "info"]) {
    const these = chosen.filter(f => f.severity === level)
    if (!these.length) continue
    list.append(h("h2", {}, names[level], h("span.number", {}, String(these.length))))
    for (const [code, some] of Map.groupBy(these, f => f.code)) list.append(...group(code, some))
  }
}

// group shows the findings of one code. If there are many, all but the first are folded.
function group(code, these) {
  if (these.length <= few) return these.map(f => card(f))
  const rest = h("details.rest", {data: {title: code}, ontoggle: () => { if (!rest.querySelector("article")) more(rest, these, 1) }},
    h("summary", {}, `${these.length - 1} more of ${code}`))
  return [card(these[0]), rest]
}

// more adds a page of findings, and a button for the rest.
function more(list, these, from) {
  list.append(...these.slice(from, from + page).map(f => card(f)))
  const left = these.length - from - page
  if (left > 0) list.append(h("button.wide", {type: "button", onclick: e => { e.target.remove(); more(list, these, from + page) }}, `${left} more`))
}
