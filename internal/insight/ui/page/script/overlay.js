// The overlay above rail and map: the path of a traced packet and its reply.

import {s} from "./element.js"

const beside = 6 // pixels between the path of the request and that of the reply below it

export class Overlay {
  // where returns the position of a hop on the screen, or nothing.
  constructor(element, where) {
    Object.assign(this, {element, where, paths: []})
  }

  show(paths) {
    this.paths = paths
    this.draw()
  }

  draw() {
    this.element.replaceChildren()
    if (!this.paths.length) return
    const frame = this.element.getBoundingClientRect(), drawn = new Set()
    const ways = this.paths.map(p => {
      const there = this.stops(p.there, 1, frame)
      return {there, back: p.back?.length ? this.stops(p.back, 1 + p.there.length, frame) : []}
    })
    // Backends with the same path share one line. The first path is the one that the panel shows; it is on top.
    for (const [i, {there, back}] of [...ways.entries()].reverse()) {
      this.way(there, "there", i, drawn)
      this.way(back, "back", i, drawn)
    }
    for (const stop of ways[0].there) this.number(stop, "there")
    for (const stop of ways[0].back) this.number(stop, "back")
  }

  // stops returns the positions of visible hops. Hops at the same position are one stop.
  stops(hops, from, frame) {
    const out = []
    for (const [i, hop] of (hops ?? []).entries()) {
      const at = this.where(hop), last = out.at(-1)
      if (!at) continue
      const stop = {x: at.x - frame.left, y: at.y - frame.top, home: at.home, exact: at.exact, rail: at.rail, lane: at.lane && at.lane - frame.top, numbers: [from + i]}
      if (last?.home !== stop.home) out.push(stop)
      else Object.assign(last, stop.exact && !last.exact ? stop : {}, {numbers: [...last.numbers, from + i]})
    }
    return out
  }

  way(stops, direction, i, drawn) {
    const shift = direction === "back" ? beside : 0
    let d = ""
    for (const [j, b] of stops.entries()) {
      const a = stops[j - 1], y = b.y + shift
      if (!a) d = `M${b.x} ${y}`
      else if (a.rail && b.rail) d += `V${y}`
      else if (b.lane && a.rail) d += inward(a, b, shift)
      else if (a.lane && b.rail) d += outward(a, b, shift)
      else {
        const bend = Math.max(30, Math.abs(b.x - a.x) * 0.45)
        d += `C${a.x + (a.rail ? bend : -bend)} ${a.y + shift} ${b.x + (b.rail ? bend : -bend)} ${y} ${b.x} ${y}`
      }
    }
    if (stops.length < 2 || drawn.has(d) && i > 0) return
    drawn.add(d)
    this.element.append(s("path.halo", {d}), s(`path.way.${direction}`, {d, class: i > 0 ? "other" : ""}), tip(stops.at(-1), shift, direction))
  }

  number(stop, direction) {
    const text = stop.numbers.length > 1 ? `${stop.numbers[0]}–${stop.numbers.at(-1)}` : String(stop.numbers[0])
    const w = text.length * 6 + 8, back = direction === "back"
    const x = stop.rail ? stop.x : stop.x - w / 2 - 10, y = stop.y + (stop.rail ? back ? 13 : -3 : back ? 15 : -9)
    this.element.append(s(`g.number.${direction}`, {transform: `translate(${x} ${y})`},
      s("rect", {x: -w / 2, y: -8, width: w, height: 15, rx: 7.5}), s("text", {"text-anchor": "middle", y: 3.5}, text)))
  }
}

// A tile behind others is reached through the lane above its row, so that no line crosses the others. Corners are
// round.
const round = 7

function inward(rail, {x, y, lane}, shift) {
  const turn = x - 2 * round - shift, h = lane + shift
  return `C${rail.x + 60} ${rail.y + shift} ${rail.x + 10} ${h} ${rail.x + 70} ${h}H${turn - round}Q${turn} ${h} ${turn} ${h + round}` +
    `V${y + shift - round}Q${turn} ${y + shift} ${turn + round} ${y + shift}H${x}`
}

function outward({x, y, lane}, rail, shift) {
  const turn = x - 2 * round - shift, h = lane + shift
  return `H${turn + round}Q${turn} ${y + shift} ${turn} ${y + shift - round}V${h + round}Q${turn} ${h} ${turn - round} ${h}` +
    `H${rail.x + 70}C${rail.x + 10} ${h} ${rail.x + 60} ${rail.y + shift} ${rail.x} ${rail.y + shift}`
}

function tip({x, y, rail}, shift, direction) {
  return s(`path.tip.${direction}`, {d: rail ? `M${x + 2} ${y + shift}l9 -4.5v9z` : `M${x} ${y + shift}l-9 -4.5v9z`})
}
