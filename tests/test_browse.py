"""The page of samples: what it holds, and how it behaves in a real browser."""

import json
import re
import shutil
import subprocess
import sys
from pathlib import Path

import pytest
from pages import HOSTILE, invent

from vfkit import open_run
from vfkit.browse import pictures, rows, write
from vfkit.browse.__main__ import main

ROOT = Path(__file__).parents[1]
STORED = ROOT / "tests/data/stored"
RUNS = {
    "perturbation": "perturbation/mini_llava_ov/mini_seed/45c64dc58db5",
    "pope": "pope/mini_llava_ov/mini_pope/5c7b1b5a2a50",
    "vfat": "vfat/mini_qwen3vl/mini_vfat/d14529581680",
    "attack": "attack/mini_qwen3vl/mini_seed/fa4c492af67a",
}
CHROMIUM = shutil.which("chromium") or shutil.which("chromium-browser") or shutil.which("google-chrome")
browser_needed = pytest.mark.skipif(
    CHROMIUM is None, reason="no Chromium: the pages are not tried in a browser (apt-get install chromium)"
)


def stored(name):
    return open_run(STORED / RUNS[name])


def data_of(path):
    """A page's data, as its script reads them."""
    return json.loads(re.search(r'id="data">(.*?)</script>', path.read_text(encoding="utf-8"), re.S)[1])


def forms_of(data, run=0):
    for sample in data["samples"]:
        for form in (sample["runs"][run] or {"forms": []})["forms"]:
            yield sample, dict(zip(data["columns"], form, strict=True))


@pytest.fixture(scope="module")
def pages(tmp_path_factory):
    """Data of the pages of stored runs, by name."""
    folder = tmp_path_factory.mktemp("pages")
    return {name: data_of(write(stored(name), folder / f"{name}.html").path) for name in ("perturbation", "pope")}


# --- what a page holds ------------------------------------------------------------------------------------------------


def test_page_says_what_the_records_say(pages):
    run, data = stored("perturbation"), pages["perturbation"]
    records = run.records().set_index(["sample_id", "instance"])
    found = list(forms_of(data))
    assert len(found) == len(records)
    for sample, form in found:
        row = records.loc[(sample["id"], data["texts"][form["instance"]])]
        assert form["prediction"] == row.prediction and form["margin"] == pytest.approx(row.margin, rel=1e-3)
        assert form["flip"] == (None if row.family == "base" else bool(row.flip))
        assert form["scores"] == pytest.approx(list(row.logp_text + row.logp_end), rel=1e-3)
        drift = dict(zip(data["runs"][0]["probes"], form["drift"], strict=True))
        assert drift["ans_mcq"] == pytest.approx(row.cos_ans_mcq_post_norm, rel=1e-3)
    flips = sum(form["flip"] or 0 for _, form in found)
    assert flips == run.table("flips").query("not family.str.startswith('union')").flips.sum() > 0


def test_every_picture_is_what_the_run_read(pages):
    assert all(form["pictures"] for _, form in forms_of(pages["perturbation"]))
    base, moved = next((b, f) for b, f in _pairs(pages["perturbation"], "translation_+8"))
    assert base["pictures"] != moved["pictures"] and moved["change"][0] > 0
    base, same = next(_pairs(pages["perturbation"], "identity"))
    assert same["pictures"] == base["pictures"] and same["change"] == [0, 0]


def _pairs(data, instance):
    base = None
    for _, form in forms_of(data):
        name = data["texts"][form["instance"]]
        base = form if name == "base" else base
        if name == instance:
            yield base, form


def test_an_image_that_differs_from_the_one_read_is_not_shown(tmp_path):
    run = invent(tmp_path / "data", 6)
    shutil.copy(tmp_path / "data/1.png", tmp_path / "data/0.png")
    (tmp_path / "data/2.png").unlink()
    data = data_of(write(run, tmp_path / "page.html").path)
    seen = {s["id"]: data["texts"][f["seen"]] for s, f in forms_of(data) if not f["pictures"]}
    (changed,) = [why for id, why in seen.items() if id.endswith(f"{HOSTILE[0]}0")]
    assert changed == pictures.NOT_REPRODUCED
    assert any(id.endswith("2") for id in seen) and not any(id.endswith("3") for id in seen)


def test_a_run_whose_data_are_gone_gives_numbers_and_says_so(tmp_path):
    run = invent(tmp_path / "data", 6)
    (tmp_path / "data/own.jsonl").unlink()
    page = write(run, tmp_path / "page.html")
    data = data_of(page.path)
    assert "images are not shown" in " ".join(page.notes)
    for _, form in forms_of(data):
        assert form["margin"] and not form["pictures"] and data["texts"][form["seen"]] == pictures.NO_DATA


def test_adversarial_images_come_from_the_run_or_are_said_to_be_missing(tmp_path):
    data = data_of(write(stored("attack"), tmp_path / "page.html").path)
    for _, form in forms_of(data):
        attacked = data["texts"][form["family"]].startswith("pgd")
        assert bool(form["pictures"]) != attacked
        assert not attacked or data["texts"][form["seen"]].startswith("not kept")


def test_budget_and_choice_are_kept_and_said(tmp_path):
    run = invent(tmp_path / "data", 60)
    page = write(run, tmp_path / "page.html", megabytes=0.02, samples=30)
    data = data_of(page.path)
    assert len(data["samples"]) == 30 and "30 of 60 samples" in " ".join(page.notes)
    assert "of at most 0.02" in page.notes[-1] and "left out" in page.notes[-1]
    blocks = re.findall(r'class="thumbnails">(.*?)</script>', page.path.read_text(), re.S)
    assert sum(len(uri) for block in blocks for uri in json.loads(block)) < 0.02e6 + 4000
    shown = [form for _, form in forms_of(data) if form["pictures"]]
    assert shown and all(data["texts"][form["family"]] == "base" for form in shown[:1])


def test_choice_is_in_proportion_to_categories_and_states(tmp_path):
    found = rows.collect([invent(tmp_path / "data", 120)], rows.Texts())
    chosen = rows.choose(found, 60)
    assert len(chosen) == 60 and chosen == rows.choose(found, 60)
    for name in ("flipped", "moved", "kept"):
        all_of, some = (sum(sample["state"] == name for sample in part) for part in (found, chosen))
        assert abs(some - all_of / 2) <= 4


def test_states_put_flips_before_moves(tmp_path):
    texts = rows.Texts()
    for sample in rows.collect([invent(tmp_path / "data", 40)], texts):
        forms = [form for form in sample["runs"][0]["forms"][1:]]
        if any(form["flip"] for form in forms):
            assert sample["state"] == "flipped"
        elif not forms:
            assert sample["state"] == "failed"
        else:
            assert sample["state"] == ("moved" if any(max(form["drift"]) > 0.5 for form in forms) else "kept")


def test_identity_does_not_count_over_all_families():
    form = dict(flip=False, drift=[], family=0)
    sample = {"runs": [{"forms": [form, form | dict(flip=True, family=1)], "errors": []}]}
    assert rows.state(sample) == "flipped" and rows.state(sample, [1]) == "kept"
    script = (ROOT / "vfkit/browse/list.js").read_text()
    assert f"UNCOUNTED = {json.dumps(rows.UNCOUNTED)}" in script


def test_runs_stand_side_by_side(tmp_path):
    models = ["mini_qwen3vl", "mini_qwen3vl_l"]
    runs = [open_run(next((STORED / "perturbation" / name).rglob("run.json")).parent) for name in models]
    data = data_of(write(runs, tmp_path / "page.html").path)
    assert [run["name"] for run in data["runs"]] == [f"{name} on mini_seed" for name in models]
    assert all(all(sample["runs"]) for sample in data["samples"])
    pairs = list(zip(forms_of(data, 0), forms_of(data, 1), strict=True))
    assert any(one["scores"] != other["scores"] for (_, one), (_, other) in pairs)


def test_run_browse_writes_beside_the_run_and_shows_itself(tmp_path):
    folder = tmp_path / "run"
    shutil.copytree(STORED / RUNS["vfat"], folder)
    page = open_run(folder).browse()
    assert page.path == folder / "browse.html"
    shown = page._repr_html_()
    assert "<iframe" in shown and "srcdoc" in shown
    inner = shown.split('srcdoc="')[1].split('"')[0]
    assert "<" not in inner


def test_no_text_of_the_data_is_markup(tmp_path):
    text = write(invent(tmp_path / "data", 10), tmp_path / "page.html").path.read_text(encoding="utf-8")
    assert text.count("<script") == text.count("</script>") == 2 + text.count('class="thumbnails"')
    assert "window.hacked = 1</" not in text and "<img" not in text


@pytest.mark.parametrize(
    "arguments, message",
    [
        (["nowhere", "-o", "x.html"], "there is no folder nowhere"),
        ([str(ROOT / "vfkit"), "-o", "x.html"], "there is no run"),
        ([str(STORED / "vfat"), "-o", "x.html"], "holds 2 runs; name one"),
        ([str(STORED / RUNS["vfat"]), "-o", "x.pdf"], "the page is an HTML file"),
        ([str(STORED / RUNS["vfat"]), "-o", "x.html", "--samples", "0"], "samples >= 1"),
        ([str(STORED / RUNS["vfat"]), "-o", "/proc/no/x.html"], "/proc/no"),
    ],
)
def test_mistakes_on_the_command_line_are_one_line(arguments, message):
    with pytest.raises(SystemExit) as stopped:
        main(arguments)
    assert message in str(stopped.value) and "\n" not in str(stopped.value)


def test_command_writes_a_page_without_torch(tmp_path):
    out = tmp_path / "page.html"
    code = f"""
import sys
class Absent:
    def find_spec(name, path=None, target=None):
        if name in ("torch", "transformers"):
            raise ModuleNotFoundError(name)
sys.meta_path.insert(0, Absent)
from vfkit.browse.__main__ import main
main([{str(STORED / RUNS["pope"])!r}, "-o", {str(out)!r}])
"""
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True)
    assert done.returncode == 0, done.stderr
    assert "Thumbnails of 900 of 900 forms" in done.stdout and out.is_file()


def test_colours_have_contrast():
    """WCAG's 4.5 for every text colour of the style sheet on both its grounds, light and dark."""
    style = (ROOT / "vfkit/browse/page.css").read_text()
    themes = re.findall(r":root \{(.*?)\}", style, re.S)
    assert len(themes) == 2
    for theme in themes:
        colours = dict(re.findall(r"--(\w+): (#\w{6})", theme))
        for text in ("ink", "quiet", "link", "predicted", "flipped", "true"):
            for ground in ("paper", "raised"):
                assert _contrast(colours[text], colours[ground]) >= 4.5, (text, ground)
        for mark in ("focus", "bar", "line"):
            assert _contrast(colours[mark], colours["paper"]) >= 3, mark


def _contrast(one, other):
    low, high = sorted(_luminance(colour) for colour in (one, other))
    return (high + 0.05) / (low + 0.05)


def _luminance(colour):
    parts = [int(colour[i : i + 2], 16) / 255 for i in (1, 3, 5)]
    linear = [part / 12.92 if part <= 0.04045 else ((part + 0.055) / 1.055) ** 2.4 for part in parts]
    return 0.2126 * linear[0] + 0.7152 * linear[1] + 0.0722 * linear[2]


# --- in a browser -----------------------------------------------------------------------------------------------------


@pytest.fixture(scope="module")
def chromium():
    playwright = pytest.importorskip("playwright.sync_api", reason="no playwright: pip install playwright")
    with playwright.sync_playwright() as p:
        browser = p.chromium.launch(executable_path=CHROMIUM, args=["--no-sandbox"])
        yield browser
        browser.close()


@pytest.fixture(scope="module")
def large(tmp_path_factory):
    folder = tmp_path_factory.mktemp("large")
    return write(
        invent(folder / "data", 2000, ("identity", "scale", "rotation")), folder / "page.html", megabytes=1
    ).path


@pytest.fixture
def visit(chromium):
    """Opens a page; at the end nothing may have been said on the console, asked of the network, or run of the data."""
    said, asked, tabs = [], [], []

    def open(path, hash="", **options):
        tab = chromium.new_page(viewport={"width": 1280, "height": 800}, **options)
        tab.on("console", lambda message: said.append(message.text))
        tab.on("pageerror", lambda error: said.append(str(error)))
        tab.on("request", lambda request: asked.append(request.url))
        tab.goto(path.as_uri() + hash)
        tabs.append(tab)
        return tab

    yield open
    for tab in tabs:
        assert tab.evaluate("window.hacked") is None
        tab.close()
    assert not said
    assert not [url for url in asked if not url.startswith(("file:", "data:"))]


@browser_needed
def test_a_large_page_opens_filters_and_sorts(visit, large):
    tab = visit(large)
    count = lambda: int(tab.inner_text("#count").split()[0].replace(",", ""))  # noqa: E731
    assert count() == 2000 and tab.locator("#list .row").count() < 60
    tab.select_option("#filter-show", "failed")
    assert count() == 1 and "truncated" not in tab.inner_text("#list")
    tab.click("text=Reset")
    everything = data_of(large)["samples"]
    tab.fill("#search", "NUMBER 17?")
    assert count() == sum("17?" in sample.get("question", "") for sample in everything) == 20
    tab.click("text=Reset")
    assert count() == 2000 and tab.input_value("#search") == ""
    tab.select_option("#filter-show", "flipped")
    assert count() == sum(sample["state"] == "flipped" for sample in everything)
    tab.select_option("#filter-show", "all")
    tab.fill("#filter-margin_from", "5")
    assert count() == sum(sample["runs"][0]["forms"][0][5] >= 5 for sample in everything if sample["runs"][0]["forms"])
    tab.click("text=Reset")
    tab.click("#head button:has-text('Margin')")
    assert tab.locator("[role=columnheader][aria-sort=ascending]").inner_text().startswith("Margin")
    assert tab.locator("#list .row").first.locator("[role=cell]").nth(5).inner_text() == "1"
    tab.click("#head button:has-text('Margin')")
    assert tab.locator("#list .row").first.locator("[role=cell]").nth(5).inner_text() == "5"
    tab.evaluate("document.getElementById('list').scrollTop = 1e6")
    tab.wait_for_function("document.querySelectorAll('#list .row').length && lines.has(1999)")
    assert tab.locator("#list .row").count() < 60


@browser_needed
def test_keys_lead_through_the_page(visit, large):
    tab = visit(large)
    title = lambda: tab.inner_text("#sample-title")  # noqa: E731
    first, second = (tab.locator("#list a").nth(i).inner_text() for i in range(2))
    for key in ("j", "k", "ArrowDown", "Enter"):
        tab.keyboard.press(key)
    tab.wait_for_selector("#sample-title")
    assert title() == second and tab.evaluate("document.activeElement.id") == "sample-title"
    tab.keyboard.press("k")
    tab.wait_for_function("cursor === 0")
    assert title() == first
    tab.keyboard.press("ArrowRight")
    tab.wait_for_function("cursor === 1")
    tab.keyboard.press("Escape")
    tab.wait_for_selector("#overview", state="visible")
    assert tab.evaluate("document.activeElement.id") == "list"
    tab.keyboard.press("/")
    tab.keyboard.type("jk 7")
    assert tab.input_value("#search") == "jk 7" and tab.is_visible("#overview")
    tab.keyboard.press("Escape")
    assert tab.evaluate("document.activeElement.id") != "search"


@browser_needed
def test_hostile_texts_stay_texts(visit, tmp_path):
    page = write(invent(tmp_path / "data", 10), tmp_path / "page.html").path
    tab = visit(page)
    for sample in data_of(page)["samples"][:9]:
        tab.evaluate("id => open_sample(all.find(one => one.id === id))", sample["id"])
        tab.wait_for_function("id => document.getElementById('sample-title')?.textContent === id", arg=sample["id"])
        shown = tab.evaluate("document.getElementById('sample').textContent")
        assert all(text in shown for text in [sample.get("question", ""), *sample.get("options", [])])
    assert tab.locator("main script, main [onerror], main [onmouseover]").count() == 0


@browser_needed
def test_a_link_opens_one_sample_and_a_wrong_one_says_so(visit, tmp_path):
    page = write(stored("perturbation"), tmp_path / "page.html").path
    sample = data_of(page)["samples"][3]
    tab = visit(page, f"#sample={sample['id'].replace('/', '%2F')}")
    assert tab.inner_text("#sample-title") == sample["id"]
    assert tab.locator(".card").count() == len(sample["runs"][0]["forms"])
    sound = "one => one.complete && one.naturalWidth > 0 && one.hasAttribute('alt')"
    tab.wait_for_function(f"[...document.images].every({sound})")
    assert tab.locator(".card:has(h4:has-text('translation_-16')) figure").count() == 3
    tab = visit(page, "#sample=absent%")
    assert "no sample absent% on this page" in tab.inner_text("#sample-title")


@browser_needed
def test_levels_of_vfat_and_blank_images_stand_side_by_side(visit, tmp_path):
    page = write(stored("vfat"), tmp_path / "vfat.html").path
    sample = next(one for one in data_of(page)["samples"] if one["level"] == "L2" and one["format"] == "mcq")
    tab = visit(page, f"#sample={sample['id'].replace('/', '%2F')}")
    titles = tab.locator(".card.base h4").all_inner_texts()
    assert [title.split(":")[0] for title in titles] == ["L1", "L2", "L3"]
    page = write(stored("pope"), tmp_path / "pope.html").path
    tab = visit(page)
    tab.locator("#list a").first.click()
    together = tab.locator(".cards").first.locator("h4").all_inner_texts()
    assert together[0].startswith("Base") and together[1].startswith("blank_")


@browser_needed
@pytest.mark.parametrize("scheme", ["light", "dark"])
def test_texts_in_the_browser_have_contrast(visit, tmp_path, scheme):
    tab = visit(write(stored("vfat"), tmp_path / "page.html").path, color_scheme=scheme)
    body = "getComputedStyle(document.body)"
    ink, paper = tab.evaluate(f"[{body}.color, {body}.backgroundColor]")
    tell = lambda colour: "#" + "".join(f"{int(part):02x}" for part in re.findall(r"\d+", colour)[:3])  # noqa: E731
    assert _contrast(tell(ink), tell(paper)) >= 7
    assert (_luminance(tell(paper)) > 0.5) == (scheme == "light")
