// The camera: the visible part of the plane and its scale, controlled by mouse, touch and keyboard.

const still = matchMedia("(prefers-reduced-motion: reduce)")

export class Camera {
  constructor(element, changed) {
    Object.assign(this, {element, changed, x: 0, y: 0, k: 1, least: 0.02, most: 2.4, moved: false, zooming: false})
    this.pointers = new Map()
    element.addEventListener("wheel", e => this.wheel(e), {passive: false})
    element.addEventListener("pointerdown", e => this.press(e))
    element.addEventListener("pointermove", e => this.drag(e))
    for (const name of ["pointerup", "pointercancel"]) element.addEventListener(name, e => this.release(e))
    // A drag that starts on a tile is not a click on it.
    element.addEventListener("click", e => { if (this.dragged) { e.preventDefault(); e.stopPropagation() } }, true)
    element.addEventListener("dragstart", e => e.preventDefault())
  }

  set(x, y, k) {
    this.x = x
    this.y = y
    this.k = Math.min(this.most, Math.max(this.least, k))
    this.changed()
  }

  // zooming is true while the scale changes, and a moment longer.
  zoomed() {
    this.zooming = true
    clearTimeout(this.rest)
    this.rest = setTimeout(() => { this.zooming = false; this.changed() }, 120)
  }

  // zoom scales by a factor around a point on the screen.
  zoom(factor, at = {x: this.element.clientWidth / 2, y: this.element.clientHeight / 2}) {
    cancelAnimationFrame(this.flight)
    this.moved = true
    this.zoomed()
    const k = Math.min(this.most, Math.max(this.least, this.k * factor))
    this.set(at.x - (at.x - this.x) * k / this.k, at.y - (at.y - this.y) * k / this.k, k)
  }

  // fly moves the camera, without animation if the user prefers reduced motion.
  fly(x, y, k) {
    cancelAnimationFrame(this.flight)
    if (still.matches) return this.set(x, y, k)
    const half = {x: this.element.clientWidth / 2, y: this.element.clientHeight / 2}
    const middle = (x, y, k) => ({x: (half.x - x) / k, y: (half.y - y) / k}) // centre of the visible part, in the plane
    const from = middle(this.x, this.y, this.k), to = middle(x, y, k), k0 = this.k, begun = performance.now()
    const step = now => {
      const t = Math.min(1, (now - begun) / 260), e = 1 - (1 - t) ** 3
      const scale = k0 * (k / k0) ** e
      if (k !== k0) this.zoomed()
      this.set(half.x - (from.x + (to.x - from.x) * e) * scale, half.y - (from.y + (to.y - from.y) * e) * scale, scale)
      if (t < 1) this.flight = requestAnimationFrame(step)
    }
    this.flight = requestAnimationFrame(step)
  }

  local(e) {
    const r = this.element.getBoundingClientRect()
    return {x: e.clientX - r.left, y: e.clientY - r.top}
  }

  wheel(e) {
    e.preventDefault()
    const step = e.deltaMode === 1 ? 18 : 1
    if (e.shiftKey) { this.moved = true; return this.set(this.x - (e.deltaX || e.deltaY) * step, this.y, this.k) }
    this.zoom(Math.exp(-e.deltaY * step * (e.ctrlKey ? 0.01 : 0.0018)), this.local(e))
  }

  press(e) {
    if (e.button !== 0 || e.target.closest(".controls")) return
    cancelAnimationFrame(this.flight)
    this.pointers.set(e.pointerId, this.local(e))
    this.dragged = false
    this.travel = 0
  }

  drag(e) {
    const before = this.pointers.get(e.pointerId)
    if (!before) return
    const now = this.local(e)
    if (this.pointers.size === 2) this.pinch(e.pointerId, before, now)
    this.travel += Math.abs(now.x - before.x) + Math.abs(now.y - before.y)
    this.pointers.set(e.pointerId, now)
    if (this.travel < 5) return
    if (!this.dragged) this.element.setPointerCapture(e.pointerId)
    this.dragged = this.moved = true
    if (this.pointers.size === 1) this.set(this.x + now.x - before.x, this.y + now.y - before.y, this.k)
  }

  pinch(id, before, now) {
    const other = [...this.pointers].find(([other]) => other !== id)[1]
    const gap = p => Math.hypot(p.x - other.x, p.y - other.y)
    this.zoom(gap(now) / Math.max(1, gap(before)), {x: (now.x + other.x) / 2, y: (now.y + other.y) / 2})
  }

  release(e) {
    this.pointers.delete(e.pointerId)
    setTimeout(() => { this.dragged = false }) // after the click
  }
}
