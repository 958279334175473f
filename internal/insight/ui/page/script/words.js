// Words: objects, addresses and times as text.

// kinds are the display names of kinds.
const kinds = {
  Project: "project", Vpc: "VPC", EIp: "external IP", FIp: "floating IP", Service: "load balancer", EgressIP: "egress IP", EgressRoute: "egress route",
  EgressService: "egress service", ExternalNetwork: "network", Subnet: "subnet", Node: "node", Pod: "pod", Gateway: "gateway", Backend: "backend",
  NodePath: "node path", Router: "router", Network: "network", Cluster: "cluster", OvnEip: "OVN address", Address: "address", NetworkPolicy: "network policy",
}

export const kindOf = ref => kinds[ref.kind] ?? ref.kind

// nameOf returns the name with its namespace.
export const nameOf = ref => ref.namespace ? `${ref.namespace}/${ref.name}` : ref.name

// key returns a unique text for an object.
export const key = ref => `${ref.kind}/${ref.namespace ?? ""}/${ref.name}`

export const same = (a, b) => a && b && key(a) === key(b)

// count returns a number with its noun.
export const count = (n, one, many = one + "s") => `${n.toLocaleString("en")} ${n === 1 ? one : many}`

// clock returns the time of day, with the date if it is not today.
export function clock(time, now = new Date()) {
  const t = new Date(time)
  const day = t.toDateString() === now.toDateString() ? "" : t.toLocaleDateString("en", {day: "numeric", month: "short", year: "numeric"}) + " "
  return day + t.toLocaleTimeString("en", {hour12: false})
}

// ago returns the time since an event as text.
export function ago(time, now = new Date()) {
  const s = Math.max(0, Math.round((now - new Date(time)) / 1000))
  if (s < 60) return `${s} s ago`
  if (s < 3600) return `${Math.floor(s / 60)} min ago`
  if (s < 172800) return `${Math.floor(s / 3600)} h ago`
  return `${Math.floor(s / 86400)} days ago`
}

// capital returns a text with a capital first letter.
export const capital = text => text ? text[0].toUpperCase() + text.slice(1) : text

const severities = ["", "info", "warning", "error"]
export const rank = severity => severities.indexOf(severity ?? "")
export const worst = problems => (problems ?? []).reduce((w, p) => rank(p.severity) > rank(w) ? p.severity : w, "")
