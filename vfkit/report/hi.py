"""HI's tables and figures over all models and data sets, in HI's own axes (arXiv 2602.06652)."""

import pandas as pd

from vfkit import figures, metrics, paper
from vfkit.metrics.frames import UNION
from vfkit.metrics.pope import FILL
from vfkit.perturb import HI_FAMILIES
from vfkit.readout.readout import PROBES
from vfkit.report.collect import Collected
from vfkit.report.items import Item, wide

SHORT = (UNION, "text_overlay")  # families shown where all would be too many rows
MANY = 24  # rows
NATURAL = "a finished run on multiple-choice questions with natural perturbations (notebook 01)"
INSIDE = f"{NATURAL}, with probes"


def few(table: pd.DataFrame) -> pd.Series:
    """Rows shown: all of a short table, else those of the union and of text overlays."""
    return pd.Series(len(table) <= MANY, table.index) | table["family"].isin(SHORT)


def _flips(collected: Collected) -> pd.DataFrame:
    return collected.each("natural", lambda run: _beside(run, run.table("flips")))


def _beside(run, table: pd.DataFrame) -> pd.DataFrame:
    """HI's values beside a table of a run of one of its models on its data."""
    return paper.beside(table, run.config.model, run.config.dataset)


def _rates(name: str):
    def make(collected: Collected) -> pd.DataFrame:
        table = collected.table("natural", "flips")
        return wide(table[table["instances"] > 0], "family", name) if len(table) else table

    return make


def _transitions(collected: Collected) -> pd.DataFrame:
    return collected.each("natural", lambda run: _beside(run, run.table("transitions")))


def _states(collected: Collected) -> pd.DataFrame:
    """Table 3: mean cosine and L2 of each probe to the base state, all answers."""

    def make(run) -> pd.DataFrame:
        table = metrics.drift_summary(run.records(), None, None, PROBES, [run.tap])
        table = table[(table["answer"] == "all") & table["family"].ne("identity")]
        found = table.drop_duplicates("family")[["family", "images", "instances", "tap"]].reset_index(drop=True)
        for distance, name in (("cos", "cos"), ("l2", "L2")):
            for probe in PROBES:
                own = table[(table["distance"] == distance) & (table["probe"] == probe)].set_index("family")
                values = own[["drift", "drift_low", "drift_high"]]
                values = 1 - values[["drift", "drift_high", "drift_low"]] if name == "cos" else values
                ends = [f"{name}_{probe}{end}" for end in ("", "_low", "_high")]
                found = found.merge(values.set_axis(ends, axis=1).reset_index(), on="family", how="left")
        return found

    return collected.each("inside", make)


def _against_control(distance: str):
    """Tables 4 and 7: drift of the free multiple-choice answer against other samples' states."""

    def make(collected: Collected) -> pd.DataFrame:
        def one(run) -> pd.DataFrame:
            table = run.table("drift", probe="ans_mcq_free", tap=run.tap, distance=distance)
            table = _beside(run, table)
            return table[(table["answer"] == "all") & table["family"].ne("identity") & table["samples"].gt(0)]

        return collected.each("inside", one)

    return make


def _scale(collected: Collected) -> pd.DataFrame:
    """Table 5 and Figure 2: one row per data set and model."""
    tables = []
    for _, sweep in collected.by_dataset("natural"):
        probed = [pair for pair, run in sweep.runs.items() if run.config.probes]
        table = metrics.scale_summary(sweep.frame("records"), sweep.models)
        if probed:
            drift = collected.each("inside", lambda run: run.table("drift", probe="ctx_open", tap=run.tap))
            drift = drift[(drift["answer"] == "all") & drift["family"].eq(UNION)]
            columns = ["dataset", "model", "drift", "drift_low", "drift_high", "hidden", "hidden_low", "hidden_high"]
            table = table.merge(drift[columns], on=["dataset", "model"], how="left")
        tables.append(paper.beside_scale(table, sweep.models, others=False))
    return pd.concat(tables, ignore_index=True) if tables else pd.DataFrame()


def _sizes(collected: Collected) -> pd.DataFrame:
    """Table 6: what was run."""
    rows = []
    for (_, name), run in collected.sweep.runs.items():
        config, samples = run.config, run.manifest["samples"]
        row = {"dataset": config.dataset, "run": name, "study": config.study, "subset": config.subset, **samples}
        rows.append(row | {"rule": config.rule, "protocol": config.protocol.preset, "mode": run.mode})
    return pd.DataFrame(rows)


def _attacks(collected: Collected) -> pd.DataFrame:
    return collected.each("attack", lambda run: _beside(run, run.table("attack")))


def _drift_samples(collected: Collected) -> pd.DataFrame:
    """Figure 1: drift of every sample and of its controls, of the largest run."""
    found = collected.first("inside")
    if found is None:
        return pd.DataFrame()
    _, run = found
    records = run.records()
    records = records[records["family"] != "blank"]
    return metrics.sample_drift(records, run.vectors(), run.controls(), tap=run.tap).assign(model=found[0])


def _grid(dataset: str) -> Item:
    """Figures 4 and 5 of one data set: a grid of transitions."""
    return Item(
        f"HI Figures 4 and 5 {dataset}: four transitions by family and size",
        NATURAL,
        "Per cent of instances with ground truth; models by series and size. Table 2 holds counts and rates.",
        lambda collected: _of(_transitions(collected), dataset),
        figure=lambda table: figures.plot_transition_grid(table, _families(table)),
        show_table=False,
    )


def _of(table: pd.DataFrame, dataset: str) -> pd.DataFrame:
    return table[table["dataset"] == dataset].reset_index(drop=True)


def _families(table: pd.DataFrame) -> list[str]:
    """HI's families and their union, those that a table has."""
    return [name for name in (*HI_FAMILIES, UNION) if name in set(table["family"])]


def _noise(collected: Collected) -> pd.DataFrame:
    return collected.table("spectral", "noise")


def _of_first(kind: str, make) -> pd.DataFrame:
    """A table of the largest run of a kind."""

    def of(collected: Collected) -> pd.DataFrame:
        found = collected.first(kind)
        return pd.DataFrame() if found is None else make(found[1]).assign(run=found[0])

    return of


def _priors(run) -> pd.DataFrame:
    records = run.records()
    if "blank" not in set(records["family"]):
        return pd.DataFrame()
    return metrics.question_priors(records, run.samples())


ANSWERS = [
    Item("HI Table 1 IFR: instance flip rate", NATURAL, "Flips in per cent of instances, by family, with 95 % "
         "intervals by image.", _rates("IFR")),
    Item("HI Table 1 IV: image vulnerability", NATURAL, "Samples with at least one flip, in per cent; IV grows with "
         "the number of instances of a family.", _rates("IV")),
    Item("HI Table 1 beside: ours and HI's", NATURAL, "HI's values stand beside its own models on its own data.",
         lambda collected: _flips(collected), "dataset model family images instances IFR IFR_published IV IV_published "
         "published_source", few),
    Item("HI Table 2: transitions", NATURAL, "Counts of instances with ground truth; rates in per cent of base-correct "
         "and of base-wrong instances.", _transitions, "dataset model family images instances R->R R->W W->R W->W "
         "R->W_rate R->W_rate_published W->R_rate W->R_rate_published", few),
]  # fmt: skip
STATES = [
    Item("HI Figure 1: drift against its controls", INSIDE, "Cosine distance of the last context token from the base "
         "image's, one number a sample, of the largest run; controls: its question on other images, other samples.",
         _drift_samples, figure=lambda table: figures.plot_drift_histograms(table), show_table=False),
    Item("HI Table 3: distance of states", INSIDE,
         "Mean cosine similarity to the base state, and L2 distance from it, by probe.", _states,
         "dataset model family images " + " ".join(f"cos_{probe}" for probe in PROBES) + " "
         + " ".join(f"L2_{probe}" for probe in PROBES), few),
    Item("HI Table 4: drift against control, cosine", INSIDE, "Free multiple-choice answer; control: other samples' "
         "states; percent: drift in per cent of the control.", _against_control("cos"), "dataset model family images "
         "drift drift_sd other_sample d_other_sample percent_other_sample hidden drift_published d_published "
         "percent_published", few),
    Item("HI Table 7: drift against control, L2", INSIDE, "As Table 4.", _against_control("l2"), "dataset model family "
         "images drift drift_sd other_sample d_other_sample percent_other_sample drift_published d_published "
         "percent_published", few),
]  # fmt: skip
SCALE = [
    Item("HI Table 5 and Figure 2: accuracy and average flip rate by model", NATURAL, "Models by series and size; the "
         "average flip rate is over all instances of HI's six families.", _scale, "dataset model params samples "
         "accuracy accuracy_published overlay_IFR overlay_IFR_published union_IFR union_IV union_IV_published drift "
         "hidden identity_IFR", None, lambda table: figures.plot_models(table, {"accuracy": "Base accuracy (%)",
         "union_IFR": "Average flip rate (% of instances)", "overlay_IFR": "Text overlay flip rate (%)"})),
    Item("HI Table 6: runs and samples", "a finished run", "One row per run of this report.", _sizes),
]  # fmt: skip
SPECTRAL = [
    Item("HI 6 and F.1: flips under noise of a band", "a finished spectral run (notebook 03)", "Largest run drawn; the "
         "table holds all.", _noise, "dataset model family scaling eps images instances IFR margin rms",
         lambda table: pd.Series(table["eps"] == table["eps"].max(), table.index)),
    Item("HI 6, noise: flip rate against size", "a finished spectral run (notebook 03)", "The band whose curve rises "
         "first needs the least noise; bands compare where their RMS is equal.",
         _of_first("spectral", lambda run: metrics.noise_table(run.records())),
         figure=lambda table: figures.plot_noise(table), show_table=False),
    Item("HI F.2: thresholds of ablation", "a finished spectral run (notebook 03)", "Cutoff at which the answer leaves "
         "the clean one and stays away.", lambda collected: collected.table("spectral", "threshold")),
    Item("HI Table 29: attacks", "a finished attack run (notebook 03)", "Success: the answer flipped and the base "
         "label's score fell; control: noise of the same band and size.", _attacks, "dataset model family eps samples "
         "images success_rate success_rate_published control_rate difference"),
    Item("HI F.4: spectra of natural perturbations", INSIDE, "Power and phase coherence by band, of the largest run.",
         _of_first("inside", lambda run: metrics.spectrum_table(run.records())), None,
         figure=lambda table: figures.plot_spectrum(table), show_table=False),
    Item("HI 4.5 and E: Dirichlet energy", INSIDE, "Change of the energy per edge of the vision tokens.",
         lambda collected: collected.each("inside", lambda run: _beside(run, run.table("dirichlet"))),
         "dataset model family answer images instances delta delta_published delta_sd delta_sd_published",
         lambda table: few(table) & table["answer"].eq("all")),
]  # fmt: skip
POPE_RUN = "a finished run on POPE's questions (notebook 04)"
POPE = [
    Item("HI 7 and D: POPE by family", POPE_RUN, "Yes is positive; the base and each family, all splits together.",
         lambda collected: collected.table("pope", "pope"), "dataset model category family images instances accuracy "
         "precision recall F1 FPR yes_rate", lambda table: table["category"].eq("all") & table["family"].isin(
             ["base", UNION, "text_overlay", f"blank_{FILL}"])),
    Item("HI D: transitions by base case", POPE_RUN, "Case: base answer / truth.",
         lambda collected: collected.table("pope", "pope_transition"), "dataset model case meaning becomes family "
         "images instances stays flips flip_rate", lambda table: table["family"].eq(UNION)),
    Item("HI 7: yes-no margin by base case", POPE_RUN, "In nats; positive means Yes.", lambda collected: collected.each(
         "pope", lambda run: paper.beside(run.table("pope_margin"), run.config.model, run.config.dataset,
         split="adversarial")), "dataset model case answer images instances base margin margin_published change",
         lambda table: table["family"].eq(UNION) & table["answer"].eq("flipped")),
    Item("HI Figure 12: language prior", POPE_RUN, "What the model says of each question on a blank image, of the "
         "largest run.", _of_first("pope", _priors), figure=lambda table: figures.plot_priors(table, FILL),
         show_table=False),
]  # fmt: skip


def transition_items(collected: Collected) -> list[Item]:
    """Figures 4 and 5, one item for each data set; without runs one that says what is needed."""
    datasets = dict.fromkeys(dataset for dataset, _ in collected.runs["natural"])
    nothing = Item("HI Figures 4 and 5: four transitions by family and size", NATURAL, "", lambda _: pd.DataFrame())
    return [_grid(dataset) for dataset in datasets] or [nothing]
