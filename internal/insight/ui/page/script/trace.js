// Trace: a form for a packet, and its path and that of its reply, stop by stop.

import {h} from "./element.js"
import {icons, severity} from "./icon.js"
import {go, link, traceAddress} from "./place.js"
import {ask} from "./server.js"
import {capital, kindOf, nameOf} from "./words.js"

const someClient = "203.0.113.10" // an address reserved for documentation

const remembered = {
  get client() { try { return localStorage.getItem("client") ?? someClient } catch { return someClient } },
  set client(address) { try { localStorage.setItem("client", address) } catch { /* no storage */ } },
}

const verdicts = {
  Delivered: ["well", "", "The packet arrives, and its reply would find back."],
  Answered: ["well", "", "The packet arrives, and the server answers."],
  Dropped: ["bad", "error", "The packet is dropped on its way there."],
  Refused: ["bad", "error", "Somebody answers that nobody is there."],
  Lost: ["bad", "error", "The packet arrives, and its reply does not find back."],
  Unknown: ["bad", "warning", "Who answers the packet can't be told."],
}

// show returns the panel of a trace: the form, and the result if the query is complete.
export async function show(query) {
  const panel = {kind: "packet", title: "Trace", paths: [], body: [form(query)]}
  if (!query.to || query.draft) return panel
  try {
    const answer = await ask("api/trace", query)
    panel.paths = answer.paths ?? []
    if (panel.paths.length) panel.body.push(result(panel.paths, query))
    if (!panel.paths.length) panel.body.push(h("p.empty", {}, "There is no way to tell of."))
  } catch (problem) {
    panel.body.push(h("p.state.bad", {role: "alert"}, severity("error"), " ", capital(problem.message)))
  }
  return panel
}

function form(query) {
  const field = (label, name, value, more) => h("label", {}, h("span", {}, label), h("input", {name, value: value ?? "", autocomplete: "off", spellcheck: "false", ...more}))
  const inside = h("input", {type: "checkbox", name: "inside", onchange: () => turn()})
  const client = field("Client outside", "client", query.client ?? remembered.client, {placeholder: someClient})
  const pod = field("Pod", "from", query.from, {placeholder: "namespace/name"})
  inside.checked = Boolean(query.from)
  const turn = () => { client.hidden = inside.checked; pod.hidden = !inside.checked }
  turn()
  return h("form.trace", {onsubmit: e => { e.preventDefault(); send(new FormData(e.target)) }},
    client, pod,
    h("label.check", {}, inside, h("span", {}, "from a pod")),
    field("To", "to", query.to, {required: true, placeholder: "address:port"}),
    h("label", {}, h("span", {}, "Protocol"), h("select", {name: "protocol"}, ["tcp", "udp", "sctp", "icmp"].map(p => h("option", {selected: p === (query.protocol ?? "tcp")}, p)))),
    h("button.primary", {type: "submit"}, icons.trace(), "Follow the packet"))
}

function send(data) {
  const inside = data.get("inside")
  const query = {to: data.get("to").trim(), protocol: data.get("protocol"), ...(inside ? {from: data.get("from").trim()} : {client: data.get("client").trim()})}
  if (!inside) remembered.client = query.client
  go(traceAddress(query))
}

// result shows all paths of the packet. Paths with the same verdict as the first are folded.
function result(paths, query) {
  const all = h("div.result", {}, paths.map((p, i) => {
    if (i === 0) return path(p, paths.length > 1 && `Backend 1 of ${paths.length}`, query)
    return h("details.path", {open: p.verdict !== paths[0].verdict, data: {title: `backend ${i}`}},
      h("summary", {}, `Backend ${i + 1}: `, h("code", {}, p.server ?? ""), ` ${p.verdict}`), path(p, null, query))
  }))
  const rows = h("input", {type: "checkbox", onchange: () => all.classList.toggle("rows-shown", rows.checked)})
  return [h("label.check", {}, rows, h("span", {}, "show OVN's rows and the packet after each step")), all]
}

function path(p, title, query) {
  const [tone, sign, sentence] = verdicts[p.verdict] ?? ["bad", "warning", p.verdict]
  return h("section.path", {},
    title && h("h2", {}, title),
    h("p.state", {class: tone}, severity(sign), h("span.sentence", {}, h("b", {}, p.verdict), " ", sentence)),
    p.reason && h("p.reason", {}, capital(p.reason)),
    p.about?.length > 0 && h("p.about", {}, p.about.map(r => h("span.chip", {}, h("span.kind", {}, kindOf(r)), link(r, nameOf(r))))),
    p.doubts?.length > 0 && h("ul.doubts", {}, p.doubts.map(d => h("li", {}, severity("info"), " ", capital(d)))),
    hops("There", p.there, 1, query.from ?? query.client),
    hops("Back", p.back, 1 + (p.there?.length ?? 0)),
    p.seen && ["Delivered", "Answered"].includes(p.verdict) && h("p.seen", {}, `The server sees ${p.seen} as the client.`))
}

// hops shows the hops of one direction, numbered as on the map.
function hops(title, all, from, start) {
  if (!all?.length) return null
  return h("section.part", {}, h("h2", {}, title), h("ol.line", {class: title.toLowerCase(), start: from},
    start && h("li.begin", {}, h("span.stop", {"aria-hidden": "true"}), h("span.text", {}, h("code", {}, start))),
    all.map((hop, i) => h("li", {data: {hop: from + i}}, h("span.stop", {"aria-hidden": "true"}, String(from + i)),
      hop.about?.name && h("span.chip", {}, h("span.kind", {}, kindOf(hop.about)), link(hop.about, nameOf(hop.about)), hop.node && hop.about.kind !== "Node" && h("span.on", {}, ` on ${hop.node}`)),
      h("span.text", {}, hop.text),
      hop.row && h("code.row", {}, hop.row), hop.packet && h("code.row", {}, hop.packet)))))
}
