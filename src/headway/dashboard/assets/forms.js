// Forms show what they will do while one types; and fold what is left to do without scripts.
for (const form of document.querySelectorAll("form[data-preview]")) {
  const shown = document.getElementById(form.dataset.preview);
  let asked = 0;
  let later;

  async function preview() {
    const turn = ++asked;
    const body = new URLSearchParams(new FormData(form));
    body.set("do", "preview");
    const answer = await fetch(form.action, { method: "POST", body, headers: { "X-Headway-Part": "1" } });
    if (turn !== asked || !answer.ok || answer.redirected) return; // a newer one is on its way
    shown.innerHTML = await answer.text();
    shown.dispatchEvent(new CustomEvent("headway:changed", { bubbles: true }));
  }

  form.addEventListener("input", () => {
    clearTimeout(later);
    later = setTimeout(preview, 250);
  });
}
