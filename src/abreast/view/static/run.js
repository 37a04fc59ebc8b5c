// The page of a run: sections arrive as server-sent events.

import { wireControls } from "./controls.js";
import { morph } from "./morph.js";
import { announce } from "./requests.js";

const live = document.getElementById("live");
const connection = live.querySelector(".connection");
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

function follow() {
  const source = new EventSource(live.dataset.stream);
  source.addEventListener("open", () => { connection.hidden = true; });
  source.addEventListener("sections", (event) => update(JSON.parse(event.data)));
  source.addEventListener("error", () => {
    connection.hidden = false;
    if (source.readyState === EventSource.CLOSED) setTimeout(() => location.reload(), 5000);
  });
  addEventListener("pagehide", () => source.close());
  addEventListener("pageshow", (event) => { if (event.persisted) location.reload(); });
}

wireControls(live);
follow();
