// The layout: the position of each tile in the plane. It is deterministic for the same projects and window size.
// Organizations are blocks, placed side by side in shelves. Rows of tiles run through a whole shelf, and the wires of
// networks run above them.

// Lengths in the plane, in pixels at scale 1. The height of tiles depends on their content.
export const size = {tile: {w: 256, h: 0}, gap: 14, gutter: 28, between: 30, heading: 30}
const tall = {head: 54, line: 20, least: 2, most: 5}

// The space for headings on the screen, and the maximum scale to fill it.
const readable = 20
const largest = 1.3

// arrange returns the layout of tiles in a window. Of several candidates it uses the one with the largest tiles.
export function arrange(tiles, window) {
  const lines = tiles.reduce((n, t) => Math.max(n, t.ways.length), tall.least)
  size.tile.h = tall.head + tall.line * Math.min(tall.most, lines)
  const groups = grouped(tiles)
  const most = Math.min(120, Math.max(1, tiles.length))
  let best = {scale: 0}
  for (const slender of [0.3, 0.5, 0.8, 1.2, 1.8, 3, 6, 1000]) {
    for (let columns = 1; columns <= most; columns++) {
      const plan = pack(groups, columns, slender, size.heading)
      plan.scale = scaleOf(plan, window)
      const as = plan.scale / best.scale
      if (as > 1.005 || as > 0.995 && plan.height < best.height) best = plan
    }
  }
  // Headings keep their size on the screen, so at a small scale they need more of the plane.
  const plan = pack(groups, best.columns ?? 1, best.slender ?? 1, Math.max(size.heading, readable / best.scale))
  return {...plan, largest, scale: scaleOf(plan, window), ...placed(plan)}
}

const scaleOf = (plan, window) => Math.min(largest, window.width / plan.width, window.height / plan.height)

// grouped groups tiles by organization. Tiles without a project come first.
function grouped(tiles) {
  const groups = new Map()
  for (const tile of tiles) {
    const name = tile.management ? "" : tile.group ?? " "
    if (!groups.has(name)) groups.set(name, {name: tile.management ? "platform" : tile.group ?? "without a project", tiles: []})
    groups.get(name).tiles.push(tile)
  }
  return [...groups.values()]
}

const pitch = {get x() { return size.tile.w + size.gap }, get y() { return size.tile.h + size.gutter }}

// pack places blocks side by side in shelves of this many columns. Slender ones are low, the others high.
function pack(groups, columns, slender, heading) {
  const plan = {columns, slender, heading, blocks: [], width: 1, height: 1}
  let x = 0, y = 0, used = 0, deep = 0
  for (const group of groups) {
    const n = group.tiles.length
    const wide = Math.min(n, columns, Math.max(1, Math.round(Math.sqrt(n * slender)))), rows = Math.ceil(n / wide)
    if (used > 0 && used + wide > columns) {
      y += heading + deep * pitch.y + size.between
      x = used = deep = 0
    }
    plan.blocks.push({name: group.name, tiles: group.tiles, wide, x, y, w: wide * pitch.x - size.gap, h: heading + rows * pitch.y})
    deep = Math.max(deep, rows)
    used += wide
    x += wide * pitch.x - size.gap + size.between
    plan.width = Math.max(plan.width, x - size.between)
    plan.height = Math.max(plan.height, y + heading + rows * pitch.y)
  }
  return plan
}

// placed returns the position of each tile, and the rows of tiles that run through a shelf.
function placed({blocks, heading}) {
  const tiles = [], rows = new Map()
  for (const block of blocks) {
    block.tiles.forEach((tile, i) => {
      const y = block.y + heading + Math.floor(i / block.wide) * pitch.y
      const place = {tile, x: block.x + (i % block.wide) * pitch.x, y: y + size.gutter}
      tiles.push(place)
      if (!rows.has(y)) rows.set(y, {y, places: []})
      rows.get(y).places.push(place)
    })
  }
  return {tiles, rows: [...rows.values()]}
}

// towards returns the nearest tile in a direction.
export function towards(places, from, dx, dy) {
  let best = null, least = Infinity
  for (const p of places) {
    const along = (p.x - from.x) * dx + (p.y - from.y) * dy
    const across = Math.abs((p.x - from.x) * dy) + Math.abs((p.y - from.y) * dx)
    if (along <= 0) continue
    const cost = along + across * 3
    if (cost < least) [best, least] = [p, cost]
  }
  return best
}
