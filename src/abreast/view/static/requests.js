// Requests to the server, and announcements to screen readers.

async function send(path, options) {
  let response;
  try {
    response = await fetch(path, options);
  } catch (error) {
    if (error.name === "AbortError") throw error;
    throw new Error("no connection to `abreast view`");
  }
  const text = await response.text();
  if (!response.ok) throw new Error(explanation(text));
  return text;
}

function explanation(text) {
  try {
    const { message, fix } = JSON.parse(text);
    return [message, fix].filter(Boolean).join("; ");
  } catch {
    return text.trim();
  }
}

export function get(path, signal) {
  return send(path, { signal });
}

export async function post(path, body) {
  const headers = { "Content-Type": "application/json" };
  return JSON.parse(await send(path, { method: "POST", headers, body: JSON.stringify(body) }));
}

export function announce(text) {
  document.getElementById("announcer").textContent = text;
}
