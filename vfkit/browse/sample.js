// The page of one sample: its base beside every perturbed form, for each run, or each level of a V-FAT item.

const LETTERS = "ABCDEFGHIJKLMNOPQRSTUVWXYZ";

/** What stands side by side: the runs of a sample; of a V-FAT item all its levels in the sample's format. */
function panels(sample) {
  const levels = all.filter((other) => sample.level && other.item === sample.item && other.format === sample.format);
  levels.sort((one, other) => (one.level < other.level ? -1 : 1));
  return (levels.length ? levels : [sample]).flatMap((each) =>
    data.runs.map((run, index) => ({ sample: each, run, entry: each.runs[index] }))
      .filter((panel) => panel.entry)
      .map((panel) => ({ ...panel, title: [each.level, data.runs.length > 1 ? panel.run.name : ""].filter(Boolean).join(", ") })));
}

function frame(src, caption, alt) {
  return el("figure", {}, el("img", { src, alt }), el("figcaption", {}, caption));
}

/** The pictures of a form: its base, itself, and how they differ. */
function pictures(panel, form) {
  const base = panel.entry.forms[0], name = said(form[AT.instance]), own = form === base;
  if (form[AT.seen] !== null) return el("p", { class: "unseen" }, said(form[AT.seen]));
  const groups = form[AT.pictures].map((index, place) => {
    const size = form[AT.size], which = form[AT.pictures].length > 1 ? ` ${place + 1}` : "";
    const figures = [frame(picture(index), `${own ? "base" : name}${which}, ${size[0]} × ${size[1]} px`, `${name}${which} of sample ${panel.sample.id}`)];
    if (!own && base[AT.pictures].length) {
      figures.unshift(frame(picture(base[AT.pictures][place]), `base${which}`, `base image${which} of sample ${panel.sample.id}`));
      figures.push(difference(form, picture(base[AT.pictures][place]), picture(index), place));
    }
    return el("div", { class: "pictures" }, figures);
  });
  return el("div", {}, groups);
}

function difference(form, base, image, place) {
  const change = form[AT.change], alt = `difference between ${said(form[AT.instance])} and base`;
  const amount = change ? `: mean ${number(change[0], 2)}, most ${change[1]} of 255` : "";
  if (form[AT.difference]) return frame(picture(form[AT.difference][place]), `difference, stretched${amount}`, alt);
  if (change && change[1] === 0) return el("figure", {}, el("div", { class: "difference", role: "img", "aria-label": "no difference" }), el("figcaption", {}, "no difference"));
  const layers = el("div", { class: "difference", role: "img", "aria-label": alt }, el("img", { src: base, alt: "" }), el("img", { src: image, alt: "" }));
  return el("figure", {}, layers, el("figcaption", {}, `difference${amount || ", stretched to one size"}`));
}

/** Scores of the options: bars are shares, the softmax of the scores; the tick is the base's share. */
function bars(panel, form) {
  const { sample, entry } = panel, scores = form[AT.scores];
  const shares = (values) => {
    const most = Math.max(...values), parts = values.map((value) => Math.exp(value - most));
    return parts.map((part) => part / parts.reduce((sum, each) => sum + each, 0));
  };
  const usable = (values) => values && !values.includes(null);
  const share = usable(scores) ? shares(scores) : null;
  const before = usable(entry.forms[0][AT.scores]) ? shares(entry.forms[0][AT.scores]) : null;
  return el("ul", { class: "bars", "aria-label": "Options and their scores" }, sample.options.map((option, index) => {
    const marks = [index === form[AT.prediction] ? "answer" : "", index === sample.answer ? "true" : ""].filter(Boolean);
    const bar = el("span", { class: "bar", "aria-hidden": "true" });
    if (share) {
      const fill = el("span", { class: index === form[AT.prediction] ? "fill predicted" : "fill" });
      fill.style.width = `${100 * share[index]}%`;
      bar.append(fill);
      if (before && form !== entry.forms[0]) {
        const tick = el("span", { class: "tick" });
        tick.style.left = `${100 * before[index]}%`;
        bar.append(tick);
      }
    }
    const label = sample.prompt === "mcq" ? `${LETTERS[index]}. ${option}` : option;
    const value = share ? `${number(scores[index])} (${(100 * share[index]).toFixed(0)} %)` : "";
    return el("li", {}, el("span", { class: "option" }, label, marks.map((mark) => el("b", { class: `mark ${mark}` }, mark))), bar, el("span", { class: "value" }, value));
  }));
}

function answers(panel, form) {
  const lines = [["text_mcq", panel.sample.prompt === "mcq" ? "Generated, with options" : "Generated"], ["text_open", "Generated, open prompt"]];
  const rows = lines.filter(([name]) => form[AT[name]] !== null).map(([name, label]) => el("div", {}, el("dt", {}, label), el("dd", {}, said(form[AT[name]]))));
  return rows.length ? el("dl", { class: "texts" }, rows) : null;
}

/** Cosine distance of every probe from the base, against its controls. */
function drift(panel, form) {
  const { entry, run } = panel;
  if (!form[AT.drift].some((value) => value !== null)) return null;
  const head = ["Probe", "Drift", "% of same question", "Moved?"].map((text) => el("th", { scope: "col" }, text));
  const lines = run.probes.map((probe, index) => {
    const far = form[AT.drift][index], control = entry.same_question?.[index];
    const share = control && far !== null ? (100 * far) / control : null;
    const cells = [number(far), number(share, 2), moved(entry, form, index) ? (kept(form, probe) ? "moved, kept" : "moved") : "no"];
    return el("tr", {}, el("th", { scope: "row" }, probe), cells.map((cell) => el("td", {}, cell)));
  });
  return el("table", {}, el("caption", {}, "Drift by probe (cosine distance)"), el("thead", {}, el("tr", {}, head)), el("tbody", {}, lines));
}

function controls(panel) {
  const { entry, run } = panel;
  if (!run.probes.length || !entry.same_question) return null;
  const head = ["Control", `Same question (${entry.pairs} images)`, "Other samples", `Threshold (${data.percentile} %)`];
  const lines = run.probes.map((probe, index) => el("tr", {}, el("th", { scope: "row" }, probe), ["same_question", "other_sample", "threshold"].map((name) => el("td", {}, number(entry[name]?.[index] ?? null)))));
  return el("table", {}, el("caption", {}, "What drift is held against"), el("thead", {}, el("tr", {}, head.map((text) => el("th", { scope: "col" }, text)))), el("tbody", {}, lines));
}

function card(panel, form) {
  const base = form === panel.entry.forms[0], name = base ? "Base" : said(form[AT.instance]);
  const flag = form[AT.flip] === null ? null : el("b", { class: form[AT.flip] ? "mark flipped" : "mark" }, form[AT.flip] ? "flipped" : "kept");
  const title = el("h4", {}, panel.title ? `${panel.title}: ${name}` : name, " ", flag);
  if (form[AT.reason] !== null) return el("section", { class: "card" }, title, el("p", {}, `Does not apply: ${said(form[AT.reason])}`));
  const margin = `Margin ${number(form[AT.margin])}` + (base || form[AT.base_margin] === null ? "" : `; of the base's answer ${number(form[AT.base_margin])}`);
  return el("section", { class: base ? "card base" : "card" }, title, base ? asked(panel.sample) : null, pictures(panel, form), bars(panel, form), el("p", { class: "margin" }, margin), answers(panel, form), base ? controls(panel) : drift(panel, form));
}

function asked(sample) {
  return el("div", { class: "asked" }, sample.hint ? el("p", {}, `Hint: ${sample.hint}`) : null, el("p", {}, sample.question));
}

/** Cards by family; forms of one name side by side where there are several panels. */
function family(index, these) {
  const forms = (panel) => panel.entry.forms.slice(1).filter((form) => form[AT.family] === index);
  const names = [...new Set(these.flatMap((panel) => forms(panel).map((form) => form[AT.instance])))];
  const counted = these.flatMap(forms).filter((form) => form[AT.flip] !== null);
  const cards = names.flatMap((name) => these.map((panel) => {
    const form = forms(panel).find((one) => one[AT.instance] === name);
    return form ? card(panel, form) : el("section", { class: "card" }, el("h4", {}, `${panel.title}: ${said(name)}`), el("p", {}, "not in this run"));
  }));
  const flips = counted.filter((form) => form[AT.flip]).length;
  return el("section", {}, el("h3", {}, `${said(index)}: ${flips} of ${counted.length} flipped`), grid(cards, these.length));
}

function grid(cards, columns) {
  const node = el("div", { class: "cards" }, cards);
  if (columns > 1) node.style.gridTemplateColumns = `repeat(${columns}, minmax(17rem, 1fr))`;
  return node;
}

function errors(sample) {
  const lines = sample.runs.flatMap((entry, index) => (entry?.errors ?? []).map(([instance, stage, kind, message]) => el("li", {}, `${data.runs[index].name}: ${instance || "row of the data"}, ${stage}: ${kind}: ${message}`)));
  return lines.length ? el("section", { class: "errors" }, el("h3", {}, "Errors"), el("ul", {}, lines)) : null;
}

function show_sample(id) {
  const sample = all.find((one) => one.id === id), node = byId("sample");
  byId("overview").hidden = true;
  node.hidden = false;
  const title = el("h2", { id: "sample-title", tabindex: "-1" }, sample ? sample.id : `There is no sample ${id} on this page`);
  const back = el("a", { href: "#" }, "All samples (Esc)");
  if (!sample) {
    node.replaceChildren(el("nav", { "aria-label": "Samples" }, back), title);
    return title.focus();
  }
  const place = shown.indexOf(sample);
  if (place >= 0) cursor = place;
  const neighbour = (by, text) => { const other = shown[place + by]; return place >= 0 && other ? el("a", { href: link(other), rel: by < 0 ? "prev" : "next" }, text) : el("span", { class: "off" }, text); };
  const where = place >= 0 ? `${place + 1} of ${shown.length} in the list` : "not among the samples of the list";
  const nav = el("nav", { "aria-label": "Samples" }, back, neighbour(-1, "← previous (k)"), neighbour(1, "next (j) →"), el("span", {}, where));
  const these = panels(sample).filter((panel) => panel.entry.forms.length);
  const found = [...new Set(these.flatMap((panel) => panel.entry.forms.slice(1).map((form) => form[AT.family])))];
  const blank = (panel) => panel.entry.forms.filter((form) => said(form[AT.family]) === "blank");
  const beside = these.length > 1 ? [] : these.flatMap((panel) => blank(panel).map((form) => card(panel, form))); // what is said without an image
  const first = [...these.map((panel) => card(panel, panel.entry.forms[0])), ...beside];
  const rest = found.filter((index) => !beside.length || said(index) !== "blank");
  const about = [sample.category, sample.level, sample.format].filter(Boolean).join(", ");
  node.replaceChildren(nav, title, el("p", {}, about), ...[errors(sample)].filter(Boolean), grid(first, these.length), ...rest.map((index) => family(index, these)));
  document.title = sample.id;
  window.scrollTo(0, 0);
  title.focus({ preventScroll: true });
}
