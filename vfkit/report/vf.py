"""VF's tables and figures over all models, in VF's own axes (arXiv 2601.04897)."""

from collections.abc import Callable

import pandas as pd
from matplotlib.figure import Figure

from vfkit import figures, metrics, paper
from vfkit.judge import match
from vfkit.report.collect import Collected
from vfkit.report.items import Item

NEEDS = "a finished run on V-FAT items (notebook 05)"


LEVELS = ("L1", "L2", "L3")
FORMATS = {"mcq": "multiple choice", "oe": "open"}
RADAR = 4  # models in one radar
NAMES = ("Table 1", "Table 2", "Figures 2a and 2b", "Figure 4", "Figure 5", "Table 3 and Figure 6b")


def vfat_items(collected: Collected, judge: Callable[..., str] = match) -> list[Item]:
    """Items of all V-FAT runs, for each data set; without runs, items that say what is needed.

    Args:
        judge: of open answers.
    """
    datasets = list(dict.fromkeys(dataset for dataset, _ in collected.runs["vfat"]))
    items = [item for dataset in datasets for item in _items(collected, dataset, judge, len(datasets) > 1)]
    return items or [Item(f"VF {name}", NEEDS, "", lambda _: pd.DataFrame()) for name in NAMES]


def _items(collected: Collected, dataset: str, judge: Callable[..., str], several: bool) -> list[Item]:
    """Items of one data set, of generated answers; of likelihoods where no run generated any."""
    runs = {model: run for (data, model), run in collected.runs["vfat"].items() if data == dataset}
    parts = []
    for model, run in runs.items():
        answers = metrics.vfat_answers(run.records(), run.samples(), judge=judge)
        parts.append(answers.assign(model=model, mode=run.mode))
    answers = pd.concat(parts, ignore_index=True)
    reading = "generation" if (answers["reading"] == "generation").any() else "likelihood"
    own = answers[answers["reading"] == reading].reset_index(drop=True)
    scores = metrics.vfat_scores(own)
    theirs = paper.neighbours(runs, dataset)
    beside = paper.beside_vfat(scores, dataset=dataset)
    categories = metrics.vfat_scores(own, ["category"])
    of = f" {dataset}" if several else ""
    n = f"Items of {dataset}; {reading}."
    columns = "model mode format level n items mAcc mAcc_published mTDS other_share VRS VRS_published"
    return [
        Item(f"VF{of} Table 1: accuracy by format and level", NEEDS, f"{n} mAcc: share of answers that equal what the "
             "image shows; mTDS: that equal the trap.", lambda _: beside, columns),
        Item(f"VF{of} Table 2: size and mode", NEEDS, f"{n} Models by size; VRS over all levels and formats.",
             lambda _: metrics.vfat_scaling(own, collected.params, reading),
             "model params mode n items mAcc_mcq mAcc_oe mTDS VRS VRS_delta unanswered"),
        Item(f"VF{of} Figures 2a and 2b: accuracy", NEEDS, n, lambda _: scores,
             figure=lambda table: _accuracy(table, theirs, reading), show_table=False),
        Item(f"VF{of} Figure 4: VRS by level", NEEDS, f"{n} Hollow, of few models: what VF's text says.",
             lambda _: scores, figure=lambda table: _vrs(table, theirs, reading), show_table=False),
        Item(f"VF{of} Figure 5: outcomes", NEEDS, f"{n} Vision, bias and other answers.", lambda _: scores,
             figure=lambda table: _outcomes(table, theirs, reading), show_table=False),
        Item(f"VF{of} Table 3 and Figure 6b: categories", NEEDS, f"{n} VF gives counts of items, no scores.",
             lambda _: categories, "model category n items mAcc mTDS VRS", None,
             lambda table: figures.plot_vfat_categories(table, reading=reading)),
    ]  # fmt: skip


def _accuracy(scores: pd.DataFrame, published: pd.DataFrame, reading: str) -> Figure:
    """A radar, as VF has it; of more models than can be told apart in one, points by model and level."""
    own = scores[scores["level"].isin(LEVELS) & scores["format"].ne("all")]
    if own["model"].nunique() <= RADAR:
        return figures.plot_vfat_radar(scores, published, reading)
    keys = ["model", "level"]
    table = own[keys].drop_duplicates().reset_index(drop=True)
    labels = {}
    for name, words in FORMATS.items():
        part = own[own["format"] == name].set_index(keys)[["mAcc", "mAcc_low", "mAcc_high"]]
        if len(part):
            part.columns = [column.replace("mAcc", f"mAcc_{name}") for column in part]
            table = table.merge(part.reset_index(), on=keys, how="left")
            labels[f"mAcc_{name}"] = f"Accuracy, {words} (%)"
    return figures.plot_models(table, labels, by="level")


def _vrs(scores: pd.DataFrame, published: pd.DataFrame, reading: str) -> Figure:
    """VRS by level as VF has it; of many models one row each, so that the figure stays on a page."""
    own = scores[(scores["format"] == "all") & (scores["level"].isin(LEVELS) | scores["level"].eq("all"))]
    if own["model"].nunique() <= RADAR:
        return figures.plot_vrs(scores, published, reading)
    levels = own.assign(level=own["level"].replace("all", "all levels"))
    return figures.plot_models(levels, {"VRS": "VRS (1: sees all, is never trapped)"}, by="level", scale=1)


def _outcomes(scores: pd.DataFrame, published: pd.DataFrame, reading: str) -> Figure:
    """Outcomes by model and level; of many models, over all levels."""
    own = scores[(scores["level"] == "all") & scores["format"].isin(FORMATS)]
    if own["model"].nunique() <= RADAR:
        return figures.plot_outcomes(scores, published, reading)
    own = own.assign(format=own["format"].map(FORMATS))
    labels = {"mAcc": "Vision (%)", "mTDS": "Bias (%)", "other_share": "Other (%)"}
    return figures.plot_models(own, labels, by="format")
