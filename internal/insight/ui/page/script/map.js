// The map: tiles of projects in a plane that can be moved and zoomed, with wires and headings.

import {Camera} from "./camera.js"
import {h, s} from "./element.js"
import {Headings} from "./heading.js"
import {icons} from "./icon.js"
import {arrange, size, towards} from "./layout.js"
import {Plane} from "./plane.js"
import {key} from "./words.js"
import * as wires from "./wires.js"

export class ProjectMap {
  // redrawn is called after each frame, for the overlay. anchors returns the heights of networks in the rail.
  constructor(element, {redrawn, anchors}) {
    Object.assign(this, {element, redrawn, anchors, plan: null, marks: {}})
    this.plane = new Plane()
    this.headings = new Headings()
    this.wires = s("svg.wires", {"aria-hidden": "true"})
    this.edge = h("div.edge")
    element.append(this.plane.element, this.headings.element, this.edge, this.wires, this.controls())
    this.camera = new Camera(element, () => this.draw())
    element.addEventListener("keydown", e => this.keys(e))
    element.addEventListener("focusin", e => { if (e.target.classList.contains("title")) this.current = e.target.closest(".tile").dataset.vpc })
    new ResizeObserver(() => this.resized()).observe(element)
  }

  controls() {
    const button = (label, icon, act) => h("button.quiet", {type: "button", "aria-label": label, title: label, onclick: act}, icon)
    return h("div.controls", {role: "group", "aria-label": "Zoom"},
      button("Larger (+)", icons.plus(), () => this.camera.zoom(1.4)),
      button("Smaller (-)", icons.minus(), () => this.camera.zoom(1 / 1.4)),
      button("Everything (0)", icons.fit(), () => this.fit()))
  }

  // show draws a new overview. A map that the user has moved keeps its position.
  show(overview) {
    const first = !this.overview
    this.overview = overview
    this.colours = new Map(overview.networks.map(n => [n.name, n.colour]))
    const used = new Set(overview.tiles.flatMap(t => t.networks))
    this.wired = overview.networks.filter(n => used.has(n.name))
    this.lay()
    if (first || !this.camera.moved) this.fit(false)
    else this.draw()
  }

  // window is the area for tiles: beside the wires at the left edge.
  window() {
    const edge = wires.room(this.wired)
    return {left: edge + 14, top: 10, width: Math.max(50, this.element.clientWidth - edge - 30), height: Math.max(50, this.element.clientHeight - 30)}
  }

  // lay computes the layout. It depends on the shape of the window until the user moves the map; then tiles keep their
  // positions.
  lay() {
    if (!this.shape || !this.camera.moved) this.shape = this.window()
    this.plan = arrange(this.overview.tiles, this.shape)
    this.plane.show(this.plan, name => this.colours.get(name) ?? 0)
    this.places = new Map(this.plan.tiles.map(p => [p.tile.vpc, p]))
    this.camera.least = this.plan.scale * 0.7
    if (!this.places.has(this.current)) this.current = this.plan.tiles[0]?.tile.vpc
  }

  get current() { return this.marks.current }
  set current(vpc) { this.marks = {...this.marks, current: vpc} }

  resized() {
    if (!this.overview || !this.element.clientWidth) return
    if (this.camera.moved) return this.draw()
    this.lay()
    this.fit(false)
  }

  fit(slowly = true) {
    const w = this.window(), {plan} = this
    const k = Math.min(plan.largest, w.width / plan.width, w.height / plan.height)
    this.camera.moved = false
    const x = w.left + Math.max(0, (w.width - plan.width * k) / 2), y = w.top + Math.max(0, Math.min(40, (w.height - plan.height * k) / 2))
    slowly ? this.camera.fly(x, y, k) : this.camera.set(x, y, k)
  }

  // reveal makes a tile readable. It moves the map only if necessary.
  reveal(vpc, near = 0) {
    const p = this.places?.get(vpc)
    if (!p) return
    const k = Math.max(this.camera.k, near), w = this.window()
    const left = p.x * this.camera.k + this.camera.x, top = p.y * this.camera.k + this.camera.y
    const seen = left >= w.left && top >= w.top && left + size.tile.w * k <= w.left + w.width + 10 && top + size.tile.h * k <= w.top + w.height
    if (seen && k === this.camera.k) return
    this.camera.moved = true
    // Centred, except at the border of the plane, to avoid showing empty space.
    const middle = (from, room, at, length, all) => Math.max(from + Math.min(0, room - all * k), Math.min(from, from + room / 2 - (at + length / 2) * k))
    this.camera.fly(middle(w.left, w.width, p.x, size.tile.w, this.plan.width), middle(w.top, w.height, p.y, size.tile.h, this.plan.height), k)
  }

  // choose marks the tile and the entry of the object in the panel.
  choose(vpc, ref) {
    this.marks = {...this.marks, chosen: vpc, way: ref && key(ref)}
    this.draw()
  }

  // light dims all tiles that are not on a network.
  light(network) {
    this.marks = {...this.marks, lit: network}
    this.draw()
  }

  draw() {
    if (!this.plan || this.pending) return
    this.pending = requestAnimationFrame(() => { this.pending = 0; this.paint() })
  }

  paint() {
    const {camera, plan} = this, window = {width: this.element.clientWidth, height: this.element.clientHeight}
    const anchors = this.anchors(), edge = wires.room(this.wired) // read before writing: one layout
    this.plane.paint(camera, window, this.marks)
    this.headings.paint(plan, camera, window, edge + 6)
    const rows = plan.rows.filter(r => r.y * camera.k + camera.y < window.height && (r.y + size.gutter) * camera.k + camera.y > 0)
    wires.draw(this.wires, {networks: this.wired, rows, camera, height: window.height, anchors, lit: this.marks.lit})
    this.edge.style.width = wires.wired(camera.k) ? `${edge}px` : "0"
    this.redrawn?.()
  }

  // rectOf returns the rectangle of an entry on the screen, or of its tile if the entry is not drawn, or nothing if it
  // is not visible. The lane is the height above its row where lines pass the tiles before it.
  rectOf(vpc, ref) {
    const node = this.plane.nodes.get(vpc)
    if (!node) return null
    const way = ref && node.element.querySelector(`[data-ref="${CSS.escape(key(ref))}"]`)
    const tile = node.element.getBoundingClientRect(), {k} = this.camera
    const lane = this.places.get(vpc).x > this.plan.tiles[0].x && wires.wired(k) ? tile.top - 0.2 * size.gutter * k : 0
    return {rect: way?.getBoundingClientRect() ?? tile, exact: Boolean(way), lane}
  }

  // focus focuses the tile that was used last.
  focus() {
    this.reveal(this.current)
    this.paint()
    this.plane.nodes.get(this.current)?.title.focus({preventScroll: true})
  }

  keys(e) {
    const step = {ArrowLeft: [-1, 0], ArrowRight: [1, 0], ArrowUp: [0, -1], ArrowDown: [0, 1]}[e.key]
    if (!step || e.target.closest(".controls") || e.altKey || e.ctrlKey || e.metaKey) return
    e.preventDefault()
    const next = towards(this.plan.tiles, this.places.get(this.current), ...step)
    if (!next) return
    this.current = next.tile.vpc
    this.focus()
  }
}
