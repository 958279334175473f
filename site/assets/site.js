// Search, versions, light and dark. Everything comes from this site.

const script = document.currentScript
const root = script.dataset.root, version = script.dataset.version

// Light or dark: as the system has it, until the reader chooses.
const saved = localStorage.getItem("theme")
if (saved) document.documentElement.dataset.theme = saved
document.getElementById("theme").addEventListener("click", () => {
  const dark = document.documentElement.dataset.theme ?? (matchMedia("(prefers-color-scheme: dark)").matches ? "dark" : "light")
  const next = dark === "dark" ? "light" : "dark"
  document.documentElement.dataset.theme = next
  localStorage.setItem("theme", next)
})

// Versions: a list beside the folders of all versions. Without it, there is one version only.
const versions = document.getElementById("versions")
fetch(root + "../versions.json").then(r => r.ok ? r.json() : []).catch(() => []).then(all => {
  if (all.length < 2) return
  for (const name of all) versions.add(new Option(name, name, name === version, name === version))
  versions.addEventListener("change", async () => {
    const same = `${root}../${versions.value}/${location.pathname.slice(root.length)}`
    const there = await fetch(same, {method: "HEAD"}).then(r => r.ok, () => false)
    location.href = there ? same : `${root}../${versions.value}/`
  })
  versions.parentElement.hidden = false
})

// What is too wide can be scrolled by keyboard, too.
for (const e of document.querySelectorAll("main pre")) e.tabIndex = 0

// Search: every word must be in a page. Words in the title count more than those in headings, and these more than text.
// Decisions and changes are history: other pages come first.
const input = document.getElementById("search"), results = document.getElementById("results")
let index

const words = text => text.toLowerCase().split(/[^\p{L}\p{N}_./:-]+/u).filter(Boolean)

function score(page, terms) {
  let total = 0
  for (const t of terms) {
    const points = (page.title.includes(t) ? 20 : 0) + (page.heads.includes(t) ? 6 : 0) + Math.min(4, page.text.split(t, 5).length - 1)
    if (!points) return 0
    total += points
  }
  return /\/(adr|changelog)\//.test(page.u) ? total / 4 : total
}

function find(text) {
  const terms = words(text)
  return index.map(page => [score(page, terms), page]).filter(([s]) => s > 0).sort((a, b) => b[0] - a[0]).slice(0, 12).map(([, page]) => {
    const head = page.h.find(h => terms.some(t => h.t.toLowerCase().includes(t)))
    const at = Math.max(0, page.text.indexOf(terms[0]) - 50)
    return {page, head, text: page.x.slice(at, at + 150)}
  })
}

function element(name, text, ...children) {
  const e = document.createElement(name)
  e.append(text, ...children)
  return e
}

async function show() {
  const text = input.value.trim()
  results.hidden = text.length < 2
  if (results.hidden) return results.replaceChildren()
  index ??= (await (await fetch(root + "index.json")).json()).map(p => (
    {...p, title: p.t.toLowerCase(), heads: p.h.map(h => h.t).join(" ").toLowerCase(), text: p.x.toLowerCase()}))
  if (text !== input.value.trim()) return
  const found = find(text).map(({page, head, text}) => {
    const a = element("a", element("b", page.t), head ? ` › ${head.t}` : "", element("small", text))
    a.href = page.u + (head ? "#" + head.i : "")
    return a
  })
  results.replaceChildren(...(found.length ? found : [element("p", "No page has all of these words.")]))
}

input.addEventListener("input", show)
document.addEventListener("keydown", e => {
  if (e.key === "/" && document.activeElement !== input) { e.preventDefault(); input.focus() }
  if (e.key === "Escape") { results.hidden = true; input.blur() }
  const step = {ArrowDown: 1, ArrowUp: -1}[e.key]
  if (!step || !e.target.closest(".search")) return
  e.preventDefault()
  const all = [input, ...results.querySelectorAll("a")]
  all[Math.min(all.length - 1, Math.max(0, all.indexOf(document.activeElement) + step))].focus()
})
document.addEventListener("click", e => { if (!e.target.closest(".search")) results.hidden = true })
