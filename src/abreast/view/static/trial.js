// One trial, on its own page or in a panel: more of large texts, the conversation, another side to compare, labels.

import { morph } from "./morph.js";
import { announce, get, post } from "./requests.js";

const BLOCK = 20_000; // characters
const AUTHOR = "abreast-label-author"; // the labeller's name in the browser's storage

export function author() {
  try {
    return localStorage.getItem(AUTHOR) ?? "";
  } catch {
    return "";
  }
}

export function rememberAuthor(name) {
  try {
    localStorage.setItem(AUTHOR, name);
  } catch {
    // without storage, labels are attributed to the server's account
  }
}

// Blocks of text, so that the browser lays out only those in view; they end with lines where possible.
function blocks(text) {
  const fragment = document.createDocumentFragment();
  for (let start = 0; start < text.length; ) {
    const line = text.lastIndexOf("\n", start + BLOCK) + 1;
    const end = start + BLOCK >= text.length ? text.length : line > start ? line : start + BLOCK;
    const block = document.createElement("span");
    block.className = "block";
    block.textContent = text.slice(start, end);
    fragment.append(block);
    start = end;
  }
  return fragment;
}

async function showMore(button) {
  const line = button.closest("[data-text]");
  const text = line.parentElement.querySelector("pre");
  const isAll = button.dataset.more === "all";
  const progress = line.querySelector("[data-shown]");
  for (const control of line.querySelectorAll("button")) control.disabled = true;
  try {
    do {
      const piece = JSON.parse(await get(`${line.dataset.text}?from=${line.dataset.next}`));
      text.append(blocks(piece.text));
      line.dataset.next = piece.next ?? "";
      const share = piece.next === null ? 1 : piece.next / piece.size;
      progress.textContent = `${Math.floor(share * 100)} % shown`;
    } while (isAll && line.dataset.next && line.isConnected);
  } catch (error) {
    progress.textContent = error.message;
  }
  for (const control of line.querySelectorAll("button")) {
    control.disabled = false;
    control.hidden = !line.dataset.next;
  }
}

async function load(place) {
  place.setAttribute("aria-busy", "true");
  try {
    morph(place, await get(place.dataset.load));
  } catch (error) {
    place.textContent = error.message;
  }
  place.removeAttribute("aria-busy");
}

async function compareWith(root, link) {
  const separator = link.href.includes("?") ? "&" : "?";
  try {
    morph(root, await get(`${link.href}${separator}panel=1`));
    if (!root.closest("dialog")) history.replaceState(null, "", link.href);
    announce(`compared with ${link.dataset.with}`);
  } catch (error) {
    announce(error.message);
  }
}

async function label(form, opinion) {
  const answer = form.querySelector(".answer");
  const part = form.closest("[data-part=opinions]");
  answer.textContent = "";
  try {
    const stored = await post(form.dataset.label, { opinion, note: form.elements.note.value, by: author() });
    form.elements.note.blur();
    morph(part, stored.html);
    const done = part.querySelector(".labelling .answer");
    if (done) done.textContent = `stored: ${opinion}`;
    part.querySelector(`button[value="${CSS.escape(opinion)}"]`)?.focus({ preventScroll: true });
  } catch (error) {
    answer.textContent = error.message;
  }
}

export function pressKey(root, event) {
  if (event.target.closest("input, textarea, select") || event.ctrlKey || event.metaKey || event.altKey) return false;
  const target = root.querySelector(`[data-key="${CSS.escape(event.key.toLowerCase())}"]`);
  if (!target) return false;
  event.preventDefault();
  if (target.matches("button, a")) target.click();
  else target.focus();
  return true;
}

export function wireTrial(root) {
  root.addEventListener("click", (event) => {
    const button = event.target.closest("button");
    const link = event.target.closest("a[data-with]");
    if (button?.dataset.more) showMore(button);
    else if (button?.parentElement.dataset.load) load(button.parentElement);
    else if (link && !event.ctrlKey && !event.metaKey && !event.shiftKey) {
      event.preventDefault();
      compareWith(root, link);
    }
  });
  root.addEventListener("submit", (event) => {
    const form = event.target.closest("form[data-label]");
    if (!form) return;
    event.preventDefault();
    label(form, event.submitter.value);
  });
  const place = root.closest("dialog") ?? document;
  const listen = (event) => {
    if (!root.isConnected) place.removeEventListener("keydown", listen); // the panel shows another trial
    else pressKey(root, event);
  };
  place.addEventListener("keydown", listen);
}
