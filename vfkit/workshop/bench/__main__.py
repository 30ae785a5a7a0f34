"""`python -m vfkit.bench`: the engine beside the naive protocol and the limit, as a table and as JSON."""

import argparse
import json
from collections.abc import Sequence
from dataclasses import replace
from functools import partial
from operator import itemgetter
from pathlib import Path
from typing import Any

import torch
from transformers.utils import logging

import vfkit
from vfkit.models.load import VLM
from vfkit.readout.engine import read_many
from vfkit.readout.reader import Request
from vfkit.study.provenance import machine, versions
from vfkit.workshop.bench import report
from vfkit.workshop.bench.limit import Prefill
from vfkit.workshop.bench.measure import measure
from vfkit.workshop.bench.naive import read_naive
from vfkit.workshop.zoo.build import build
from vfkit.workshop.zoo.networks import Size

LARGE = Size(width=512, text_layers=8, vision_width=512, vision_layers=8, heads=8, patch=16, side=512)
"""A Qwen3-VL with random weights; an image is 16 x 16 = 256 tokens of 32 px."""

TASKS = {"scoring": False, "full readout": True}
FAMILIES = ("identity", "scale", "rotation", "text_overlay")


def main(arguments: list[str] | None = None) -> dict[str, Any]:
    parser = argparse.ArgumentParser("python -m vfkit.bench", description=__doc__)
    parser.add_argument("--sizes", nargs="+", default=["mini_qwen3vl", "random_512"], help="a model, or random_512")
    parser.add_argument("--n", type=int, default=2, help="samples; each is read with all its perturbed images")
    parser.add_argument("--families", nargs="*", default=FAMILIES, help="which perturbed images there are")
    parser.add_argument("--repeats", type=int, default=3, help="the fastest of so many counts (naive: one)")
    parser.add_argument("--device", default=None)
    parser.add_argument("--out", default="outputs/bench.json", type=Path)
    parser.add_argument("--readme", default=None, type=Path, help="a file with the marks that figures go between")
    options = parser.parse_args(arguments)
    logging.set_verbosity_error()  # generation warns of settings that it takes from its own defaults

    rows = [row for size in options.sizes for row in _rows(_model(size, options.device), options)]
    device = options.device or ("cuda" if torch.cuda.is_available() else "cpu")
    result = {
        "machine": machine(), "device": torch.cuda.get_device_name() if device.startswith("cuda") else device,
        "threads": torch.get_num_threads(), "versions": versions(), "rows": rows,
    }  # fmt: skip
    options.out.parent.mkdir(parents=True, exist_ok=True)
    options.out.write_text(json.dumps(result, indent=2))
    print(report.table(result).to_string(index=False))
    print(f"written to {options.out}")
    if options.readme:
        report.write_readme(options.readme, result)
    return result


def _rows(vlm: VLM, options: argparse.Namespace) -> list[dict[str, Any]]:
    """Every task by every way, the ways in turn so that a machine that slows down slows all of them."""
    bases, instances = _requests(vlm, options.n, options.families)
    requests = bases + instances
    limits = {"limit": Prefill.of(vlm, requests, False), "one prompt": Prefill.of(vlm, requests, True)}
    rows = []
    for task, probes in TASKS.items():
        ways: dict[str, Any] = {
            "engine": partial(_by_engine, vlm, (bases, instances), probes),
            **{name: partial(ready.run, vlm) for name, ready in limits.items()},
        }
        read_many(vlm, requests[:1], probes)  # what is made on first use is not part of any
        best = {way: measure(vlm, read) for way, read in ways.items()}
        for _ in range(options.repeats - 1):
            again = {way: measure(vlm, read) for way, read in ways.items()}
            best = {way: min(best[way], again[way], key=itemgetter("seconds")) for way in ways}
        best["naive"] = measure(vlm, partial(_naively, vlm, requests, probes))
        rows += [{"size": vlm.name, "task": task, "way": way, "images": len(requests), **best[way]} for way in best]
    return rows


def _by_engine(vlm: VLM, parts: Sequence[list[Request]], probes: bool) -> list:
    return [read_many(vlm, requests, probes) for requests in parts]


def _naively(vlm: VLM, requests: list[Request], probes: bool) -> list:
    return [read_naive(vlm, sample, images, probes) for sample, images in requests]


def _requests(vlm: VLM, n: int, families: list[str]) -> tuple[list[Request], list[Request]]:
    """Bases and perturbed images of multiple-choice questions, as a study reads them: in two calls."""
    samples = [sample for sample in vfkit.load_dataset("mini_seed", n=16 * n) if len(sample.options) == 4][:n]
    bases: list[Request] = [(sample, (vfkit.load_image(sample.images[0]),)) for sample in samples]
    suite = vfkit.natural_suite(families)
    return bases, [(sample, one.images) for sample, images in bases for one in suite.instances(sample, 0, images)]


def _model(size: str, device: str | None) -> Any:
    if size != "random_512":
        return vfkit.load_model(size, device=device)
    made: Any = build("qwen3_vl", LARGE)
    made.model.to(device or ("cuda" if torch.cuda.is_available() else "cpu")).eval()
    return replace(made, name=size, device=made.model.device)


if __name__ == "__main__":
    main()
