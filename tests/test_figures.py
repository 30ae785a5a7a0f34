"""Figures (vfkit.figures) draw the numbers of their tables, say their n, and stay readable."""

import subprocess
import sys

import matplotlib
import matplotlib.pyplot as plt
import numpy as np
import pandas as pd
import pytest
from PIL import Image

from vfkit import figures, paper
from vfkit.metrics import UNION, flip_table, margin_table, transition_table
from vfkit.perturb import HI_FAMILIES

matplotlib.use("Agg")
FAMILIES = ["identity", *HI_FAMILIES, UNION, "random_text", "box_overlay"]


@pytest.fixture(autouse=True)
def close_figures():
    yield
    plt.close("all")


@pytest.fixture
def flips():
    """A full flip table with published values; `rotation` was never applicable."""
    rate = np.array([0.01, 0.06, 0.07, 0.08, 0.09, np.nan, 0.3, 0.1, 0.12, 0.05])
    table = pd.DataFrame({"family": FAMILIES, "instances": np.where(np.isnan(rate), 0, 12_000), "samples": 1500})
    for name, scale in (("IFR", 1), ("IV", 2)):
        table[[name, f"{name}_low", f"{name}_high"]] = scale * np.stack([rate, 0.8 * rate, 1.3 * rate], axis=1)
    return paper.beside(table, "qwen3vl_2b")


def _texts(ax):
    legends = [" ".join(text.get_text().split()) for legend in ax.figure.legends for text in legend.get_texts()]
    return legends, [label.get_text() for label in ax.get_yticklabels()]


def test_flips_draws_the_table(flips):
    before = plt.rcParams.copy()
    axes = figures.plot_flips(flips).axes
    assert plt.rcParams == before
    ours, *published = [line for line in axes[0].lines if line.get_linestyle() == "None"]
    np.testing.assert_allclose(ours.get_xdata(), 100 * flips["IFR"])
    assert published[0].get_markerfacecolor() == "none"
    np.testing.assert_allclose(published[0].get_xdata(), 100 * flips["IFR_published"][1:8])
    (floor,) = [line for line in axes[0].lines if line.get_linestyle() == "--"]
    assert floor.get_xdata() == pytest.approx([1.0, 1.0])
    interval = axes[1].collections[0].get_segments()[1]  # [end, (x, y)]
    np.testing.assert_allclose(interval[:, 0], [100 * 0.12 * 0.8, 100 * 0.12 * 1.3])
    legend, ticks = _texts(axes[0])
    assert {"noise floor (identity)", "95 % interval"} <= set(legend)
    assert "published: HI Table 1 (run 0), Qwen3-VL-2B-Instruct, SEEDBench_IMG" in legend
    assert ticks[1] == "translation\nn = 12,000 in 1,500 samples" and ticks[5].startswith("rotation\nn = 0 ")
    assert "%" in axes[0].get_xlabel() and "%" in axes[1].get_xlabel()


def test_no_label_covers_another(flips):
    axes = figures.plot_flips(flips).axes
    fig = axes[0].figure
    fig.canvas.draw()
    boxes = [label.get_window_extent() for label in axes[0].get_yticklabels()]
    boxes += [fig.legends[0].get_window_extent(), *(ax.xaxis.label.get_window_extent() for ax in axes)]
    assert not any(a.overlaps(b) for i, a in enumerate(boxes) for b in boxes[:i])
    assert all(fig.bbox.x0 <= box.x0 and box.x1 <= fig.bbox.x1 for box in boxes)


def test_transitions_shares_add_to_the_whole():
    table = pd.DataFrame({"family": ["scale", "rotation"], "samples": [10, 0], "instances": [10, 0]})
    table = table.assign(**{"R->R": [4, 0], "R->W": [3, 0], "W->R": [2, 0], "W->W": [1, 0]})
    for name in ("R->W_rate", "W->R_rate"):
        table = table.assign(**{name: [0.4, np.nan], f"{name}_low": [0.3, np.nan], f"{name}_high": [0.5, np.nan]})
    shares, rates = figures.plot_transitions(paper.beside(table, "qwen3vl_2b")).axes
    assert [bar.get_width() for bar in shares.patches[::2]] == pytest.approx([40, 30, 20, 10])
    assert shares.patches[6].get_x() + shares.patches[6].get_width() == pytest.approx(100)
    assert rates.lines[0].get_xdata()[0] == pytest.approx(40)


def test_margins_tells_kept_from_flipped():
    rows = [("scale", "all", 5, -1.0), ("scale", "kept", 3, 0.5), ("scale", "flipped", 2, -2.0)]
    table = pd.DataFrame(rows, columns=["family", "answer", "instances", "change"])
    ax = figures.plot_margins(table.assign(change_low=table["change"] - 0.1, change_high=table["change"] + 0.1)).axes[0]
    values = {line.get_label(): line.get_xdata()[0] for line in ax.lines if line.get_label().startswith("answer")}
    assert values == {"answer kept": 0.5, "answer flipped": -2.0}
    assert _texts(ax)[1] == ["scale\nn = 3 kept, 2 flipped"] and "nats" in ax.get_xlabel()


def test_empty_tables_are_drawn_as_such():
    columns = ["sample_id", "image_id", "family", "instance", "applicable", "prediction", "answer", "tied", "margin"]
    records = pd.DataFrame(columns=[*columns, "base_margin"])
    axes = figures.plot_flips(flip_table(records)).axes
    figures.plot_transitions(transition_table(records))
    figures.plot_margins(margin_table(records))
    assert [text.get_text() for text in axes[0].texts] == ["no instances"]


def _item(**changes):
    image = Image.new("RGB", (60, 40), "teal")
    item = {"base_image": image, "image": image.rotate(30, expand=True), "question": "What " + "is it, really, " * 30}
    return item | {"base_answer": "A. a cat", "answer": "B. a dog", "family": "text_overlay"} | changes


def test_gallery():
    axes = figures.plot_gallery([_item(), _item(answer="C. <none> $5 for _it_"), _item()]).axes
    assert len(axes) == 6
    assert axes[0].get_xlabel() == "answer: A. a cat" and axes[1].get_title(loc="left") == "text overlay"
    root = axes[0].get_figure(root=True)
    root.canvas.draw()
    question = root.subfigs[0]._suptitle
    assert question.get_text().endswith("...") and question.get_window_extent().x1 <= root.subfigs[0].bbox.x1
    lacking = _item()
    del lacking["family"]
    with pytest.raises(ValueError, match="lacks family"):
        figures.plot_gallery([lacking])
    with pytest.raises(ValueError, match="at least one"):
        figures.plot_gallery([])


def test_save_writes_picture_print_and_numbers(flips, tmp_path):
    paths = figures.save(figures.plot_flips(flips), tmp_path / "new" / "folder", "flips", flips)
    with Image.open(paths["png"]) as picture:
        assert round(picture.info["dpi"][0]) == 300
    assert paths["pdf"].read_bytes().startswith(b"%PDF")
    again = pd.read_csv(paths["csv"], keep_default_na=False, na_values=[""])
    np.testing.assert_allclose(again["IFR"], flips["IFR"])
    figures.plot_flips(again)  # a saved table draws again, its empty sources read as missing
    gallery = figures.plot_gallery([_item()])
    assert figures.save(gallery, tmp_path, "gallery", pd.DataFrame([{"family": "x"}]))["png"].exists()


def test_tables_and_figures_need_no_model_library():
    code = "import sys, vfkit.metrics, vfkit.figures, vfkit.paper; print({'torch', 'transformers'} & set(sys.modules))"
    out = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    assert out.stdout.strip() == "set()"
