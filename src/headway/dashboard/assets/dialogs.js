// What an action will do is asked in a dialog; without scripts the same question is a page.
const dialog = document.getElementById("dialog");

addEventListener("click", async (event) => {
  const link = event.target.closest?.("a[data-dialog]");
  if (!link || !dialog || event.ctrlKey || event.metaKey || event.shiftKey) return;
  event.preventDefault();
  const answer = await fetch(link.href, { headers: { "X-Headway-Part": "1" } });
  if (answer.redirected) return location.assign(link.href);
  dialog.innerHTML = await answer.text();
  dialog.showModal();
  (dialog.querySelector("[autofocus]") ?? dialog.querySelector("button"))?.focus();
});

addEventListener("click", (event) => {
  if (event.target.closest?.("[data-close]")) {
    event.preventDefault();
    event.target.closest("dialog")?.close();
  }
});
