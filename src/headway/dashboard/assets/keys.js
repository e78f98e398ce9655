// The keyboard, and the copy buttons.
const GO = { o: "/", j: "/jobs", q: "/queues", t: "/trains", w: "/workers" };
let going = 0;

const rows = () => [...document.querySelectorAll("tbody tr[data-key]")];
const selected = () => document.querySelector('tr[aria-selected="true"]');

function select(step) {
  const all = rows();
  if (!all.length) return;
  const at = all.indexOf(selected());
  choose(all[Math.max(0, Math.min(all.length - 1, at + step))]);
}

// The selected row is in the address, so that a link shows somebody else the same.
function choose(row) {
  selected()?.removeAttribute("aria-selected");
  row.setAttribute("aria-selected", "true");
  row.scrollIntoView({ block: "nearest" });
  history.replaceState(history.state, "", `#row=${encodeURIComponent(row.dataset.key)}`);
}

function chooseNamed() {
  if (!location.hash.startsWith("#row=")) return;
  const name = decodeURIComponent(location.hash.slice(5));
  const row = rows().find((each) => each.dataset.key === name);
  if (row) choose(row);
}
chooseNamed();
addEventListener("hashchange", chooseNamed);

addEventListener("keydown", (event) => {
  if (event.ctrlKey || event.metaKey || event.altKey) return;
  const at = event.target;
  if (at.matches?.("input:not([type=checkbox]), textarea, select")) {
    if (event.key === "Escape") at.blur();
    return;
  }
  if (document.querySelector("dialog[open]")) return;
  if (Date.now() - going < 1000 && GO[event.key]) {
    going = 0;
    location.assign(document.body.dataset.base + GO[event.key]);
  } else if (event.key === "/") {
    event.preventDefault();
    document.getElementById("search")?.focus();
  } else if (event.key === "?") {
    document.getElementById("help")?.showModal();
  } else if (event.key === "g") {
    going = Date.now();
  } else if (event.key === "j") {
    select(1);
  } else if (event.key === "k") {
    select(-1);
  } else if (event.key === "x") {
    selected()?.querySelector("input[type=checkbox]")?.click();
  } else if (event.key === "Enter" && (at === document.body || at.closest("tr"))) {
    selected()?.querySelector("[data-open]")?.click();
  }
});

addEventListener("click", (event) => {
  const row = event.target.closest?.("tbody tr[data-key]");
  if (row && !event.target.closest("a, button, input, summary, label") && getSelection().isCollapsed) choose(row);
});

addEventListener("click", async (event) => {
  const button = event.target.closest?.("[data-copy]");
  if (!button) return;
  await navigator.clipboard.writeText(button.dataset.copy);
  const before = button.title;
  button.title = "Copied";
  button.setAttribute("aria-label", "Copied");
  setTimeout(() => { button.title = before; button.removeAttribute("aria-label"); }, 1500);
});
