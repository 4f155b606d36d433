"use strict";
// Draws the calls of a record as a timeline. No text of a record is ever HTML: each is a text node.

const BARS = {
  check: ["checks", "lookup parse deadline check reserve snapshot"],
  person: ["person", "approve"],
  run: ["handler", "execute"],
  keep: ["keeping", "render validate on_result prepare commit telemetry"],
};
const MOST = 390;  // rows in the document at once, also on paper
const KEPT = ["committed", "unknown", undefined];

/** Shows characters that hide text, or turn its direction. */
const visible = (text) => String(text).replace(/[^\P{C}\n\t]/gu, (sign) => `\\u{${sign.codePointAt(0).toString(16)}}`);
const pretty = (value) => typeof value === "string" ? value : JSON.stringify(value, null, 2);
const words = (name) => name.replaceAll("_", " ");
const clock = (at) => new Date(at).toISOString().slice(0, 19).replace("T", " ");

function took(seconds) {
  if (seconds < 1) return seconds < 0.001 ? `${Math.round(seconds * 1e6)} µs` : `${+(seconds * 1000).toPrecision(3)} ms`;
  if (seconds < 60) return `${+seconds.toPrecision(3)} s`;
  const [minutes, hours] = [Math.floor(seconds / 60), Math.floor(seconds / 3600)];
  return hours ? `${hours} h ${minutes % 60} min` : `${minutes} min ${Math.round(seconds % 60)} s`;
}

function el(name, attributes = {}, ...children) {
  const made = document.createElement(name);
  for (const [key, value] of Object.entries(attributes))
    if (key.startsWith("on")) made.addEventListener(key.slice(2), value);
    else if (value !== undefined && value !== false) made.setAttribute(key, value);
  made.append(...children.flat().filter((child) => child != null).map((child) => child.nodeType ? child : visible(child)));
  return made;
}

/** Returns the calls as a tree: sessions, transactions within, calls within, nested calls within. */
function treeOf({ calls, transactions }) {
  const ends = new Map(transactions.map((end) => [end.id, end]));
  const made = new Map(), undos = new Map(), undone = new Map();
  const root = { children: [] };
  const node = (key, kind, more, above) => {
    if (!made.has(key)) made.set(key, above.children[above.children.push({ kind, children: [], ...more }) - 1]);
    return made.get(key);
  };
  const several = new Set(calls.map((call) => call.session)).size > 1;
  const session = (id) => several ? node(`s ${id}`, "session", { title: `Session ${id}` }, root) : root;
  const whole = (id, owner) => {
    const end = ends.get(id) || { title: "", status: "pending", reason: "it has not ended" };
    const around = end.parent ? whole(end.parent, owner) : session(owner);
    return node(`t ${id}`, "transaction", { title: `Transaction ${end.title}`, end }, around);
  };
  const toggle = (id, by) => {
    if (!undone.delete(id)) undone.set(id, by);
    for (const each of undos.get(id) || []) toggle(each, by);
  };
  for (const call of calls) {
    if (!call.undoes) continue;
    undos.set(call.id, call.undoes);
    for (const id of call.undoes) toggle(id, call);
  }
  // The line of a call comes after those of its nested calls.
  const known = new Map();
  for (const call of [...calls].reverse()) {
    const above = call.parent && known.get(call.parent)
      || (call.transaction ? whole(call.transaction, call.session) : session(call.session));
    const own = { kind: "call", call, children: [], at: call.at, end: call.at + call.took * 1000, undone: undone.get(call.id) };
    above.children.push(own);
    known.set(call.id, own);
  }
  const finish = (each, gone) => {
    const { call, end } = each;
    each.gone = gone || !!each.undone || !!(call && call.gone) || !!(end && !KEPT.includes(end.status) && end.status !== "pending");
    for (const child of each.children) finish(child, each.gone && (each.kind !== "call" || !!child.call.joins));
    each.children.sort((one, other) => one.at - other.at || one.call?.n - other.call?.n);
    each.at ??= Math.min(...each.children.map((child) => child.at));
    each.end = each.children.reduce((latest, child) => Math.max(latest, child.end), typeof each.end === "number" ? each.end : 0);
    each.ended = end;
  };
  for (const own of known.values()) own.last = own;
  finish(root, false);
  return root;
}

/** Returns the rows of a tree that a test lets through, with their callers and frames. */
function rowsOf(root, passes) {
  const rows = [];
  const visit = (children, depth, frames, scale) => {
    let beside;
    for (let i = 0; i < children.length; i++) {
      const node = children[i], batch = node.call?.batch, first = rows.length;
      let span = scale;
      if (!span && (batch || node.kind !== "session")) {
        if (!batch || children[i - 1]?.call?.batch !== batch) beside = [node.at, node.end];
        for (let j = i + 1; batch && children[j]?.call?.batch === batch; j++) beside[1] = Math.max(beside[1], children[j].end);
        span = beside;
      }
      const row = { node, depth, frames, span, beside: 0 };
      rows.push(row);
      const inner = node.kind === "transaction" ? [...frames, { first, last: first }] : frames;
      row.frames = inner;
      visit(node.children, depth + 1, inner, span);
      row.own = passes(node);
      if (!row.own && rows.length === first + 1) rows.pop();
      else if (batch) row.beside = 1 + (children[i - 1]?.call?.batch === batch) + 2 * (children[i + 1]?.call?.batch === batch);
      if (node.kind === "transaction") inner.at(-1).last = rows.length - 1;
    }
  };
  visit(root.children, 0, [], null);
  return rows;
}

/** Returns the lines of a diff, each with its kind; hunks say which signs belong to the text. */
function diffOf(text) {
  let [old, now] = [0, 0];
  return text.split("\n").map((line) => {
    const heading = line && !line.startsWith(" "), rest = heading ? line : line.slice(2), hunk = /^@@ -\d+(?:,(\d+))? \+\d+(?:,(\d+))? @@/.exec(rest);
    if (hunk) [old, now] = [+(hunk[1] ?? 1), +(hunk[2] ?? 1)];
    if (heading || hunk || (old <= 0 && now <= 0)) return el("span", { class: "note" }, `${rest}\n`);
    const kind = { "-": "removed", "+": "added" }[rest[0]];
    if (kind !== "added") old--;
    if (kind !== "removed") now--;
    return el("span", { class: kind }, `${rest}\n`);
  });
}

/** Draws into an element; returns a function that shows other data in the same place. */
function timeline(place, given) {
  let data, root, rows = [], chosen = -1, drawn = new Map(), height = 40, scaled = "group";
  const asked = { text: "", tool: "", outcome: "", rule: "" };
  const tone = ({ status }) => status === "succeeded" ? "good" : ["pending", "denied"].includes(status) ? "warn" : "bad";
  const rules = (call) => (call.decisions || []).filter(([, verdict]) => verdict !== "allow").map(([rule]) => rule || "policy");
  const said = (node) => node.said ??= [
    node.title, ...Object.values(node.call || node.ended || {}).map(pretty),
  ].join("\n").toLowerCase();
  const passes = (node) => node.kind === "call"
    ? (!asked.tool || node.call.tool === asked.tool) && (!asked.rule || rules(node.call).includes(asked.rule))
      && (!asked.outcome || (asked.outcome === "not kept" ? node.gone : node.call.status === asked.outcome))
      && (!asked.text || said(node).includes(asked.text))
    : !asked.tool && !asked.rule && !asked.outcome && (!asked.text || said(node).includes(asked.text));

  const head = el("header"), chart = el("div", { class: "chart" }), count = el("span", { role: "status", class: "count" });
  const sheet = el("div", { class: "sheet", role: "presentation" });
  const list = el("div", { class: "rows", role: "listbox", tabindex: 0, "aria-label": "Calls", onscroll: draw, onclick: clicked }, sheet);
  const panel = el("section", { class: "panel", tabindex: -1, "aria-label": "The chosen call", hidden: "" });
  const search = el("input", { type: "search", placeholder: "Search  /", "aria-label": "Search", oninput: later, autocomplete: "off" });
  const filters = el("form", { class: "filters", onsubmit: (event) => event.preventDefault() });
  const legend = el("p", { class: "legend" }, Object.entries(BARS).map(([kind, [title]]) => el("span", { class: kind }, title)),
    el("span", { class: "keys" }, ...["j", "k", "Enter", "/", "Esc"].map((key) => el("kbd", {}, key))));
  place.append(head, chart, filters, legend, el("div", { class: "work" }, list, panel));

  let waiting;
  function later() {
    clearTimeout(waiting);
    waiting = setTimeout(() => { asked.text = search.value.trim().toLowerCase(); filter(); }, 120);
  }
  function choice(name, title, values) {
    const select = el("select", { onchange: () => { asked[name] = select.value; filter(); } },
      el("option", { value: "" }, `All ${title}`), [...values].sort().map((value) => el("option", { value }, words(value))));
    select.setAttribute("aria-label", title);
    select.value = asked[name];
    if (select.selectedIndex < 0) select.value = asked[name] = "";
    return values.size ? select : null;
  }

  function show(fresh) {
    const isTyping = document.activeElement === search, isAtEnd = list.scrollHeight - list.scrollTop - list.clientHeight < 5;
    data = fresh;
    root = treeOf(data);
    const { calls } = data, waits = calls.filter((call) => call.answer), gone = [];
    const walk = (node) => { if (node.call && node.gone) gone.push(node); node.children.forEach(walk); };
    walk(root);
    const outcomes = new Set(calls.map((call) => call.status));
    if (gone.length) outcomes.add("not kept");
    const scale = el("select", { "aria-label": "Scale of the bars", onchange: () => { scaled = scale.value; filter(); } },
      el("option", { value: "group" }, "Bars: each call"), el("option", { value: "all" }, "Bars: whole record"));
    filters.replaceChildren(...[
      search, choice("tool", "tools", new Set(calls.map((call) => call.tool))), choice("outcome", "outcomes", outcomes),
      choice("rule", "rules", new Set(calls.flatMap(rules))), scale, count].filter(Boolean));
    const tokens = calls.reduce((sum, call) => sum + (call.tokens || 0), 0);
    // A call that waited and its resumption have the same answer.
    const people = [...new Map(waits.map((call) => [call.id, call.answer.seconds])).values()];
    const figures = {
      [calls.length === 1 ? "call" : "calls"]: calls.length.toLocaleString("en"),
      "did not succeed": calls.filter((call) => call.status !== "succeeded").length || null,
      "not kept": gone.length || null,
      [`answers of people, after ${took(people.reduce((sum, each) => sum + each, 0))}`]: people.length || null,
      "in all": calls.length ? took((root.end - root.at) / 1000) : null,
      tokens: tokens ? tokens.toLocaleString("en") : null,
    };
    head.replaceChildren(
      ...data.title ? [el("p", { class: "mark" }, "Toolstile"), el("h1", {}, data.title)] : [],
      el("p", { class: "when" }, calls.length ? `${clock(root.at)} to ${clock(root.end)} UTC` : "No calls."),
      el("dl", {}, Object.entries(figures).filter(([, text]) => text !== null).map(([name, text]) => el("div", {}, el("dt", {}, name), el("dd", {}, text)))),
      ...data.notes.map((note) => el("p", { class: "fault" }, note)));
    if (data.title) document.title = visible(`${data.title} · Toolstile`);
    overview();
    filter();
    if (isTyping) search.focus();
    if (isAtEnd && list.scrollTop) list.scrollTop = list.scrollHeight;
  }

  function overview() {
    chart.replaceChildren();
    if (data.calls.length < 2) return;
    const columns = Array.from({ length: 120 }, () => ({ good: 0, warn: 0, bad: 0 }));
    for (const call of data.calls) columns[Math.min(119, Math.floor(120 * (call.at - root.at) / (root.end - root.at || 1)))][tone(call)]++;
    const most = Math.max(...columns.map((column) => column.good + column.warn + column.bad));
    const svg = (name, attributes) => {
      const made = document.createElementNS("http://www.w3.org/2000/svg", name);
      for (const [key, value] of Object.entries(attributes)) made.setAttribute(key, value);
      return made;
    };
    const drawing = svg("svg", { viewBox: "0 0 1200 48", preserveAspectRatio: "none", role: "img", "aria-label": "Calls over time, by outcome" });
    columns.forEach((column, at) => {
      let y = 48;
      for (const kind of ["good", "warn", "bad"]) {
        const tall = column[kind] && Math.max(2, 46 * column[kind] / most);
        if (tall) drawing.append(svg("rect", { x: at * 10, y: y -= tall, width: 9, height: tall, class: kind }));
      }
    });
    drawing.addEventListener("click", (event) => {
      const box = drawing.getBoundingClientRect(), at = root.at + (root.end - root.at) * (event.clientX - box.left) / box.width;
      const found = rows.findIndex((row) => row.node.kind === "call" && row.node.at >= at);
      if (found >= 0) list.scrollTop = found * height;
    });
    chart.append(drawing);
  }

  function filter() {
    const before = rows[chosen]?.node.call;
    rows = rowsOf(root, passes);
    const calls = rows.filter((row) => row.node.kind === "call" && row.own).length;
    count.textContent = `${calls.toLocaleString("en")} of ${data.calls.length.toLocaleString("en")} calls`;
    chosen = before ? rows.findIndex(({ node: { call } }) => call?.n === before.n && call.id === before.id) : -1;
    redraw();
  }

  function redraw() {
    height = parseFloat(getComputedStyle(list).getPropertyValue("--row"));
    sheet.style.height = `${rows.length * height}px`;
    drawn.forEach((row) => row.remove());
    drawn.clear();
    draw();
  }

  function draw() {
    const first = Math.max(0, Math.floor(list.scrollTop / height) - 5);
    show_rows(first, Math.min(rows.length, first + Math.min(MOST, Math.ceil(list.clientHeight / height) + 10)));
  }

  function show_rows(first, end) {
    for (const [at, row] of drawn) if (at < first || at >= end) { row.remove(); drawn.delete(at); }
    for (let at = first; at < end; at++) if (!drawn.has(at)) {
      const row = rowAt(at);
      drawn.set(at, row);
      sheet.append(row);
    }
    if (drawn.has(chosen)) list.setAttribute("aria-activedescendant", `row-${chosen}`);
    else list.removeAttribute("aria-activedescendant");
  }

  function rowAt(at) {
    const { node, depth, frames, span, beside, own } = rows[at], { call, ended } = node;
    const classes = ["row", node.kind, node.gone ? "gone" : "", call?.status || "", own ? "" : "around", beside ? `beside b${beside}` : ""].join(" ").trim();
    const row = el("div", { class: classes, role: "option", id: `row-${at}`, "aria-selected": at === chosen, "aria-posinset": at + 1, "aria-setsize": rows.length });
    row.style.top = `${at * height}px`;
    row.style.setProperty("--depth", Math.min(depth, 8));
    frames.forEach((frame, i) => {
      const line = el("i", { class: `frame${frame.first === at ? " first" : ""}${frame.last === at ? " last" : ""}` });
      line.style.setProperty("--inset", i);
      row.append(line);
    });
    if (!call) {
      const text = ended ? `${words(ended.status)}${ended.reason ? `: ${ended.reason}` : ""}` : "";
      row.append(el("span", { class: "name" }, node.title), el("span", { class: ended ? outcome(ended.status) : "outcome" }, text));
      return row;
    }
    const fate = node.undone ? "undone" : node.gone && call.status === "succeeded" ? "not kept" : "";
    const gist = (call.text || call.error || "").trim().split("\n", 1)[0].slice(0, 160);
    row.append(
      el("span", { class: "name" }, call.tool),
      el("span", { class: fate ? "outcome warn" : outcome(call.status) }, fate || words(call.status)),
      el("span", { class: "gist" }, gist), bar(call, scaled === "all" ? [root.at, root.end] : span), el("span", { class: "took" }, took(call.took)));
    return row;
  }
  const outcome = (status) => `outcome ${status === "committed" ? "good" : tone({ status })}`;

  /** Draws a call as a bar of its stages; one gradient, because thousands of rows pass. */
  function bar(call, [from, to]) {
    const part = el("b", {}), track = el("span", { class: "track", "aria-hidden": "true" }, part), all = to - from || 1;
    part.style.left = `${Math.min(99, 100 * (call.at - from) / all)}%`;
    part.style.width = `${Math.max(0.5, 100 * call.took * 1000 / all)}%`;
    const stops = stages(call).map(([stage, began, ended]) => {
      const kind = Object.keys(BARS).find((each) => BARS[each][1].includes(stage));
      return `var(--${kind}) ${100 * began / (call.took || 1)}% ${100 * ended / (call.took || 1)}%`;
    });
    if (stops.length) part.style.backgroundImage = `linear-gradient(to right, ${stops.join(", ")})`;
    return track;
  }
  const stages = (call) => (data.paths[call.path] || []).map((stage, i) => [stage, call.times[i] / 1e6, i + 1 < call.times.length ? call.times[i + 1] / 1e6 : call.took]);

  function clicked(event) {
    const row = event.target.closest(".row");
    if (row) open(+row.id.slice(4));
  }

  function choose(at) {
    if (!rows.length) return;
    const before = chosen;
    chosen = Math.max(0, Math.min(rows.length - 1, at));
    if (chosen * height < list.scrollTop) list.scrollTop = chosen * height;
    else if ((chosen + 1) * height > list.scrollTop + list.clientHeight) list.scrollTop = (chosen + 1) * height - list.clientHeight;
    for (const each of [before, chosen]) drawn.get(each)?.setAttribute("aria-selected", each === chosen);
    draw();
    if (!panel.hidden) details(rows[chosen].node);
  }

  function open(at) {
    choose(at);
    if (rows[chosen].node.kind === "session") return;
    panel.hidden = false;
    details(rows[chosen].node);
    redraw();
    panel.focus({ preventScroll: true });
  }

  function close() {
    panel.hidden = true;
    redraw();
    list.focus({ preventScroll: true });
  }

  function details(node) {
    const { call, ended } = node, section = (title, ...body) => [el("h3", {}, title), ...body];
    const facts = (lines) => el("dl", {}, Object.entries(lines).filter(([, text]) => text != null && text !== "").map(([name, text]) => el("div", {}, el("dt", {}, name), el("dd", {}, text))));
    const block = (text, kind = "") => el("pre", { tabindex: 0, class: kind }, text);
    const top = el("div", { class: "top" }, el("h2", {}, call ? call.tool : node.title), el("button", { type: "button", onclick: close }, "Close"));
    const parts = [top];
    if (!call) {
      parts.push(facts({ end: words(ended.status), reason: ended.reason, began: `${clock(node.at)} UTC`, took: took((node.end - node.at) / 1000), "ran again": ended.reruns }));
    } else {
      const { answer } = call, asked = data.requests[call.request];
      const who = answer && `${answer.answer}${answer.by ? ` by ${answer.by}` : ""}${answer.via ? ` (${answer.via})` : ""}, after ${took(answer.seconds)}${answer.reason ? `: ${answer.reason}` : ""}`;
      const fate = node.undone ? `undone by call ${node.undone.id}` : call.gone ? "rolled back" : node.gone ? "not kept, with what it was part of" : "";
      parts.push(facts({
        outcome: words(call.status), fate, undoes: call.undoes?.join(", "), approval: who,
        began: `${clock(call.at)} UTC`, took: took(call.took) + (call.handler === undefined ? "" : `, its handler ${took(call.handler)}`),
        agent: call.agent, principal: call.user, tokens: call.tokens, "ran again": call.reruns, answered: call.replayed && "from a record or the ledger",
        call: call.id, session: call.session, batch: call.batch, transaction: call.transaction, trace: call.trace, line: call.n,
      }));
      if (call.decisions) parts.push(...section("Decisions", el("dl", {}, call.decisions.map(([rule, verdict, why]) => el("div", {}, el("dt", {}, rule || "policy"), el("dd", {}, `${verdict}${why ? `: ${why}` : ""}`))))));
      parts.push(...section("Arguments", block(call.arguments === undefined ? "none" : pretty(call.arguments))));
      parts.push(...section("Text that the model read", block(call.text || "none")));
      if (call.error) parts.push(...section("Error", block(call.error)));
      if (call.diff) parts.push(...section(node.gone ? "Changes, not kept" : "Changes", el("pre", { tabindex: 0, class: `diff${node.gone ? " gone" : ""}` }, diffOf(call.diff))));
      if (call.times) parts.push(...section("Stages", facts(Object.fromEntries(stages(call).map(([stage, began, end], i) => [`${i + 1}. ${words(stage)}`, took(end - began)])))));
      if (asked) parts.push(...section("Request", block(asked)));
      if (call.more) parts.push(...section("Attributes", block(pretty(call.more))));
    }
    panel.replaceChildren(...parts);
    panel.scrollTop = 0;
  }

  document.addEventListener("keydown", (event) => {
    const typing = event.target.matches("input, select, textarea");
    if (event.ctrlKey || event.metaKey || event.altKey) return;
    if (event.key === "Escape") {
      if (event.target === search && search.value) { search.value = ""; later(); } else if (!panel.hidden) close();
      else if (typing) list.focus();
    } else if (typing) return;
    else if (event.key === "/") search.focus();
    else if (event.key === "j" || event.key === "ArrowDown" && event.target === list) choose(chosen + 1);
    else if (event.key === "k" || event.key === "ArrowUp" && event.target === list) choose(chosen - 1);
    else if (event.key === "Enter" && event.target.tagName !== "BUTTON" && chosen >= 0) open(chosen);
    else return;
    event.preventDefault();
  });
  addEventListener("resize", redraw);
  addEventListener("beforeprint", () => {
    show_rows(0, Math.min(MOST, rows.length));
    list.dataset.left = rows.length > MOST ? `${(rows.length - MOST).toLocaleString("en")} more rows are not printed. Filter to print others.` : "";
  });
  addEventListener("afterprint", redraw);
  show(given);
  return show;
}

const embedded = document.getElementById("data");
if (embedded) timeline(document.getElementById("timeline"), JSON.parse(embedded.textContent));
