// Controls of the run: pause, resume, stop, retry, settings. Events are delegated, because updates replace the buttons.

import { announce, post } from "./requests.js";

async function send(controls, body) {
  const answer = controls.querySelector(".answer");
  answer.textContent = "…";
  try {
    const control = await post(controls.dataset.controls, body);
    answer.textContent = control.outcome;
  } catch (error) {
    answer.textContent = error.message;
  }
  announce(answer.textContent);
}

export function wireControls(live) {
  live.addEventListener("click", (event) => {
    const button = event.target.closest("[data-controls] [data-action]");
    if (button) send(button.closest("[data-controls]"), { action: button.dataset.action });
  });
  live.addEventListener("submit", (event) => {
    const form = event.target.closest("[data-controls] form");
    if (!form) return;
    event.preventDefault();
    const values = new FormData(form);
    send(form.closest("[data-controls]"), { action: "set", settings: [`${values.get("name")}=${values.get("value")}`] });
  });
}
