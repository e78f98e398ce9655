// Ages count up, and exact times are in the person's zone, or in UTC.
const UNITS = [[86400, "d"], [3600, "h"], [60, "min"], [1, "s"]];
let utc = localStorage.getItem("headway.zone") === "utc";

function age(at) {
  const seconds = (Date.now() - at) / 1000;
  for (const [size, unit] of UNITS) {
    if (Math.abs(seconds) >= size) {
      const text = `${Math.floor(Math.abs(seconds) / size)} ${unit}`;
      return seconds > 0 ? `${text} ago` : `in ${text}`;
    }
  }
  return "now";
}

function exact(at) {
  const options = { dateStyle: "medium", timeStyle: "medium", ...(utc ? { timeZone: "UTC" } : {}) };
  return new Intl.DateTimeFormat(undefined, options).format(at) + (utc ? " UTC" : "");
}

function show(within) {
  for (const each of within.querySelectorAll("time[datetime]")) {
    const at = Date.parse(each.dateTime);
    if (Number.isNaN(at)) continue;
    const text = each.dataset.exact === undefined ? age(at) : exact(at);
    if (each.textContent !== text) each.textContent = text;
    const title = exact(at);
    if (each.title !== title) each.title = title;
  }
}

const button = document.getElementById("zone");
if (button) {
  const name = () => { button.textContent = utc ? "UTC" : "Local"; };
  button.hidden = false;
  button.addEventListener("click", () => {
    utc = !utc;
    localStorage.setItem("headway.zone", utc ? "utc" : "local");
    name();
    show(document);
  });
  name();
}
document.addEventListener("headway:changed", (event) => show(event.target));
show(document);
setInterval(() => { if (!document.hidden) show(document); }, 1000);
