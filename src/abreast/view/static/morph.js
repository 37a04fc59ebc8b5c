// Updates an element to new HTML in place, so that focus, selection, scrolling and open details stay.

const parser = new DOMParser();

export function morph(element, html) {
  const fresh = parser.parseFromString(`<body>${html}</body>`, "text/html").body;
  morphChildren(element, fresh);
}

function morphChildren(element, fresh) {
  if (element.hasAttribute("data-keep")) return;
  const newNodes = [...fresh.childNodes];
  const moved = keepByKey(element, newNodes);
  newNodes.forEach((node, index) => {
    const current = element.childNodes[index];
    const own = moved.get(node.dataset?.key);
    if (own && own !== current) element.insertBefore(own, current);
    if (own) morphNode(own, node);
    else if (!current || moved.has(current.dataset?.key)) element.insertBefore(document.importNode(node, true), current ?? null);
    else if (isSame(current, node)) morphNode(current, node);
    else current.replaceWith(document.importNode(node, true));
  });
  while (element.childNodes.length > newNodes.length) element.lastChild.remove();
}

// Returns the children to keep, by key. Removes the others first, so that these need not move.
function keepByKey(element, newNodes) {
  const keys = new Set(newNodes.map((node) => node.dataset?.key).filter(Boolean));
  const stay = new Map();
  for (const child of [...element.children]) {
    const { key } = child.dataset;
    if (keys.has(key)) stay.set(key, child);
    else if (key) child.remove();
  }
  return stay;
}

function isSame(current, node) {
  if (current.nodeType !== node.nodeType || current.nodeName !== node.nodeName) return false;
  return current.nodeType !== Node.ELEMENT_NODE || current.dataset.key === node.dataset.key;
}

function morphNode(current, node) {
  if (current.nodeType !== Node.ELEMENT_NODE) {
    if (current.data !== node.data) current.data = node.data;
    return;
  }
  if (current.isEqualNode(node)) return;
  for (const { name } of [...current.attributes]) {
    const isState = name === "open" && current.nodeName === "DETAILS";
    if (!node.hasAttribute(name) && !isState) current.removeAttribute(name);
  }
  for (const { name, value } of node.attributes) {
    if (current.getAttribute(name) !== value) current.setAttribute(name, value);
  }
  if (current instanceof HTMLInputElement || current instanceof HTMLSelectElement) return; // the user's input
  morphChildren(current, node);
}
