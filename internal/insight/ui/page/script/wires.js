// Wires: lines of the networks, from the rail along the left edge of the map and above each row of tiles, down to every
// router that is on them.

import {s} from "./element.js"
import {size} from "./layout.js"

const apart = 6 // pixels between wires at the left edge

// The minimum scale for wires.
export const wired = k => k >= 0.42

// room returns the width of the wires at the left edge.
export const room = networks => networks.length * apart + 16

// draw draws the wires of the visible rows.
export function draw(svg, {networks, rows, camera, height, anchors, lit}) {
  svg.replaceChildren()
  if (!wired(camera.k)) return
  const edge = room(networks)
  const lines = networks.map(() => ""), drops = networks.map(() => "")
  const spans = networks.map(() => [Infinity, -Infinity])
  for (const row of rows) {
    const top = row.y * camera.k + camera.y, gutter = size.gutter * camera.k
    networks.forEach((network, i) => {
      const y = top + gutter * (0.16 + 0.62 * (i + 0.5) / networks.length)
      let last = -Infinity
      for (const place of row.places) {
        const at = place.tile.networks.indexOf(network.name)
        if (at < 0) continue
        const x = port(place, at, camera)
        if (x < edge) continue
        drops[i] += `M${x} ${y}V${top + gutter}`
        last = Math.max(last, x)
      }
      if (last === -Infinity) return
      const trunk = trunkOf(i, networks.length)
      lines[i] += `M${trunk} ${y}H${last}`
      spans[i] = [Math.min(spans[i][0], y), Math.max(spans[i][1], y)]
    })
  }
  networks.forEach((network, i) => {
    const trunk = trunkOf(i, networks.length), anchor = anchors.get(network.name)
    if (spans[i][0] === Infinity) return
    let d = lines[i] + drops[i]
    const ends = [...spans[i], anchor ?? spans[i][0]]
    if (anchor !== undefined) d += `M0 ${anchor}H${trunk}`
    d += `M${trunk} ${Math.max(-9, Math.min(...ends))}V${Math.min(height + 9, Math.max(...ends))}`
    svg.append(s("path.wire", {d, "data-net": network.colour % 8, class: lit && lit !== network.name ? "dim" : ""}))
  })
}

// The first network is the innermost, so that its wire from the rail crosses no other.
const trunkOf = (i, n) => Math.round(8 + (n - 1 - i) * apart) + 0.5

// port returns where the wire of a tile's network ends on the screen.
export const port = (place, at, camera) =>
  Math.round((place.x + 20 + at * Math.min(26, (size.tile.w - 40) / Math.max(1, place.tile.networks.length))) * camera.k + camera.x) + 0.5
