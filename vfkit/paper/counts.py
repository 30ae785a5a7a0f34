"""What verdicts come to: counts by paper and reason, and a finding in words."""

import pandas as pd

from vfkit.paper.places import places

VERDICTS = ("reproduced", "differs", "settings differ", "not comparable", "not run", "not possible")
JUDGED = ("reproduced", "differs")
FALSE = 0.05  # share of numbers that would be called different by chance if all were reproduced
SHOWN = 4  # differing numbers named in a finding


def count_verdicts(table: pd.DataFrame) -> pd.DataFrame:
    """How many numbers got which verdict, by paper and reason.

    Args:
        table: of `paper.verdicts`.

    Returns:
        `paper`, `verdict`, `why` (its first words), `numbers`; then, per paper, `all`. `false_differs`: how many of the
        numbers that were judged would be called different by chance at 5 % if all were reproduced.
    """
    why = table["why"].str.split(r"[:;]").str[0].where(table["verdict"] != "differs", "")
    keys = ["paper", "verdict", "why"]
    groups = table.assign(why=why).groupby(keys, sort=False).size().rename("numbers").reset_index()
    rank = groups["verdict"].map({verdict: i for i, verdict in enumerate(VERDICTS)})
    groups = groups.assign(rank=rank).sort_values(["paper", "rank"], kind="stable").drop(columns="rank")
    totals = table.groupby("paper").size().rename("numbers").reset_index().assign(verdict="all", why="")
    judged = table["verdict"].isin(JUDGED).groupby(table["paper"]).sum()
    counts = pd.concat([groups, totals], ignore_index=True)
    expected = (FALSE * counts["paper"].map(judged)).where(counts["verdict"].isin(["differs", "all"]))
    return counts.assign(false_differs=expected)[["paper", "verdict", "why", "numbers", "false_differs"]]


def in_their_units(table: pd.DataFrame) -> pd.DataFrame:
    """The table of `paper.verdicts` with ours, difference, margin and uncertainty in the units in which the published
    numbers are printed: shares in per cent where those are, or as counts of as many instances as theirs.

    Args:
        table: with the index of `paper.verdicts`.
    """
    numbers = ["uncertainty", "ours", "ours_low", "ours_high", "difference", "margin"]
    percent = table["unit"].eq("%") & ~table["cell"].str.startswith("percent")  # those are in per cent already
    scale = places()["n"].reindex(table.index).where(table["unit"].eq("count"), 1.0).where(~percent, 100.0)
    return table.assign(**{name: scale * table[name] for name in numbers})


def verdict_finding(table: pd.DataFrame) -> str:
    """Say in Markdown bullets what the verdicts come to: how many numbers could be judged, and which differ most.

    Args:
        table: of `paper.verdicts`.
    """
    judged = table[table["verdict"].isin(JUDGED)]
    if judged.empty:
        why = table.loc[table["verdict"] == "not comparable", "why"].str.extract(
            r"another model and data: (.*); needs"
        )[0]
        whose = f": the runs are of {'; of '.join(why.dropna().unique())}" if why.notna().any() else ""
        return f"- **0 of {len(table)} published numbers can be compared**{whose}."
    lines = []
    for paper, own in judged.groupby("paper", sort=False):
        differs = own[own["verdict"] == "differs"]
        chance = FALSE * len(own)
        whole = (table["paper"] == paper).sum()
        lines.append(
            f"- **{len(own) - len(differs)} of {len(own)}** numbers of {paper} that can be judged (of {whole}) are "
            f"reproduced, {len(differs)} differ; about {chance:.0f} would differ by chance."
        )
        worst = (
            in_their_units(differs).assign(by=(differs["difference"] / differs["margin"]).abs()).nlargest(SHOWN, "by")
        )
        if len(worst):
            named = (
                f"{row.where}, {row.model}, {row.family} {row.metric}: {row.published}, ours {row.ours:.3g}"
                + (" %" if row.unit == "%" else "")
                for row in worst.itertuples()
            )
            lines.append(f"- Furthest off in {paper}, in margins: {'; '.join(named)}.")
    other = table[~table["verdict"].isin(JUDGED)]["verdict"].value_counts()
    lines.append("- The rest: " + ", ".join(f"{n} {verdict}" for verdict, n in other.items()) + ".")
    return "\n".join(lines)
