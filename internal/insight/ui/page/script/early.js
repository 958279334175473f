// The theme, before anything is drawn: a page that is light for a moment hurts at night.
(() => {
  let chosen = null
  try { chosen = localStorage.getItem("theme") } catch { /* nothing is remembered */ }
  if (chosen === "light" || chosen === "dark") document.documentElement.dataset.theme = chosen
})()
