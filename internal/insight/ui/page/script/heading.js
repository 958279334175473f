// Headings: the names of organizations above their blocks. The name of a partly visible block stays visible.

import {h} from "./element.js"
import {severity} from "./icon.js"
import {count} from "./words.js"

export class Headings {
  constructor() {
    this.element = h("div.headings")
    this.heads = new Map() // by name
  }

  paint(plan, camera, window, edge) {
    const seen = new Set()
    for (const block of plan.blocks) {
      const x = block.x * camera.k + camera.x, y = block.y * camera.k + camera.y, end = x + block.w * camera.k
      const left = Math.max(x, Math.min(edge, end)), room = end - left
      if (x > window.width || room < 44 || y + block.h * camera.k < 30 || y > window.height) continue
      seen.add(block.name)
      this.put(block, left, y + plan.heading * camera.k - 20, room)
    }
    for (const [name, head] of this.heads) if (!seen.has(name)) { head.element.remove(); this.heads.delete(name) }
  }

  put(block, left, top, room) {
    let head = this.heads.get(block.name)
    if (!head) {
      head = {element: h("div.head")}
      this.heads.set(block.name, head)
      this.element.append(head.element)
    }
    const told = [room > 100, room > 130, room > 200].join()
    if (head.told !== told || head.block !== block) {
      Object.assign(head, {told, block})
      head.element.replaceChildren(h("span.org", {}, block.name), ...summary(block.tiles, room))
    }
    head.element.classList.toggle("stuck", top < 2)
    head.element.style.transform = `translate(${Math.round(left)}px, ${Math.round(Math.max(2, top))}px)`
    head.element.style.maxWidth = `${Math.round(room)}px`
  }
}

// summary describes the projects of an organization within a width in pixels.
function summary(tiles, room) {
  if (tiles.length === 1) return []
  const ill = tiles.filter(t => t.severity === "error").length
  return [
    ...(room > 130 ? [h("span.sum", {}, room > 200 ? count(tiles.length, "project") : String(tiles.length))] : []),
    ...(ill && room > 100 ? [h("span.badge", {title: `${count(ill, "project")} with errors`}, severity("error"), String(ill))] : []),
  ]
}
