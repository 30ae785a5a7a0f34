"""Does the model see, or does it believe what it is told? Outcomes of V-FAT answers and their scores (VF 3.3, 4).

Records and samples in, one frame of *answers* out (`vfat_answers`): one row per question and reading of it. All other
tables are made of that frame, of several models where it has a column `model`. Readings are

- `generation`: the model's own greedy answer, as in VF. Multiple choice by strict parsing, open answers by a judge;
- `likelihood`: the most likely of all options listed, by a scoring rule (HI 3.1), multiple choice alone;
- `truth_or_trap`: the likelier of truth and trap as open answers, a forced choice: `other` is an exact tie.

They answer different questions, so no table pools them. Intervals are 95 %, from a bootstrap over items: the six
questions of an item share what they are about. `cluster="image"` resamples images.
"""

from collections.abc import Callable, Iterator, Mapping, Sequence
from typing import Any

import numpy as np
import pandas as pd

from vfkit.datasets.base import unknown
from vfkit.datasets.vfat_items import BASELINE, CATEGORIES, FORMATS, LEVELS
from vfkit.judge import OUTCOMES, match, parse_choice, strip_reasoning
from vfkit.metrics import stats
from vfkit.metrics.frames import need, require
from vfkit.metrics.tabulate import count, distinct, share, tabulate, total
from vfkit.readout.rules import RULES, predict, scores
from vfkit.sample import LETTERS

READINGS = ("generation", "likelihood", "truth_or_trap")
ALL = "all"
MEASURES = ("mAcc", "mTDS", "other_share", "R", "VRS")
ANSWER = ("sample_id", "item", "image_id", "category", "level", "format", "reading", "rule", "outcome", "tied")
_META = ("item", "level", "format", "truth", "trap")
_PARTS = ("logp_text", "logp_end", "n_tokens", "logp_letter")
_CLUSTERS = {"item": "item", "image": "image_id"}
_WHO = ["model", "mode", "reading", "rule"]


def vrs(accuracy, tds):
    """Visual robustness score: the harmonic mean of accuracy and R = 1 - text-dominance (VF 3.3).

    Args:
        accuracy, tds: mAcc and mTDS as fractions, numbers or arrays.

    Returns:
        2 mAcc R / (mAcc + R), 0 where both are 0, NaN where one is NaN.
    """
    accuracy, robust = np.asarray(accuracy, dtype=float), 1 - np.asarray(tds, dtype=float)
    both = accuracy + robust
    return np.where(both == 0, 0.0, 2 * accuracy * robust / np.where(both == 0, 1.0, both))[()]


def vfat_answers(
    records: pd.DataFrame, samples: pd.DataFrame, rules: Sequence[str] = ("paper",), judge: Callable[..., str] = match
) -> pd.DataFrame:
    """What every answer comes to: `vision` (it equals the truth), `bias` (it equals the trap) or `other` (VF 3.3).

    Args:
        records, samples: of a run over V-FAT samples; rows join by `sample_id`, never by order. Perturbed instances
            are left out. A run without probes holds no greedy answers, so no rows of `generation`.
        rules: scoring rules of `likelihood` and `truth_or_trap`; `letter` gives no row where no letters are listed.
        judge: of open answers: `judge(answer, truth, trap, aliases, trap_aliases)` gives the outcome; one that has
            `many`, as `vfkit.judge.LLMJudge` has, is asked about all of them at once.

    Returns:
        One row per sample, reading and rule: `sample_id`, `item`, `image_id`, `category`, `level`, `format`,
        `reading`, `rule` (empty for `generation`), `answer` (the text chosen or said, reasoning removed), `outcome`,
        `vision`, `bias`, `other`, `one` (0 or 1; 1), `tied`, `reasoning` (characters removed as reasoning), `options`.

    Raises:
        ValueError: samples that are not of V-FAT, or occur twice; an unknown rule, level or format; a trap that is
            none of the options.
    """
    for rule in rules:
        if rule not in RULES:
            raise unknown("scoring rule", rule, RULES)
    asked = list(_asked(records, samples))
    found = [*_said(asked, judge), *(row for one in asked for row in _likely(one, rules))]
    table = pd.DataFrame(found, columns=[*ANSWER, "options", "answer", "reasoning"])
    table = in_order(table.sort_values("sample_id", kind="stable"), ["reading", "rule", "format", "level"])
    return table.assign(one=1.0, **{name: (table["outcome"] == name).astype(float) for name in OUTCOMES})


def vfat_answers_of(
    runs: Mapping[str, Any], rules: Sequence[str] = ("paper",), judge: Callable[..., str] = match
) -> pd.DataFrame:
    """`vfat_answers` of several runs, one below the other, with `model` (the key) and `mode` (`Run.mode`)."""
    found = [
        vfat_answers(run.records(), run.samples(), rules, judge).assign(model=model, mode=run.mode)
        for model, run in runs.items()
    ]
    return pd.concat(found, ignore_index=True)


_ORDER = {
    "reading": READINGS,
    "rule": ("", *RULES),
    "format": FORMATS,
    "level": (BASELINE, *LEVELS),
    "category": CATEGORIES,
}


def vfat_scores(
    answers: pd.DataFrame, by: Sequence[str] = ("format", "level"), cluster: str = "item", pool: bool = True
) -> pd.DataFrame:
    """mAcc, mTDS, R = 1 - mTDS and VRS with their intervals (VF 3.3, Tables 1 and 2, Figures 2, 4 and 5).

    Args:
        answers: of `vfat_answers`, of several runs where a column `model` tells them apart.
        by: columns to tabulate by, such as `format`, `level`, `category`.
        cluster: what the bootstrap resamples: `item` or `image`.
        pool: with further rows in which a column of `by` is `all`: formats or levels pooled, answer by answer, where
            there is more than one (VF's Figure 4 pools formats). `L0`, which VF does not have, is in no pool of levels.

    Returns:
        One row per model, reading, rule and group: `n` answers, `items`; `mAcc` (share of `vision`), `mTDS` (of
        `bias`), `other_share`, `R`, `VRS`, each with its interval; `tied`, `cluster`.
    """
    unit = cluster_column(cluster)
    need(answers, "answers", *ANSWER, *by)
    keys = [*source_columns(answers), *by]
    pooled = answers if "level" in by else answers[answers["level"] != BASELINE]
    pooled = with_pooled(pooled, by) if pool else pooled
    pooled = pooled[pooled["outcome"].notna()].assign(image=lambda rows: rows[unit])
    columns = {"n": count(), "items": distinct("item")}
    columns |= {name: share(SHARES[name], "vision", "bias", "one") for name in MEASURES} | {"tied": total("tied")}
    table = tabulate(pooled, pd.MultiIndex.from_frame(pooled[keys].drop_duplicates()), columns)
    return in_order(table.assign(cluster=cluster).reset_index(), keys)


# each a function of the sums of vision, bias and answers
SHARES = {
    "mAcc": lambda vision, bias, n: stats.divide(vision, n),
    "mTDS": lambda vision, bias, n: stats.divide(bias, n),
    "other_share": lambda vision, bias, n: stats.divide(n - vision - bias, n),
    "R": lambda vision, bias, n: 1 - stats.divide(bias, n),
    "VRS": lambda vision, bias, n: vrs(stats.divide(vision, n), stats.divide(bias, n)),
}


def vfat_table(
    records: pd.DataFrame,
    samples: pd.DataFrame,
    rules: Sequence[str] = ("paper",),
    judge: Callable[..., str] = match,
    by: Sequence[str] = ("format", "level"),
    cluster: str = "item",
) -> pd.DataFrame:
    """`vfat_scores` of one run's answers."""
    return vfat_scores(vfat_answers(records, samples, rules, judge), by, cluster)


def in_order(table: pd.DataFrame, keys: Sequence[str]) -> pd.DataFrame:
    """Rows by `keys`: readings, rules, formats, levels, categories in their order, others as they come, `all` last."""
    ranks = []
    for name in keys:
        known = [*_ORDER.get(name, ()), *(sorted if name == "category" else list)(table[name].unique())]
        known = list(dict.fromkeys(known))
        known = [*(value for value in known if value != ALL), ALL]
        ranks.append(table[name].map({value: i for i, value in enumerate(known)}).fillna(len(known)))
    return table.iloc[np.lexsort(ranks[::-1])].reset_index(drop=True) if ranks else table


def indexed(found: pd.DataFrame, keys: Sequence[str]) -> pd.DataFrame:
    """What `stats` returns for groups that are tuples, indexed by `keys`."""
    columns = zip(*found.index, strict=True) if len(found) else [[]] * len(keys)
    return found.set_axis(pd.MultiIndex.from_arrays(list(columns), names=keys))


def source_columns(answers: pd.DataFrame) -> list[str]:
    return [name for name in _WHO if name in answers]


def cluster_column(name: str) -> str:
    if name not in _CLUSTERS:
        raise unknown("cluster", name, _CLUSTERS)
    return _CLUSTERS[name]


def with_pooled(answers: pd.DataFrame, by: Sequence[str]) -> pd.DataFrame:
    """The rows, and once more under `all` for every subset of the columns `by` in which their reading varies."""
    for name in by:
        pool = answers[answers[name] != BASELINE]
        varied = pool.groupby(source_columns(pool), sort=False)[name].transform("nunique") > 1
        pool = pool[varied.astype(bool)]
        answers = pd.concat([answers, pool.assign(**{name: ALL})], ignore_index=True)
    return answers


# --- from records to outcomes -----------------------------------------------------------------------------------------


def _asked(records: pd.DataFrame, samples: pd.DataFrame) -> Iterator[dict]:
    """One dict per base row: its record, what was asked, and V-FAT's own fields."""
    require(records)
    doubled = samples["sample_id"].duplicated()
    if doubled.any():
        raise ValueError(f"sample {samples['sample_id'][doubled].iloc[0]!r} occurs twice: a table takes one run")
    base = records[records["family"] == "base"]
    asked = samples.set_index("sample_id")[["category", "question", "options", "meta"]]
    joined = base.drop(columns="category", errors="ignore").join(asked, on="sample_id", how="inner")
    for row in joined.to_dict("records"):
        meta = row.pop("meta")
        if missing := [name for name in _META if not meta.get(name)]:
            raise ValueError(f"sample {row['sample_id']!r} is no V-FAT sample: its meta lacks {', '.join(missing)}")
        for name, known in (("level", (BASELINE, *LEVELS)), ("format", FORMATS)):
            if meta[name] not in known:
                raise unknown(f"{name} of sample {row['sample_id']!r}", meta[name], known)
        row["options"] = list(row["options"])
        if not {meta["truth"], meta["trap"]} <= set(row["options"]):
            raise ValueError(f"sample {row['sample_id']!r}: its truth or its trap is none of its options")
        row["image_id"] = row["image_id"] if isinstance(row["image_id"], str) else row["sample_id"]
        yield {**meta, **row, "item": str(meta["item"])}


def _row(asked: dict, reading: str, rule: str, answer: str, outcome: str, tied: bool = False, reasoning: int = 0):
    what = {name: asked[name] for name in ("sample_id", "item", "image_id", "category", "level", "format")}
    what |= {"options": len(asked["options"]), "reading": reading, "rule": rule, "answer": answer}
    return what | {"outcome": outcome, "tied": tied, "reasoning": reasoning}


def _said(asked: list[dict], judge: Callable[..., str]) -> Iterator[dict]:
    """The greedy answers, where the run holds them."""
    opened = []
    for one in asked:
        multiple = one["format"] == "mcq"
        text = one.get("text_mcq" if multiple else "text_open")
        if not isinstance(text, str):
            continue
        answer, reasoning = strip_reasoning(text)
        if not multiple:
            opened.append((one, answer, reasoning))
            continue
        options = one["options"]
        chosen = parse_choice(answer, LETTERS[: len(options)], options)
        outcome = "other" if chosen is None else _equals(one, options[chosen])
        yield _row(one, "generation", "", answer, outcome, reasoning=reasoning)
    for (one, answer, reasoning), outcome in zip(opened, _judged(opened, judge), strict=True):
        if isinstance(outcome, Exception):
            raise outcome
        if outcome not in OUTCOMES:
            raise unknown("outcome of a judge", outcome, OUTCOMES)
        yield _row(one, "generation", "", answer, outcome, reasoning=reasoning)


def _judged(opened: list[tuple], judge: Callable[..., str]) -> list:
    sides = [
        (answer, one["truth"], one["trap"], tuple(one.get("aliases") or ()), tuple(one.get("trap_aliases") or ()))
        for one, answer, _ in opened
    ]
    if not hasattr(judge, "many"):
        return [judge(*each) for each in sides]
    from vfkit.judge import Case

    return judge.many([Case(one["question"], *each) for (one, _, _), each in zip(opened, sides, strict=True)])


def _likely(asked: dict, rules: Sequence[str]) -> Iterator[dict]:
    """The likeliest option by each rule, where the run holds log-likelihoods."""
    parts = [asked.get(name) for name in _PARTS]
    if any(part is None or np.ndim(part) != 1 for part in parts):
        return
    multiple = asked["format"] == "mcq"
    for rule in rules:
        if rule == "letter" and not np.isfinite(np.asarray(parts[3], dtype=float)).all():
            continue
        best, tied = predict(scores(rule, *parts))
        answer = asked["options"][best]
        # a forced choice has no third option: the first of equals would be a guess
        outcome = "other" if tied and not multiple else _equals(asked, answer)
        yield _row(asked, "likelihood" if multiple else "truth_or_trap", rule, answer, outcome, tied)


def _equals(asked: dict, option: str) -> str:
    return {asked["truth"]: "vision", asked["trap"]: "bias"}.get(option, "other")
