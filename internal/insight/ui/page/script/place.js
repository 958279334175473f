// The place in the page: the fragment of its URL. It works with bookmarks, shared links and the back button.

import {h} from "./element.js"
import {kindOf, nameOf} from "./words.js"

const part = text => encodeURIComponent(text).replaceAll("%3A", ":")

// addressOf returns the URL of an object's panel.
export const addressOf = ref => "#" + ["object", ref.kind, ...(ref.namespace ? [ref.namespace] : []), ref.name].map(part).join("/")

// traceAddress returns the URL of a trace.
export const traceAddress = query => "#trace?" + new URLSearchParams(Object.entries(query).filter(([, v]) => v))

// read parses a URL.
export function read(hash = location.hash) {
  const [path, query] = hash.replace(/^#/, "").split("?")
  const [view, ...rest] = path.split("/").map(decodeURIComponent)
  if (view === "object" && rest.length === 2) return {view, ref: {kind: rest[0], name: rest[1]}}
  if (view === "object" && rest.length === 3) return {view, ref: {kind: rest[0], namespace: rest[1], name: rest[2]}}
  if (view === "trace") return {view, query: Object.fromEntries(new URLSearchParams(query))}
  if (view === "findings") return {view}
  return {view: "map"}
}

export const go = address => { if (location.hash !== address) location.hash = address }

// leave closes the panel without scrolling to the top of the page.
export function leave() {
  history.pushState(null, "", location.pathname)
  dispatchEvent(new HashChangeEvent("hashchange"))
}

// link creates a link to an object.
export const link = (ref, text) => h("a.ref", {href: addressOf(ref), title: `${kindOf(ref)} ${nameOf(ref)}`}, text ?? nameOf(ref))
