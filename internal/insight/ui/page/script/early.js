// Sets the theme before anything is drawn, so that a dark page does not flash in light colours.
(() => {
  let chosen = null
  try { chosen = localStorage.getItem("theme") } catch { /* no storage */ }
  if (chosen === "light" || chosen === "dark") document.documentElement.dataset.theme = chosen
})()
