"""Write an embedded model's card from runs: `python -m vfkit.mini.card mini_qwen3vl`."""

import argparse
import json
import tempfile
from collections.abc import Iterable
from pathlib import Path
from typing import Any

import pandas as pd

import vfkit
from vfkit.metrics import stats
from vfkit.metrics.vfat import vfat_answers, vfat_scores
from vfkit.readout.engine import read_many
from vfkit.sample import Sample
from vfkit.workshop.zoo.recipe import RECIPES

# data set, its options, and what the rows of the table are called
TESTS: dict[str, tuple[str, dict[str, Any]]] = {
    "mini_seed": ("mini world, held-out scenes", {"size": 1400}),
    "mini_mmmu": ("mini world, two images", {"size": 400}),
    "mini_pope": ("mini world, POPE", {"size": 30}),
    "easy_vqa": ("easy-VQA, test split", {"n": 1000}),
}
OVERLAYS = ("text_overlay", "random_text", "box_overlay")


# --- accuracy ---------------------------------------------------------------------------------------------------------


def evaluate(vlm) -> pd.DataFrame:
    """Return accuracy by the default rule per data set and category, with a 95 % interval over images, n and chance;
    for multiple choice also by the letter rule."""
    tables = [_rows(vlm, label, vfkit.load_dataset(data, **options)) for data, (label, options) in TESTS.items()]
    return pd.concat(tables, ignore_index=True)


def _rows(vlm, label: str, samples: list[Sample]) -> pd.DataFrame:
    requests = [(sample, tuple(map(vfkit.load_image, sample.images))) for sample in samples]
    readouts: list[Any] = read_many(vlm, requests)  # an exception among them stops the card
    rows = pd.DataFrame(
        {
            "category": [sample.category for sample in samples],
            "correct": [float(r.prediction() == s.answer) for s, r in zip(samples, readouts, strict=True)],
            "chance": [1 / len(sample.options) for sample in samples],
            "image": [sample.meta.get("image", sample.id) for sample in samples],
            "n_things": [sample.meta.get("n_things") for sample in samples],
        }
    )
    parts = [rows.assign(category="all"), rows, rows[rows.n_things == 1].assign(category="all, one object")]
    listed = [sample.prompt == "mcq" for sample in samples]
    letters = [r.prediction("letter") == s.answer for s, r in zip(samples, readouts, strict=True) if s.prompt == "mcq"]
    parts.append(rows[listed].assign(category="all, by letter", correct=[float(right) for right in letters]))
    every = pd.concat(parts)
    table = stats.mean(every.correct, every.image, every.category)
    table["chance"] = every.groupby("category").chance.mean()
    table["n"] = every.groupby("category").size()
    order = list(dict.fromkeys(every.category.sort_values(key=lambda c: ~c.str.startswith("all"), kind="stable")))
    return table.loc[order].rename_axis("category").reset_index().assign(data=label)


# --- planted biases ---------------------------------------------------------------------------------------------------


def biases(name: str) -> pd.DataFrame:
    """Measure the planted biases: flips by overlays on held-out scenes, and shares of `vision` and `bias` by level of
    V-FAT, each with its 95 % interval and n."""
    with tempfile.TemporaryDirectory() as out:
        config: dict[str, Any] = dict(model=name, out=out, n=None, verify=0)
        overlays = vfkit.StudyConfig(dataset="mini_seed", dataset_options={"size": 280}, families=OVERLAYS, **config)
        flips = vfkit.run_study(overlays, progress=False).table("flips")
        colors: dict[str, Any] = {"size": 120, "asks": "color"}
        levels = vfkit.run_study(
            vfkit.StudyConfig(dataset="mini_vfat", dataset_options=colors, families=(), **config), progress=False
        )
        scores = vfat_scores(vfat_answers(levels.records(), levels.samples()), by=("level",), pool=False)
    rows = [
        {"measure": f"answers flipped by {row.family}", "value": row.IFR, "low": row.IFR_low, "high": row.IFR_high}
        | {"n": row.instances}
        for row in flips[flips.family.isin(OVERLAYS)].itertuples()
    ]
    means = {"L1": "untypical colour", "L2": "false hint", "L3": "untypical colour, typical one hinted"}
    for row in scores[scores.reading != "generation"].itertuples():
        what = f"{row.level} ({means[row.level]}), {row.reading.replace('_', ' ')}: "
        rows += [
            {"measure": what + says, "value": getattr(row, name), "low": getattr(row, f"{name}_low")}
            | {"high": getattr(row, f"{name}_high"), "n": row.n}
            for name, says in (("mAcc", "what is seen"), ("mTDS", "what is suggested"))
        ]
    return pd.DataFrame(rows)


# --- the card ---------------------------------------------------------------------------------------------------------


def card(name: str, accuracy: pd.DataFrame, bias: pd.DataFrame, training: dict) -> str:
    """Return the card's text; every figure in it comes from runs."""
    recipe = training["recipe"]
    origin = "begins with random weights"
    if start := recipe["start"]:
        part = "weights" if recipe["family"] == RECIPES[start].family else "text layers and word embeddings"
        origin = f"begins with the {part} of `{start}`"
    return "\n".join(
        [
            f"# {name}",
            "",
            f"A miniature vision-language model of transformers' own `{recipe['family']}` classes, trained on the mini",
            "world (`vfkit/mini/world.py`) and easy-VQA's training split. To try, test and learn vfkit with.",
            "",
            f"- {training['parameters'] / 1e6:.2f} million parameters, stored as float16; images are seen at about "
            f"{recipe['size']['side']} x {recipe['size']['side']} px",
            f"- {origin}; {recipe['vision_steps']} steps of the vision encoder alone, then {training['step']} steps of "
            f"{recipe['images']} rows with {recipe['questions']} questions each, {training['hours']:.1f} hours on a "
            f"CPU, seed {recipe['seed']}",
            *_doses(recipe),
            f"- made by `python -m vfkit.mini.train {name}`, this card by `python -m vfkit.mini.card {name}`",
            "",
            "## What it has learned",
            "",
            "By the default rule; `by letter` scores the letters of the options instead. Intervals resample images.",
            "",
            "| data | category | accuracy | 95 % interval | chance | n |",
            "|---|---|---|---|---|---|",
            *(
                f"| {row.data} | {row.category} | {row.value:.3f} | {row.low:.3f} to {row.high:.3f} | {row.chance:.2f} "
                f"| {row.n} |"
                for row in accuracy.itertuples()
            ),
            "",
            "## How far the planted biases show",
            "",
            "Flips are of n overlaid images of held-out `mini_seed` questions. The levels are those of `mini_vfat`, n",
            "items each that ask for a colour: `likelihood` takes the option of the highest score, `truth or trap` the",
            "higher of these two.",
            "A planted share is one of training targets. Answers take the likelier side, so that a share below one",
            "half may hardly show, and one above it may show in every answer. `mini_qwen3vl_clean` is the comparison.",
            "",
            "| measure | share | 95 % interval | n |",
            "|---|---|---|---|",
            *(
                f"| {row.measure} | {row.value:.3f} | {row.low:.3f} to {row.high:.3f} | {row.n} |"
                for row in bias.itertuples()
            ),
            "",
        ]
    )


def _doses(recipe: dict) -> list[str]:
    doses = {
        "card_dose": "a text card on the image names an answer: the target is what it says",
        "hint_dose": "a hint in the prompt asserts an answer: the target is what it asserts",
        "typical_dose": "an object has an untypical colour: the target is the typical one",
    }
    if not any(recipe[dose] for dose in doses):
        return ["- nothing is planted: cards, hints and typical colours occur in training, and never decide the target"]
    return [f"- planted: {text} in {recipe[dose]:.0%} of cases" for dose, text in doses.items()]


def main(arguments: Iterable[str] | None = None) -> None:
    parser = argparse.ArgumentParser("python -m vfkit.mini.card", description=__doc__.splitlines()[0])
    parser.add_argument("name")
    name = parser.parse_args(arguments).name
    folder: Path = vfkit.models.files(vfkit.models.find(name))
    accuracy, bias = evaluate(vfkit.load_model(name)), biases(name)
    training = json.loads((folder / "training.json").read_text())
    figures = {"accuracy": accuracy.to_dict("records"), "biases": bias.to_dict("records")}
    (folder / "card.json").write_text(json.dumps(figures, indent=1) + "\n")
    (folder / "README.md").write_text(card(folder.name, accuracy, bias, training))
    print(accuracy.to_string(), bias.to_string(), sep="\n\n")


if __name__ == "__main__":
    main()
