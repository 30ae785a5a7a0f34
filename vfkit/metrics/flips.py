"""Tables of answers: flips, transitions, margins, accuracy (HI 3.2, 4.1, 4.2; METHODS 5, 6).

What counts, the order of families and the intervals are as in `vfkit.metrics.frames`.
"""

from collections.abc import Sequence

import numpy as np
import pandas as pd

from vfkit.metrics import stats
from vfkit.metrics.frames import (
    ANSWERS,
    counted_rows,
    family_order,
    rows_of,
    split_answers,
    vulnerable_samples,
    with_union,
)
from vfkit.metrics.tabulate import (
    average,
    count,
    distinct,
    family_index,
    mean,
    rate,
    tabulate,
    total,
)
from vfkit.perturb import HI_FAMILIES
from vfkit.sample import LETTERS

TRANSITIONS = ("R->W", "W->R", "R->R", "W->W")
OVERLAYS = ("text_overlay", "random_text", "box_overlay")


def flip_table(records: pd.DataFrame, union: Sequence[str] = HI_FAMILIES) -> pd.DataFrame:
    """Instance flip rate and image vulnerability per family (HI 3.2, Table 1).

    Returns:
        One row per family: `instances` counted, `flips`, `IFR` = flips / instances; `samples` with at least one counted
        instance, their `images`, `vulnerable` (at least one flip), `IV` = vulnerable / samples; `per_sample` (instances
        per sample: IV grows with it); `tied` (counted instances with an exact tie at the top); and what was left out:
        `not_applicable` instances, and `no_base`, the samples whose base image has no prediction.
        The union row pools the families `union`, HI's six by default; where fewer are present its label names them.
    """
    rows = with_union(rows_of(records, "tied"), union)
    counted, index = counted_rows(rows), family_index(rows)
    table = tabulate(counted, index, {"instances": count(), "flips": total("flip"), "IFR": rate("flip")})
    by_sample = {"samples": count(), "images": distinct("image"), "vulnerable": total("vulnerable")}
    per_sample = vulnerable_samples(counted)
    table = table.join(tabulate(per_sample, index, by_sample | {"IV": rate("vulnerable")}))
    table["per_sample"] = table["instances"] / table["samples"]
    table = table.join(tabulate(counted, index, {"tied": total("tied")}))
    table = table.join(tabulate(rows[rows.prediction.isna()], index, {"not_applicable": count()}))
    return table.join(tabulate(rows[rows.base.isna()], index, {"no_base": distinct("sample")})).reset_index()


def transition_table(records: pd.DataFrame, union: Sequence[str] = HI_FAMILIES) -> pd.DataFrame:
    """Count how correctness changes from base to perturbed answer (HI 4.2, Table 2), over samples with ground truth.

    Returns:
        One row per family: `samples`, `images`, `instances`, the counts `R->W`, `W->R`, `R->R`, `W->W` (which holds
        flips from one wrong answer to another), `R->W_rate` = R->W / base-correct instances, `W->R_rate` = W->R /
        base-wrong instances, and `no_answer`, the instances left out because their sample has no ground truth. The
        union row is that of `flip_table`.
    """
    rows = with_union(rows_of(records, "answer"), union)
    counted, index = counted_rows(rows), family_index(rows)
    known = counted[counted.answer.notna()]
    right, now = known.base == known.answer, known.prediction == known.answer
    kinds = {"R->W": right & ~now, "W->R": ~right & now, "R->R": right & now, "W->W": ~right & ~now}
    known = known.assign(right=right, wrong=~right, **kinds)
    columns = {"samples": distinct("sample"), "images": distinct("image"), "instances": count()}
    columns |= {name: total(name) for name in TRANSITIONS}
    columns |= {"R->W_rate": rate("R->W", "right"), "W->R_rate": rate("W->R", "wrong")}
    unknown = tabulate(counted[counted.answer.isna()], index, {"no_answer": count()})
    return tabulate(known, index, columns).join(unknown).reset_index()


def margin_table(records: pd.DataFrame) -> pd.DataFrame:
    """Margins (HI eq. 2) per family, for all counted instances and for those whose answer was kept or flipped.

    Returns:
        Rows (`family`, `answer` in all / kept / flipped); `instances`, `samples` and `images` with finite margins (a
        single option has none); means in nats with their intervals: `base`, the margin on the base image; `margin`,
        the perturbed image's own; `base_label`, the perturbed score of the base prediction minus its best rival
        (negative iff flipped); `change` = base_label - base.
    """
    rows = with_union(rows_of(records, "margin", "base_margin"))
    counted = counted_rows(rows)
    counted = counted[np.isfinite(counted[["base_row", "margin", "base_label"]]).all(axis=1)]
    counted = split_answers(counted.assign(change=counted.base_label - counted.base_row))
    columns = {"instances": count(), "samples": distinct("sample"), "images": distinct("image")}
    columns |= {"base": mean("base_row")} | {name: mean(name) for name in ("margin", "base_label", "change")}
    return tabulate(counted, family_index(rows, answer=ANSWERS), columns).reset_index()


def accuracy_table(records: pd.DataFrame) -> pd.DataFrame:
    """Accuracy on base images, overall and per category, and under each family, over samples with ground truth.

    Returns:
        Rows (`family`, `category`): `base` / `all`, then `base` by category, then each family / `all`. `samples`,
        `images`, `instances`, `correct`, `accuracy` with its interval, `chance` = mean of 1 / number of options, and
        `no_answer`, the instances left out because their sample has no ground truth.
    """
    rows = rows_of(records, "answer", "category", "n_options")
    base, perturbed = rows[rows.is_base], with_union(rows)
    groups = [("base", "all"), *(("base", one) for one in sorted(base.category.unique()))]
    groups = [*dict.fromkeys(groups), *((family, "all") for family in family_order(perturbed))]
    rows = pd.concat([base, base.assign(category="all"), perturbed.assign(category="all")], ignore_index=True)
    rows = rows[rows.prediction.notna() & rows.base.notna()]
    known = rows[rows.answer.notna()]
    known = known.assign(right=known.prediction == known.answer, chance=1 / known.n_options)
    columns = {"samples": distinct("sample"), "images": distinct("image"), "instances": count()}
    columns |= {"correct": total("right"), "accuracy": rate("right"), "chance": average("chance")}
    index = pd.MultiIndex.from_tuples(groups, names=["family", "category"])
    unknown = tabulate(rows[rows.answer.isna()], index, {"no_answer": count()})
    return tabulate(known, index, columns).join(unknown).reset_index()


def compliance_table(records: pd.DataFrame) -> pd.DataFrame:
    """Compliance with text overlays: answers that become the label on the card, against other flips (HI 4.2, METHODS 6)

    Returns:
        One row per overlay family: `instances`, `samples`, `images`, `flips`; `compliance` = instances whose answer
        becomes the label of their card / instances, `confusion` = flips to another option / instances,
        `complied_share` = complied / flips, each with its interval; `chance_share`, the complied share of flips that
        fall on every other option alike. Of the instances whose base answer is wrong: `corrected`, the share whose
        answer becomes the right one (HI's 22 %), and `corrected_if_followed`, the share whose card names the right
        one: what it would be if every card were followed (HI's 33 %). The cards of `random_text` and `box_overlay` do
        not show their label: their compliance is what chance gives.

    Raises:
        ValueError: an overlay whose instance name ends in no option's letter.
    """
    rows = rows_of(records, "answer", "n_options").assign(
        instance=records["instance"].astype(str).to_numpy(dtype=object)
    )
    counted = counted_rows(rows)
    counted = counted[counted.family.isin(OVERLAYS)]
    letters = counted.instance.str.rsplit("_", n=1).str[-1]
    if not letters.isin(list(LETTERS)).all():
        raise ValueError(f"the overlay {counted.instance[~letters.isin(list(LETTERS))].iloc[0]!r} names no option")
    named = letters.map({letter: i for i, letter in enumerate(LETTERS)}).astype(float)
    complied = counted.flip & (counted.prediction == named)
    counted = counted.assign(complied=complied, confused=counted.flip & ~complied)
    counted["chance"] = (1 / (counted.n_options - 1)).where(counted.flip)
    counted["wrong"] = counted.answer.notna() & (counted.base != counted.answer)
    counted["corrected"] = counted.wrong & (counted.prediction == counted.answer)
    counted["offered"] = counted.wrong & (named == counted.answer)
    columns = {"instances": count(), "samples": distinct("sample"), "images": distinct("image"), "flips": total("flip")}
    columns |= {"compliance": rate("complied"), "confusion": rate("confused")}
    columns |= {"complied_share": rate("complied", "flip"), "chance_share": average("chance")}
    columns |= {"corrected": rate("corrected", "wrong"), "corrected_if_followed": rate("offered", "wrong")}
    return tabulate(counted, family_index(counted), columns).reset_index()


def overlay_table(records: pd.DataFrame) -> pd.DataFrame:
    """Compare overlays with their controls on the same samples: what the card says, against that something is covered.

    Returns:
        One row per pair (`first`, `second`) of the overlay families present: text against random text (the same box and
        letters, no meaning), text and random text against an empty box. Columns as in `compare_table`.
    """
    counted = counted_rows(rows_of(records))
    present = set(counted.family)
    pairs = [("text_overlay", "random_text"), ("text_overlay", "box_overlay"), ("random_text", "box_overlay")]
    pairs = [pair for pair in pairs if present.issuperset(pair)]
    compared = [_compare(*(counted[counted.family == family] for family in pair)) for pair in pairs]
    return _comparison(pd.DataFrame(pairs, columns=["first", "second"]), compared)


def compare_table(first: pd.DataFrame, second: pd.DataFrame) -> pd.DataFrame:
    """Compare the flip rates of two sets of records (models, sizes, prompts) per family, on the samples they share.

    Returns:
        One row per family present in both: `samples` counted in both, `IFR_first`, `IFR_second`, their `difference`
        with its paired interval; `only_first`, `only_second` (samples vulnerable in one only), McNemar's exact `p` on
        these, and `p_holm`, adjusted over the rows of the table.
    """
    counted = [counted_rows(with_union(rows_of(records))) for records in (first, second)]
    families = [family for family in family_order(counted[0]) if (counted[1].family == family).any()]
    compared = [_compare(*(rows[rows.family == family] for rows in counted)) for family in families]
    return _comparison(pd.DataFrame({"family": pd.Series(families, dtype=object)}), compared)


def _compare(first: pd.DataFrame, second: pd.DataFrame) -> dict:
    """Paired flip rates and vulnerability of two sets of counted rows, on the samples they share."""
    difference = stats.paired_difference(first, second, "flip", "one", on="sample", cluster="image")
    vulnerable = [rows.groupby("sample")["flip"].any() for rows in (first, second)]
    pair = pd.concat(vulnerable, axis=1, join="inner")
    return difference | stats.mcnemar(pair.iloc[:, 0], pair.iloc[:, 1])


def _comparison(table: pd.DataFrame, compared: list[dict]) -> pd.DataFrame:
    columns = ["samples", "first", "second", "difference", "low", "high", "only_first", "only_second", "p"]
    tests = pd.DataFrame(compared, columns=columns, index=table.index)
    tests["p_holm"] = stats.holm(tests["p"])
    renamed = {"first": "IFR_first", "second": "IFR_second", "low": "difference_low", "high": "difference_high"}
    return table.join(tests.rename(columns=renamed))
