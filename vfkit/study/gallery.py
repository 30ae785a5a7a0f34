"""Example images of a run for galleries; they are not kept, so they are made again from the run's config."""

import json
from typing import Any

import pandas as pd

from vfkit.datasets import DatasetUnavailable
from vfkit.images import content_hash, load_image
from vfkit.perturb import ATTACKS
from vfkit.study.run import Run


def flipped(run: Run, n: int = 6) -> list[dict[str, Any]]:
    """Collect instances whose answer flipped, for `vfkit.figures.plot_gallery`.

    Largest base margins first, families in turn, so that one family does not fill the gallery. Fewer than `n` if fewer
    flipped; none, with a message, if the data set is not available.

    Raises:
        RuntimeError: the images made again are not those the run read (its dataset or the code has changed).
    """
    rows = run.records()
    base = rows[rows.family == "base"].set_index("sample_id").margin
    rows = rows[rows.family != "blank"]
    flips = rows[(rows.prediction != rows.base_prediction) & rows.prediction.notna() & rows.image_hash.notna()]
    flips = flips.assign(base=flips.sample_id.map(base)).sort_values("base", ascending=False, kind="stable")
    flips = flips.assign(turn=flips.groupby("family").cumcount())
    chosen = flips.drop_duplicates(["sample_id", "family"]).sort_values("turn", kind="stable").head(n)
    return _items(run, chosen)


def adversarial(run: Run) -> list[dict[str, Any]]:
    """Collect one adversarial image of each attack, for `vfkit.figures.plot_adversarial`: at its largest eps, flipped
    if any did, with the largest base margin."""
    rows = run.records()
    rows = rows[rows.family.isin(ATTACKS) & rows.prediction.notna()]
    base = run.records().query("family == 'base'").set_index("sample_id").margin
    rows = rows.assign(
        eps=[json.loads(text)["eps"] for text in rows.params], flip=rows.prediction != rows.base_prediction
    )
    rows = rows.assign(base=rows.sample_id.map(base)).sort_values(["eps", "flip", "base"], ascending=False)
    chosen = rows.drop_duplicates("family").sort_values("family", key=lambda f: f.map(ATTACKS.index))
    return _items(run, chosen)


def answered(run: Run, answers: pd.DataFrame) -> list[dict[str, Any]]:
    """Collect one V-FAT answer for each level and outcome, for `vfkit.figures.plot_vfat_gallery`.

    Items in turn, so that one item does not fill the gallery; outcomes that a level does not have are left out.

    Args:
        run: a run over V-FAT samples, whose images are opened again.
        answers: of `vfkit.metrics.vfat_answers`, of this run and of one reading.

    Returns:
        Dicts of `image` (PIL), `question`, `hint`, `answer`, `truth`, `trap`, `level`, `format`, `outcome`.
    """
    samples = {sample.id: sample for sample in run.config.load_samples()}
    rows = answers[answers.sample_id.isin(samples)].sort_values(["level", "outcome", "sample_id"], kind="stable")
    rows = rows.assign(turn=rows.groupby("item").cumcount()).sort_values("turn", kind="stable")
    chosen = rows.drop_duplicates(["level", "outcome"]).sort_values(["level", "outcome"], kind="stable")
    return [
        {
            "image": load_image(samples[row.sample_id].images[0], row.sample_id),
            "question": samples[row.sample_id].question,
            "hint": samples[row.sample_id].hint,
            "answer": row.answer,
            "truth": samples[row.sample_id].meta["truth"],
            "trap": samples[row.sample_id].meta["trap"],
            **{name: getattr(row, name) for name in ("level", "format", "outcome")},
        }
        for row in chosen.itertuples()
    ]


def _items(run: Run, chosen: pd.DataFrame) -> list[dict[str, Any]]:
    config = run.config
    try:
        samples = config.load_samples()
    except (DatasetUnavailable, OSError) as reason:
        print(f"No images to show: {reason}")
        return []
    by_id = {sample.id: sample for sample in samples}
    suite = config.suite()
    kept = run.images().groupby(["sample_id", "instance"]).png.first()
    return [_item(by_id[row.sample_id], suite, row, kept) for row in chosen.itertuples()]


def _item(sample, suite, row, kept: pd.Series) -> dict[str, Any]:
    images = tuple(load_image(source, sample.id) for source in sample.images)
    if (row.sample_id, row.instance) in kept.index:
        image = load_image(kept[row.sample_id, row.instance])
    else:
        instances = suite.instances(sample, int(row.base_prediction), images)
        instance = next(one for one in instances if one.name == row.instance)
        if "+".join(map(content_hash, instance.images)) != row.image_hash:
            raise RuntimeError(f"{sample.id}, {row.instance}: the image made again is not the one this run read")
        image = instance.images[0]
    return {
        "base_image": images[0],
        "image": image,
        "question": sample.question,
        "base_answer": sample.options[int(row.base_prediction)],
        "answer": sample.options[int(row.prediction)],
        "family": row.instance,
    }
