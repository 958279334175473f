// The server: requests documents and listens to events. Unchanged documents are not sent again.

const kept = new Map() // address → {tag, value}

// ask requests a document. Only the newest document of each path is cached.
export async function ask(path, params) {
  const query = new URLSearchParams(Object.entries(params ?? {}).filter(([, v]) => v !== undefined && v !== ""))
  const address = query.size ? `${path}?${query}` : path
  const known = kept.get(address)
  let answer
  try {
    answer = await fetch(address, {headers: known ? {"If-None-Match": known.tag} : {}, cache: "no-store"})
  } catch {
    throw new Error("sallyport ui does not answer any more; start it again where it ran")
  }
  if (answer.status === 304) return known.value
  const value = await answer.json()
  if (!answer.ok) throw new Error(value.error ?? answer.statusText)
  const tag = answer.headers.get("ETag")
  if (tag) {
    if (kept.size > 50) kept.delete(kept.keys().next().value)
    kept.set(address, {tag, value})
  }
  return value
}

// listen calls back with each status, and with nothing while the server does not respond.
export function listen(heard) {
  const source = new EventSource("api/events")
  source.onmessage = e => heard(JSON.parse(e.data))
  source.onerror = () => heard(null)
  return source
}
