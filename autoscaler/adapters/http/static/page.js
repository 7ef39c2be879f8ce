"use strict";
// Shows what /api says, as text only: no answer ever becomes markup. Asks again some seconds after each answer.
// In a report, the file that `autoscaler report` writes, the answers stand in the page, and it asks for nothing.

const EVERY_MS = 2000, PATIENCE_MS = 8000, AT_ONCE = 100, MOST_BARS = 40;
const RISKS = ["old", "retention", "stands still", "unknown", "overloaded", "full", "none"];
const RISK_SAID = {
  old: "data is old", retention: "records may be deleted unread", "stands still": "a partition stands still",
  unknown: "not all of it is measured", overloaded: "a consumer is above its capacity", full: "a consumer is above its target", none: "",
};
const REPORT = document.getElementById("report") && JSON.parse(document.getElementById("report").textContent);
const ZONE = REPORT?.zone ?? "UTC", DATED = REPORT !== null && REPORT.until - REPORT.since > 72000;
document.body.classList.toggle("report", REPORT !== null);
const $ = (id) => document.getElementById(id);
const state = { overview: null, group: null, brokers: null, answered: null, failed: null, shown: AT_ONCE };

// --- small helpers ---------------------------------------------------------------------------------------------------

function element(tag, attributes = {}, ...children) {
  const made = document.createElement(tag);
  for (const [name, value] of Object.entries(attributes)) made.setAttribute(name, value);
  made.append(...children.filter((child) => child !== null));
  return made;
}
function drawn(tag, attributes, text) {
  const made = document.createElementNS("http://www.w3.org/2000/svg", tag);
  for (const [name, value] of Object.entries(attributes)) made.setAttribute(name, value);
  if (text !== undefined) made.textContent = text;
  return made;
}
// Keeps the elements of a list that did not change, so that focus, selection and readers are not disturbed.
function fill(list, items, keyOf, make) {
  const had = new Map([...list.children].map((child) => [child.dataset.key, child]));
  const focused = [...list.children].find((child) => child.contains(document.activeElement))?.dataset.key;
  let at = list.firstElementChild;
  for (const item of items) {
    const key = keyOf(item), said = JSON.stringify(item);
    let child = had.get(key);
    had.delete(key);
    if (!child || child.said !== said) {
      const made = make(item);
      made.dataset.key = key;
      made.said = said;
      if (child) {
        if (child === at) at = made;
        child.replaceWith(made);
      }
      child = made;
    }
    if (child === at) at = at.nextElementSibling;
    else list.insertBefore(child, at);
  }
  for (const child of had.values()) child.remove();
  if (focused !== undefined && !list.contains(document.activeElement)) {
    [...list.children].find((child) => child.dataset.key === focused)?.querySelector("a, summary")?.focus({ preventScroll: true });
  }
}
const IN_ZONE = new Intl.DateTimeFormat("en", { timeZone: ZONE, hourCycle: "h23", month: "2-digit", day: "2-digit", hour: "2-digit", minute: "2-digit", second: "2-digit" });
function clock(at) {
  const part = Object.fromEntries(IN_ZONE.formatToParts(at * 1000).map(({ type, value }) => [type, value]));
  return `${DATED ? `${part.month}-${part.day} ` : ""}${part.hour}:${part.minute}:${part.second}`;
}
const day = (at) => new Date(at * 1000).toISOString().slice(0, 19).replace("T", " ");
const count = (x) => (x === null ? "unknown" : Math.round(x).toLocaleString("en"));
function bytes(x) {
  if (x === null) return "unknown";
  const units = ["B/s", "kB/s", "MB/s", "GB/s", "TB/s"];
  let i = 0;
  for (; x >= 999.5 && i < units.length - 1; i++) x /= 1000;
  return `${x.toLocaleString("en", { maximumSignificantDigits: 3 })}\u00a0${units[i]}`;
}
function seconds(x) {
  if (x === null) return "unknown";
  if (x < 99.5) return `${x < 10 ? Math.round(x * 10) / 10 : Math.round(x)}\u00a0s`;
  return x < 5970 ? `${Math.round(x / 60)}\u00a0min` : `${Math.round(x / 360) / 10}\u00a0h`;
}
const percent = (part, whole) => (part === null || !whole ? "unknown" : `${Math.round((100 * part) / whole)}\u00a0%`);
const consumers = (now, wanted) => (wanted === null || wanted === now ? count(now) : `${count(now)} → ${count(wanted)}`);
// A group's name is encoded: none is written like this.
const BROKERS = "#/brokers", onBrokers = () => location.hash === BROKERS;
const path = () => (location.hash.length > 1 && !onBrokers() ? decoded(location.hash.slice(1)) : null);
function decoded(text) {
  try { return decodeURIComponent(text); } catch { return text; }
}

// --- what is said first ----------------------------------------------------------------------------------------------

function news() {
  const said = [], o = state.overview, name = path();
  if (REPORT) {
    fill($("news"), [...REPORT.notes, ...(REPORT.groups[name]?.notes ?? [])], (text) => text, (text) => element("p", {}, text));
    return;
  }
  const groups = o && !onBrokers() ? o.groups.filter((g) => name === null || g.name === name) : [];
  if (state.failed) {
    said.push(state.answered
      ? `The job does not answer since ${clock(state.answered)} ${ZONE}: what stands below is from then.`
      : "The job does not answer.");
    said.push(`Reason: ${state.failed}.`);
  } else if (o) {
    if (o.cycle_age_s !== null && o.cycle_age_s > o.old_s) {
      said.push(`No group is decided since ${clock(o.now - o.cycle_age_s)} ${ZONE}: what stands below is from then.`);
    } else {
      const old = groups.filter((g) => g.old);
      if (old.length) said.push(`Data is old: ${some(old.map((g) => g.name))}.`);
    }
    if (name === null && !onBrokers() && o.undecided.length) said.push(`Not decided yet since the job began: ${some(o.undecided)}.`);
    if (o.audit_waiting_s > 60) said.push(`Decisions since ${clock(o.now - o.audit_waiting_s)} ${ZONE} wait to be written into the tables.`);
  }
  const bad = said.length > 0;
  if (!bad && o) {
    said.push(onBrokers() ? "The autoscaler answers; the brokers are balanced by a job of their own, whose latest plan this is."
      : groups.length === 1 ? "The job answers; this group is decided and its data is fresh."
      : `The job answers; all ${count(groups.length)} groups are decided and their data is fresh.`);
  }
  $("news").className = bad ? "bad" : o ? "good" : "";
  if (said.length) fill($("news"), said, (text) => text, (text) => element("p", {}, text));
}
const some = (names) => names.slice(0, 3).join(", ") + (names.length > 3 ? ` and ${count(names.length - 3)} more` : "");

// --- all groups ------------------------------------------------------------------------------------------------------

const ORDERS = {
  risk: (a, b) => RISKS.indexOf(a.risk) - RISKS.indexOf(b.risk) || (b.utilisation ?? -1) - (a.utilisation ?? -1),
  lag: (a, b) => (b.lag_records ?? -1) - (a.lag_records ?? -1),
  waste: (a, b) => (b.waste ?? -1) - (a.waste ?? -1),
  name: () => 0,
};
function bars(g) {
  const hottest = [...g.bars].sort((a, b) => ratio(b) - ratio(a));
  const few = g.bars.length > MOST_BARS ? hottest.slice(0, MOST_BARS) : g.bars;
  const said = g.bars.length === 0 ? "no consumers seen"
    : `${g.bars.length} consumers, the hottest at ${g.utilisation === null ? "an unknown part" : percent(g.utilisation, 1)} of its capacity`;
  if (!few.length) return element("p", { class: "quiet" }, said);
  const per = few.length > 12 ? 7 : 14, wide = per - 3, high = 44;
  const svg = drawn("svg", { width: few.length * per, height: high, viewBox: `0 0 ${few.length * per} ${high}`, role: "img", "aria-label": said });
  few.forEach((bar, i) => {
    const box = { x: i * per, y: 0, width: wide, height: high };
    if (bar.load === null || !bar.capacity) {
      svg.append(drawn("rect", { ...box, x: box.x + 0.5, y: 0.5, width: wide - 1, height: high - 1, class: "unknown" }));
      return;
    }
    const part = Math.min(1, ratio(bar)) * high;
    svg.append(drawn("rect", { ...box, class: "empty" }));
    svg.append(drawn("rect", { ...box, y: high - part, height: part, class: ratio(bar) > 1 ? "fill over" : "fill" }));
  });
  const more = g.bars.length - few.length;
  const hot = g.utilisation === null ? "hottest unknown" : `hottest ${percent(g.utilisation, 1)}`;
  return element("div", {}, svg, element("span", { class: "quiet" }, more > 0 ? `${hot}; ${count(more)} cooler ones not drawn` : hot));
}
const ratio = (bar) => (bar.load === null || !bar.capacity ? -1 : bar.load / bar.capacity);
function card(g) {
  const said = risk(g);
  const figures = [["consumers", consumers(g.consumers_now, g.consumers)], ["load takes", count(g.recommended)], ["lag", count(g.lag_records)],
    ["behind", seconds(g.lag_s)], ["rate", bytes(g.bytes_per_s)]];
  return element("li", {},
    element("div", { class: "name" },
      element("a", { href: `#${encodeURIComponent(g.name)}` }, g.name),
      element("div", { class: "quiet" }, `${g.cluster} · ${g.mode}`),
      said ? element("span", { class: RISKS.indexOf(g.risk) < 5 ? "risk worst" : "risk" }, said) : null),
    bars(g),
    element("dl", { class: "figures" }, ...figures.flatMap(([term, value]) => [element("dt", {}, term), element("dd", {}, value)])),
    element("div", { class: "said" }, element("span", { class: "reason" }, because(g)), g.sentence));
}
const risk = (g) => (g.ended ? `nothing is recorded after ${clock(g.ended)}\u00a0${ZONE}`
  : g.risk === "old" ? `data is old: from ${clock(g.sampled)}\u00a0${ZONE}` : RISK_SAID[g.risk] ?? g.risk);
const because = (g) => (g.limited_by ? `${g.reason}, limited by ${g.limited_by}` : g.reason);
// Of a group only what its card shows: ages change each time, and would make it anew.
const shownOf = ({ age_s, sample_age_s, at, partitions, ...rest }) => (rest.old
  ? { ...rest, sampled: at + age_s - sample_age_s, ended: REPORT && age_s > REPORT.overview.old_s ? at : null } : rest);
function overview() {
  const o = state.overview, wanted = $("filter").value.trim().toLowerCase();
  const found = o.groups.filter((g) => [g.name, g.cluster, g.reason, g.limited_by ?? ""].some((x) => x.toLowerCase().includes(wanted)));
  const order = ORDERS[$("sort").value];
  found.sort((a, b) => order(a, b) || (a.name < b.name ? -1 : 1));
  const shown = found.slice(0, state.shown);
  fill($("groups"), shown.map(shownOf), (g) => g.name, card);
  const left = found.length - shown.length;
  $("more").hidden = left === 0;
  $("more").textContent = `Show ${count(Math.min(AT_ONCE, left))} more of ${count(left)}`;
}

// --- one group -------------------------------------------------------------------------------------------------------

function chart(one) {
  const width = Math.max(300, $("chart").clientWidth), high = 220, left = 74, right = width - 12, top = 16, bottom = high - 26;
  const last = one.history[one.history.length - 1], now = REPORT && one.group.old ? last.at : one.now, from = Math.min(now - 60, one.history[0].at);
  const most = Math.max(1, ...one.history.flatMap((p) => [p.load ?? 0, p.capacity ?? 0])) * 1.08;
  const x = (at) => left + ((at - from) / (now - from)) * (right - left), y = (v) => bottom - (v / most) * (bottom - top);
  const marks = one.decisions.filter((d) => d.at >= from), others = REPORT?.groups[one.group.name].marks ?? [];
  const svg = drawn("svg", { viewBox: `0 0 ${width} ${high}`, height: high, role: "img",
    "aria-label": `From ${clock(from)} to ${clock(now)} ${ZONE}; at last ${bytes(last.load)} of ${bytes(last.capacity)}; ${marks.length} decisions that changed something, listed below` });
  for (const at of others) svg.append(drawn("path", { d: `M${x(at) - 5} ${top - 10}h10l-5 9z`, class: "marktop" }));
  for (const part of [0, 0.5, 1]) {
    const v = (most / 1.08) * part;
    svg.append(drawn("line", { x1: left, x2: right, y1: y(v), y2: y(v), class: "axis" }));
    svg.append(drawn("text", { x: left - 8, y: y(v) + 4, "text-anchor": "end" }, v ? bytes(v) : "0"));
  }
  for (const [part, anchor] of [[0, "start"], [0.5, "middle"], [1, "end"]]) {
    const at = from + part * (now - from);
    svg.append(drawn("text", { x: x(at), y: high - 8, "text-anchor": anchor }, clock(at)));
  }
  for (const d of marks) {
    const at = x(d.at), mark = drawn("g", { class: "mark" });
    mark.append(drawn("title", {}, `${clock(d.at)} ${because(d)}`));
    mark.append(drawn("rect", { x: at - 5, y: top - 12, width: 10, height: bottom - top + 12, fill: "transparent" }));
    mark.addEventListener("click", () => reveal(d));
    mark.append(drawn("line", { x1: at, x2: at, y1: top, y2: bottom, class: "markline" }));
    mark.append(drawn("path", { d: `M${at - 5} ${top - 10}h10l-5 9z`, class: "marktop" }));
    svg.append(mark);
  }
  for (const [name, stepped] of [["capacity", true], ["load", false]]) {
    let path = "", before = null;
    for (const p of one.history) {
      if (p[name] === null) { before = null; continue; }
      const [px, py] = [x(p.at).toFixed(1), y(p[name]).toFixed(1)];
      path += before === null ? `M${px} ${py}` : stepped ? `H${px}V${py}` : `L${px} ${py}`;
      before = p;
    }
    if (path) svg.append(drawn("path", { d: path, class: `line ${name}` }));
  }
  $("chart").replaceChildren(svg);
}
// On a phone a consumer is a block of its own, each figure below its head: the roles keep it a table for readers.
function holder(w) {
  const place = [w.client_id && w.client_id !== w.name ? w.client_id : null, w.host].filter(Boolean).join(" · ");
  const cell = (head, kind, value) => element("td", { role: "cell", class: kind, "data-head": head }, value);
  return element("tr", { role: "row" },
    element("th", { scope: "row", role: "rowheader" }, w.slot === null ? w.name : `${w.slot} · ${w.name}`, place ? element("div", { class: "quiet" }, place) : null),
    cell("State", "", w.phase),
    cell("Load", "n", bytes(w.load)),
    cell("Of capacity", "n", percent(w.load, w.capacity)),
    cell("Lag", "n", count(w.lag_records)),
    cell("Partitions", "", w.partitions.length ? w.partitions.join(", ") : "none"));
}
function decision(d) {
  const details = element("details", {}, element("summary", {}, d.steps_all === 0 ? "why not another number" : d.steps_all === 1 ? "1 step, what it cost, and why not another number" : `${count(d.steps_all)} steps, what they cost, and why not another number`));
  details.addEventListener("toggle", () => { if (details.open) explain(details, state.group.group.name, d); });
  return element("li", {},
    element("div", { class: "reason" }, `${clock(d.at)} ${ZONE} · ${consumers(d.consumers_now, d.consumers)} consumers · ${because(d)}`),
    element("div", {}, d.sentence),
    details);
}
async function explain(details, name, d) {
  const shown = [];
  try {
    const why = await whyOf(name, d);
    const left = d.steps_all - d.steps.length;
    const steps = d.steps.map((step) => element("li", {}, step));
    if (left > 0) steps.push(element("li", {}, `and ${count(left)} more`));
    if (steps.length) shown.push(["steps", element("ul", {}, ...steps)]);
    if (why.outcome) shown.push(["became of it", why.outcome]);
    if (d.steps_all) shown.push(["cost", cost(why.cost)]);
    if (why.consumers === null) shown.push(["other numbers", "how many were asked for is not known: there is none to compare with"]);
    if (why.fewer) shown.push([`why not ${count(why.consumers - 1)}`, why.fewer]);
    if (why.more) shown.push([`why not ${count(why.consumers + 1)}`, why.more]);
    if (why.held.length) shown.push(["held before", element("ul", {}, ...why.held.map((h) => element("li", {}, `${h.consumer}: ${bytes(h.load)}, ${h.partitions}`)))]);
  } catch (error) {
    shown.push(["not known", failure(error)]);
  }
  const list = element("dl", { class: "why" }, ...shown.flatMap(([term, value]) => [element("dt", {}, term), element("dd", {}, value)]));
  details.querySelector("dl")?.remove();
  details.append(list);
}
const whyOf = (name, d) => (REPORT ? REPORT.groups[name].whys[REPORT.groups[name].one.decisions.indexOf(d)] : get(`api/groups/${encodeURIComponent(name)}/decisions/${d.at}`));
function cost(c) {
  if (c.moved === 0) return "no partition is moved";
  const load = c.moved_bytes_per_s === null ? "not all of their load known" : bytes(c.moved_bytes_per_s);
  const paused = c.pauses === 0 ? "" : c.pauses === 1 ? `; it stood still for ${pause(c.pause_max_s)}`
    : `; they stood still for ${pause(c.pause_median_s)} in the middle, ${pause(c.pause_max_s)} at most (${count(c.pauses)} measured)`;
  return `${c.moved === 1 ? "1 partition" : `${count(c.moved)} partitions`} (${load}${share(c.r_score)}); ${count(c.handed_over)} seen to change hands${paused}`;
}
function share(x) {
  if (!x) return "";
  return `, ${x < 0.005 ? "less than 0.01" : x.toLocaleString("en", { maximumFractionDigits: 2 })} of what one consumer may have`;
}
const pause = (x) => (x < 1 ? `${Math.round(x * 1000)}\u00a0ms` : seconds(x));
function reveal(d) {
  const item = [...$("decisions").children].find((child) => child.dataset.key === String(d.at));
  if (!item) return;
  const details = item.querySelector("details");
  details.open = true;
  item.scrollIntoView({ block: "center" });
  details.querySelector("summary").focus({ preventScroll: true });
}
function group() {
  const one = state.group, g = one.group;
  if (REPORT) $("held").textContent = `Who held what at ${clock(g.at)} ${ZONE}`;
  $("reason").textContent = because(g);
  $("sentence").textContent = g.sentence;
  const facts = [["cluster", g.cluster], ["mode", g.mode], ["consumers", consumers(g.consumers_now, g.consumers)], ["load takes", count(g.recommended)],
    ["rate", bytes(g.bytes_per_s)], ["hottest consumer", g.utilisation === null ? "unknown" : percent(g.utilisation, 1)],
    ["lag, records", count(g.lag_records)], ["lag, worst partition", seconds(g.lag_s)], ["decided", `${clock(g.at)} ${ZONE}`], ["risk", risk(shownOf(g)) || "none seen"]];
  fill($("facts"), facts, ([term]) => term, ([term, value]) => element("div", {}, element("dt", {}, term), element("dd", {}, value)));
  fill($("holders"), one.holders, (w) => `${w.slot} ${w.name}`, holder);
  fill($("decisions"), one.decisions, (d) => String(d.at), decision);
  if (REPORT) $("nodecisions").textContent = "None in this time.";
  $("nodecisions").hidden = one.decisions.length > 0;
  chart(one);
}

// --- brokers ---------------------------------------------------------------------------------------------------------

const amount = (goal, x) => (goal === "storage" || goal === "lag" ? bytes(x).replace("/s", "") : goal.startsWith("bytes_") ? bytes(x) : (Math.round(x * 10) / 10).toLocaleString("en"));
function load(x) {
  const limits = [x.low === null ? null : `band ${amount(x.goal, x.low)} to ${amount(x.goal, x.high)}`, x.most === null ? null : `at most ${amount(x.goal, x.most)}`];
  return element("td", { class: "n" }, element("span", { class: x.outside ? "outside" : "" }, amount(x.goal, x.load), x.outside ? " · outside" : ""),
    element("div", { class: "quiet" }, limits.filter(Boolean).join(", ")));
}
function table(label, heads, rows) {
  return element("div", { class: "scroll", role: "region", "aria-label": label, tabindex: "0" }, element("table", {},
    element("thead", {}, element("tr", {}, ...heads.map(([head, kind]) => element("th", { scope: "col", class: kind }, head)))),
    element("tbody", {}, ...rows)));
}
function cluster(c) {
  const goals = c.brokers[0]?.loads.map((x) => [x.goal, "n"]) ?? [];
  const brokers = c.brokers.map((b) => element("tr", {}, element("th", { scope: "row" }, String(b.id)), ...b.loads.map(load)));
  const actions = c.actions.map((a) => element("tr", {}, element("th", { scope: "row" }, a.partition), element("td", { class: "n" }, `${a.source ?? "?"} → ${a.target ?? "?"}`),
    element("td", { class: "n" }, a.score === null ? "unknown" : a.score.toFixed(3)), element("td", {}, a.state), element("td", {}, a.sentence)));
  const left = c.actions_all - c.actions.length;
  return element("section", { "aria-label": `Brokers of ${c.cluster}` },
    element("h2", {}, `${c.cluster} · ${c.mode}`),
    element("p", { class: "said" }, element("span", { class: "reason" }, `found at ${day(c.at)} UTC`), c.sentence),
    brokers.length ? table(`Loads of ${c.cluster}`, [["Broker", ""], ...goals], brokers) : null,
    element("p", { class: "quiet plan" }, c.planned_at === null ? "No plan yet." : `The latest plan is of ${day(c.planned_at)} UTC: ${count(c.actions_all)} actions, above a score of 0.5 they help.`),
    actions.length ? table(`Actions of ${c.cluster}`, [["Partition", ""], ["Brokers", "n"], ["Score", "n"], ["State", ""], ["Why", ""]], actions) : null,
    left > 0 ? element("p", {}, `and ${count(left)} more: the table balance has them`) : null);
}
function brokers() {
  $("nobrokers").hidden = state.brokers.clusters.length > 0;
  fill($("clusters"), state.brokers.clusters, (c) => c.cluster, cluster);
}

// --- asking and showing ----------------------------------------------------------------------------------------------

function show() {
  const name = path(), ready = onBrokers() ? state.brokers : name === null ? state.overview : state.group?.group.name === name;
  $("back").hidden = name === null && !onBrokers();
  $("title").textContent = onBrokers() ? "Brokers" : name ?? "Consumer groups";
  document.title = onBrokers() ? "Brokers" : name === null ? "Consumer groups" : `${name} · consumer group`;
  $("brokers").hidden = !onBrokers() || !ready;
  $("all").hidden = name !== null || onBrokers() || !ready;
  $("one").hidden = name === null || !ready;
  $("asof").textContent = REPORT ? `recorded until ${clock(REPORT.until)} ${ZONE}` : state.answered ? `as of ${clock(state.answered)} ${ZONE}` : "";
  news();
  if (ready) (onBrokers() ? brokers : name === null ? overview : group)();
}
async function get(url) {
  const answer = await fetch(url, { signal: AbortSignal.timeout(PATIENCE_MS), cache: "no-store" });
  if (answer.status === 401) location.reload(); // the login's form is there in place of the page
  if (answer.status === 404) throw new Error("this group has had no cycle since the job began");
  const said = await answer.json();
  if (!answer.ok) throw new Error(said.error ?? `status ${answer.status}`);
  return said;
}
const failure = (error) => (error.name === "TimeoutError" ? `no answer in ${PATIENCE_MS / 1000} s` : error instanceof TypeError ? "no connection" : error.message);
let asking = 0;
async function ask() {
  const turn = ++asking, name = path();
  if (REPORT) {
    Object.assign(state, { overview: REPORT.overview, group: REPORT.groups[name]?.one ?? null });
    show();
    return;
  }
  try {
    const [all, one, planned] = await Promise.all([get("api/groups"), name === null ? null : get(`api/groups/${encodeURIComponent(name)}`),
      onBrokers() ? get("api/brokers") : state.brokers]);
    if (turn !== asking) return;
    Object.assign(state, { overview: all, group: one, brokers: planned, answered: all.now, failed: null });
  } catch (error) {
    if (turn !== asking) return;
    state.failed = failure(error);
  }
  show();
  setTimeout(() => { if (turn === asking) ask(); }, EVERY_MS);
}
addEventListener("hashchange", () => { show(); $("title").focus(); scrollTo(0, 0); ask(); });
addEventListener("resize", () => { if (state.group && !$("one").hidden) chart(state.group); });
$("controls").addEventListener("submit", (event) => event.preventDefault());
for (const id of ["sort", "filter"]) $(id).addEventListener("input", () => { state.shown = AT_ONCE; show(); });
$("more").addEventListener("click", () => { state.shown += AT_ONCE; show(); });
if (REPORT && path() === null && REPORT.overview.groups.length === 1) location.replace(`#${encodeURIComponent(REPORT.overview.groups[0].name)}`);
else ask();
