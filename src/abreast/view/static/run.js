// The page of a run: sections arrive as server-sent events.

import { wireControls } from "./controls.js";
import { morph } from "./morph.js";
import { announce } from "./requests.js";
import { follow } from "./stream.js";

const live = document.getElementById("live");
let sentence = headline();

function headline() {
  return live.querySelector(".sentence")?.textContent ?? "";
}

function update(sections) {
  for (const [name, html] of Object.entries(sections)) {
    const section = live.querySelector(`[data-section="${CSS.escape(name)}"]`);
    if (section) morph(section, html);
  }
  if (headline() !== sentence) {
    sentence = headline();
    announce(sentence);
  }
  document.dispatchEvent(new CustomEvent("rows-changed"));
}

wireControls(live);
follow(live.dataset.stream, update);
