// The page: creates its parts and connects them.

import * as finding from "./finding.js"
import {h} from "./element.js"
import {mark} from "./icon.js"
import {Live} from "./live.js"
import {ProjectMap} from "./map.js"
import * as object from "./object.js"
import {Overlay} from "./overlay.js"
import {Panel} from "./panel.js"
import {go, leave, read} from "./place.js"
import {Rail} from "./rail.js"
import {Search} from "./search.js"
import {ask, listen} from "./server.js"
import * as tools from "./tools.js"
import * as trace from "./trace.js"
import {key} from "./words.js"

const $ = id => document.getElementById(id)

const overlay = new Overlay($("overlay"), hop => whereIs(hop))
const rail = new Rail($("rail"), {pointed: name => map.light(name), scrolled: () => map.draw()})
const map = new ProjectMap($("map"), {redrawn: () => overlay.draw(), anchors: () => narrow.matches ? new Map() : rail.anchors($("map"))})
const panel = new Panel($("panel"))
const search = new Search($("search"))
const live = new Live($("live"), $("notice"))
const bar = tools.bar($("tools"), () => help())
const narrow = matchMedia("(max-width: 760px)")

let overview = null
let homes = new Map() // namespace, subnet or object → VPC

// hear handles a status of the server. A new revision reloads the map.
let revision = null
async function hear(status) {
  live.hear(status)
  if (status?.problem) $("reading")?.remove() // the notice says what is wrong
  if (!status?.revision || status.revision === revision) return
  const first = revision === null
  revision = status.revision
  bar.count(status.findings)
  try {
    overview = await ask("api/overview")
  } catch {
    revision = null // the next status tries again
    return
  }
  $("cluster").textContent = [overview.cluster, overview.version].filter(Boolean).join(" · ")
  document.title = `${overview.cluster} · Sallyport`
  homes = homesOf(overview)
  $("reading")?.remove()
  rail.show(overview)
  map.show(overview)
  follow(first)
  if (first) performance.mark("first map")
}

// homesOf maps objects without an own place on the map to their VPC.
function homesOf({tiles, networks}) {
  const out = new Map()
  for (const t of tiles) {
    for (const n of t.namespaces ?? []) out.set(`namespace ${n}`, t.vpc)
    for (const s of t.subnets ?? []) out.set(`Subnet//${s}`, t.vpc)
    for (const kind of ["Vpc", "Router"]) out.set(`${kind}//${t.vpc}`, t.vpc)
    out.set(key(t.ref), t.vpc)
  }
  for (const n of networks) for (const s of n.subnets ?? []) out.delete(`Subnet//${s.name}`)
  return out
}

const homeOf = ref => ref && (homes.get(key(ref)) ?? (ref.namespace && homes.get(`namespace ${ref.namespace}`)))

// railNameOf returns the item of the rail that an object is, or belongs to.
function railNameOf(ref) {
  if (["ExternalNetwork", "Network", "Node", "EgressIP"].includes(ref.kind)) return ref.name
  if (ref.kind === "Subnet") return overview.networks.find(n => n.subnets?.some(s => s.name === ref.name))?.name
  return null
}

// whereIs returns the position of a hop on the screen: beside an item of the rail, or at the left edge of a tile or of
// an entry on it.
function whereIs(hop) {
  if (!overview || !hop.about?.kind) return null
  const name = railNameOf(hop.about)
  if (name) {
    const r = rail.rectOf(name)
    return r && {x: r.right - 10, y: r.top + 20, home: name, rail: true}
  }
  const vpc = homeOf(hop.about), {rect, exact, lane} = map.rectOf(vpc, hop.about) ?? {}
  return rect && {x: rect.left, y: (rect.top + rect.bottom) / 2, home: vpc, exact, lane}
}

// follow shows the place in the URL. If again is set, the data of the same place has changed.
async function follow(again = false) {
  const place = read()
  bar.mark(place.view)
  if (!overview || place.view === "map") return rest(place)
  const address = location.hash
  const fresh = panel.place !== address
  const coming = place.view === "object" ? object.show(place.ref) : place.view === "trace" ? trace.show(place.query) : finding.show()
  if (place.view === "object") choose(place.ref)
  else if (fresh) choose(null)
  const shown = await panel.show(address, coming.catch(e => {
    if (place.view === "object") return object.missing(place.ref, e.message)
    throw e
  }))
  if (!shown) return
  overlay.show(shown.paths ?? [])
  if (fresh || again === true) settle(place, shown)
  if (fresh) focusOn(place)
}

function rest(place) {
  panel.close()
  overlay.show([])
  if (place.view === "map") choose(null)
}

function choose(ref) {
  const vpc = homeOf(ref), tile = overview.tiles.find(t => t.vpc === vpc)
  map.choose(vpc ?? null, ref)
  rail.choose(ref, tile ? [...tile.networks, ...(tile.nodes ?? [])] : [])
  if (vpc) map.current = vpc
}

// settle makes the object of the panel visible on the map.
function settle(place, shown) {
  if (place.view === "object") map.reveal(homeOf(place.ref), 1)
  const vpc = (shown.paths ?? []).flatMap(p => p.there ?? []).map(hop => homeOf(hop.about)).find(Boolean)
  if (!vpc) return
  map.choose(vpc, null)
  map.reveal(vpc, 1)
}

function focusOn(place) {
  const empty = place.view === "trace" && !place.query.to && panel.element.querySelector("[name=to]")
  if (empty) empty.focus()
  else panel.focus()
}

function help() {
  tools.helpOf($("help"), h("ul", {}, (overview?.networks ?? []).map(n => h("li", {}, mark(n.colour, 11), " ", n.name))))
  if (!$("help").open) $("help").showModal()
}

// keys are the shortcuts that work everywhere except in text fields.
const keys = {
  "/": () => search.focus(), "?": help, m: () => map.focus(), f: () => go("#findings"), t: () => go("#trace"), d: tools.turn,
  0: () => map.fit(), "+": () => map.camera.zoom(1.3), "=": () => map.camera.zoom(1.3), "-": () => map.camera.zoom(1 / 1.3),
  Escape: () => { if (panel.open) leave() },
}

addEventListener("keydown", e => {
  const writing = e.target.closest?.("input:not([type=checkbox]), select, textarea")
  if (e.ctrlKey || e.metaKey || e.altKey || $("help").open && e.key !== "?") return
  if (writing && e.key !== "Escape") return
  const act = overview || e.key === "d" ? keys[e.key] : null
  if (!act) return
  e.preventDefault()
  act()
})

addEventListener("hashchange", () => follow())
narrow.addEventListener("change", () => map.draw())
listen(hear)

