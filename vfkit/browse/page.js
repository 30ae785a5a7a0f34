// Links, keys, and the start.

const link = (sample) => `#sample=${encodeURIComponent(sample.id)}`;
const title = document.title;

function open_sample(sample) {
  location.hash = link(sample);
}

function route() {
  const asked = location.hash.match(/^#sample=(.*)$/);
  if (asked) {
    let id = asked[1];
    try { id = decodeURIComponent(id); } catch { /* a link typed by hand */ }
    return show_sample(id);
  }
  const back = !byId("sample").hidden;
  byId("sample").hidden = true;
  byId("sample").replaceChildren();
  byId("overview").hidden = false;
  document.title = title;
  step(0);
  if (back) byId("list").focus({ preventScroll: true });
}

function key(event) {
  const typing = event.target.closest?.("input, select, textarea");
  if (event.ctrlKey || event.metaKey || event.altKey) return;
  if (event.key === "Escape") {
    if (typing) typing.blur();
    else if (!byId("sample").hidden) location.hash = "";
    return;
  }
  if (typing) return;
  const one = !byId("sample").hidden;
  const by = { j: 1, ArrowDown: 1, ArrowRight: 1, k: -1, ArrowUp: -1, ArrowLeft: -1 }[event.key];
  if (event.key === "/") {
    event.preventDefault();
    if (one) location.hash = "";
    byId("overview").hidden = false;
    byId("search").focus();
  } else if (by && one && !["ArrowDown", "ArrowUp"].includes(event.key)) { // those scroll the page
    const other = shown[shown.indexOf(shown[cursor]) + by];
    if (other) open_sample(other);
  } else if (by && !one) {
    event.preventDefault();
    step(by);
  } else if (event.key === "Enter" && !one && !event.target.closest("a, button") && shown[cursor]) {
    open_sample(shown[cursor]);
  }
}

byId("percentile").textContent = data.percentile;
byId("notes").append(...data.notes.map((note) => el("li", {}, note)));
byId("filters").append(...filters());
byId("filters").addEventListener("submit", (event) => event.preventDefault());
byId("filters").addEventListener("reset", () => {
  refine(Object.fromEntries(Object.keys(chosen).map((name) => [name, { run: "0", show: "all", probe: "0" }[name] ?? ""])));
});
byId("list").addEventListener("scroll", () => requestAnimationFrame(draw));
window.addEventListener("resize", draw);
window.addEventListener("hashchange", route);
document.addEventListener("keydown", key);
refine();
route();
