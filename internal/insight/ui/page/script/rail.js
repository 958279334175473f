// The rail beside the map: networks, nodes, egress addresses and gateways.

import {h} from "./element.js"
import {mark, severity} from "./icon.js"
import {addressOf} from "./place.js"
import {count, key, worst} from "./words.js"

export class Rail {
  // pointed is called with the network under the pointer, or with nothing.
  constructor(element, {pointed, scrolled}) {
    Object.assign(this, {element, pointed})
    element.addEventListener("scroll", scrolled, {passive: true})
  }

  show(overview) {
    const {networks, nodes, egressIPs, gateways} = overview
    this.networks = networks
    const top = this.element.scrollTop, focused = document.activeElement?.closest("#rail [data-ref]")?.dataset.ref
    this.element.replaceChildren(
      section("Networks", networks, n => this.network(n)),
      section("Nodes", [...(nodes ?? [])].sort((a, b) => role(b) - role(a)), node),
      ...(egressIPs?.length ? [section("Egress addresses", egressIPs, egress)] : []),
      ...(gateways?.length ? [section("Gateways", gateways, gateway)] : []))
    this.element.scrollTop = top
    if (focused) this.element.querySelector(`[data-ref="${CSS.escape(focused)}"]`)?.focus({preventScroll: true})
    this.mark()
  }

  network(n) {
    const e = item(n, [
      h("span.top", {}, mark(n.colour, 11), h("span.name", {}, n.name), n.default && h("span.tag", {title: "used when nothing else is asked for"}, "default"), sign(n)),
      h("span.sub", {}, prefixes(n)),
      pool(n),
    ])
    e.dataset.net = n.colour % 8
    e.dataset.network = n.name
    e.addEventListener("pointerenter", () => this.pointed(n.name))
    e.addEventListener("pointerleave", () => this.pointed(null))
    return e
  }

  // choose marks the object in the panel; touch marks its dependencies.
  choose(ref, touched = []) {
    this.chosen = ref && key(ref)
    this.touched = new Set(touched)
    this.mark()
  }

  mark() {
    for (const e of this.element.querySelectorAll(".item")) {
      e.classList.toggle("chosen", e.dataset.ref === this.chosen)
      e.classList.toggle("touched", this.touched?.has(e.dataset.name) ?? false)
      if (e.dataset.ref === this.chosen) e.setAttribute("aria-current", "true")
      else e.removeAttribute("aria-current")
    }
  }

  // rectOf returns the rectangle of an item on the screen.
  rectOf(name) {
    const e = this.element.querySelector(`[data-name="${CSS.escape(name)}"]`)
    const r = e?.getBoundingClientRect(), all = this.element.getBoundingClientRect()
    return r && r.bottom > all.top + 4 && r.top < all.bottom - 4 ? r : null
  }

  // anchors returns the heights of the networks on the screen, from the top of an element.
  anchors(from) {
    const top = from.getBoundingClientRect().top, out = new Map()
    for (const n of this.networks ?? []) {
      const r = this.rectOf(n.name)
      if (r) out.set(n.name, Math.round(r.top - top + 15) + 0.5)
    }
    return out
  }
}

function section(title, things, of) {
  return h("section", {}, h("h2", {}, title, h("span.number", {}, String(things.length))), h("ul", {}, things.map(t => h("li", {}, of(t)))))
}

function item(thing, children) {
  return h("a.item", {href: addressOf(thing.ref), data: {ref: key(thing.ref), name: thing.name ?? thing.ref.name}}, children)
}

const sign = thing => { const w = worst(thing.problems); return w && h("span.badge", {}, severity(w)) }

function prefixes(n) {
  const all = (n.subnets ?? []).flatMap(s => s.prefixes)
  return all.length ? all.join(" ") : n.uplink ? `nodes' ${n.uplink.interface}, ${n.uplink.addresses?.join(" ") ?? ""}` : "no subnet"
}

// pool shows the used share of a network.
function pool(n) {
  const sum = of => (n.subnets ?? []).reduce((a, s) => a + s[of], 0)
  const used = sum("used"), all = used + sum("free")
  if (!all) return null
  const share = used / all
  return h("span.pool", {title: `${used.toLocaleString("en")} of ${all.toLocaleString("en")} addresses are in use`},
    h("span.bar", {}, h("span.used", {class: share > 0.9 ? "full" : "", style: {width: `${Math.max(used ? 2 : 0, share * 100)}%`}})),
    h("span.sub", {}, `${used.toLocaleString("en")} of ${all.toLocaleString("en")}`))
}

const role = n => (n.gateway ? 2 : 0) + (n.egress ? 1 : 0)

function node(n) {
  const holds = n.holds?.length ?? 0
  return item(n, [
    h("span.top", {}, h("span.name", {}, n.name), n.gateway && h("span.tag", {title: "may hold routers' external addresses"}, "gateway"),
      !n.ready && h("span.tag.bad", {}, "not ready"), n.cordoned && h("span.tag", {}, "cordoned"), sign(n)),
    h("span.sub", {}, [n.addresses?.[0], holds ? `holds ${count(holds, "address", "addresses")}` : ""].filter(Boolean).join(" · ")),
  ])
}

function egress(e) {
  return item(e, [
    h("span.top", {}, h("span.name", {}, e.ref.name), sign(e)),
    ...(e.addresses ?? []).map(a => h("span.sub", {}, `${a.address} ${a.node ? "on " + a.node : "on no node"}`)),
  ])
}

function gateway(g) {
  return item(g, [h("span.top", {}, h("span.name", {}, g.ref.name), sign(g)), h("span.sub", {}, [...(g.addresses ?? []), g.class].join(" · "))])
}
