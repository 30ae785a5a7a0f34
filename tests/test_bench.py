"""The benchmark: its naive protocol reads the same numbers, its counts are right, its figures reach the README."""

import json

import numpy as np
import pytest

from vfkit.readout.engine import read_many
from vfkit.workshop.bench import __main__ as bench
from vfkit.workshop.bench import report
from vfkit.workshop.bench.limit import Prefill
from vfkit.workshop.bench.measure import measure
from vfkit.workshop.bench.naive import read_naive


@pytest.fixture(scope="module")
def requests(vlm):
    bases, instances = bench._requests(vlm, 1, ["scale"])
    return bases + instances


def test_the_naive_protocol_reads_the_engines_numbers(vlm, requests):
    for request, readout in zip(requests, read_many(vlm, requests, probes=True), strict=True):
        naive = read_naive(vlm, *request, probes=True)
        np.testing.assert_allclose(naive["scores"], readout.scores("paper"), atol=1e-4)
        assert naive["texts"] == readout.texts
        for probe, taps in readout.probes.items():
            for tap, vector in taps.items():
                np.testing.assert_allclose(naive[probe][tap].numpy(), vector, atol=1e-3 * np.abs(vector).max())


def test_what_each_way_costs_in_encodes(vlm, requests):
    def cost(read):
        found = measure(vlm, read)
        assert found["seconds"] > 0
        return found["encodes"], found["prefills"]

    assert cost(lambda: [read_naive(vlm, *each, probes=False) for each in requests]) == (8, 8)  # 2 images, 4 options
    assert cost(lambda: [read_naive(vlm, *each, probes=True) for each in requests]) == (22, 22)
    assert cost(lambda: read_many(vlm, requests, probes=True)) == (2, 2)
    for prompt in (False, True):
        assert cost(lambda prompt=prompt: Prefill.of(vlm, requests, prompt).run(vlm)) == (2, 2)


def test_the_limit_is_the_image_and_what_stands_before_it(vlm, requests):
    batches = [Prefill.of(vlm, requests, prompt).batches[0] for prompt in (False, True)]
    image = vlm.adapter.image_token_id(vlm.processor)
    ids = [[row[seen.bool()] for row, seen in zip(b["input_ids"], b["attention_mask"], strict=True)] for b in batches]
    for strict, whole in zip(*ids, strict=True):
        assert strict[-1] == image and (strict == image).sum() == (whole == image).sum()
        assert (whole[: len(strict)] == strict).all() and len(whole) > len(strict)


def test_a_run_of_the_benchmark_writes_a_table_json_and_the_readme(tmp_path, capsys):
    readme = tmp_path / "README.md"
    readme.write_text("\n".join(["before", report.MARKS[0], "old", report.MARKS[1], "after"]))
    arguments = f"--sizes mini_qwen3vl --n 1 --families scale --repeats 1 --device cpu --out {tmp_path / 'bench.json'}"
    result = bench.main([*arguments.split(), "--readme", str(readme)])
    assert json.loads((tmp_path / "bench.json").read_text()) == result
    table = report.table(result)
    assert set(table.way) == {"engine", "naive", "limit", "one prompt"} and len(table) == 8
    assert (table[table.way == "engine"].times == 1).all() and table.peak_mb.notna().all()
    text = readme.read_text()
    assert "old" not in text and text.startswith("before") and text.endswith("after")
    assert result["machine"]["cpu"] in text and text.count("| mini_qwen3vl |") == 2
    assert "images_per_second" in capsys.readouterr().out


def test_a_readme_without_marks_is_left_alone(tmp_path):
    readme = tmp_path / "README.md"
    readme.write_text("no marks")
    with pytest.raises(ValueError, match="needs the lines"):
        report.write_readme(readme, {})
    assert readme.read_text() == "no marks"
