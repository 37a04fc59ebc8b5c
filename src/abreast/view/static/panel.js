// The panel with one trial over the page of a run. The address contains the open trial: `trial=POSITION`.

import { morph } from "./morph.js";
import { get } from "./requests.js";
import { wireTrial } from "./trial.js";

const dialog = document.getElementById("trial-panel");
const content = dialog.querySelector("[data-part=content]");
const base = document.getElementById("cases").dataset.cases.replace(/cases$/, "trials");
let displayed = null;

function readPosition() {
  const position = new URLSearchParams(location.search).get("trial") ?? "";
  return /^\d+$/.test(position) ? position : null;
}

export function openTrial(position) {
  const url = new URL(location.href);
  url.searchParams.set("trial", position);
  const isNew = readPosition() === null;
  history[isNew ? "pushState" : "replaceState"]({ panel: isNew || history.state?.panel === true }, "", url);
  follow();
}

function close() {
  if (readPosition() === null) return;
  if (history.state?.panel) {
    history.back();
    return;
  }
  const url = new URL(location.href); // the page was opened with this trial
  url.searchParams.delete("trial");
  history.replaceState(null, "", url);
  follow();
}

async function follow() {
  const position = readPosition();
  if (position === displayed) return;
  displayed = position;
  if (position === null) {
    dialog.close();
    content.replaceChildren();
    return;
  }
  const page = `${base}/${position}`;
  dialog.querySelector("[data-part=page]").href = page;
  if (!dialog.open) dialog.showModal();
  content.setAttribute("aria-busy", "true");
  const root = document.createElement("div");
  try {
    morph(root, await get(`${page}?panel=1`));
  } catch (error) {
    root.textContent = error.message;
  }
  if (displayed !== position) return;
  content.removeAttribute("aria-busy");
  content.replaceChildren(root);
  content.scrollTop = 0;
  if (!dialog.contains(document.activeElement)) content.focus(); // it was on a part that was replaced
  wireTrial(root);
}

export function wirePanel(step) {
  document.addEventListener("click", (event) => {
    const link = event.target.closest("a[data-trial]");
    if (!link || event.button || event.ctrlKey || event.metaKey || event.shiftKey || event.altKey) return;
    event.preventDefault();
    openTrial(link.dataset.trial);
  });
  dialog.addEventListener("click", (event) => {
    const button = event.target.closest("button");
    if (event.target === dialog || button?.matches("[data-close]")) close();
    else if (button?.dataset.step) step(Number(button.dataset.step));
  });
  dialog.addEventListener("keydown", (event) => {
    if (event.target.closest("input, textarea, select") || event.ctrlKey || event.metaKey || event.altKey) return;
    const delta = { j: 1, k: -1 }[event.key];
    if (delta) step(delta);
  });
  dialog.addEventListener("close", close); // also by Escape
  addEventListener("popstate", follow);
  follow();
}
