// The server-sent events of a page while it is visible: browsers allow six connections to a server, for all tabs.

const connection = document.querySelector(".connection");
let source = null;
let path = "";
let revision = ""; // of the store, up to which the page is complete
let update = null;

export function follow(address, receive) {
  path = address;
  revision = "";
  update = receive;
  connect();
}

function connect() {
  source?.close();
  source = null;
  if (document.hidden) return;
  const address = new URL(path, location);
  if (revision) address.searchParams.set("since", revision);
  const opened = (source = new EventSource(address));
  opened.addEventListener("open", () => { connection.hidden = true; });
  opened.addEventListener("sections", (event) => {
    revision = event.lastEventId;
    update(JSON.parse(event.data));
  });
  opened.addEventListener("error", () => {
    if (opened !== source) return;
    connection.hidden = false;
    if (opened.readyState === EventSource.CLOSED) setTimeout(() => location.reload(), 5000);
  });
}

document.addEventListener("visibilitychange", connect);
addEventListener("pagehide", () => source?.close());
addEventListener("pageshow", (event) => { if (event.persisted) location.reload(); });
