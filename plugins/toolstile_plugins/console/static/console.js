"use strict";
const list = document.getElementById("list");
const live = document.getElementById("live");

// --- Live: the server tells that something is new, and the page is loaded and merged; see live.js.

let loading = false, again = false;

async function refresh() {
  if (document.hidden) return;
  if (loading) { again = true; return; }
  loading = true;
  try {
    do {
      again = false;
      const response = await fetch(list.dataset.page || location.href, { headers: { Accept: "text/html" } });
      if (!response.ok) throw new Error(response.statusText);
      const page = new DOMParser().parseFromString(await response.text(), "text/html");
      merge([...page.getElementById("list").children]);
      for (const id of ["stopped", "stops", "grants"]) {
        const [was, is] = [document, page].map((where) => where.getElementById(id));
        if (was && was.dataset.version !== is.dataset.version && !was.matches(":focus-within")) was.replaceWith(is);
      }
    } while (again);
  } catch {
    live.textContent = "Connection lost; trying again";
  } finally {
    loading = false;
  }
}

/** Puts in what is new, in its place. What was there stays where it is, under the hand. */
function merge(found) {
  const ids = new Set(found.map((item) => item.id));
  for (const item of [...list.children]) {
    if (ids.has(item.id)) continue;
    if (!item.dataset.href) item.remove();
    else if (item.querySelector("form.answer"))
      htmx.ajax("GET", item.dataset.href, { target: item, swap: "outerHTML" });
  }
  let before = null;
  for (const item of found) {
    let known = document.getElementById(item.id);
    if (known && known.dataset.version !== item.dataset.version && !known.matches(":focus-within")) {
      known.remove();
      known = null;
    }
    if (!known) {
      list.insertBefore(item, before ? before.nextSibling : list.firstChild);
      htmx.process(item);
    }
    before = document.getElementById(item.id);
  }
}

/** Puts in the rows that the server has sent; where more are there than a page shows, the last go. */
function take(news) {
  if (loading) { again = true; return; }
  const page = new DOMParser().parseFromString(`<table>${news}</table>`, "text/html");
  for (const row of page.querySelectorAll("tr")) {
    if (document.getElementById(row.id)) continue;
    const next = [...list.children].find((other) => other.dataset.ended <= row.dataset.ended);
    list.insertBefore(row, next || null);
  }
  while (list.children.length > list.dataset.most) list.lastElementChild.remove();
}

const STATES = {
  live: "Live",
  lost: "Connection lost; trying again",
  ended: "The console was started anew: open the address that it printed last",
};

/** Follows the events that an element names: calls `load` for all that is new, `add` for news. */
function follow({ base, events }, load, add) {
  const pipe = new MessageChannel();
  const script = document.querySelector("script[src$='live.js']").src;
  const port = window.SharedWorker ? new SharedWorker(script, base).port : pipe.port2;
  if (port === pipe.port2) join(pipe.port1);
  const look = () => {
    port.postMessage(document.hidden ? {} : { base, events });
    // Nobody has told it what came before.
    load();
  };
  port.onmessage = ({ data }) => {
    if (data.state) live.textContent = STATES[data.state];
    else if (data.news) add(data.news);
    else load();
  };
  document.addEventListener("visibilitychange", look);
  addEventListener("pageshow", look);
  addEventListener("pagehide", () => port.postMessage({}));
}

if (list && list.dataset.events) follow(list.dataset, refresh, take);

setInterval(() => {
  for (const item of document.querySelectorAll("[data-left]")) {
    const left = Math.max(0, item.dataset.left - 1);
    item.dataset.left = left;
    item.textContent = left < 60 ? `${left} s` : `${Math.floor(left / 60)} min ${left % 60} s`;
  }
}, 1000);

// --- Keys: they move the focus, and Enter does what has it. So no key alone answers anything.

const KEYS = {
  a: "button.approve",
  d: "input[name=reason], button.deny",
  e: "summary",
  g: ".grant summary",
  x: "input[type=checkbox]",
};

function move(step) {
  const items = [...list.children];
  const at = items.indexOf(document.activeElement.closest("#list > *"));
  const next = items[at < 0 ? (step > 0 ? 0 : items.length - 1) : at + step];
  if (!next) return;
  (next.matches("[tabindex]") ? next : next.querySelector("a")).focus();
  next.scrollIntoView({ block: "nearest" });
}

document.addEventListener("keydown", (event) => {
  const types = "input:not([type=checkbox], [type=radio]), textarea, select";
  if (!list || event.ctrlKey || event.metaKey || event.altKey || event.target.matches(types)) return;
  if (event.key === "j" || event.key === "k") move(event.key === "j" ? 1 : -1);
  const item = document.activeElement.closest("#list > *") || list.firstElementChild;
  const found = KEYS[event.key] && item && item.querySelector(KEYS[event.key]);
  if (!found) return;
  event.preventDefault();
  if (event.key === "x") found.click();
  if (!found.matches("summary")) { found.focus(); return; }
  if (!found.parentElement.open) found.click();
  found.parentElement.querySelector("input, textarea, select").focus();
});

// Enter in the reason denies, and in a number grants; the first button of a form would approve.
const ENTER = { reason: "button.deny", times: ".grant button" };

document.addEventListener("keydown", (event) => {
  const button = event.key === "Enter" && event.target.matches("input") && ENTER[event.target.name];
  if (!button) return;
  event.preventDefault();
  event.target.form.querySelector(button).click();
});

// The card that was answered keeps the focus, so that j goes on from there.
let focused = null;

document.addEventListener("htmx:beforeSwap", (event) => {
  const target = event.detail.target;
  if (target.contains(document.activeElement)) focused = target.id;
});

document.addEventListener("htmx:afterSwap", () => {
  const item = focused && document.getElementById(focused);
  if (item && !item.contains(document.activeElement)) item.focus({ preventScroll: true });
  focused = null;
});
