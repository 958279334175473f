// The state of the data: live, from a file, or out of date because the cluster or the server does not respond.

import {h} from "./element.js"
import {severity} from "./icon.js"
import {ago, capital, clock} from "./words.js"

export class Live {
  constructor(live, notice) {
    Object.assign(this, {live, notice, status: null, lost: null})
    setInterval(() => this.draw(), 1000)
  }

  // hear handles a new status. Without one, the server does not respond.
  hear(status) {
    if (status) Object.assign(this, {status, lost: null})
    else this.lost ??= new Date()
    this.draw()
  }

  draw() {
    const {tone, text, title, notice} = this.words()
    const said = JSON.stringify([tone, text, notice])
    if (said !== this.said) {
      this.said = said
      this.live.className = `live ${tone}`
      this.live.title = title ?? ""
      this.live.replaceChildren(h("span.lamp", {"aria-hidden": "true"}), h("span", {}, text))
      this.tell(notice, tone)
    }
    if (this.age) this.age.textContent = ago(notice.since) // outside the alert: screen readers do not announce it
  }

  tell(notice, tone) {
    this.notice.hidden = !notice
    this.age = notice?.since && h("span.age")
    this.notice.className = `notice ${tone}`
    this.notice.replaceChildren(...(notice ? [
      severity(tone === "old" ? "error" : "warning"),
      h("div", {role: "alert"}, h("p", {}, h("b", {}, notice.what)), notice.more && h("p", {}, notice.more), notice.next && h("p.next", {}, notice.next)),
      this.age ?? ""] : []))
  }

  words() {
    const {status: s, lost} = this
    const seen = s?.taken ? `What you see is the survey of ${clock(s.taken)}.` : ""
    if (lost) return {tone: "old", text: "Not connected", notice: {
      what: "sallyport ui does not answer any more.", more: seen, since: lost,
      next: "It may have been ended. Start it again where it ran; this page goes on by itself if the port is the same.",
    }}
    if (!s) return {tone: "wait", text: "Connecting"}
    if (s.problem) return {tone: "old", text: s.taken ? `As of ${clock(s.taken)}` : "No survey yet", notice: {
      what: `The cluster can't be reached since ${clock(s.since)}.`, more: [sentence(s.problem), seen].join(" "), since: s.since, next: "It is tried again all the time.",
    }}
    if (!s.taken) return {tone: "wait", text: "Reading the cluster"}
    if (s.unread?.length) return {tone: "partly", text: "Live, in part", notice: {
      what: `Not everything could be read: ${s.unread.map(u => u.system).join(", ")}.`, more: s.unread.map(u => sentence(u.problem)).join(" "),
    }}
    if (!s.every) return {tone: "file", text: `Survey of ${clock(s.taken)}`, title: "from a file: it does not change"}
    return {tone: "on", text: "Live", title: `The cluster is looked at every ${s.every} s; what you see is what it is.`}
  }
}

const sentence = text => capital(text).replace(/[.]?$/, ".")
