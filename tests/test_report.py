"""Both papers' tables and figures over all finished runs (vfkit.report), and tables that LaTeX takes as they are."""

import shutil

import made_up
import matplotlib.pyplot as plt
import numpy as np
import pandas as pd
import pytest
from stored import STORED

import vfkit
from vfkit import figures, paper, report
from vfkit.figures.style import PAGE
from vfkit.output import Output, latex, save


@pytest.fixture(scope="module")
def collected():
    return report.Collected(vfkit.open_runs(STORED))


def test_the_largest_run_of_each_kind_stands_for_its_model(collected):
    kinds = {kind: sorted(own) for kind, own in collected.runs.items()}
    assert kinds["pope"] == [("mini_pope", "mini_llava_ov")] and len(kinds["vfat"]) == 2
    assert kinds["attack"] == kinds["spectral"] == [("mini_seed", "mini_qwen3vl")]
    natural = collected.runs["natural"]
    assert natural["mini_seed", "mini_llava_ov"].manifest["samples"]["done"] == 16  # of two
    assert collected.first("inside")[0] == "mini_llava_ov on mini_seed"


@pytest.mark.parametrize("items", ["ANSWERS", "STATES", "SCALE", "SPECTRAL", "POPE", "vfat"])
def test_every_item_comes_out_or_says_what_it_needs(collected, items, tmp_path, monkeypatch):
    shown, notes = [], []
    output = Output(tmp_path)
    monkeypatch.setattr(output, "note", notes.append)
    drawn = []
    monkeypatch.setattr(output, "figure", lambda name, fig, data: (drawn.append((name, fig)), plt.close(fig)))
    chosen = report.vfat_items(collected) if items == "vfat" else getattr(report, items)
    chosen = [item for item in chosen if not item.name.startswith(("HI Table 3:", "HI Table 7:"))]  # as Table 4; slow
    report.present(output, collected, chosen, shown.append)
    assert len(notes) == len(chosen) and not any(": needs" in note for note in notes)
    tables = [item for item in chosen if item.show_table]
    assert len(shown) == len(tables) and len(drawn) == sum(item.figure is not None for item in chosen)
    for item in tables:
        text = (tmp_path / "tables" / f"{item.file}.tex").read_text()
        assert text.count("\\toprule") == text.count("\\bottomrule") == 1
        assert f"\\label{{tab:{item.file}}}" in text and item.name.split(":")[0] in text and "n = " in text
    assert all(fig.axes and fig.get_figwidth() <= PAGE for _, fig in drawn)


def test_what_no_run_has_is_one_line(tmp_path, monkeypatch):
    runs = vfkit.open_runs(STORED, study="pope")
    collected, output, notes = report.Collected(runs), Output(tmp_path), []
    monkeypatch.setattr(output, "note", notes.append)
    items = [*report.ANSWERS, *report.transition_items(collected), *report.STATES, *report.vfat_items(collected)]
    report.present(output, collected, items, lambda table: pytest.fail("a table of nothing"))
    assert len(notes) == len(items) and all(": needs a finished run" in note for note in notes)
    assert not output.saved


def test_a_run_without_rows_is_named_and_left_out(tmp_path):
    frames = made_up.natural("qwen3vl_2b", "seedbench", 40, 1, probes=False)
    for model in ("qwen3vl_2b", "gemma3_4b", "gemma3_12b"):
        folder = made_up.write_run(tmp_path, {"model": model, "dataset": "seedbench"}, **frames)
    shutil.rmtree(folder / "records")
    failed = tmp_path / "perturbation" / "gemma3_4b" / "seedbench" / "000000000000" / "run.json"
    failed.write_text(failed.read_text().replace('"failed": 0', '"failed": 40'))
    with pytest.warns(UserWarning, match="no records") as told:
        collected = report.Collected(vfkit.open_runs(tmp_path))
    assert len(told) == 2 and list(collected.runs["natural"]) == [("seedbench", "qwen3vl_2b")]
    assert len(paper.verdicts(collected.sweep)) == 925


def test_figures_of_twelve_models_fit_on_a_page(tmp_path):
    frames = made_up.vfat("GPT-5.1")
    few = frames["records"]["sample_id"].unique()[:60]
    frames = {kind: frame[frame["sample_id"].isin(few)] for kind, frame in frames.items()}
    for model in paper.VFAT_MODELS:
        made_up.write_run(tmp_path, {"model": model, "dataset": "vfat", "study": "vfat"}, **frames)
    collected = report.Collected(vfkit.open_runs(tmp_path))
    drawn = [item for item in report.vfat_items(collected) if item.figure is not None]
    assert len(drawn) == 4
    for item in drawn:
        fig = item.figure(item.table(collected))
        assert fig.get_figheight() < 9, item.name  # inches
        plt.close(fig)


def test_rows_of_twelve_models_stay_apart():
    models = [f"model_{i}" for i in range(12)]
    rows = [{"model": m, "dataset": d, "rate": 0.1 * i % 1, "rate_low": 0.05, "rate_high": 0.4}
            for i, m in enumerate(models) for d in ("one", "two", "three")]  # fmt: skip
    fig = figures.plot_models(pd.DataFrame(rows), {"rate": "Rate (%)"})
    ax = fig.axes[0]
    heights = sorted(y for line in ax.lines if line.get_linestyle() == "None" for y in line.get_ydata())
    gaps = np.diff(heights) * ax.get_window_extent().height / 12 * 72 / fig.dpi
    assert len(heights) == 36 and gaps.min() > 6  # points, of markers of 5
    plt.close(fig)


def test_a_grid_of_transitions_adds_up_to_all():
    table = pd.DataFrame({"model": ["a", "b"], "family": "scale", "instances": 200})
    table = table.assign(**{"R->R": [100, 90], "R->W": [20, 30], "W->R": [30, 30], "W->W": 50})
    fig = figures.plot_transition_grid(table, ["scale"])
    cells = [[float(text.get_text()) for text in ax.texts] for ax in fig.axes[:4]]
    assert [sum(each) for each in zip(*cells, strict=True)] == [100, 100] and cells[1] == [10, 15]
    plt.close(fig)


def test_odd_names_are_printed_and_labelled_as_they_are():
    text = latex(pd.DataFrame({"x": ["a_b {c} 5%"]}), "50% of {a} ~b^2 \\c #1, R→W", "vf_100%_{a} #1")
    assert (
        "\\caption{50\\% of \\{a\\} \\textasciitilde{}b\\textasciicircum{}2 \\textbackslash{}c \\#1, R$\\to$W}" in text
    )
    assert "\\label{tab:vf_100-_-a-1}" in text and "a\\_b \\{c\\} 5\\%" in text


def test_a_latex_table_has_caption_label_and_sides(tmp_path):
    table = pd.DataFrame({"model": ["a_b", "c"], "IFR": [0.1, 0.2], "IFR_low": [0.05, 0.1], "IFR_high": [0.2, 0.3]})
    _, path = save(table, tmp_path, "flips", rows=table.model == "c", caption="50 % & more of a_b")
    text = path.read_text()
    assert "\\caption{50 \\% \\& more of a\\_b}" in text and "\\label{tab:flips}" in text
    assert "{lr}" in text and "IFR (\\%)" in text and "20.0 [10.0, 30.0]" in text and "a\\_b &" not in text
    assert len(pd.read_csv(tmp_path / "flips.csv")) == 2  # the file holds every row
    assert latex(pd.DataFrame({"R→W": ["1"]})).count("$\\to$") == 1
    plain = save(table, tmp_path, "plain")[1].read_text()
    assert "\\begin{table}" not in plain and "a\\_b" in plain
