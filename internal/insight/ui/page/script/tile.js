// A tile: one project on the map, with as much detail as fits.

import {h} from "./element.js"
import {icons, mark, severity} from "./icon.js"
import {addressOf} from "./place.js"
import {count, kindOf, key} from "./words.js"

// Levels of detail by width in pixels.
export const levels = [
  {name: "dot", from: 0},
  {name: "name", from: 58},
  {name: "brief", from: 104},
  {name: "card", from: 206},
]

export const levelOf = width => levels.findLast(l => width >= l.from).name

const line = 20 // height of an entry in pixels

// linesIn returns how many entries fit into a height.
export const linesIn = (height, font) => Math.max(0, Math.floor((height - 50 * font) / (line * font)))

// newTile creates the element of a tile.
export function newTile(tile) {
  const title = h("a.title", {href: addressOf(tile.ref), tabindex: -1})
  const element = h("div.tile", {data: {vpc: tile.vpc, ref: key(tile.ref)}}, title)
  return {element, title, told: ""}
}

// tell fills the element with the content of its level. It is called often, and reports whether it changed anything.
export function tell(node, tile, level, lines, colourOf) {
  const told = `${level} ${level === "card" ? lines : ""}`
  if (node.told === told && node.of === tile) return false
  Object.assign(node, {told, of: tile})
  const {element, title} = node
  element.className = `tile ${level}${tile.severity ? " " + tile.severity : ""}${tile.management ? " management" : ""}`
  element.dataset.net = tile.networks.length ? colourOf(tile.networks[0]) : "none"
  title.setAttribute("aria-label", describe(tile))
  title.title = level === "dot" || level === "name" ? describe(tile) : ""
  const sign = tile.severity && h("span.badge", {}, severity(tile.severity), level !== "dot" && level !== "name" && tile.problems > 1 && String(tile.problems))
  if (level === "dot") title.replaceChildren(...[sign].filter(Boolean))
  else title.replaceChildren(h("span.name", {}, tile.name), ...[sign].filter(Boolean))
  element.replaceChildren(title)
  if (level === "brief" || level === "card") element.append(about(tile, level, colourOf))
  if (level === "card") element.append(waysOf(tile, lines, colourOf))
  return true
}

export function describe(tile) {
  const words = [`${kindOf(tile.ref)} ${tile.group ? tile.group + "/" : ""}${tile.name}`]
  if (tile.networks.length) words.push(`on ${tile.networks.join(", ")}`)
  if (tile.address) words.push(`leaves with ${tile.address}`)
  words.push(count(tile.ways.length + (tile.more ?? 0), "way in or out", "ways in and out"))
  if (tile.problems) words.push(count(tile.problems, "problem"))
  return words.join(", ")
}

function about(tile, level, colourOf) {
  const marks = h("span.marks", {}, tile.networks.map(n => mark(colourOf(n))))
  if (level === "card") return h("div.about", {}, marks, h("span.facts", {}, [tile.address ?? "no address", count(tile.pods, "pod"), tile.prefixes[0]].filter(Boolean).join("  ·  ")))
  return h("div.about", {}, h("span.facts", {}, tile.address ?? "no address"), h("span.facts", {}, kindsOf(tile)), marks)
}

// sorts are the kinds of entries where there is little room.
const sorts = {FIp: "FIp", Service: "LB", EgressRoute: "out", EgressService: "out"}

// kindsOf counts the entries of each kind.
function kindsOf(tile) {
  const counts = new Map()
  for (const w of tile.ways) counts.set(sorts[w.ref.kind], (counts.get(sorts[w.ref.kind]) ?? 0) + 1)
  const out = [...counts].map(([name, n]) => `${n} ${name}`)
  if (tile.more) out.push(`${tile.more} more`)
  return out.length ? out.join(" · ") : "no way in"
}

function waysOf(tile, lines, colourOf) {
  const all = tile.ways.length + (tile.more ?? 0)
  const shown = all > lines ? Math.max(0, Math.min(lines - 1, tile.ways.length)) : tile.ways.length
  const rows = tile.ways.slice(0, shown).map(w => wayOf(w, colourOf))
  if (all > shown && lines > 0) rows.push(h("span.more", {}, `${all - shown} more`))
  return h("div.ways", {}, rows)
}

function wayOf(w, colourOf) {
  return h("a.way", {href: addressOf(w.ref), tabindex: -1, class: w.severity, data: {ref: key(w.ref)}, title: `${kindOf(w.ref)} ${w.ref.name}`},
    w.network ? mark(colourOf(w.network), 8) : h("span.nomark"),
    h("span.sort", {}, sorts[w.ref.kind] ?? w.ref.kind),
    h("span.addr", {}, w.address ?? "no address"),
    h("span.what", {}, w.ref.name),
    w.out ? h("span.end", {title: "packets leave by it"}, icons.out()) : ending(w))
}

// ending describes the target of an entry: the name of a pod, or the number of ready backends.
function ending(w) {
  if (w.ref.kind === "FIp" && w.targets === 1) return h("span.end", {class: w.ready ? "" : "bad"}, w.to ?? "")
  return h("span.end.number", {class: w.ready ? "" : "bad"}, w.targets ? `${w.ready}/${w.targets}` : "none")
}
