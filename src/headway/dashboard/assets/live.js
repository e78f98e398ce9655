// Keeps the page true: one stream for this tab. Parts change in place; new rows are announced, not pushed in.
const state = document.getElementById("live-state");
const parts = document.querySelectorAll('[id^="live_"]');
const held = new Map(); // part id -> html that waits until the person has finished reading
let source = null;
let quietUntil = 0;

function say(name, text) {
  state.hidden = false;
  state.dataset.state = name;
  state.firstElementChild.textContent = text;
}

function busy() {
  const at = document.activeElement;
  if (at && at.matches("input:not([type=checkbox]), textarea, select") && at.closest('[id^="live_"]')) return true;
  const selection = getSelection();
  if (selection && !selection.isCollapsed) return true;
  return Date.now() < quietUntil || document.querySelector("dialog[open]") !== null;
}

function sameKind(a, b) {
  return a.nodeType === b.nodeType && a.nodeName === b.nodeName && (a.nodeType !== 1 || key(a) === key(b));
}
const key = (node) => (node.nodeType === 1 ? node.dataset.key ?? node.id ?? "" : "");

// Makes `old` equal to `next` with as few changes as possible: focus, open parts, ticks and scrolling stay.
function morph(old, next) {
  if (old.nodeType !== 1) {
    if (old.nodeValue !== next.nodeValue) old.nodeValue = next.nodeValue;
    return;
  }
  for (const { name } of [...old.attributes]) {
    if (!next.hasAttribute(name) && !(name === "open" && old.nodeName === "DETAILS") && name !== "aria-selected") old.removeAttribute(name);
  }
  for (const { name, value } of next.attributes) if (old.getAttribute(name) !== value) old.setAttribute(name, value);
  if (old.nodeName === "TIME" || old.nodeName === "INPUT" || old.nodeName === "TEXTAREA") return;
  const known = new Map();
  for (const child of old.children) if (child.dataset.key) known.set(child.dataset.key, child);
  let at = old.firstChild;
  for (const wanted of [...next.childNodes]) {
    const keyed = wanted.nodeType === 1 && wanted.dataset.key ? known.get(wanted.dataset.key) : undefined;
    if (keyed) {
      if (keyed !== at) old.insertBefore(keyed, at);
      else at = at.nextSibling;
      morph(keyed, wanted);
    } else if (at && sameKind(at, wanted) && !(at.nodeType === 1 && at.dataset.key)) {
      const current = at;
      at = at.nextSibling;
      morph(current, wanted);
    } else {
      old.insertBefore(wanted, at);
    }
  }
  while (at) {
    const gone = at;
    at = at.nextSibling;
    gone.remove();
  }
}

// Columns keep their widths while rows change in place: nothing that one reads moves.
function keepColumns(part) {
  for (const table of part.querySelectorAll("table")) {
    if (table.style.tableLayout || getComputedStyle(table).display !== "table") continue;
    for (const [cell, width] of [...(table.tHead?.rows[0]?.cells ?? [])].map((each) => [each, each.getBoundingClientRect().width])) cell.style.width = `${width}px`;
    table.style.tableLayout = "fixed";
  }
}

function freeColumns(within) {
  for (const table of within.querySelectorAll("table")) {
    table.style.tableLayout = "";
    for (const cell of table.tHead?.rows[0]?.cells ?? []) cell.style.width = "";
  }
}

// A list whose new rows come on top: those that are here change in place, the others are counted.
function announce(part, next) {
  const here = new Map([...part.querySelectorAll("tr[data-key]")].map((row) => [row.dataset.key, row]));
  const rows = [...next.querySelectorAll("tr[data-key]")];
  if (!here.size || !rows.length) return false;
  keepColumns(part);
  let fresh = 0;
  for (const row of rows) {
    const known = here.get(row.dataset.key);
    if (known) morph(known, row);
    else fresh += 1;
  }
  let button = part.querySelector(".news");
  if (!fresh) { button?.remove(); return true; }
  if (!button) {
    button = document.createElement("button");
    button.type = "button";
    button.className = "news";
    button.addEventListener("click", () => {
      button.remove();
      const html = part.latest;
      if (html) put(part, html, true);
    });
    part.prepend(button);
  }
  const text = fresh === rows.length ? `${fresh}+ new` : `${fresh} new`;
  if (button.textContent !== text) button.textContent = text;
  return true;
}

function put(part, html, whole) {
  const next = part.cloneNode(false);
  next.innerHTML = html;
  part.latest = html;
  if (whole) freeColumns(part);
  if (whole || part.dataset.announce !== "1" || !announce(part, next)) morph(part, next);
  part.dispatchEvent(new CustomEvent("headway:changed", { bubbles: true }));
}

function apply() {
  if (busy()) return say("paused", "Paused");
  for (const [id, html] of held) {
    const part = document.getElementById(id);
    if (part) put(part, html, false);
  }
  held.clear();
  say("live", "Live");
}

function open() {
  if (source || document.hidden) return;
  const of = document.body.dataset.path + location.search;
  source = new EventSource(`${document.body.dataset.base}/live?of=${encodeURIComponent(of)}`);
  source.addEventListener("open", () => say("live", "Live"));
  source.addEventListener("part", (event) => {
    const { id, html } = JSON.parse(event.data);
    held.set(id, html);
    apply();
  });
  source.addEventListener("error", () => say("away", "Away"));
}

function close() {
  source?.close();
  source = null;
  say("paused", "Paused");
}

if (state && parts.length && "EventSource" in window) {
  addEventListener("scroll", () => { quietUntil = Date.now() + 800; }, { passive: true });
  addEventListener("resize", () => freeColumns(document));
  addEventListener("input", () => { quietUntil = Date.now() + 2000; });
  document.addEventListener("visibilitychange", () => (document.hidden ? close() : open()));
  addEventListener("pagehide", close);
  setInterval(() => { if (held.size) apply(); }, 500);
  open();
}
