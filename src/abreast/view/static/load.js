// Parts of a page that are loaded after it: `<section data-load=URL>` at once, `<details data-load=URL>` when it opens.

import { morph } from "./morph.js";
import { get } from "./requests.js";

async function load(element) {
  const target = element.querySelector("[data-content]") ?? element;
  const address = element.dataset.load;
  delete element.dataset.load;
  try {
    morph(target, await get(address));
  } catch (error) {
    element.dataset.load = address; // opening it again tries again
    const message = document.createElement("p");
    message.className = "flag";
    message.textContent = error.message;
    target.replaceChildren(message);
  }
  element.removeAttribute("aria-busy");
  wire(target);
}

function wire(root) {
  for (const element of root.querySelectorAll("section[data-load]")) load(element);
}

document.addEventListener("toggle", ({ target }) => {
  if (target.open && target.dataset.load) load(target);
}, true);
wire(document);
