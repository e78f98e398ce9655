// Before the page is painted: the theme that this person chose, and that scripts run.
(() => {
  const root = document.documentElement;
  root.classList.add("scripted");
  const chosen = localStorage.getItem("headway.theme");
  if (chosen === "light" || chosen === "dark") root.dataset.theme = chosen;
  addEventListener("DOMContentLoaded", () => {
    const button = document.getElementById("theme");
    if (!button) return;
    button.hidden = false;
    button.addEventListener("click", () => {
      const dark = root.dataset.theme ? root.dataset.theme === "dark" : matchMedia("(prefers-color-scheme: dark)").matches;
      root.dataset.theme = dark ? "light" : "dark";
      localStorage.setItem("headway.theme", root.dataset.theme);
    });
  });
})();
