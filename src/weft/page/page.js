// The page's only script: it gets a token, follows the event stream, and brings the views that the
// server renders up to date in place. It knows keys, forms and drafts; it knows no view by name.
"use strict";
(() => {
const base = location.pathname; // a sub-path behind a proxy
const storageKey = "weft token " + base;
const view = document.getElementById("view");
const tabs = new BroadcastChannel("weft " + base);
let token = sessionStorage.getItem(storageKey);
let stream = null; // the channel of the tabs that share this token's event stream

// ---- Token: a one-use code in the address becomes a token; a new tab asks the open tabs.

tabs.onmessage = ({data}) => {
  if (data.ask === "token" && token) tabs.postMessage({token});
};

function keepToken(text) {
  token = text;
  sessionStorage.setItem(storageKey, text);
}

async function exchangeCode() {
  const code = /^#code=([\w-]+)/.exec(location.hash);
  if (!code) return;
  history.replaceState(null, "", base + "#/");
  const answer = await fetch("exchange", {method: "POST", headers: {"X-Weft-Code": code[1]}});
  if (answer.ok) keepToken((await answer.json()).token);
  else if (!token) forgetToken("The link was used already or is too old.");
}

function askTabs() {
  return new Promise((resolve) => {
    const hear = ({data}) => { if (data.token) { keepToken(data.token); resolve(); } };
    tabs.addEventListener("message", hear);
    tabs.postMessage({ask: "token"});
    setTimeout(() => { tabs.removeEventListener("message", hear); resolve(); }, 500);
  });
}

function forgetToken(why) {
  token = null;
  sessionStorage.removeItem(storageKey);
  view.replaceChildren(document.getElementById("locked").content.cloneNode(true));
  if (why) document.getElementById("why").textContent = why;
  document.title = "weft: a new link is needed";
  showState("locked");
}

async function request(path, options = {}) {
  const headers = {...options.headers, Authorization: "Bearer " + token};
  const answer = await fetch(path, {...options, headers, cache: "no-store"});
  if (answer.status === 401) forgetToken("The token has expired or was revoked.");
  return answer;
}

// ---- Views: the address after # names a view; the server renders it.

let shown = ""; // the address on the screen
let asked = null; // the request under way
let wanted = false; // a change came meanwhile
let etag = "";
let lastTook = 0;
let lastBegan = 0;
let followed = false; // a link was clicked: start at the top
const scrolls = new Map(); // where an address was left

// A view has a plain path: an address with `..` could name an answer that holds an agent's words.
const address = () => {
  const asked = location.hash.replace(/^#\/?/, "") || "needs";
  return /^[\w-]+(\/[\w.~%-]+)*\/?(\?.*)?$/.test(asked) && !/(^|\/)(\.|%2e)+(\/|$|\?)/i.test(asked) ? asked : "needs";
};
const pathOf = (text) => text.split("?")[0];

async function load() {
  const to = address();
  const same = to === shown;
  asked?.abort();
  asked = new AbortController();
  wanted = false;
  lastBegan = performance.now();
  let answer, text;
  try {
    const headers = same && etag ? {"If-None-Match": etag} : {};
    answer = await request("page/" + withWindow(to, same), {headers, signal: asked.signal});
    text = answer.status === 304 ? null : await answer.text();
  } catch (error) {
    if (error.name !== "AbortError") { asked = null; failed(to); }
    return;
  }
  asked = null;
  lastTook = performance.now() - lastBegan;
  if (!token) return;
  if (text !== null) {
    etag = answer.headers.get("ETag") || "";
    const isView = answer.ok && /^text\/html\b/.test(answer.headers.get("Content-Type") || "");
    put(to, isView ? text : problem(answer.ok ? 415 : answer.status, answer.ok ? "This is no view of the page." : text));
  }
  if (wanted) schedule();
}

function failed(to) {
  if (to !== shown) put(to, "<h1>The server does not answer</h1><p>This page goes on when it is back.</p>");
}

function problem(status, text) {
  let detail = text;
  try { detail = JSON.parse(text).detail; } catch { /* the proxy's own text */ }
  const paragraph = document.createElement("p");
  paragraph.textContent = detail.slice(0, 2000);
  return `<h1>${status === 404 ? "Not found" : "This cannot be shown"}</h1>` + paragraph.outerHTML;
}

function put(to, text) {
  const fresh = new DOMParser().parseFromString(text, "text/html").body;
  const article = fresh.firstElementChild?.tagName === "ARTICLE" ? fresh.firstElementChild : null;
  const moved = pathOf(to) !== pathOf(shown);
  const turned = to !== shown;
  const focused = document.activeElement?.id;
  const logs = keepLogs();
  if (moved) view.replaceChildren(...fresh.childNodes);
  else morphChildren(view, fresh);
  const first = shown === "";
  shown = to;
  document.title = titleOf(article?.dataset.title || view.querySelector("h1")?.textContent);
  markNavigation();
  restoreDrafts();
  if (moved) {
    if (!first) view.querySelector("h1")?.setAttribute("tabindex", "-1");
    if (!first) view.querySelector("h1")?.focus({preventScroll: true});
    scrollTo(0, followed ? 0 : scrolls.get(to) || 0);
    selectRow(null);
  } else if (focused && document.activeElement === document.body) {
    document.getElementById(focused)?.focus({preventScroll: true});
  }
  followed = false;
  settleLogs(logs, turned);
  tick();
}

function markNavigation() {
  const name = pathOf(shown).split("/")[0];
  for (const link of document.querySelectorAll("header nav a")) {
    if (link.getAttribute("href") === "#/" + name) link.setAttribute("aria-current", "page");
    else link.removeAttribute("aria-current");
  }
}

function schedule() {
  if (!token) return;
  if (asked || document.hidden) { wanted = true; return; }
  if (schedule.timer) return;
  const rest = Math.max(0, lastBegan + Math.max(200, 3 * lastTook) - performance.now());
  schedule.timer = setTimeout(() => { schedule.timer = 0; load(); }, rest);
}

function navigate() {
  if (token) load();
}

addEventListener("hashchange", async () => {
  if (!location.hash.startsWith("#code=")) return navigate();
  await exchangeCode();
  if (token) { follow(); load(); }
});
addEventListener("scroll", () => scrolls.set(shown, scrollY), {passive: true});
document.addEventListener("visibilitychange", () => { if (!document.hidden && wanted) schedule(); });

// ---- Morph: make one tree like another, and keep scroll, selection, focus and typed text.

function morph(node, like) {
  if (node.nodeType !== Node.ELEMENT_NODE) {
    if (node.data !== like.data) node.data = like.data;
    return;
  }
  if (node.isEqualNode(like)) return;
  for (const {name} of [...node.attributes]) {
    if (!like.hasAttribute(name) && !isOwn(node, name)) node.removeAttribute(name);
  }
  for (const {name, value} of like.attributes) {
    if (node.getAttribute(name) !== value && !isOwn(node, name)) node.setAttribute(name, value);
  }
  if (node.tagName !== "TEXTAREA") morphChildren(node, like);
}

// Attributes that a person or this script changes, not the server.
function isOwn(node, name) {
  return name === "aria-selected" || name === "tabindex" ||
    (name === "open" && (node.tagName === "DETAILS" || node.tagName === "DIALOG")) ||
    ((name === "value" || name === "checked") && node === document.activeElement);
}

function morphChildren(node, like) {
  const kept = new Map();
  const named = new Set();
  for (const child of like.children) if (child.id) named.add(child.id);
  for (const child of [...node.children]) {
    if (child.id && named.has(child.id)) kept.set(child.id, child);
    else if (child.id) child.remove();
  }
  let at = node.firstChild;
  for (const child of [...like.childNodes]) {
    const own = child.id ? kept.get(child.id) : null;
    if (own && own.tagName === child.tagName) {
      if (own === at) at = at.nextSibling;
      else node.insertBefore(own, at);
      morph(own, child);
    } else if (at && !at.id && !child.id && at.nodeName === child.nodeName) {
      const next = at.nextSibling;
      morph(at, child);
      at = next;
    } else {
      node.insertBefore(child, at);
    }
  }
  while (at) { const next = at.nextSibling; if (!kept.has(at.id)) at.remove(); at = next; }
}

// ---- Stream: the first tab reads the events and passes them to the others.

let state = "connecting";
let heardAt = Date.now();
let lastEvent = null;
let count = null;

function follow() {
  stream?.close();
  stream = new BroadcastChannel("weft events " + base + token.split("_")[1]);
  stream.onmessage = ({data}) => { if (data.hello) { if (lead.active) tell({}); } else hear(data); };
  stream.postMessage({hello: true});
  const name = "weft stream " + base + token.split("_")[1];
  if (navigator.locks) navigator.locks.request(name, lead);
  else lead(); // an address without TLS: each tab has its own stream
}

function tell(news) {
  const data = {state, heardAt, lastEvent, count, ...news};
  stream.postMessage(data);
  hear(data);
}

function hear(data) {
  const back = data.state === "live" && state !== "live";
  ({heardAt, lastEvent} = data);
  showState(data.state);
  if (data.count !== null && data.count !== count) showCount(data.count);
  if (back || data.events?.some(concerns)) schedule();
}

function concerns(event) {
  const task = view.firstElementChild?.dataset.task;
  return !task || event.task === null || String(event.task) === task;
}

async function lead() {
  lead.active = true;
  for (let failures = 0; token; failures++) {
    if (failures) await new Promise((wake) => setTimeout(wake, Math.min(5000, 250 * 2 ** failures)));
    try {
      const headers = lastEvent === null ? {} : {"Last-Event-ID": String(lastEvent)};
      const stop = new AbortController();
      const answer = await request("v1/events", {headers, signal: stop.signal});
      if (!answer.ok) throw new Error("refused");
      await readEvents(answer.body.getReader(), stop, () => { failures = 0; });
    } catch { /* said in the header, and tried again */ }
    if (token) tell({state: "reconnecting"});
  }
  lead.active = false;
}

async function readEvents(reader, stop, begun) {
  const decoder = new TextDecoder();
  let rest = "";
  // The server gives a sign of life every 15 seconds: a stream that is silent for longer is dead.
  const watch = setInterval(() => { if (Date.now() - heardAt > 20000) stop.abort(); }, 1000);
  try {
    for (;;) {
      const {done, value} = await reader.read();
      if (done) return;
      begun();
      heardAt = Date.now();
      const blocks = (rest + decoder.decode(value, {stream: true})).split("\n\n");
      rest = blocks.pop();
      const events = blocks.map(parseEvent).filter(Boolean);
      if (events.length) lastEvent = events.at(-1).id;
      tell({state: "live", events: events.map(({task, run}) => ({task, run}))});
      if (state === "live" && events.some(({kind}) => kind !== "progress")) countNeeds();
    }
  } finally {
    clearInterval(watch);
  }
}

function parseEvent(block) {
  const line = block.split("\n").find((text) => text.startsWith("data: "));
  return line ? JSON.parse(line.slice(6)) : null;
}

function showState(name) {
  state = name;
  const element = document.getElementById("stream");
  const away = Math.round((Date.now() - heardAt) / 1000);
  const stale = name !== "locked" && name !== "connecting" && (name === "live" ? away > 20 : away > 9);
  const text = stale ? `stale since ${away} s` : name;
  if (element.textContent !== text) element.textContent = text;
  element.dataset.state = stale ? "stale" : name;
  // A number that counts up must not be read aloud every second.
  element.setAttribute("aria-live", stale ? "off" : "polite");
}

function countNeeds() {
  if (countNeeds.timer) return;
  countNeeds.timer = setTimeout(async () => {
    countNeeds.timer = 0;
    try {
      const answer = await request("page/count");
      if (!answer.ok) return;
      const number = (await answer.json()).count;
      if (lead.active) tell({count: number});
      else showCount(number);
    } catch { /* the next event asks again */ }
  }, 300);
}

// ---- The number of decisions: title, icon, notification.

const titleOf = (name) => (count ? `(${count}) ` : "") + (name || "weft") + (name === "weft" ? "" : " · weft");

function showCount(number) {
  const before = count;
  count = number;
  document.title = titleOf(document.title.replace(/^\(\d+\) /, "").replace(/ · weft$/, ""));
  const badge = document.getElementById("count");
  badge.hidden = !number;
  badge.textContent = number || "";
  badge.setAttribute("aria-label", `, ${number} decisions`);
  document.getElementById("icon").href = number ? drawIcon(number) : "assets/icon.svg";
  const more = before !== null && number > before && lead.active && document.hidden;
  if (more && window.Notification?.permission === "granted") {
    new Notification(`weft: ${number === 1 ? "1 decision waits" : number + " decisions wait"} for you`, {tag: "weft"});
  }
}

function drawIcon(number) {
  const text = number > 99 ? "99" : String(number);
  return "data:image/svg+xml," + encodeURIComponent(
    `<svg xmlns="http://www.w3.org/2000/svg" viewBox="0 0 32 32"><rect width="32" height="32" rx="7" fill="#c2410c"/>` +
    `<text x="16" y="23" font-size="20" font-family="sans-serif" font-weight="bold" text-anchor="middle" fill="#fff">${text}</text></svg>`);
}

// ---- Forms: an act is sent as JSON; a filter goes into the address; a text is posted as it grows.

function fieldsOf(form, submitter) {
  const fields = {...form.dataset.fields ? JSON.parse(form.dataset.fields) : {}};
  for (const [name, value] of new FormData(form)) {
    const {type, step} = form.elements[name];  // dollars stay a text
    if (value !== "") fields[name] = type === "number" && step !== "0.01" ? Number(value) : value;
  }
  if (submitter?.name) fields[submitter.name] = submitter.value;
  return fields;
}

async function act(form, submitter) {
  const buttons = form.querySelectorAll("button");
  buttons.forEach((button) => { button.disabled = true; });
  const row = form.closest("[data-row]");
  const [done, sentence] = await send(form.dataset.act, fieldsOf(form, submitter));
  buttons.forEach((button) => { button.disabled = false; });
  say(sentence, !done);
  if (!done) return;
  for (const text of form.querySelectorAll("[data-draft]")) { dropDraft(text); text.value = ""; }
  form.closest("details")?.removeAttribute("open");
  if (row) moveOn(row);
  if (form.dataset.go) location.hash = form.dataset.go;
  load();
}

async function send(path, fields) {
  try {
    const answer = await request(path, {
      method: "POST",
      headers: {"Content-Type": "application/json", "Idempotency-Key": crypto.randomUUID?.() ?? String(Math.random())},
      body: JSON.stringify(fields),
    });
    const told = await answer.json();
    return [answer.ok, told.text || told.detail || "Done."];
  } catch {
    return [false, "The server did not answer; nothing is known of the result. Look before you try again."];
  }
}

// Several rows at once: each picked row that has such a form gets it, one after the other.
async function actOnPicked(name) {
  let done = 0, refused = "";
  for (const box of view.querySelectorAll("input[data-pick]:checked")) {
    const form = box.closest("[data-row]")?.querySelector(`form[data-act="${CSS.escape(name)}"]`);
    if (!form) continue;
    const [ok, sentence] = await send(name, fieldsOf(form));
    if (ok) { done++; box.checked = false; } else refused ||= sentence;
  }
  say(refused || `Done for ${done} of the picked rows.`, Boolean(refused));
  load();
}

function say(sentence, refused) {
  const element = document.getElementById("said");
  element.textContent = sentence;
  element.hidden = false;
  element.classList.toggle("refused", refused);
  clearTimeout(say.timer);
  say.timer = setTimeout(() => { element.hidden = true; }, refused ? 20000 : 6000);
}

function filter(form) {
  const query = new URLSearchParams();
  for (const [name, value] of new FormData(form)) if (value !== "") query.append(name, value);
  const text = query.toString();
  history.replaceState(null, "", "#/" + form.dataset.address + (text && "?" + text));
  load();
}

async function postText(form) {
  const answer = await request("page/" + form.dataset.post, {
    method: "POST", headers: {"Content-Type": "application/json"}, body: JSON.stringify(fieldsOf(form)),
  });
  const into = document.getElementById(form.dataset.into);
  if (!into || !answer.ok) return;
  morphChildren(into, new DOMParser().parseFromString(await answer.text(), "text/html").body);
  tick();
}

document.addEventListener("submit", (event) => {
  const form = event.target;
  if (form.method === "dialog") return;
  event.preventDefault();
  if (form.dataset.act) act(form, event.submitter);
  else if (form.dataset.address) filter(form);
});

document.addEventListener("input", ({target}) => {
  if (target.dataset.draft) sessionStorage.setItem("weft draft " + target.dataset.draft, target.value);
  const form = target.form;
  const work = form?.dataset.address ? filter : form?.dataset.post ? postText : null;
  if (!work) return;
  clearTimeout(form.pause);
  form.pause = setTimeout(() => work(form), target.tagName === "SELECT" ? 0 : 300);
});

function restoreDrafts() {
  for (const text of view.querySelectorAll("[data-draft]")) {
    const kept = sessionStorage.getItem("weft draft " + text.dataset.draft);
    if (kept !== null && text.value !== kept && text !== document.activeElement) text.value = kept;
  }
}

const dropDraft = (text) => sessionStorage.removeItem("weft draft " + text.dataset.draft);

document.addEventListener("click", (event) => {
  const {target} = event;
  if (target.closest("a[href^='#/']")) followed = true;
  const bulk = target.closest("button[data-bulk]");
  if (bulk) actOnPicked(bulk.dataset.bulk);
  const saved = target.closest("[data-download]");
  if (saved) { event.preventDefault(); download(saved.dataset.download, saved.dataset.name); }
  const log = target.closest("[data-log-end]");
  if (log) { event.preventDefault(); toEnd = true; load(); }
});

async function download(path, name) {
  const answer = await request("page/" + path);
  if (!answer.ok) return say("The file could not be read.", true);
  const file = document.createElement("a");
  file.href = URL.createObjectURL(await answer.blob());
  file.download = name;
  file.click();
  URL.revokeObjectURL(file.href);
}

// ---- Logs: a window of lines; it follows at its end only.

let toEnd = false;

function withWindow(to, same) {
  const log = same && view.querySelector("[data-log]");
  if (!log || toEnd || atEnd(log)) return to;
  const {first, last} = log.dataset;
  const query = `first=${first}&most=${last - first + 1}`;
  return pathOf(to) + "?" + (to.split("?")[1] || "").replace(/(^|&)(first|most)=\d*/g, "") + "&" + query;
}

const atEnd = (log) => log.scrollHeight - log.scrollTop - log.clientHeight < 40;

function keepLogs() {
  const log = view.querySelector("[data-log]");
  return log ? {end: toEnd || atEnd(log), top: log.scrollTop} : null;
}

function settleLogs(before, turned) {
  const log = view.querySelector("[data-log]");
  toEnd = false;
  if (!log) return;
  const line = log.querySelector("[data-target]");
  if (turned || !before) {
    if (line) line.scrollIntoView({block: "center"});
    else log.scrollTop = log.dataset.from === "end" ? log.scrollHeight : 0;
  } else {
    log.scrollTop = before.end ? log.scrollHeight : before.top;
  }
  showNew(log);
}

function showNew(log) {
  const button = view.querySelector("[data-log-end]");
  const number = log.dataset.total - log.dataset.last;
  if (!button) return;
  button.hidden = number <= 0 && atEnd(log);
  button.textContent = number > 0 ? `${number} new` : "To the end";
}

document.addEventListener("scroll", ({target}) => { if (target.dataset?.log !== undefined) showNew(target); }, true);

// ---- Keys.

let row = null;
let going = 0; // when g was pressed

const rows = () => [...view.querySelectorAll("[data-row]")];

function selectRow(next) {
  row?.removeAttribute("aria-selected");
  row = next;
  if (!next) return;
  next.setAttribute("aria-selected", "true");
  next.tabIndex = -1;
  next.focus({preventScroll: true});
  next.scrollIntoView({block: "nearest"});
}

function step(by) {
  const all = rows();
  const at = all.indexOf(row?.isConnected ? row : document.activeElement?.closest("[data-row]"));
  selectRow(all[Math.min(all.length - 1, Math.max(0, at + by))] || null);
}

// After an act on a row the next row has the focus: the row itself will be gone.
function moveOn(done) {
  const all = rows();
  const at = all.indexOf(done);
  selectRow(all[at + 1] || all[at - 1] || null);
}

function press(key) {
  const place = row?.isConnected ? row : view;
  const target = place.querySelector(`[data-key="${key}"]`) || (place !== view && view.querySelector(`:not([data-row]) > [data-key="${key}"]`));
  if (!target) return false;
  const details = target.closest("details") || (target.tagName === "DETAILS" ? target : null);
  if (target.tagName === "SUMMARY" && details) {
    details.open = true;
    details.querySelector("textarea, input, select, button")?.focus();
  } else if (target.matches("textarea, input")) target.focus();
  else target.click();
  return true;
}

const singleKeys = () => localStorage.getItem("weft keys") !== "off";

document.addEventListener("keydown", (event) => {
  const {key, target} = event;
  const typing = target.matches?.("textarea, select, input:not([type=checkbox])");
  if ((event.ctrlKey || event.metaKey) && key === "Enter" && target.form) {
    event.preventDefault();
    target.form.requestSubmit();
    return;
  }
  if (key === "Escape" && typing) return target.blur();
  if (typing || event.ctrlKey || event.metaKey || event.altKey || !singleKeys()) return;
  if (document.getElementById("help").open) return;
  if (handle(key, target)) event.preventDefault();
});

function handle(key, target) {
  if (Date.now() - going < 1500) {
    going = 0;
    const link = document.querySelector(`[data-go="${CSS.escape(key)}"]`);
    link?.click();
    return Boolean(link);
  }
  if (key === "g") { going = Date.now(); return true; }
  if (key === "?") { openHelp(); return true; }
  if (key === "j" || key === "k") { step(key === "j" ? 1 : -1); return true; }
  if (key === "/") { const search = view.querySelector("input[type=search]"); search?.focus(); return Boolean(search); }
  if (key === "Enter" && target === row) { row.querySelector("a[href]")?.click(); return true; }
  return "arsmc".includes(key) && press(key);
}

function openHelp() {
  document.getElementById("single-keys").checked = singleKeys();
  document.getElementById("notify").hidden = !window.Notification || Notification.permission !== "default";
  document.getElementById("help").showModal();
}

document.getElementById("menu").onclick = openHelp;
document.getElementById("close-help").onclick = () => document.getElementById("help").close();
document.getElementById("notify").onclick = () => Notification.requestPermission();
document.getElementById("single-keys").onchange = ({target}) => localStorage.setItem("weft keys", target.checked ? "on" : "off");
document.getElementById("skip").onclick = () => view.focus();

// ---- Time: ages grow between two answers of the server.

function tick() {
  const now = Date.now() / 1000;
  for (const element of document.querySelectorAll("time[data-since]")) {
    const text = age(now - element.dataset.since);
    if (element.textContent !== text) element.textContent = text;
  }
}

function age(seconds) {
  const whole = Math.max(0, Math.floor(seconds));
  if (whole < 60) return `${whole} s`;
  if (whole < 3600) return `${Math.floor(whole / 60)} min`;
  if (whole < 172800) return `${Math.floor(whole / 3600)} h ${String(Math.floor(whole / 60) % 60).padStart(2, "0")} min`;
  return `${Math.floor(whole / 86400)} d`;
}

setInterval(() => {
  tick();
  if (token) showState(state);
  if (view.firstElementChild?.dataset.poll !== undefined) schedule();
}, 1000);

(async () => {
  await exchangeCode();
  if (!token) await askTabs();
  if (!token) return forgetToken("");
  follow();
  countNeeds();
  load();
})();
})();
