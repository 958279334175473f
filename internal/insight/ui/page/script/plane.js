// The plane: the visible tiles as elements, laid out for one scale. While the user zooms, the whole plane is stretched,
// and laid out again afterwards. This keeps zooming smooth with a thousand tiles.

import {h} from "./element.js"
import {size} from "./layout.js"
import {levelOf, linesIn, newTile, tell} from "./tile.js"

const margin = 120 // pixels beyond the window where tiles already exist
const most = 1.7 // maximum stretch before tiles are laid out again

export class Plane {
  constructor() {
    this.element = h("div.plane")
    this.nodes = new Map() // by VPC
  }

  // show sets new tiles.
  show(plan, colourOf) {
    Object.assign(this, {plan, colourOf, k: 0})
  }

  // paint draws what the camera sees. Marks are the highlighted tiles and entry.
  paint(camera, window, marks) {
    const stretch = camera.k / this.k
    const stays = camera.zooming && stretch < most && stretch > 1 / most
    if (!stays && this.k !== camera.k) this.scale(camera.k)
    const ratio = camera.k / this.k
    this.element.style.transform = `translate(${camera.x}px, ${camera.y}px)${ratio === 1 ? "" : ` scale(${ratio})`}`
    const marked = JSON.stringify(marks), seen = new Set()
    for (const place of this.plan.tiles) {
      if (!this.near(place, camera, window) && place.tile.vpc !== marks.current) continue
      seen.add(place.tile.vpc)
      this.put(place, marks, marked)
    }
    for (const [vpc, node] of this.nodes) {
      if (seen.has(vpc) || node.element.contains(document.activeElement)) continue
      node.element.remove()
      this.nodes.delete(vpc)
    }
  }

  // scale lays tiles out for a scale.
  scale(k) {
    const w = size.tile.w * k, tall = size.tile.h * k, font = Math.min(1.2, Math.max(1, k))
    Object.assign(this, {k, level: levelOf(w / font), lines: linesIn(tall, font)})
    for (const [name, value] of [["--w", `${w}px`], ["--h", `${tall}px`], ["--font", font]]) this.element.style.setProperty(name, value)
  }

  near(place, camera, window) {
    const x = place.x * camera.k + camera.x, y = place.y * camera.k + camera.y
    return x <= window.width + margin && y <= window.height + margin && x + size.tile.w * camera.k >= -margin && y + size.tile.h * camera.k >= -margin
  }

  put(place, marks, marked) {
    const {tile} = place
    let node = this.nodes.get(tile.vpc)
    if (!node) {
      node = newTile(tile)
      this.nodes.set(tile.vpc, node)
      this.element.append(node.element)
    }
    const retold = tell(node, tile, this.level, this.lines, this.colourOf)
    if (node.k !== this.k || node.place !== place) {
      Object.assign(node, {k: this.k, place})
      node.element.style.transform = `translate(${Math.round(place.x * this.k * 2) / 2}px, ${Math.round(place.y * this.k * 2) / 2}px)`
    }
    if (!retold && node.marked === marked) return
    node.marked = marked
    node.element.classList.toggle("chosen", tile.vpc === marks.chosen)
    node.element.classList.toggle("dim", Boolean(marks.lit) && !tile.networks.includes(marks.lit))
    node.title.tabIndex = tile.vpc === marks.current ? 0 : -1
    for (const way of node.element.querySelectorAll(".way")) way.classList.toggle("chosen", way.dataset.ref === marks.way)
  }
}
