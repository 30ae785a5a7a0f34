"use strict";
// Data, filters and the list of samples. Every text of the data enters the page as text, never as markup.

const data = JSON.parse(document.getElementById("data").textContent);
const AT = Object.fromEntries(data.columns.map((name, index) => [name, index]));
const ROW = 56; // px: the height of a row in the style sheet
const byId = (id) => document.getElementById(id);
const said = (index) => (index === null ? "" : data.texts[index]);

/** A new element; strings among its children are texts, null ones are left out. */
function el(tag, attributes = {}, ...children) {
  const node = document.createElement(tag);
  for (const [name, value] of Object.entries(attributes)) {
    if (typeof value === "function") node.addEventListener(name, value);
    else if (value !== null && value !== false) node.setAttribute(name, value === true ? "" : value);
  }
  node.append(...children.flat().filter((child) => child !== null));
  return node;
}

const number = (value, digits = 3) => (value === null || value === undefined ? "–" : Number(value.toPrecision(digits)).toString());

// --- pictures: in blocks, each decoded when one of it is looked at ---

const blocks = [...document.querySelectorAll("script.thumbnails")];
const decoded = [];
function picture(index) {
  const block = Math.floor(index / data.block);
  decoded[block] ??= JSON.parse(blocks[block].textContent);
  return decoded[block][index % data.block];
}

// --- what the chosen run says of a sample, for the chosen family and probe ---

const all = data.samples;
all.forEach((sample, index) => {
  sample.index = index;
  const words = [sample.id, sample.question, sample.hint, ...(sample.options ?? [])];
  for (const run of sample.runs) {
    for (const form of run?.forms ?? []) words.push(said(form[AT.text_open]), said(form[AT.text_mcq]));
    for (const error of run?.errors ?? []) words.push(...error);
  }
  sample.words = [...new Set(words)].join("\n").toLowerCase();
});

/** Whether the answer of a probe's own prompt is kept: the generated text of the open one, else the scored option. */
function kept(form, probe) {
  const open = probe.endsWith("open") && form[AT.kept_open] !== null;
  return open ? form[AT.kept_open] : form[AT.flip] === false;
}

function moved(entry, form, probe) {
  const limit = entry.threshold?.[probe];
  return limit !== undefined && limit !== null && form[AT.drift][probe] !== null && form[AT.drift][probe] > limit;
}

/** Families that counts over all families leave out: another image, and the same pixels again. */
const UNCOUNTED = ["blank", "identity"];

function summary(sample, run, family, probe) {
  const entry = sample.runs[run];
  const row = { there: Boolean(entry), failed: entry?.errors.length ?? 0, counted: 0, flips: 0, hidden: 0, drift: null };
  row.margin = row.prediction = row.right = row.picture = null;
  if (!entry?.forms.length) return row;
  const [base, ...forms] = entry.forms;
  row.margin = base[AT.margin];
  row.prediction = base[AT.prediction];
  row.answer = row.prediction === null ? said(base[AT.text_mcq]) : sample.options[row.prediction];
  row.right = sample.answer === null || row.prediction === null ? null : row.prediction === sample.answer;
  row.picture = base[AT.pictures][0] ?? null;
  for (const form of forms) {
    if (family === "" ? UNCOUNTED.includes(said(form[AT.family])) : form[AT.family] !== Number(family)) continue;
    if (form[AT.flip] !== null) {
      row.counted += 1;
      row.flips += form[AT.flip];
    }
    const drift = form[AT.drift][probe];
    if (drift !== null && drift !== undefined) {
      row.drift = Math.max(row.drift ?? 0, drift);
      row.hidden += kept(form, data.runs[run].probes[probe]) && moved(entry, form, probe);
    }
  }
  return row;
}

// --- filters ---

const SHOW = {
  all: ["all samples", () => true],
  flipped: ["flipped at least once", (row) => row.flips > 0],
  hidden: ["answer kept but moved", (row) => row.hidden > 0],
  steady: ["never flipped", (row) => row.counted > 0 && row.flips === 0],
  right: ["base answer right", (row) => row.right === true],
  wrong: ["base answer wrong", (row) => row.right === false],
  failed: ["with errors", (row) => row.failed > 0],
  differ: ["answers of the runs differ", (row, sample) => new Set(sample.runs.filter((run) => run?.forms.length).map((run) => run.forms[0][AT.prediction])).size > 1],
};
const chosen = { run: "0", show: "all", family: "", category: "", probe: "0", search: "", margin_from: "", margin_to: "", drift_from: "", drift_to: "" };
const order = { by: "order", down: false };
let shown = all; // the samples that pass, in the order of the list
let rows = new Map(); // what is said of each, by its index
let cursor = 0;

function choice(name, label, options) {
  if (options.length < 2) return null;
  const select = el("select", { id: `filter-${name}`, change: (event) => refine({ [name]: event.target.value }) });
  select.append(...options.map(([value, text]) => el("option", { value, selected: value === chosen[name] }, text)));
  return el("label", {}, el("span", {}, label), select);
}

function limits(name, label) {
  const field = (end) => {
    const id = `${name}_${end}`;
    return el("input", { id: `filter-${id}`, type: "number", step: "any", "aria-label": `${label} ${end}`, placeholder: end, input: (event) => refine({ [id]: event.target.value }) });
  };
  return el("fieldset", {}, el("legend", {}, label), field("from"), field("to"));
}

function filters() {
  const families = [...new Set(all.flatMap((sample) => sample.runs.flatMap((run) => run?.forms.slice(1).map((form) => form[AT.family]) ?? [])))];
  const categories = [...new Set(all.map((sample) => sample.category ?? "").filter(Boolean))].sort();
  const shows = Object.entries(SHOW).filter(([name]) => name !== "differ" || data.runs.length > 1);
  const search = el("input", { id: "search", type: "search", placeholder: "id, question, option, answer", input: (event) => refine({ search: event.target.value }) });
  const probes = data.runs[chosen.run].probes.map((probe, index) => [String(index), probe]);
  return [
    el("label", {}, el("span", {}, "Search"), search),
    choice("run", "Run", data.runs.map((run, index) => [String(index), run.name])),
    choice("show", "Show", shows.map(([name, [text]]) => [name, text])),
    choice("category", "Category", [["", "all"], ...categories.map((name) => [name, name])]),
    choice("family", "Family", [["", "all"], ...families.map((index) => [String(index), said(index)])]),
    choice("probe", "Drift by", probes),
    limits("margin", "Margin"),
    probes.length ? limits("drift", "Drift") : null,
    el("button", { type: "reset" }, "Reset"),
  ].filter(Boolean);
}

const within = (value, from, to) => (from === "" && to === "") || (value !== null && (from === "" || value >= from) && (to === "" || value <= to));
const limit = (text) => (text === "" ? "" : Number(text));

const KEYS = {
  order: (sample) => sample.index,
  id: (sample) => sample.id,
  category: (sample) => sample.category ?? "",
  margin: (sample, row) => row.margin,
  flips: (sample, row) => (row.counted ? row.flips / row.counted : null),
  drift: (sample, row) => row.drift,
};

/** Change filters, and list what passes them. */
function refine(changes = {}) {
  Object.assign(chosen, changes);
  if (Number(chosen.probe) >= data.runs[chosen.run].probes.length) chosen.probe = "0";
  const words = chosen.search.toLowerCase().split(/\s+/).filter(Boolean);
  const [margin_from, margin_to, drift_from, drift_to] = ["margin_from", "margin_to", "drift_from", "drift_to"].map((name) => limit(chosen[name]));
  rows = new Map(all.map((sample) => [sample.index, summary(sample, Number(chosen.run), chosen.family, Number(chosen.probe))]));
  const passes = (sample) => {
    const row = rows.get(sample.index);
    return row.there && SHOW[chosen.show][1](row, sample) && (chosen.category === "" || sample.category === chosen.category)
      && words.every((word) => sample.words.includes(word))
      && within(row.margin, margin_from, margin_to) && within(row.drift, drift_from, drift_to);
  };
  const key = new Map(all.map((sample) => [sample.index, KEYS[order.by](sample, rows.get(sample.index))]));
  shown = all.filter(passes).sort((one, other) => {
    const [a, b] = [key.get(one.index), key.get(other.index)];
    if (a === b) return one.index - other.index;
    if (a === null || b === null) return a === null ? 1 : -1; // nothing known comes last either way
    return (a < b ? -1 : 1) * (order.down ? -1 : 1);
  });
  cursor = 0;
  byId("count").textContent = `${shown.length.toLocaleString("en")} of ${all.length.toLocaleString("en")} samples`;
  byId("table").setAttribute("aria-rowcount", shown.length + 1);
  byId("spacer").style.height = `${shown.length * ROW}px`;
  byId("list").scrollTop = 0;
  lines.clear();
  byId("spacer").replaceChildren();
  head();
  draw();
}

// --- the table: rows in sight alone are in the document ---

const HEADS = [["order", "#"], [null, "Image"], ["id", "Sample"], ["category", "Category"], [null, "Question and base answer"], ["margin", "Margin"], ["flips", "Flips"], ["drift", "Drift, most"]];

function head() {
  byId("head").replaceChildren(...HEADS.map(([key, text]) => {
    const sorted = key === order.by ? (order.down ? "descending" : "ascending") : null;
    const arrow = sorted ? (order.down ? " ▼" : " ▲") : "";
    const sort = () => {
      order.down = key === order.by ? !order.down : ["flips", "drift"].includes(key);
      order.by = key;
      refine();
      [...byId("head").querySelectorAll("button")].find((button) => button.textContent.startsWith(text))?.focus();
    };
    return el("span", { role: "columnheader", "aria-sort": sorted }, key ? el("button", { type: "button", click: sort }, text + arrow) : text);
  }));
}

function line(place) {
  const sample = shown[place], row = rows.get(sample.index);
  const cell = (...children) => el("span", { role: "cell" }, ...children);
  const image = row.picture === null ? null : el("img", { src: picture(row.picture), alt: `Image of ${sample.id}` });
  const verdict = row.right === null ? "" : row.right ? "✓ right" : "✗ wrong";
  const flags = [row.hidden ? `${row.hidden} kept but moved` : "", row.failed ? `${row.failed} errors` : ""].filter(Boolean).join(", ");
  const others = sample.runs.map((run, index) => (index === Number(chosen.run) || !run?.forms.length ? "" : sample.options[run.forms[0][AT.prediction]] ?? "")).filter(Boolean);
  const said_of = row.prediction === null && !row.answer ? "no answer" : `${row.answer}  ${verdict}`;
  const node = el(
    "div",
    { role: "row", class: "row", "aria-rowindex": place + 2, click: () => open_sample(sample) },
    cell(String(sample.index + 1)),
    cell(image),
    cell(el("a", { href: link(sample) }, sample.id)),
    cell(sample.category ?? ""),
    cell(el("span", { class: "question" }, sample.question ?? "not read"), el("span", { class: "said" }, said_of, others.length ? ` | others: ${others.join(", ")}` : "")),
    cell(number(row.margin)),
    cell(row.counted ? `${row.flips} of ${row.counted}` : "–", flags ? el("span", { class: "flag" }, flags) : null),
    cell(number(row.drift)),
  );
  node.style.transform = `translateY(${place * ROW}px)`;
  return node;
}

const lines = new Map(); // by place in `shown`: the rows in the document, kept while in sight so that focus stays

function draw() {
  const list = byId("list");
  const first = Math.max(0, Math.floor(list.scrollTop / ROW) - 4);
  const last = Math.min(shown.length, first + Math.ceil((list.clientHeight || 600) / ROW) + 9);
  for (const [place, node] of lines) {
    if (place < first || place >= last) {
      node.remove();
      lines.delete(place);
    }
  }
  let next = null;
  for (let place = last - 1; place >= first; place -= 1) {
    if (!lines.has(place)) {
      lines.set(place, line(place));
      byId("spacer").insertBefore(lines.get(place), next);
    }
    next = lines.get(place);
    next.toggleAttribute("data-cursor", place === cursor);
  }
}

/** Move the cursor by some rows, in sight. */
function step(by) {
  if (!shown.length) return;
  cursor = Math.min(shown.length - 1, Math.max(0, cursor + by));
  const list = byId("list"), top = cursor * ROW;
  if (top < list.scrollTop) list.scrollTop = top;
  if (top + ROW > list.scrollTop + list.clientHeight) list.scrollTop = top + ROW - list.clientHeight;
  draw();
}
