// Icons and marks. Every colour is accompanied by a shape with the same meaning.

import {s} from "./element.js"

const icon = (...shapes) => s("svg.icon", {viewBox: "0 0 16 16", width: 16, height: 16, "aria-hidden": "true"}, ...shapes)
const line = d => s("path", {d, fill: "none", stroke: "currentColor", "stroke-width": 1.6, "stroke-linecap": "round", "stroke-linejoin": "round"})

export const icons = {
  search: () => icon(s("circle", {cx: 7, cy: 7, r: 4.3, fill: "none", stroke: "currentColor", "stroke-width": 1.6}), line("M10.3 10.3 14 14")),
  findings: () => icon(line("M8 2.2 14.6 13.6H1.4zM8 6.6v3M8 11.6v.1")),
  trace: () => icon(line("M2 11.5c3 0 2.6-7 6-7h5M10.6 2 13 4.5 10.6 7M14 11.5H9.4"), s("circle", {cx: 2.6, cy: 11.5, r: 1.3, fill: "currentColor"})),
  theme: () => icon(s("circle", {cx: 8, cy: 8, r: 5.6, fill: "none", stroke: "currentColor", "stroke-width": 1.5}), s("path", {d: "M8 2.4a5.6 5.6 0 0 1 0 11.2z", fill: "currentColor"})),
  help: () => icon(line("M5.6 6a2.4 2.4 0 1 1 3.5 2.1c-.8.4-1.1.8-1.1 1.7M8 12.4v.1")),
  close: () => icon(line("M4 4l8 8M12 4l-8 8")),
  plus: () => icon(line("M8 3v10M3 8h10")),
  minus: () => icon(line("M3 8h10")),
  fit: () => icon(line("M6 2.5H2.5V6M10 2.5h3.5V6M6 13.5H2.5V10M10 13.5h3.5V10")),
  back: () => icon(line("M13 8H3.4M7 4 3 8l4 4")),
  copy: () => icon(line("M5.5 5.5h7v8h-7zM3.5 10.5h-1v-8h7v1")),
  out: () => icon(line("M4 12 12 4M6.5 4H12v5.5")),
  list: () => icon(line("M5.5 4h8M5.5 8h8M5.5 12h8M2.5 4h.1M2.5 8h.1M2.5 12h.1")),
}

// severity is the icon of a severity: cross (error), triangle (warning), ring (info), or a tick without problems.
export function severity(level) {
  switch (level) {
    case "error": return s("svg.sign.error", {viewBox: "0 0 16 16", width: 14, height: 14, role: "img", "aria-label": "error"},
      s("path", {d: "M5 1h6l4 4v6l-4 4H5l-4-4V5z", fill: "currentColor"}), s("path.cut", {d: "M5.3 5.3l5.4 5.4m0-5.4-5.4 5.4", "stroke-width": 1.9}))
    case "warning": return s("svg.sign.warning", {viewBox: "0 0 16 16", width: 14, height: 14, role: "img", "aria-label": "warning"},
      s("path", {d: "M8 1.2 15.4 14.4H.6z", fill: "currentColor"}), s("path.cut", {d: "M8 6v4.2M8 12.2v.2", "stroke-width": 1.9}))
    case "info": return s("svg.sign.info", {viewBox: "0 0 16 16", width: 14, height: 14, role: "img", "aria-label": "note"},
      s("circle", {cx: 8, cy: 8, r: 6.2, fill: "none", stroke: "currentColor", "stroke-width": 1.6}), s("path", {d: "M8 7.4v4M8 4.8v.2", stroke: "currentColor", "stroke-width": 1.8}))
    default: return s("svg.sign.well", {viewBox: "0 0 16 16", width: 14, height: 14, role: "img", "aria-label": "well"},
      s("path", {d: "M3 8.4 6.5 12 13 4.6", fill: "none", stroke: "currentColor", "stroke-width": 2}))
  }
}

// shapes of network marks. The position of a network among all networks decides its shape and colour everywhere.
const shapes = [
  () => s("circle", {cx: 5, cy: 5, r: 4}),
  () => s("rect", {x: 1.4, y: 1.4, width: 7.2, height: 7.2}),
  () => s("path", {d: "M5 .4 9.6 5 5 9.6 .4 5z"}),
  () => s("path", {d: "M5 .8 9.4 8.6H.6z"}),
  () => s("path", {d: "M3 .9h4L9.2 5 7 9.1H3L.8 5z"}),
  () => s("path", {d: "M3.4 .8h3.2v2.6h2.6v3.2H6.6v2.6H3.4V6.6H.8V3.4h2.6z"}),
  () => s("path", {d: "M.8 1.4h8.4L5 9.2z"}),
  () => s("path", {d: "M5 1.2a3.8 3.8 0 1 0 .01 0zM5 3.6a1.4 1.4 0 1 1-.01 0z", "fill-rule": "evenodd"}),
]

export const colours = shapes.length

// mark draws the mark of a network.
export function mark(colour, size = 10) {
  return s("svg.mark", {viewBox: "0 0 10 10", width: size, height: size, "aria-hidden": "true", "data-net": colour % colours}, shapes[colour % colours]())
}
