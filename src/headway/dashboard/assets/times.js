// Ages count up, and exact times are in the person's zone, or in UTC.
const UNITS = [[86400, "d"], [3600, "h"], [60, "min"], [1, "s"]];
const FORMS = {
  clock: { hour: "2-digit", minute: "2-digit", hourCycle: "h23" },
  minute: { day: "2-digit", month: "short", hour: "2-digit", minute: "2-digit", hourCycle: "h23" },
  day: { day: "2-digit", month: "short" },
  exact: { dateStyle: "medium", timeStyle: "medium" },
};
let utc = localStorage.getItem("headway.zone") === "utc";
let made = {}; // making a formatter costs far more than using it

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

function written(at, form) {
  made[form] ??= new Intl.DateTimeFormat(undefined, { ...FORMS[form], ...(utc ? { timeZone: "UTC" } : {}) });
  return made[form].format(at) + (utc && form !== "day" ? " UTC" : "");
}

function put(element, name, text) {
  if (element[name] !== text) element[name] = text;
}

function show(within) {
  for (const each of within.querySelectorAll("time[datetime]")) {
    const at = Date.parse(each.dateTime);
    if (Number.isNaN(at)) continue;
    const form = each.dataset.exact === undefined ? each.dataset.form : "exact";
    put(each, "textContent", form ? written(at, form) : age(at));
    put(each, "title", written(at, "exact"));
  }
}

// The times of charts: they stand still, and there are hundreds in the tables behind them.
function showCharts(within) {
  for (const each of within.querySelectorAll("[data-at]")) {
    const text = written(Date.parse(each.dataset.at), each.dataset.form ?? "minute");
    put(each, "textContent", each.closest("svg") ? text.replace(" UTC", "") : text);
  }
}

const button = document.getElementById("zone");
if (button) {
  const name = () => { button.textContent = utc ? "UTC" : "Local"; };
  button.hidden = false;
  button.addEventListener("click", () => {
    utc = !utc;
    made = {};
    localStorage.setItem("headway.zone", utc ? "utc" : "local");
    name();
    show(document);
    showCharts(document);
  });
  name();
}
document.addEventListener("headway:changed", (event) => { show(event.target); showCharts(event.target); });
show(document);
showCharts(document);
setInterval(() => { if (!document.hidden) show(document); }, 1000);
