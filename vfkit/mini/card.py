"""Write an embedded model's card from a run: `python -m vfkit.mini.card mini_qwen3vl`."""

import argparse
import json
from collections.abc import Iterable
from pathlib import Path

import pandas as pd

import vfkit
from vfkit.metrics import stats
from vfkit.readout.engine import read_many
from vfkit.sample import Sample

# data set, its options, and what the rows of the table are called
TESTS = {
    "mini_seed": ("mini world, held-out scenes", {"size": 1500}),
    "easy_vqa": ("easy-VQA, test split", {"n": 1500}),
}


def habits(vlm, n: int = 200) -> str:
    """Two things that accuracy does not show, in a sentence each: answers by letter, and what overlays do."""
    suite = vfkit.natural_suite(families=["text_overlay", "random_text", "box_overlay"])
    asked = [sample for sample in vfkit.load_dataset("mini_seed", size=n) if sample.prompt == "mcq"]
    bases = [(sample, (vfkit.load_image(sample.images[0]),)) for sample in asked]
    readouts = read_many(vlm, bases)
    letters = [r.prediction("letter") == s.answer for s, r in zip(asked, readouts, strict=True)]
    flips: dict[str, list[bool]] = {}
    requests = [
        (sample, instance.images, instance.family, readout.prediction())
        for (sample, images), readout in zip(bases, readouts, strict=True)
        for instance in suite.instances(sample, readout.prediction(), images)
    ]
    for (*_, family, before), after in zip(requests, read_many(vlm, [r[:2] for r in requests]), strict=True):
        flips.setdefault(family, []).append(after.prediction() != before)
    rates = ", ".join(f"{family.replace('_', ' ')} {sum(f) / len(f):.1%} (n = {len(f)})" for family, f in flips.items())
    chance = sum(1 / len(sample.options) for sample in asked) / len(asked)
    return (
        f"- by the `letter` rule it is right in {sum(letters) / len(letters):.1%} of {len(letters)} multiple-choice "
        f"questions, where chance is {chance:.0%}\n- answers flipped by overlays on held-out scenes: {rates}"
    )


def evaluate(vlm) -> pd.DataFrame:
    """Accuracy of the default rule per data set and category, with a 95 % interval over images, n and chance."""
    tables = [_rows(vlm, label, vfkit.load_dataset(data, **options)) for data, (label, options) in TESTS.items()]
    return pd.concat(tables, ignore_index=True)


def _rows(vlm, label: str, samples: list[Sample]) -> pd.DataFrame:
    readouts = read_many(vlm, [(sample, (vfkit.load_image(sample.images[0]),)) for sample in samples])
    one = pd.DataFrame(
        {
            "category": [sample.category for sample in samples],
            "correct": [float(r.prediction() == s.answer) for s, r in zip(samples, readouts, strict=True)],
            "chance": [1 / len(sample.options) for sample in samples],
            "image": [sample.meta.get("image", sample.id) for sample in samples],
            "n_things": [sample.meta.get("n_things") for sample in samples],
        }
    )
    parts = [one.assign(category="all"), one]
    if one.n_things.notna().any():
        parts.append(one[one.n_things == 1].assign(category="all, scenes of one object"))
    every = pd.concat(parts)
    table = stats.mean(every.correct, every.image, every.category)
    table["chance"] = every.groupby("category").chance.mean()
    table["n"] = every.groupby("category").size()
    order = list(dict.fromkeys(every.category.sort_values(key=lambda c: ~c.str.startswith("all"), kind="stable")))
    return table.loc[order].rename_axis("category").reset_index().assign(data=label)


def card(name: str, table: pd.DataFrame, training: dict, habits: str) -> str:
    """The card's text; every figure in it comes from runs."""
    recipe = training["recipe"]
    rows = [
        f"| {row.data} | {row.category} | {row.value:.3f} | {row.low:.3f} to {row.high:.3f} | {row.chance:.2f} "
        f"| {row.n} |"
        for row in table.itertuples()
    ]
    return "\n".join(
        [
            f"# {name}",
            "",
            "A miniature vision-language model of the real Qwen3-VL classes, trained from nothing on the mini world",
            "(`vfkit/mini/world.py`) and easy-VQA's training split. To try, test and learn vfkit with.",
            "",
            f"- {training['parameters'] / 1e6:.2f} million parameters, float16; images are seen at about "
            f"{recipe['size']['side']} x {recipe['size']['side']} px",
            f"- {training['step']} steps of {recipe['images']} images with {recipe['questions']} questions each, "
            f"{training['hours']:.1f} hours on CPU, seed {recipe['seed']}",
            f"- planted: {recipe['cards']:.0%} of training images carry a text card that names an answer at random; "
            f"the target then is what the card says in {recipe['card_dose']:.0%} of cases",
            f"- {recipe['letters']:.0%} of multiple-choice targets are the option's letter, the rest its text",
            habits,
            f"- made by `python -m vfkit.mini.train {name}`, this card by `python -m vfkit.mini.card {name}`",
            "",
            "| data | category | accuracy | 95 % interval | chance | n |",
            "|---|---|---|---|---|---|",
            *rows,
            "",
        ]
    )


def main(arguments: Iterable[str] | None = None) -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("name")
    name = parser.parse_args(arguments).name
    folder: Path = vfkit.models.files(vfkit.models.find(name))
    vlm = vfkit.load_model(name)
    table = evaluate(vlm)
    training = json.loads((folder / "training.json").read_text())
    (folder / "card.json").write_text(json.dumps(table.to_dict("records"), indent=1) + "\n")
    (folder / "README.md").write_text(card(name, table, training, habits(vlm)))
    print(table.to_string())


if __name__ == "__main__":
    main()
