// The explanation of an object: state, findings, path of its packets, and folded details.

import {h} from "./element.js"
import {icons, severity} from "./icon.js"
import {link, traceAddress} from "./place.js"
import {ask} from "./server.js"
import {card} from "./finding.js"
import {capital, kindOf, nameOf, rank} from "./words.js"

// show returns the panel of an object.
export async function show(ref) {
  const e = await ask("api/explain", ref)
  const worst = (e.wrong ?? []).reduce((w, f) => rank(f.severity) > rank(w) ? f.severity : w, "")
  return {
    kind: kindOf(ref), title: ref.name, under: ref.namespace, ref, hangsOn: [...(e.path ?? []), ...(e.has ?? [])].map(s => s.about),
    body: [
      h("p.state", {class: e.works ? worst === "warning" ? "warning" : "well" : "bad"}, severity(e.works ? worst === "warning" ? "warning" : "" : "error"), " ", capital(e.state)),
      buttons(e),
      part("Who has it", e.whose?.holders?.length && steps(e.whose.holders)),
      e.whose?.pool && part("Where it would come from", h("p", {}, capital(e.whose.pool))),
      part("What is wrong", (e.wrong ?? []).map(f => card(f, ref))),
      part("What to do next", next(e).map(n => h("p", {}, n))),
      part("Asked for", e.asked?.length && h("ul.plain", {}, e.asked.map(a => h("li", {}, a)))),
      part("The way of its packets", e.path?.length && steps(e.path)),
      part("It consists of", e.has?.length && steps(e.has)),
      part("Conditions", e.conditions?.length && h("table.conditions", {}, e.conditions.map(condition))),
      part("Conditions that it still states", e.stated?.length && h("table.conditions", {}, e.stated.map(condition))),
      folded("Differs from what is wanted", e.differs, d => [h("code", {}, d.text), h("span.in", {}, d.in)], true),
      folded("Made for it", e.made, m => [severity(m.there ? "" : "error"), h("code", {}, m.text), h("span.in", {}, m.in)], false, made),
      folded("Rows of OVN", e.rows, r => [h("code", {}, r.text), h("span.in", {}, [r.table, r.on].filter(Boolean).join(" on "))]),
      folded("What nodes say", e.nodes, n => [h("b", {}, n.who), " ", n.text]),
      folded("Events", e.events, n => [h("b", {}, n.who), " ", n.text], true),
      folded("Could not be read", e.unread, n => [h("b", {}, n.who), " ", n.text], true),
    ],
  }
}

// next returns the next steps that are not shown elsewhere: remedies are in the findings, and a button starts a trace.
function next(e) {
  const cures = new Set((e.wrong ?? []).map(f => f.cure))
  return (e.next ?? []).filter(n => !cures.has(n) && !n.includes("sallyport trace"))
}

const made = all => `${all.filter(m => m.there).length} of ${all.length} there`

function part(title, content) {
  return content && content.length !== 0 ? h("section.part", {}, h("h2", {}, title), content) : null
}

function folded(title, all, row, open = false, sum = all => String(all.length)) {
  if (!all?.length) return null
  return h("details.part", {open, data: {title}}, h("summary", {}, h("h2", {}, title), h("span.number", {}, sum(all))), h("ul.rows", {}, all.map(x => h("li", {}, row(x)))))
}

// buttons shows the addresses of the object, each with buttons to copy and to trace it.
function buttons(e) {
  if (e.about.kind === "Pod") return h("p", {}, h("a.button", {href: traceAddress({from: nameOf(e.about), draft: "1"})}, icons.trace(), "Trace from here"))
  if (!e.addresses?.length) return null
  const inward = ["Service", "FIp", "EIp", "Gateway"].includes(e.about.kind)
  const port = (e.asked ?? []).join(" ").match(/\b(?:TCP|UDP|SCTP)[ /](\d+)|\b(\d+)\/(?:TCP|UDP|SCTP)/i)
  return h("ul.addresses", {}, e.addresses.map(a => {
    const to = a.includes(":") ? `[${a}]` : a
    return h("li", {}, h("code", {}, a),
      h("button.quiet", {type: "button", title: "Copy", "aria-label": `Copy ${a}`, onclick: x => copy(x.currentTarget, a)}, icons.copy()),
      inward && h("a.button", {href: traceAddress({to: `${to}:${port?.[1] ?? port?.[2] ?? 80}`, draft: "1"})}, icons.trace(), "Trace"))
  }))
}

async function copy(button, text) {
  await navigator.clipboard.writeText(text)
  button.classList.add("done")
  setTimeout(() => button.classList.remove("done"), 900)
}

const few = 12 // steps that are not folded

function steps(all) {
  if (all.length <= few + 2) return h("ol.line", {}, all.map(step))
  const rest = h("details.rest", {data: {title: "steps"}}, h("summary", {}, `${all.length - few} more`), h("ol.line", {}, all.slice(few).map(step)))
  return [h("ol.line", {}, all.slice(0, few).map(step)), rest]
}

const step = s => h("li", {class: s.broken ? "broken" : ""},
  h("span.stop", {"aria-hidden": "true"}), h("span.chip", {}, h("span.kind", {}, kindOf(s.about)), s.about.name ? link(s.about, nameOf(s.about)) : ""),
  h("span.text", {}, s.broken && [severity("error"), " "], s.text))

function condition(c) {
  const bad = (c.status === "True") === c.type.endsWith("Error")
  return h("tr", {class: bad ? "bad" : ""}, h("th", {scope: "row"}, severity(bad ? "error" : ""), " ", c.type), h("td", {}, c.reason && c.reason !== c.type ? h("b", {}, c.reason) : c.status,
    c.message && h("span.text", {}, " ", c.message)))
}

// missing is the panel of an object without an explanation.
export const missing = (ref, why) => ({kind: kindOf(ref), title: ref.name, under: ref.namespace, ref, body: [h("p.empty", {}, capital(why))]})
