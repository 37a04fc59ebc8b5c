// Requests that change something, and what screen readers are told.

export async function post(path, body) {
  let response;
  try {
    response = await fetch(path, {
      method: "POST",
      headers: { "Content-Type": "application/json" },
      body: JSON.stringify(body),
    });
  } catch {
    throw new Error("no connection to `abreast view`");
  }
  const text = await response.text();
  let answer;
  try {
    answer = JSON.parse(text);
  } catch {
    answer = { message: text.trim() };
  }
  if (!response.ok) throw new Error([answer.message, answer.fix].filter(Boolean).join("; "));
  return answer;
}

export function announce(text) {
  document.getElementById("announcer").textContent = text;
}
