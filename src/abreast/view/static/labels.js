// Labelling of answers, one case after the other. Keys label the first answer that has no label yet, or the chosen one.

import { morph } from "./morph.js";
import { announce, get, post } from "./requests.js";
import { pressKey, rememberAuthor } from "./trial.js";

const root = document.getElementById("labelling");
const problem = document.createElement("p");
problem.className = "flag";
problem.setAttribute("role", "alert");
problem.hidden = true;
root?.after(problem);
let isBusy = false; // a label is being stored or a case loaded: keys would act on the previous case
let chosen = null; // the token and dimension of the question that keys answer, if one was chosen

function questions() {
  return [...root.querySelectorAll("form[data-token]")];
}

function id(form) {
  return `${form.dataset.token} ${form.dataset.dimension}`;
}

function current() {
  const all = questions();
  return all.find((form) => id(form) === chosen) ?? all.find((form) => "open" in form.dataset) ?? all[0];
}

function mark() {
  const now = current();
  for (const form of questions()) form.toggleAttribute("data-current", form === now);
}

function report(message) {
  problem.textContent = message;
  problem.hidden = !message;
}

async function go(path, isBack) {
  isBusy = true;
  try {
    await load(path, isBack);
  } finally {
    isBusy = false;
  }
}

async function load(path, isBack) {
  let html;
  try {
    html = await get(`${path}${path.includes("?") ? "&" : "?"}part=1`);
  } catch (error) {
    report(error.message);
    return;
  }
  report("");
  chosen = null;
  root.replaceChildren();
  morph(root, html);
  mark();
  if (!isBack) history.pushState(null, "", path);
  announce(root.querySelector("article")?.getAttribute("aria-label") ?? "");
}

async function label(form, value, withNote) {
  if (isBusy) return;
  isBusy = true;
  try {
    await store(form, value, withNote);
  } finally {
    isBusy = false;
  }
}

async function store(form, value, withNote) {
  const token = form.dataset.token;
  const note = root.querySelector(`[data-note="${CSS.escape(token)}"]`);
  const body = {
    item: Number(root.querySelector("article").dataset.item),
    token,
    dimension: form.dataset.dimension,
    value,
    note: note.value,
    by: root.dataset.by,
    names: "names" in root.dataset,
  };
  let stored;
  try {
    stored = await post(root.dataset.labels, body);
  } catch (error) {
    report(error.message);
    return;
  }
  report("");
  chosen = null;
  if (stored.is_complete && stored.next && !withNote) {
    await load(stored.next);
    return;
  }
  if (document.activeElement === note) note.blur();
  morph(root, stored.html);
  mark();
  announce(stored.is_complete && !stored.next ? "All cases are labelled." : "stored");
}

function wire() {
  root.addEventListener("submit", (event) => {
    event.preventDefault();
    const typed = event.target.elements.value?.value;
    const value = event.submitter?.value || typed;
    if (value) label(event.target, value, false);
  });
  root.addEventListener("click", (event) => {
    const link = event.target.closest("a[data-go]");
    if (!link || event.ctrlKey || event.metaKey || event.shiftKey) return;
    event.preventDefault();
    go(link.getAttribute("href"));
  });
  root.addEventListener("focusin", (event) => {
    const form = event.target.closest(".answer-to-label")?.querySelector("form[data-token]");
    const own = event.target.closest("form[data-token]") ?? form;
    if (!own) return;
    chosen = id(own);
    mark();
  });
  root.addEventListener("change", (event) => {
    const note = event.target.closest("textarea[data-note]");
    if (!note) return;
    const form = root.querySelector(`form[data-token="${CSS.escape(note.dataset.note)}"]`);
    const pressed = form?.querySelector("button[aria-pressed=true]");
    if (pressed) label(form, pressed.value, true); // else the note is stored with the label
  });
  document.addEventListener("keydown", (event) => {
    if (event.key === "Escape" && event.target.matches("textarea, input")) event.target.blur();
    if (event.target.closest("input, textarea, select") || event.ctrlKey || event.metaKey || event.altKey) return;
    const form = current();
    const choice = form?.querySelector(`[data-choice="${CSS.escape(event.key.toLowerCase())}"]`);
    if (choice) {
      event.preventDefault();
      choice.click();
    } else if (event.key === "n" && form) {
      event.preventDefault();
      root.querySelector(`[data-note="${CSS.escape(form.dataset.token)}"]`)?.focus();
    } else pressKey(root, event);
  });
  addEventListener("popstate", () => go(location.pathname + location.search, true));
  rememberAuthor(root.dataset.by);
  mark();
}

if (root) wire();
