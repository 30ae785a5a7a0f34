"""The finding in a sentence, computed from the records."""

import pandas as pd

from vfkit.metrics.labels import accuracy_table, flip_table


def finding(records: pd.DataFrame, model: str, dataset: str) -> str:
    """One paragraph: how often the model is right, how often its answer flips, what flips it most, and the floor."""
    flips = flip_table(records).set_index("family")
    accuracy = accuracy_table(records).set_index(["family", "category"]).loc[("base", "all")]
    families = flips.drop(
        index=[family for family in flips.index if family.startswith("union") or family == "identity"]
    )
    union = next((flips.loc[family] for family in flips.index if family.startswith("union")), None)
    worst = families[families.instances > 0].IFR.sort_values(ascending=False)
    parts = [f"On {accuracy.samples:,} samples of {dataset}, {model} answers {_percent(accuracy, 'accuracy')} rightly."]
    if union is not None:
        parts.append(
            f"Of {union.instances:,} changes that keep the meaning, {_percent(union, 'IFR')} flip the answer, and "
            f"{_percent(union, 'IV')} of the samples flip at least once."
        )
    if len(worst) and worst.iloc[0] > 0:
        parts.append(f"{worst.index[0].replace('_', ' ')} flips most: {_percent(flips.loc[worst.index[0]], 'IFR')}.")
    if "identity" in flips.index:
        parts.append(f"Reading the same pixels again flips {100 * flips.loc['identity'].IFR:.1f} %: the noise floor.")
    return " ".join(parts)


def _percent(row: pd.Series, name: str) -> str:
    value, low, high = (100 * row[column] for column in (name, f"{name}_low", f"{name}_high"))
    return f"{value:.1f} % [{low:.1f}, {high:.1f}]"
