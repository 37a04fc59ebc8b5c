// The grid of cases. The page holds the rows near the visible ones; the server sorts, filters and renders them.

import { selection, setFilters, showFilters } from "./filters.js";
import { morph } from "./morph.js";
import { openTrial, wirePanel } from "./panel.js";
import { announce, get } from "./requests.js";

const REFRESH_MS = 1000; // between two updates of a run in progress
const TYPING_MS = 300;
const TALLEST = 15_000_000; // pixels that every browser can scroll

const section = document.getElementById("cases");
const part = (name) => section.querySelector(`[data-part="${name}"]`);
const form = section.querySelector("form.filters");
const grid = section.querySelector(".case-grid");
const head = grid.querySelector(".grid-head");
const body = grid.querySelector(".grid-rows");
const parser = new DOMParser();

let query = selection(location.search);
let order = grid.dataset.order;
let total = Number(grid.dataset.total);
let rowHeight = 36;
let rows = new Map(); // by index
let active = { row: 0, column: 0 };
let seen = 0; // the first visible row
let direction = 0; // of scrolling
let loading = null;
let refreshed = 0;
let refreshing = 0;

// -- rows ------------------------------------------------------------------------------------------------------------

const reachable = () => Math.min(total, Math.floor(TALLEST / rowHeight));

function visible() {
  const first = Math.floor(grid.scrollTop / rowHeight);
  return { first, count: Math.ceil(grid.clientHeight / rowHeight) + 1 };
}

function place(row, index) {
  row.style.transform = `translateY(${index * rowHeight}px)`;
  for (const element of row.querySelectorAll("a, [role=gridcell]")) element.tabIndex = -1;
  if (index === active.row) target(row)?.setAttribute("tabindex", "0");
}

function target(row) {
  const cell = row.children[Math.min(active.column, row.children.length - 1)];
  return cell?.querySelector("a") ?? cell;
}

function show(html, first, [from, to]) {
  parser.parseFromString(html, "text/html").body.querySelectorAll(".grid-row").forEach((row, offset) => {
    const index = first + offset;
    const current = rows.get(index);
    const source = row.innerHTML;
    if (current?.dataset.key !== row.dataset.key) {
      current?.remove();
      rows.set(index, document.adoptNode(row));
    } else if (current.source !== source) {
      morph(current, source);
    } else {
      return;
    }
    rows.get(index).source = source;
    place(rows.get(index), index);
  });
  let before = null;
  for (const [index, row] of [...rows].sort((a, b) => b[0] - a[0])) {
    const isFar = index < from || index >= to;
    if (index >= total || (isFar && !row.contains(document.activeElement))) {
      row.remove();
      rows.delete(index);
      continue;
    }
    if (row.parentNode !== body) body.insertBefore(row, before);
    before = row;
  }
}

function apply(answer, range) {
  const isNew = answer.order !== order;
  order = answer.order;
  total = answer.total;
  if (isNew) {
    rows.forEach((row) => row.remove());
    rows = new Map();
  }
  if (head.source !== answer.parts.head) morph(head, answer.parts.head);
  head.source = answer.parts.head;
  part("summary").textContent = answer.summary;
  if (reachable() < total) part("summary").textContent += `; the first ${reachable().toLocaleString("en")} are listed`;
  part("sort-again").hidden = !answer.is_outdated;
  part("export").search = answer.query;
  part("empty").hidden = total > 0;
  if (!total) morph(part("empty"), answer.parts.empty);
  grid.hidden = !total;
  grid.setAttribute("aria-rowcount", total + 1);
  body.style.height = `${reachable() * rowHeight}px`;
  showFilters(form, answer.parts.filters);
  show(answer.parts.rows, answer.first, range);
  fit();
}

// Fixes the first column only if the others scroll sideways; otherwise it would slow down scrolling.
function fit() {
  const isSideways = grid.classList.toggle("sideways", grid.scrollWidth > grid.clientWidth);
  grid.style.scrollPaddingLeft = isSideways ? `${head.querySelector("[role=columnheader]").offsetWidth}px` : "";
}

// -- loading ---------------------------------------------------------------------------------------------------------

// Returns the range of rows to hold: the visible ones and more, mostly in the direction of scrolling.
function rangeToHold() {
  const { first, count } = visible();
  const from = Math.max(0, first - Math.ceil(count * (direction < 0 ? 2 : 1)));
  return [from, Math.min(order ? reachable() : Infinity, from + 4 * count)];
}

async function load(isRefresh = false) {
  loading?.abort();
  const request = (loading = new AbortController());
  const range = rangeToHold();
  let [from, to] = range;
  while (!isRefresh && order && from < to && rows.has(from)) from += 1;
  while (!isRefresh && order && from < to && rows.has(to - 1)) to -= 1;
  const values = new URLSearchParams(query);
  values.set("from", from);
  values.set("count", Math.max(1, to - from));
  if (order) values.set("order", order);
  try {
    const answer = JSON.parse(await get(`${section.dataset.cases}?${values}`, request.signal));
    if (request === loading) apply(answer, range);
  } catch (error) {
    if (error.name !== "AbortError") part("summary").textContent = error.message;
    return;
  } finally {
    if (request === loading) loading = null;
  }
  if (loading === null && isBlank()) await load();
}

function isBlank() {
  const { first, count } = visible();
  for (let index = first; index < Math.min(first + count, reachable()); index += 1) if (!rows.has(index)) return true;
  return false;
}

function scrolled() {
  const { first, count } = visible();
  direction = Math.sign(first - seen);
  seen = first;
  const above = Math.max(0, first - Math.ceil(count * (direction < 0 ? 1.5 : 0.5)));
  const below = Math.min(reachable(), first + Math.ceil(count * (direction < 0 ? 1.5 : 2.5))) - 1;
  if (total && loading === null && (!rows.has(above) || !rows.has(below))) load();
}

function refresh() {
  if (document.hidden || refreshing) return;
  const wait = Math.max(0, refreshed + REFRESH_MS - performance.now());
  refreshing = setTimeout(async () => {
    if (loading === null) await load(true);
    refreshing = 0;
    refreshed = performance.now();
  }, wait);
}

async function select(next, isStep) {
  if (next === query) return;
  query = next;
  const url = new URL(location.href);
  const { trial } = Object.fromEntries(url.searchParams);
  url.search = query;
  if (trial) url.searchParams.set("trial", trial);
  history[isStep ? "pushState" : "replaceState"](null, "", url);
  await reload();
  announce(part("summary").textContent);
}

async function reload() {
  setFilters(form, query);
  order = "";
  active.row = 0;
  grid.scrollTop = 0;
  await load();
}

// -- keyboard --------------------------------------------------------------------------------------------------------

async function move(row, column) {
  const last = Math.max(0, reachable() - 1);
  active = { row: Math.min(Math.max(row, 0), last), column: Math.min(Math.max(column, 0), columns() - 1) };
  const top = active.row * rowHeight;
  const room = grid.clientHeight - head.offsetHeight - rowHeight;
  if (top < grid.scrollTop) grid.scrollTop = top;
  else if (top > grid.scrollTop + room) grid.scrollTop = top - room;
  if (!rows.has(active.row)) await load();
  rows.forEach(place);
  return rows.get(active.row);
}

const columns = () => head.querySelectorAll("[role=columnheader]").length;

async function pressed(event) {
  if (event.ctrlKey !== (event.key === "Home" || event.key === "End") && event.ctrlKey) return;
  if (event.metaKey || event.altKey) return;
  const { row, column } = active;
  const page = Math.max(1, Math.floor((grid.clientHeight - head.offsetHeight) / rowHeight) - 1);
  const to = {
    ArrowUp: [row - 1, column],
    ArrowDown: [row + 1, column],
    ArrowLeft: [row, column - 1],
    ArrowRight: [row, column + 1],
    PageUp: [row - page, column],
    PageDown: [row + page, column],
    Home: [event.ctrlKey ? 0 : row, 0],
    End: [event.ctrlKey ? total - 1 : row, columns() - 1],
  }[event.key];
  if (to) {
    event.preventDefault();
    const reached = await move(...to);
    const cell = reached && target(reached);
    cell?.focus({ preventScroll: true });
    cell?.scrollIntoView({ block: "nearest", inline: "nearest" });
  } else if (event.key === "Enter" && !event.target.closest("a")) {
    openRow(event.target.closest(".grid-row"));
  }
}

function openRow(row) {
  const link = row && (target(row)?.closest("a[data-trial]") ?? row.querySelector("a[data-trial]"));
  if (link) openTrial(link.dataset.trial);
}

async function step(delta) {
  const row = await move(active.row + delta, active.column);
  openRow(row);
}

function remember(event) {
  const row = event.target.closest(".grid-row");
  const index = Number(row?.getAttribute("aria-rowindex")) - 2;
  if (!row || !rows.has(index)) return;
  const cell = event.target.closest("[aria-colindex]");
  active = { row: index, column: cell ? Number(cell.getAttribute("aria-colindex")) - 1 : 0 };
  rows.forEach(place);
}

// -- wiring ----------------------------------------------------------------------------------------------------------

function wire() {
  section.classList.add("live");
  section.querySelector(".grid-pages")?.remove();
  rowHeight = parseFloat(getComputedStyle(grid).getPropertyValue("--row")) || rowHeight;
  let typing = 0;
  const filter = (isStep) => select(selection(new URLSearchParams(new FormData(form))), isStep);
  form.addEventListener("input", (event) => {
    clearTimeout(typing);
    if (event.target.name === "q") typing = setTimeout(filter, TYPING_MS, false);
    else filter(true);
  });
  form.addEventListener("submit", (event) => { event.preventDefault(); clearTimeout(typing); filter(true); });
  section.addEventListener("click", (event) => {
    const link = event.target.closest("a[href^='?']");
    if (!link || event.ctrlKey || event.metaKey || event.shiftKey) return;
    event.preventDefault();
    select(selection(link.search), true);
  });
  part("sort-again").addEventListener("click", reload);
  let frame = 0;
  grid.addEventListener("scroll", () => { frame ||= requestAnimationFrame(() => { frame = 0; scrolled(); }); }, { passive: true });
  body.addEventListener("keydown", pressed);
  body.addEventListener("focusin", remember);
  body.addEventListener("click", (event) => {
    if (!event.target.closest("a") && !String(getSelection())) { remember(event); openRow(event.target.closest(".grid-row")); }
  });
  document.addEventListener("rows-changed", refresh);
  document.addEventListener("visibilitychange", refresh);
  addEventListener("popstate", () => { if (selection(location.search) !== query) { query = selection(location.search); reload(); } });
  addEventListener("resize", () => { fit(); scrolled(); });
  wirePanel(step);
  adopt();
  if (!rows.size) load();
}

// Takes over the rows that the page was rendered with.
function adopt() {
  for (const row of body.children) rows.set(Number(row.getAttribute("aria-rowindex")) - 2, row);
  if (!rows.size) return;
  body.style.height = `${reachable() * rowHeight}px`;
  rows.forEach(place);
  fit();
  grid.scrollTop = Math.min(...rows.keys()) * rowHeight;
}

wire();
