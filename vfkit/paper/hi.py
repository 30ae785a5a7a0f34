"""HI's published values beside ours: flips, transitions, accuracy, drift, energy, POPE, attacks, scale."""

from collections.abc import Sequence

import pandas as pd

from vfkit.metrics.flips import TRANSITIONS
from vfkit.metrics.frames import UNION
from vfkit.paper.values import DATASETS, FAMILIES, MODELS, SIZELESS, TAPS, canonical, published


def beside(
    table: pd.DataFrame,
    model: str | None = None,
    dataset: str | None = None,
    runs: Sequence[int] = (0,),
    split: str | None = None,
) -> pd.DataFrame:
    """HI's values beside ours, by family: flips, transitions, accuracy, compliance, drift, energy, POPE or attacks.

    Args:
        table: of `flip_table` (adds `IFR_published`, `IV_published`), `transition_table` (`R->W_rate_published`,
            `W->R_rate_published`, from the published counts), `accuracy_table` (`accuracy_published`, base overall),
            `drift_table` or `drift_summary` (by probe and distance: `drift`, `drift_sd`, `control`, `control_sd`, `d`,
            `percent`, `percent_sd`, each `_published`; per cent of control from the published means and SDs),
            `compliance_table` (`corrected_published`, `corrected_if_followed_published`, of text overlays),
            `dirichlet_table` (`delta_published`, `delta_sd_published`), `pope_margin_table` (`margin_published`, of
            flipped hallucinations; HI states no more of POPE, and not the model's size) or `attack_table`
            (`success_rate_published`: a lower bound, which HI gives for all three attacks at 8/255).
        model: ours by its registered name, hub id or folder, or HI's by HI's name; without one nothing stands beside.
        dataset: ours, or HI's by HI's name; None takes the one that HI's table of this kind is about.
        runs: the published runs averaged; (0,) is the printed table, (0, 1, 2, 3) all four.
        split: of POPE; HI's values are of `adversarial` alone.

    Returns:
        A new table with those columns, as fractions, and `published_source`: paper, table, model and dataset of the
        values. Beside a model or data that HI does not state, an embedded one or one's own among them, nothing stands.
        What HI states in running text alone (random text, empty box; other models) comes from there. Rows that HI says
        nothing of, a union of other families among them, stay empty. HI's control is `other_sample`, it never tells
        kept from flipped, so its drift and energy stand beside the rows of `all`, and its states beside the tap at
        which it most likely read them (`TAPS`). The energy of flips that it states stands beside `flipped`.

    Raises:
        ValueError: a table of another kind, or a run other than 0 to 3.
    """
    ours = canonical(model) if model else ""
    pope = {"case", "margin"} <= set(table)
    sizeless = ours in SIZELESS or ours == "Qwen3-VL-2B-Instruct"
    model = MODELS.get(ours, ours)
    if dataset is None:
        dataset, split = ("POPE", "adversarial") if pope else ("SEEDBench_IMG", None)
    dataset = DATASETS.get(dataset, dataset)
    if pope:
        return _beside_pope(table, sizeless and dataset == "POPE" and split == "adversarial")
    if "success_rate" in table:
        return _beside_attacks(table, sizeless and dataset == "SEEDBench_IMG")
    metrics = next((wanted for column, wanted in _WANTED.items() if column in table), None)
    if metrics is None:
        raise ValueError(f"published values go beside tables with one of the columns {', '.join(_WANTED)}")
    if "answer" in table:
        cells = _drift_cells if "drift" in table else _dirichlet_cells
        return _beside_all(table, *cells(model, dataset), TAPS.get(model, "post_norm"))
    if not runs or not set(runs) <= {0, 1, 2, 3}:
        raise ValueError(f"runs {tuple(runs)}: HI has runs 0, 1, 2 and 3")
    values, sources = _cells(model, dataset, metrics, runs)
    if "R->W_rate" in table:
        values["R->W_rate"] = values["R->W"] / (values["R->W"] + values["R->R"])
        values["W->R_rate"] = values["W->R"] / (values["W->R"] + values["W->W"])
        shown = {"R->W_rate": "R->W_rate", "W->R_rate": "W->R_rate"}
    else:
        names = next(names for column, names in _NAMED.items() if column in table)
        shown = dict(zip(names, metrics, strict=True))
    families = table["family"]
    if "category" in table:
        families = families.where((families != "base") | (table["category"] != "all"), "none")  # HI's word for the base
    columns = {f"{name}_published": families.map(values[metric]) for name, metric in shown.items()}
    return table.assign(**columns, published_source=families.map(sources).astype(object).fillna(""))


# what a table needs, told by a column that only it has
_WANTED = {"IFR": ["IFR", "IV"], "R->W_rate": list(TRANSITIONS), "accuracy": ["base_accuracy"]}
_WANTED |= {"corrected": ["corrected_rate_base_wrong", "uniform_compliance_reference"]}
_WANTED |= {"d_other_sample": ["drift"], "delta_sum": ["dirichlet"]}
# our columns that these stand beside
_NAMED = {"IFR": ["IFR", "IV"], "accuracy": ["accuracy"], "corrected": ["corrected", "corrected_if_followed"]}
_TEXT = ["sec 4.1", "sec 4.2", "sec 5.1 (C.4)"]  # running text
DRIFT_TABLES = ("Table 4", "Appendix B / Table 7 (L2)", "sec 4.4 probes", "Appendix B probes (L2)")


def _beside_attacks(table: pd.DataFrame, stated: bool) -> pd.DataFrame:
    """HI's units are [-1, 1], so its 8/255 is 4/255 of ours: beside both, since a reader may take it for either."""
    bound = published(paper="HI", metric="attack_success_rate").iloc[0]
    here = table["eps"].isin([4, 8]) & (table["target"] == "") & stated
    value = float(bound["printed"].removeprefix(">")) / 100
    source = f"HI {bound['where']}, {bound['model']}, {bound['dataset']}"
    return table.assign(
        success_rate_published=here.map({True: value}), published_source=here.map({True: source, False: ""})
    )


def _cells(model: str, dataset: str, metrics: list[str], runs: Sequence[int]) -> tuple[pd.DataFrame, pd.Series]:
    """Values [our family, metric] as fractions or counts, and each family's source; tables go before running text."""
    found = _stated(model, dataset)
    found = found[found["metric"].isin(metrics)].dropna(subset="value")
    tables = [f"Table {table} (run {run})" for table in (1, 2) for run in runs]
    found = pd.concat([found[found["where"].isin(tables)], found[found["where"].isin(_TEXT)]])
    label = f"(run {runs[0]})" if len(runs) == 1 else f"(mean of runs {', '.join(map(str, runs))})"
    found["where"] = found["where"].str.replace(r"\(run \d\)", label, regex=True)
    found["value"] = found["value"].where(found["unit"] != "%", found["value"] / 100)
    found["family"] = found["family"].replace(FAMILIES)
    first = found.drop_duplicates(["family", "metric"])[["family", "metric", "where"]]
    found = found.merge(first, on=["family", "metric", "where"])
    values = found.groupby(["family", "metric"])["value"].mean().unstack().reindex(columns=metrics)
    return values, "HI " + first.drop_duplicates("family").set_index("family")["where"] + f", {model}, {dataset}"


def _beside_all(table: pd.DataFrame, values: pd.DataFrame, sources: pd.Series, tap: str) -> pd.DataFrame:
    """The table with values, and sources, that are indexed by columns of it; states beside their tap alone."""
    names = list(values.index.names)
    keys = pd.MultiIndex.from_frame(table[names])
    found = values.reindex(keys).set_axis(table.index)
    if "tap" in table:
        found.loc[table["tap"] != tap] = float("nan")
    source = sources.reindex(keys).set_axis(table.index).where(found.notna().any(axis=1)).fillna("")
    return table.assign(**{f"{name}_published": found[name] for name in found}, published_source=source)


def _beside_pope(table: pd.DataFrame, stated: bool) -> pd.DataFrame:
    """HI's one margin: of hallucinations whose answer flipped, over all families."""
    row = published(paper="HI", dataset="POPE adversarial", metric="mean_flip_margin").iloc[0]
    here = (table["case"] == "Yes/No") & (table["answer"] == "flipped") & (table["family"] == UNION) & stated
    source = f"HI {row['where']}, {row.model}, {row.dataset}"
    margin = pd.Series(row.value, index=table.index).where(here)
    return table.assign(margin_published=margin, published_source=here.map({True: source, False: ""}))


def _drift_cells(model: str, dataset: str) -> tuple[pd.DataFrame, pd.Series]:
    """Drift, control, d and per cent of control, and the source, by our family, probe and distance.

    Tables 4 and 7 have no union and not every family; mean drift is then that of Table 3, run 0, of other images.
    """
    found = _stated(model, dataset)
    found = found[found["where"].isin([*DRIFT_TABLES, "Table 3 (run 0)"])]
    names = found["metric"].str.extract(r"^(?:(drift|control)_(mean|sd)_|(cohen_d)_|)(cosdist|cos|L2)_(\w+)$")
    found = found.assign(
        distance=names[3].str[:3].str.lower(), probe=names[4], family=found["family"].replace(FAMILIES)
    )
    found["name"] = names[0].str.cat(names[1].map({"mean": "", "sd": "_sd"})).fillna(names[2].map({"cohen_d": "d"}))
    keys = ["family", "probe", "distance"]
    third = found[found["name"].isna() & (found["where"] == "Table 3 (run 0)")].assign(name="drift")
    third["value"] = third["value"].where(third["distance"] != "cos", 1 - third["value"])
    found = pd.concat([found.dropna(subset="name"), third]).drop_duplicates([*keys, "name"])
    values = found.pivot(index=keys, columns="name", values="value")
    values = values.reindex(columns=["drift", "drift_sd", "control", "control_sd", "d"])
    control = values[values.index.get_level_values("family") == "control"].droplevel("family")
    control = control.reindex(values.index.droplevel("family")).set_axis(values.index)
    values[["control", "control_sd"]] = control[["control", "control_sd"]].where(values["d"].notna())
    values["percent"] = 100 * values["drift"] / values["control"]
    values["percent_sd"] = 100 * values["drift_sd"] / values["control"]
    sources = found.drop_duplicates(keys).set_index(keys)["where"]
    stated = values.notna().any(axis=1)
    index = [name + ("all",) for name in values.index[stated]]
    index = pd.MultiIndex.from_tuples(index, names=[*keys, "answer"])
    sources = ("HI " + sources + f", {model}, {dataset}").reindex(values.index[stated])
    return values[stated].set_axis(index), sources.set_axis(index)


def _dirichlet_cells(model: str, dataset: str) -> tuple[pd.DataFrame, pd.Series]:
    """Change of the energy per edge, its SD over instances, and the source, by our family and answer.

    Of flips HI states it for one family, of a Qwen3-VL whose size it does not say.
    """
    found = _stated(model, dataset)
    if model == MODELS["qwen3vl_2b"] and dataset == "SEEDBench_IMG":
        flips = published(paper="HI", metric=["dirichlet_delta_mean_flips", "dirichlet_delta_sd_flips"])
        found = pd.concat([found, flips], ignore_index=True)
    names = found["metric"].str.extract(r"^dirichlet_(delta)_(mean|sd)(_flips)?$")
    found = found.assign(
        family=found["family"].replace(FAMILIES),
        answer=names[2].map({"_flips": "flipped"}).fillna("all"),
        name=names[0].str.cat(names[1].map({"mean": "", "sd": "_sd"})),
    ).dropna(subset="name")
    keys = ["family", "answer"]
    values = found.pivot(index=keys, columns="name", values="value").reindex(columns=["delta", "delta_sd"])
    sources = found.drop_duplicates(keys).set_index(keys)
    return values, "HI " + sources["where"] + ", " + sources["model"] + ", " + sources["dataset"]


def _stated(model: str, dataset: str) -> pd.DataFrame:
    """What HI states of a model on a data set; no rows for what it does not have."""
    table = published(paper="HI")
    return table[(table["model"] == model) & (table["dataset"] == dataset)].reset_index(drop=True)


def beside_scale(table: pd.DataFrame, models: pd.DataFrame, others: bool | None = None) -> pd.DataFrame:
    """HI's values by model and data set (its Table 5, as far as its numbers are known) beside ours.

    Args:
        table: of `metrics.scale_summary`. models: its models with their `hub` ids, which tell who is who.
        others: whether what HI says of models or data that are not in the table follows in rows of its own, whose
            `model` and `dataset` are HI's names; None: where HI states something of a model in the table.

    Returns:
        The table with `accuracy_published`, `overlay_IFR_published`, `union_IV_published`, `drift_published` (1 - cos
        of the open context state) and `published_source`.
    """
    values = _scale_cells()
    names = {name.lower(): name for name in values.index.get_level_values("model")}
    hub = models.set_index("model")["hub"].str.split("/").str[-1].str.lower().map(names)
    keys = pd.MultiIndex.from_arrays([table["dataset"].map(DATASETS), table["model"].map(hub)])
    found = values.reindex(keys).set_axis(table.index)
    table = pd.concat([table, found], axis=1)
    others = bool(values.index.isin(keys).any()) if others is None else others
    rest = values[~values.index.isin(keys) & others].rename_axis(["dataset", "model"]).reset_index()
    table = pd.concat([table, rest], ignore_index=True)
    return table.assign(published_source=table["published_source"].fillna(""))


def _scale_cells() -> pd.DataFrame:
    """HI's values by its data set and model, as fractions, and where they stand."""
    names = {("none", "base_accuracy"): "accuracy", ("TextOverlay", "IFR"): "overlay_IFR"}
    names |= {(union, "IV"): "union_IV" for union, ours in FAMILIES.items() if ours == UNION}
    unions = [union for union, ours in FAMILIES.items() if ours == UNION]
    names |= {(union, "cos_ctx_open"): "drift" for union in (*unions, "unspecified (TextOverlay or union)")}
    found = published(paper="HI", where=["Table 1 (run 0)", "Table 3 (run 0)", "sec 5.1 (C.4)"])
    found["name"] = pd.Series(zip(found["family"], found["metric"], strict=True)).map(names)
    found = found.dropna(subset="name")
    found["value"] = found["value"].where(found["unit"] != "%", found["value"] / 100)
    found["value"] = found["value"].where(found["name"] != "drift", 1 - found["value"])
    grouped = found.groupby(["dataset", "model"])
    values = found.pivot(index=["dataset", "model"], columns="name", values="value").add_suffix("_published")
    sources = grouped["where"].agg(lambda where: "HI " + ", ".join(where.str.replace(" (run 0)", "").unique()))
    return values.rename_axis(columns=None).assign(published_source=sources)
