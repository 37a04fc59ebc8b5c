// The filters of the grid: their form, and their part of the address.

import { morph } from "./morph.js";

const NAMES = ["q", "tag", "status", "winner", "error", "score", "sort"];
const parser = new DOMParser();

export function selection(search) {
  const all = new URLSearchParams(search);
  return new URLSearchParams(NAMES.flatMap((name) => (all.get(name) ? [[name, all.get(name)]] : []))).toString();
}

export function setFilters(form, query) {
  const values = new URLSearchParams(query);
  for (const name of NAMES) if (form.elements[name]) form.elements[name].value = values.get(name) ?? "";
}

// Adds choices that the run has gained since, and keeps what the user is typing.
export function showFilters(form, html) {
  if (form.source === html) return;
  form.source = html;
  if (!form.elements.length) {
    morph(form, html);
    return;
  }
  const fresh = parser.parseFromString(html, "text/html").body;
  for (const select of fresh.querySelectorAll("select")) {
    const current = form.elements[select.name];
    current.closest("label").hidden = select.closest("label").hidden;
    if (current.length === select.length) continue;
    const { value } = current;
    current.replaceChildren(...[...select.options].map((option) => document.adoptNode(option)));
    current.value = value;
  }
  const clear = form.querySelector(".clear");
  clear.hidden = fresh.querySelector(".clear").hidden;
  clear.href = fresh.querySelector(".clear").getAttribute("href");
}
