"""A run of invented records about real images, as large as asked, and how fast its page is in a browser.

`python tests/pages.py [samples]` writes such a page and prints what a browser takes to open it and to filter it.
"""

import json
import shutil
import sys
import tempfile
import time
from pathlib import Path

import numpy as np
from PIL import Image

from vfkit import StudyConfig, natural_suite
from vfkit.browse import write
from vfkit.images import open_images
from vfkit.perturb import NATURAL_FAMILIES
from vfkit.readout.readout import PROBES
from vfkit.sample import Instance
from vfkit.study import store
from vfkit.study.rows import error_row, image_hash, sample_row
from vfkit.study.run import Run

HOSTILE = (
    "</script><script>window.hacked = 1</script>",
    "<img src=x onerror='window.hacked = 1'>",
    '" onmouseover="window.hacked = 1',
    "{{script}} <!-- & \u2028 \u0000 \U0001f600",
)
FAMILIES = ("identity", "translation", "scale", "rotation")


def invent(folder: Path, n: int, families: tuple[str, ...] = FAMILIES, side: int = 48) -> Run:
    """A finished run on `n` own images: every seventh form flips, every fifth moves, the last sample has failed.

    Its first questions, categories, options and answers are `HOSTILE`.
    """
    rng = np.random.default_rng(0)
    folder.mkdir(parents=True, exist_ok=True)
    lines = []
    for i in range(n):
        coarse = rng.integers(0, 256, (6, 6, 3), dtype=np.uint8)
        Image.fromarray(coarse).resize((side, side), Image.Resampling.BICUBIC).save(folder / f"{i}.png")
        bad = HOSTILE[i % 4] if i < 8 else ""
        line = {"id": f"{bad}{i}", "image": f"{i}.png", "question": f"{bad} Which is number {i}?", "answer": "A"}
        line["options"] = [f"{bad}one", "two", "three", "four"]
        lines.append(line | {"category": f"{bad}c{i % 6}"})
    table = folder / "own.jsonl"
    table.write_text("\n".join(map(json.dumps, lines)), encoding="utf-8")
    config = StudyConfig(
        model="mini_qwen3vl", dataset="table", dataset_path=str(table), n=None, families=families, probes=True
    )
    run = Run(folder / "run")
    parts: dict[str, list] = {"records": [], "samples": [], "controls": [], "vectors": [], "errors": []}
    ids = []
    for i, sample in enumerate(config.load_samples()):
        ids.append(sample.id)
        if i == n - 1:
            parts["errors"].append(error_row(sample.id, "base", "image", ValueError(f"truncated {HOSTILE[0]}")))
            continue
        images = open_images(sample)
        instances = [Instance("base", "base", {}, images), *natural_suite(families).instances(sample, 0, images)]
        parts["records"] += [_record(rng, i + k, sample, one, image_hash(images)) for k, one in enumerate(instances)]
        parts["samples"].append(sample_row(sample))
        control = {"sample_id": sample.id, "partner_id": "other", "image_id": image_hash(images)}
        parts["controls"].append(control | {f"cos_{probe}_post_norm": float(rng.uniform(0.3, 0.5)) for probe in PROBES})
    store.write_part(run.folder, ids, **parts)
    manifest = {"config": config.model_dump(mode="json"), "samples": {"asked": n, "done": n - 1, "failed": 1}}
    manifest |= {"started": "2026-01-01", "finished": "2026-01-02", "versions": {}}
    store.write_json(run.folder / "run.json", manifest)
    return run


def _record(rng, turn, sample, one, image_id) -> dict:
    flip, base = turn % 7 == 0 and one.family != "base", one.family == "base"
    scores = np.sort(rng.uniform(-9, 0, len(sample.options)))[::-1]
    scores = np.roll(scores, 1) if flip else scores
    row = {"sample_id": sample.id, "category": sample.category, "family": one.family, "instance": one.name}
    row |= {"applicable": one.applicable, "reason": one.reason, "answer": sample.answer, "base_prediction": 0}
    row |= {"n_options": len(scores), "image_id": image_id, "prediction": int(flip), "flip": flip}
    row |= {"margin": 1.0 + turn % 5, "base_margin": 1.0 - 2 * flip, "logp_text": scores.tolist()}
    row |= {"logp_end": [0.0] * len(scores), "logp_letter": scores.tolist(), "n_tokens": [1] * len(scores)}
    row |= {"text_open": "one" if not flip else "two", "text_mcq": sample.options[0], "params": "{}"}
    row |= {f"cos_{probe}_post_norm": 0.0 if base else 0.6 if turn % 5 == 0 else 0.1 for probe in PROBES}
    return row | {"image_hash": image_hash(one.images), "width": one.images[0].width, "height": one.images[0].height}


def measure(samples: int = 2000) -> None:
    """Print the size of a full page, and the seconds that Chromium takes to open it and to answer its filters."""
    from playwright.sync_api import sync_playwright

    place = Path(tempfile.mkdtemp())
    try:
        run = invent(place / "data", samples, NATURAL_FAMILIES, side=160)
        begun = time.monotonic()
        page = write(run, place / "page.html")
        seconds, size = time.monotonic() - begun, page.path.stat().st_size / 1e6
        print(f"written in {seconds:.0f} s, {size:.1f} MB", *page.notes, sep="\n")
        with sync_playwright() as p:
            browser = p.chromium.launch(executable_path=shutil.which("chromium"), args=["--no-sandbox"])
            tab = browser.new_page(viewport={"width": 1280, "height": 900})
            begun = time.monotonic()
            tab.goto(page.path.as_uri())
            tab.wait_for_selector("#list img")
            print(f"opened in {time.monotonic() - begun:.2f} s")
            rotation = tab.evaluate("String(data.texts.indexOf('rotation'))")
            drifted = {"probe": "2", "drift_from": "0.3"}
            for changes in ({"show": "flipped"}, {"family": rotation}, {"search": "number 12"}, drifted):
                code = "c => { const t = performance.now(); refine(c); return performance.now() - t; }"
                print(f"filter {changes}: {tab.evaluate(code, changes):.0f} ms")
            begun = time.monotonic()
            tab.evaluate("refine({show: 'all', search: '', drift_from: '', family: ''}); open_sample(shown[9])")
            tab.wait_for_selector("#sample h4")
            print(f"sample opened in {time.monotonic() - begun:.2f} s")
            browser.close()
    finally:
        shutil.rmtree(place)


if __name__ == "__main__":
    measure(*map(int, sys.argv[1:]))
