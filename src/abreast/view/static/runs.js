// The list of runs: filters and sorting are in the address, rows arrive as server-sent events.

import { morph } from "./morph.js";
import { announce, get, post } from "./requests.js";
import { follow } from "./stream.js";

const listing = document.querySelector('[data-section="listing"]');
const filters = document.getElementById("filters");
const compare = document.getElementById("compare");
const remove = document.getElementById("delete"); // missing in a read-only page
const unselect = document.getElementById("unselect");
const chosen = document.getElementById("chosen");
const hint = chosen.textContent;
const dialog = document.getElementById("deletion");
const selected = new Set();
let typing;

// -- rows ---------------------------------------------------------------------------------------------------------------

function load() {
  follow(`/stream${location.search}`, update);
}

function update(sections) {
  for (const [name, html] of Object.entries(sections)) {
    morph(document.querySelector(`[data-section="${CSS.escape(name)}"]`), html);
  }
  checkSelected();
}

// -- filters and sorting ------------------------------------------------------------------------------------------------

function go(address, isNew) {
  if (isNew) history.pushState(null, "", address);
  else history.replaceState(null, "", address);
  load();
}

function filtered() {
  const query = new URLSearchParams(new FormData(filters));
  for (const [name, value] of [...query]) if (!value) query.delete(name);
  return query.size ? `/?${query}` : "/";
}

function restore() {
  const query = new URLSearchParams(location.search);
  for (const field of filters.querySelectorAll("input, select")) field.value = query.get(field.name) ?? "";
  load();
}

filters.addEventListener("submit", (event) => { event.preventDefault(); go(filtered(), true); });
filters.addEventListener("change", (event) => { if (event.target.type !== "search") go(filtered(), true); });
filters.addEventListener("input", ({ target }) => {
  clearTimeout(typing);
  if (target.type === "search") typing = setTimeout(() => go(filtered(), false), 150);
});
addEventListener("popstate", restore);
listing.addEventListener("click", (event) => {
  const link = event.target.closest('a[href^="/?"], a[href="/"]');
  if (!link || event.ctrlKey || event.metaKey || event.shiftKey) return;
  event.preventDefault();
  history.pushState(null, "", link.href);
  restore();
});

// -- selection ----------------------------------------------------------------------------------------------------------

function checkSelected() {
  for (const box of listing.querySelectorAll('input[name="runs"]')) box.checked = selected.has(box.value);
}

function showSelection() {
  checkSelected();
  chosen.textContent = selected.size ? `${selected.size} selected: ${[...selected].join(", ")}` : hint;
  compare.disabled = selected.size < 2;
  if (remove) remove.disabled = !selected.size;
  unselect.hidden = !selected.size;
}

function selection() {
  return new URLSearchParams([...selected].map((run) => ["runs", run]));
}

listing.addEventListener("change", ({ target }) => {
  if (target.name !== "runs") return;
  if (target.checked) selected.add(target.value);
  else selected.delete(target.value);
  showSelection();
});
document.getElementById("selection").addEventListener("submit", (event) => {
  event.preventDefault();
  location.assign(`/compare?${selection()}`);
});
unselect.addEventListener("click", () => { selected.clear(); showSelection(); });

function say(message) {
  chosen.textContent = message;
  announce(message);
}

// -- deletion -----------------------------------------------------------------------------------------------------------

remove?.addEventListener("click", async () => {
  try {
    morph(document.getElementById("deletion-text"), await get(`/deletion?${selection()}`));
    dialog.showModal();
  } catch (error) {
    say(error.message);
  }
});
dialog.addEventListener("click", async ({ target }) => {
  if (target.closest("[data-close]")) dialog.close();
  if (!target.closest("[data-delete]")) return;
  target.disabled = true;
  const answer = dialog.querySelector(".answer");
  answer.textContent = "deleting …";
  try {
    const { lines } = await post("/deletion", { runs: [...selected] });
    selected.clear();
    showSelection();
    dialog.close();
    say(lines.join("; "));
  } catch (error) {
    answer.textContent = error.message;
    target.disabled = false;
  }
});

for (const box of listing.querySelectorAll('input[name="runs"]:checked')) selected.add(box.value);
showSelection();
load();
