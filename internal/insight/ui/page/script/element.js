// Elements: the only way in which this page creates elements. Text is never parsed as HTML.

const svgSpace = "http://www.w3.org/2000/svg"

// h creates an HTML element: h("button.quiet", {onclick: go}, "Go").
export const h = (name, props, ...children) => fill(make(name, n => document.createElement(n)), props, children)

// s creates an SVG element.
export const s = (name, props, ...children) => fill(make(name, n => document.createElementNS(svgSpace, n)), props, children)

function make(name, create) {
  const [tag, ...classes] = name.split(".")
  const e = create(tag)
  if (classes.length) e.classList.add(...classes)
  return e
}

function fill(e, props, children) {
  for (const [key, value] of Object.entries(props ?? {})) {
    if (value === undefined || value === null || value === false) continue
    if (key.startsWith("on")) e.addEventListener(key.slice(2), value)
    else if (key === "class") e.classList.add(...value.split(" ").filter(Boolean))
    else if (key === "style") for (const [k, v] of Object.entries(value)) e.style.setProperty(k, v)
    else if (key === "data") Object.assign(e.dataset, value)
    else e.setAttribute(key, value === true ? "" : value)
  }
  e.append(...children.flat(Infinity).filter(c => c !== undefined && c !== null && c !== false && c !== ""))
  return e
}
