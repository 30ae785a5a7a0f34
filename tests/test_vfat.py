"""V-FAT: outcomes of answers, VRS, what pairs with what, what moves inside, and the published values (VF)."""

import numpy as np
import pandas as pd
import pytest

import vfkit
from vfkit import figures, metrics, paper
from vfkit.datasets.vfat_items import LEVELS
from vfkit.readout.readout import PROBES, TAPS

# --- VRS and the published values -------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    "accuracy, tds, expected",
    [
        (1, 0, 1),
        (0, 1, 0),
        (0, 0, 0),
        (1, 1, 0),
        (0.5, 0.5, 0.5),
        (0.6, 0.2, 2 * 0.6 * 0.8 / 1.4),
        (np.nan, 0.2, np.nan),
    ],
)
def test_vrs(accuracy, tds, expected):
    assert metrics.vrs(accuracy, tds) == pytest.approx(expected, nan_ok=True)


def test_vrs_takes_arrays():
    np.testing.assert_allclose(metrics.vrs([0, 1, 0.5], [1, 0, 0.5]), [0, 1, 0.5])


def _published(measure, **equal):
    table = paper.published_vfat()
    table = table[table["measure"] == measure]
    for name, value in equal.items():
        table = table[table[name] == value]
    return table


def test_published_vrs_is_what_published_accuracies_allow():
    """mTDS is not printed by model; it lies between 0 and 1 - mAcc, and so VRS between mAcc and 2 mAcc / (1 + mAcc)."""
    cells = _published("mAcc").dropna(subset="n")
    pooled = cells.groupby(["model", "level"])["value"].mean()  # of both formats
    single = cells.set_index(["model", "level", "format"])["value"]
    ruled_out = {"mcq": 0, "oe": 0}
    table = _published("VRS")
    assert len(table) == 11
    for row in table.itertuples():
        accuracy = pooled[row.model, row.level]
        assert metrics.vrs(accuracy, 1 - accuracy) - 0.005 <= row.value <= metrics.vrs(accuracy, 0) + 0.005, row
        for form in ruled_out:
            accuracy = single[row.model, row.level, form]
            ruled_out[form] += not accuracy - 0.005 <= row.value <= metrics.vrs(accuracy, 0) + 0.005
    assert min(ruled_out.values()) > 0  # neither format alone gives them: they pool both


def test_published_pairs_give_their_vrs():
    """VF's Figure 5 prints vision and bias by format: each pair has a VRS, and R times its share leads back to mTDS."""
    table = paper.published_vfat()
    pairs = table[table["source"].str.contains("Figure 5")].pivot(index="format", columns="measure", values="value")
    np.testing.assert_allclose(pairs.sum(axis=1), 1, atol=1e-3)
    found = metrics.vrs(pairs["mAcc"], pairs["mTDS"])
    assert found == pytest.approx([2 * 0.59 * 0.6809 / 1.2709, 2 * 0.4951 * 0.829 / 1.3241], abs=1e-4)
    accuracy = pairs["mAcc"].to_numpy()
    np.testing.assert_allclose(1 - found * accuracy / (2 * accuracy - found), pairs["mTDS"])


def test_table_1_is_consistent_but_for_one_cell():
    table = _published("mAcc")
    cells = table[table["n"] == 302]
    assert len(cells) == 72 and cells["model"].nunique() == 12
    flagged = cells[cells["remark"] != ""]
    assert flagged[["model", "format", "level", "value"]].to_numpy().tolist() == [
        ["Qwen3-VL-8B-Thinking", "oe", "L1", 0.6772]
    ]
    assert "67.22 (203/302)" in flagged["remark"].iloc[0]
    means = table[table["n"] == 906].set_index(["model", "format"])["value"]
    ours = cells.groupby(["model", "format"])["value"].mean()
    off = (ours - means).abs()
    assert len(means) == 24 and off.index[off > 1.01e-4].to_list() == [("Qwen3-VL-8B-Thinking", "oe")]
    mended = cells.assign(value=cells["value"].where(cells["remark"] == "", 203 / 302))
    assert (mended.groupby(["model", "format"])["value"].mean() - means).abs().max() < 1.01e-4


def test_pooled_shares_that_are_not_table_1s_are_flagged():
    pooled = paper.published_vfat().query("model == '12 models pooled' and measure == 'mAcc'")
    assert pooled["remark"].str.contains("72.64|61.01").all() and len(pooled) == 2


# --- answers ----------------------------------------------------------------------------------------------------------


def _frames(rows):
    """Records and samples of rows (item, level, format, what was said, option scores in the order truth, trap, ...)."""
    records, samples = [], []
    for item, level, form, said, logp in rows:
        id = f"{item}/{level}/{form}"
        options = ["blue", "yellow", "red", "green"] if form == "mcq" else ["blue", "yellow"]
        meta = {"item": item, "level": level, "format": form, "truth": "blue", "trap": "yellow"}
        meta |= {"aliases": ["azure"], "trap_aliases": []}
        what = {
            "sample_id": id,
            "category": "Physical",
            "options": options,
            "prompt": "mcq" if form == "mcq" else "open",
        }
        samples.append(what | {"question": "What colour?", "hint": "", "answer": 0, "n_images": 1, "meta": meta})
        logp = np.array(logp, dtype=float)
        letters = logp[::-1].copy() if form == "mcq" else np.full(len(logp), np.nan)
        records.append(
            {"sample_id": id, "family": "base", "instance": "base", "applicable": True, "prediction": 0}
            | {"image_id": f"{item}/{level == 'L2'}", "category": "Physical", "text_mcq": said, "text_open": said}
            | {"logp_text": logp, "logp_end": 0 * logp, "n_tokens": np.ones(len(logp), int), "logp_letter": letters}
        )
    return pd.DataFrame(records), pd.DataFrame(samples)


def _said(answers, **equal):
    for name, value in equal.items():
        answers = answers[answers[name] == value]
    return answers["outcome"].to_list()


def test_outcomes_of_every_reading():
    mcq, open_ = [-1, -2, -3, -4], [-2, -1]
    rows = [("a", "L1", "mcq", "A", mcq), ("b", "L1", "mcq", "B. yellow", mcq), ("c", "L1", "mcq", "red", mcq)]
    rows += [
        ("d", "L1", "mcq", "A or B", mcq),
        ("e", "L1", "mcq", "", mcq),
        ("f", "L1", "mcq", "<think>B</think>A", mcq),
    ]
    rows += [
        ("a", "L1", "oe", "It is azure.", open_),
        ("b", "L1", "oe", "yellow", open_),
        ("c", "L1", "oe", "teal", open_),
    ]
    answers = metrics.vfat_answers(*_frames(rows), rules=("paper", "letter"))
    said = answers[answers.reading == "generation"]
    assert _said(said, format="mcq") == ["vision", "bias", "other", "other", "other", "vision"]
    assert _said(said, format="oe") == ["vision", "bias", "other"]
    assert said["reasoning"].to_list() == [0, 0, 0, 0, 0, len("<think>B</think>"), 0, 0, 0]
    assert set(_said(answers, reading="likelihood", rule="paper")) == {"vision"}
    assert set(_said(answers, reading="likelihood", rule="letter")) == {"other"}  # the last letter is the likeliest
    assert _said(answers, reading="truth_or_trap") == ["bias"] * 3  # no letters are listed: no row of that rule
    assert (answers[["vision", "bias", "other"]].sum(axis=1) == 1).all()


def test_an_exact_tie_of_truth_and_trap_is_neither():
    answers = metrics.vfat_answers(
        *_frames([("a", "L1", "oe", "blue", [-1, -1]), ("a", "L1", "mcq", "A", [-1, -1, -2, -2])])
    )
    tied = answers[answers.tied].set_index("reading")["outcome"]
    assert tied.to_dict() == {"likelihood": "vision", "truth_or_trap": "other"}


def test_a_judge_decides_open_answers_alone():
    frames = _frames([("a", "L1", "oe", "sky", [-1, -2]), ("a", "L1", "mcq", "B", [-1, -2, -3, -4])])
    seen = []

    def judge(*what):
        seen.append(what)
        return "vision"

    assert _said(metrics.vfat_answers(*frames, judge=judge), reading="generation") == ["bias", "vision"]
    assert [list(map(list, call[3:])) for call in seen] == [[["azure"], []]] and seen[0][:3] == (
        "sky",
        "blue",
        "yellow",
    )


def test_a_judge_that_takes_many_is_asked_once():
    frames = _frames(
        [(item, "L1", "oe", said, [-1, -2]) for item, said in (("a", "sky"), ("b", "<think>m</think>sun"))]
    )

    class Judge:
        def many(self, cases):
            self.cases = cases
            return ["vision", "other"]

    judge = Judge()
    assert _said(metrics.vfat_answers(*frames, judge=judge), reading="generation") == ["vision", "other"]
    assert [(case.question, case.answer) for case in judge.cases] == [("What colour?", "sky"), ("What colour?", "sun")]
    judge.many = lambda cases: [RuntimeError("no verdict")] * len(cases)
    with pytest.raises(RuntimeError, match="no verdict"):
        metrics.vfat_answers(*frames, judge=judge)


def test_a_judge_gives_an_outcome():
    frames = _frames([("a", "L1", "oe", "sky", [-1, -2])])
    with pytest.raises(ValueError, match="outcome of a judge: 'right'"):
        metrics.vfat_answers(*frames, judge=lambda *what: "right")


def test_without_probes_there_are_no_generated_answers():
    records, samples = _frames([("a", "L1", "mcq", "B", [-1, -2, -3, -4])])
    records[["text_mcq", "text_open"]] = None
    assert metrics.vfat_answers(records, samples)["reading"].to_list() == ["likelihood"]


@pytest.mark.parametrize(
    "change, says",
    [
        (lambda s: s["meta"].iloc[0].update(level="L4"), "level of sample 'a/L1/mcq': 'L4'"),
        (lambda s: s["meta"].iloc[0].update(trap="pink"), "its truth or its trap is none of its options"),
        (lambda s: s["meta"].iloc[0].pop("item"), "no V-FAT sample: its meta lacks item"),
        (lambda s: s.__setitem__("sample_id", "a/L1/mcq"), "occurs twice"),
    ],
)
def test_what_is_no_vfat_is_refused(change, says):
    records, samples = _frames([("a", "L1", "mcq", "B", [-1, -2, -3, -4]), ("b", "L1", "mcq", "B", [-1, -2, -3, -4])])
    change(samples)
    with pytest.raises(ValueError, match=says):
        metrics.vfat_answers(records, samples)
    with pytest.raises(ValueError, match="did you mean 'paper'"):
        metrics.vfat_answers(records, samples, rules=["papr"])


# --- tables -----------------------------------------------------------------------------------------------------------

SAYS = {"vision": "blue", "bias": "yellow", "other": "no idea"}


def _many(items=40, swayed=0.5, seed=0, drop=()):
    """Answers of a model that sees at L1 and believes a share of what it is told."""
    rng, rows = np.random.default_rng(seed), []
    for item in range(items):
        for level in LEVELS:
            for form in ("mcq", "oe"):
                u = rng.random()
                outcome = "bias" if level != "L1" and u < swayed else "other" if u > 0.9 else "vision"
                if (item, level, form) not in drop:
                    rows.append(
                        (f"i{item:02d}", level, form, SAYS[outcome], [-1, -2, -3, -4][: 4 if form == "mcq" else 2])
                    )
    return _frames(rows)


def test_scores_are_shares_and_their_harmonic_mean():
    answers = metrics.vfat_answers(*_many())
    table = metrics.vfat_scores(answers)
    said = answers[answers.reading == "generation"]
    row = table[table.reading == "generation"].set_index(["format", "level"])
    for (form, level), own in said.groupby(["format", "level"]):
        accuracy, tds = (own.outcome == "vision").mean(), (own.outcome == "bias").mean()
        got = row.loc[(form, level)]
        assert got[["n", "mAcc", "mTDS", "R"]].to_list() == pytest.approx([len(own), accuracy, tds, 1 - tds])
        assert got["VRS"] == pytest.approx(metrics.vrs(accuracy, tds)) and got["other_share"] == pytest.approx(
            1 - accuracy - tds
        )
        assert got["VRS_low"] <= got["VRS"] <= got["VRS_high"]
    assert row.loc[("all", "all"), ["n", "items"]].to_list() == [240, 40]
    assert row.loc[("all", "all"), "mAcc"] == pytest.approx(said.vision.mean())
    assert set(table[table.reading != "generation"].format) == {"mcq", "oe"}  # readings are never pooled
    assert row.index.get_level_values("level").to_list() == [*LEVELS, "all"] * 3


def test_intervals_resample_what_they_say():
    records, samples = _many()
    answers = metrics.vfat_answers(records, samples)
    by_item, by_image = (metrics.vfat_scores(answers, (), cluster) for cluster in ("item", "image"))
    assert set(by_item.cluster) == {"item"} and (by_item.mAcc == by_image.mAcc).all()
    assert (by_item.mAcc_low != by_image.mAcc_low).any()
    same = answers.assign(item="only")
    assert metrics.vfat_scores(same, ())["VRS_low"].isna().all()  # one item says nothing of the spread
    with pytest.raises(ValueError, match="did you mean 'item'"):
        metrics.vfat_scores(answers, cluster="itm")


def test_rows_join_by_id():
    records, samples = _many()
    whole = metrics.vfat_table(records, samples)
    shuffled = metrics.vfat_table(records.sample(frac=1, random_state=1), samples.sample(frac=1, random_state=2))
    pd.testing.assert_frame_equal(whole, shuffled)
    fewer = metrics.vfat_table(records[records.sample_id != "i03/L2/oe"], samples)
    changed = [c for c in whole.columns if not whole[c].equals(fewer[c])]
    here = whole[["reading", "format", "level"]].eq(["generation", "mcq", "L1"]).all(axis=1)
    pd.testing.assert_frame_equal(whole[here], fewer[here])
    assert "n" in changed and (whole["n"] - fewer["n"]).isin([0, 1]).all()
    extra = records.iloc[[0]].assign(family="rotation", instance="rotation/30", prediction=1)
    pd.testing.assert_frame_equal(whole, metrics.vfat_table(pd.concat([records, extra]), samples))


def test_transitions_follow_items():
    rows = [
        ("a", "L1", "oe", "blue"),
        ("a", "L3", "oe", "yellow"),
        ("b", "L1", "oe", "blue"),
        ("b", "L3", "oe", "blue"),
    ]
    rows += [("c", "L1", "oe", "yellow"), ("c", "L3", "oe", "what"), ("d", "L1", "oe", "blue")]  # d has no L3
    answers = metrics.vfat_answers(*_frames([(*row, [-1, -2]) for row in rows]))
    table = metrics.vfat_transitions(answers[answers.reading == "generation"])
    assert set(zip(table["first"], table["second"], strict=True)) == {("L1", "L3")} and (table.n == 3).all()
    cells = table.set_index(["start", "end"])
    assert cells.loc[("vision", "bias"), ["starts", "count", "rate"]].to_list() == [2, 1, 0.5]
    assert cells.loc[("bias", "other"), ["starts", "count", "rate"]].to_list() == [1, 1, 1]
    assert cells["count"].sum() == 3 and cells.loc["other", "rate"].isna().all() and len(cells) == 9
    assert table["share"].sum() == pytest.approx(1)


def test_one_level_alone_has_nothing_to_pair():
    answers = metrics.vfat_answers(*_frames([(item, "L1", "oe", "blue", [-1, -2]) for item in "ab"]))
    assert metrics.vfat_transitions(answers).empty and metrics.vfat_pressure(answers).empty
    assert "baited" in metrics.vfat_finding(answers) and "misleading" not in metrics.vfat_finding(answers)
    assert metrics.vfat_scores(answers.head(0)).empty


def test_differences_pair_what_both_answered():
    planted = metrics.vfat_answers(*_many(swayed=0.7))
    clean = metrics.vfat_answers(*_many(swayed=0.05, seed=1, drop={(0, "L1", "mcq"), (1, "L3", "oe")}))
    table = metrics.vfat_differences(planted, clean)
    cell = table[table.reading == "generation"].set_index(["format", "level", "measure"])
    assert cell.loc[("mcq", "L1", "VRS"), "n"] == 39 and cell.loc[("all", "all", "VRS"), "n"] == 238
    for level in ("L2", "L3"):
        row = cell.loc[("all", level, "VRS")]
        assert row["apart"] and row["delta"] < 0 and row["delta_high"] < 0
        assert row["delta"] == pytest.approx(row["first"] - row["second"])
        assert cell.loc[("all", level, "mTDS"), "delta"] > 0
    assert not cell.loc[("all", "L1", "VRS"), "apart"]
    pd.testing.assert_frame_equal(table, metrics.vfat_differences(planted.sample(frac=1, random_state=0), clean))
    with pytest.raises(ValueError, match="occurs twice"):
        metrics.vfat_differences(pd.concat([planted, planted]), clean)


def test_pressure_is_l3_less_l1():
    table = metrics.vfat_pressure(metrics.vfat_answers(*_many(swayed=0.6)).assign(model="m"))
    row = table.query("reading == 'generation' and format == 'all' and measure == 'mAcc'").iloc[0]
    assert row["model"] == "m" and row["n"] == 80 and row["apart"]
    assert row["delta"] == pytest.approx(row["first"] - row["second"]) and row["delta"] < -0.3
    assert (table[table.reading == "likelihood"]["delta"] == 0).all()


def _models():
    parts = [("large", 0.2, 2), ("small", 0.8, 3), ("middle", 0.5, 4)]
    return pd.concat([metrics.vfat_answers(*_many(swayed=p, seed=s)).assign(model=m) for m, p, s in parts])


def test_scaling_goes_by_size():
    table = metrics.vfat_scaling(_models(), {"large": 72, "small": 2, "middle": 7})
    assert table.model.to_list() == ["small", "middle", "large"] and (table.n == 240).all()
    assert table.VRS.is_monotonic_increasing and table["mode"].eq("instruct").all()
    assert table.VRS_delta[0] == 0 and table.VRS_delta_low[2] > 0
    thinking = metrics.vfat_scaling(_models().assign(reasoning=5))
    assert thinking["mode"].eq("thinking").all() and thinking.model[0] == "large"


def test_correlations_need_three_models():
    pooled = metrics.vfat_scores(_models(), ())
    pooled = pooled[pooled.reading == "generation"]
    table = metrics.vfat_correlations(pooled).set_index(["first", "second"])
    assert table.loc[("vision", "bias"), "r"] < -0.95 and (table.n == 3).all() and table.r_low.isna().all()
    assert metrics.vfat_correlations(pooled.head(2)).r.isna().all()
    four = pd.concat([pooled, pooled.head(1).assign(mAcc=0.9, mTDS=0.02)])
    row = metrics.vfat_correlations(four).iloc[0]
    assert row.r_low < row.r < row.r_high


# --- inside -----------------------------------------------------------------------------------------------------------


def _states(samples, moved):
    """Base vectors in which the L3 state of an item lies `moved[item]` radians from its L1 state, and controls."""
    rows, rng = [], np.random.default_rng(0)
    starts = {}
    for row in samples.itertuples():
        item, level, form = row.sample_id.split("/")
        start = starts.setdefault((item, form), rng.normal(size=2))
        angle = moved[item] if level == "L3" else 0.0
        turn = np.array([[np.cos(angle), -np.sin(angle)], [np.sin(angle), np.cos(angle)]])
        for probe in PROBES:
            rows += [
                dict(sample_id=row.sample_id, instance="base", probe=probe, tap=tap, vector=turn @ start)
                for tap in TAPS
            ]
    columns = {f"{d}_{p}_{t}": 0.5 for d in ("cos", "l2") for p in PROBES for t in TAPS}
    controls = [{"sample_id": id, "partner_id": "x", "image_id": id} | columns for id in samples.sample_id]
    return pd.DataFrame(rows), pd.DataFrame(controls)


def test_drift_between_prompts_on_the_same_image():
    rows = [
        ("a", "blue", "azure"),
        ("b", "blue", "yellow"),
        ("c", "teal", "pink"),
        ("d", "teal", "Teal"),
        ("e", "blue", None),
    ]
    frames = _frames(
        [(item, "L1", "oe", first, [-1, -2]) for item, first, _ in rows]
        + [(item, "L3", "oe", then, [-1, -2]) for item, _, then in rows if then]
        + [(item, "L2", "oe", first, [-1, -2]) for item, first, _ in rows]
    )
    answers = metrics.vfat_answers(*frames)
    answers = answers[answers.reading == "generation"]
    moves = metrics.vfat_moves(answers, frames[0]).set_index("item")
    assert moves.kept.to_dict() == {"a": True, "b": False, "c": False, "d": True}  # other words are another answer
    vectors, controls = _states(frames[1], {"a": 0.1, "b": 1.2, "c": 0.6, "d": np.pi / 2, "e": 0})
    table = metrics.vfat_drift(answers, frames[0], vectors, controls, probes=["ctx_open"])
    cells = table.set_index("answer")
    assert set(table.family) == {"oe L1 -> L3"} and cells["samples"].to_list() == [4, 2, 1, 0, 1, 2]
    expected = 1 - np.cos([0.1, 1.2, 0.6, np.pi / 2])
    assert cells.loc["all", "drift"] == pytest.approx(expected.mean(), rel=1e-5)
    assert cells.loc["kept", "drift"] == pytest.approx(expected[[0, 3]].mean(), rel=1e-5)
    assert cells.loc["all", "percent_same_question"] == pytest.approx(100 * expected.mean() / 0.5, rel=1e-5)
    assert cells.loc["all", "hidden"] == 0.25  # of four, d alone kept its answer and moved further than 0.5
    shuffled = metrics.vfat_drift(
        answers.sample(frac=1, random_state=0), frames[0][::-1], vectors[::-1], controls[::-1], probes=["ctx_open"]
    )
    pd.testing.assert_frame_equal(table, shuffled)
    elsewhere = frames[0].assign(image_id=frames[0].sample_id)  # L3 on another image is no comparison
    assert metrics.vfat_moves(answers, elsewhere).empty
    with pytest.raises(ValueError, match="one model"):
        metrics.vfat_moves(pd.concat([answers.assign(model="a"), answers.assign(model="b")]), frames[0])
    with pytest.raises(ValueError, match="without probes"):
        metrics.vfat_drift(answers, frames[0], vectors.head(0), None)


# --- words and figures ------------------------------------------------------------------------------------------------


def test_the_finding_is_computed():
    parts = [
        metrics.vfat_answers(*_many(swayed=p, seed=s)).assign(model=m)
        for m, p, s in (("bent", 0.8, 0), ("clean", 0, 1))
    ]
    text = metrics.vfat_finding(pd.concat(parts))
    row = metrics.vfat_scores(parts[0], ()).set_index("reading").loc["generation"]
    assert f"bent names what the image shows in {100 * row.mAcc:.1f} %" in text and f"VRS {row.VRS:.2f} [" in text
    assert "a misleading sentence costs bent" in text and "undecided whether clean loses accuracy" in text
    assert "L2 -" in text and "L3 -" in text and "turn to the trap" in text
    twice = pd.concat([parts[1], parts[1].assign(model="again")])
    assert "no level tells the VRS of clean and again apart" in metrics.vfat_finding(twice)
    assert metrics.vfat_finding(parts[0].head(0)) == "No answer was read: see the errors."


def test_figures_draw_the_tables():
    answers, published = _models(), paper.published_vfat()
    scores = metrics.vfat_scores(answers)
    said = scores[scores.reading == "generation"]
    ax = figures.plot_vrs(scores, published).axes[0]
    pooled = said[(said.format == "all") & (said.model == "small")]
    drawn = {line.get_label(): line for line in ax.lines}
    np.testing.assert_allclose(drawn["small"].get_xdata(), pooled.VRS)
    np.testing.assert_allclose(drawn["published, VF: Seed-1.6"].get_xdata(), [0.514])
    assert "n = 80" in ax.get_yticklabels()[0].get_text() and "n = 240" in ax.get_yticklabels()[3].get_text()
    ax = figures.plot_vfat_radar(scores, published).axes[0]
    drawn = {line.get_label(): line for line in ax.lines}
    six = said[(said.format != "all") & (said.level != "all") & (said.model == "large")]
    np.testing.assert_allclose(drawn["large"].get_ydata()[:6], 100 * six.mAcc)
    axes = figures.plot_outcomes(scores, published).axes
    shares = [next(line for line in axes[0].lines if line.get_label() == name) for name in ("vision", "bias", "other")]
    np.testing.assert_allclose(sum(line.get_xdata()[:12] for line in shares), 100)
    assert "12 models" in axes[0].get_yticklabels()[-1].get_text()
    ends = [segment[:, 0] for part in axes[0].collections for segment in part.get_segments() if len(segment)]
    bias = said[(said.format == "mcq") & (said.mTDS_high > 0)]
    assert all(
        any(np.allclose(end, 100 * np.array(row)) for end in ends) for row in bias[["mTDS_low", "mTDS_high"]].values
    )
    correlations = metrics.vfat_correlations(said[(said.format == "all") & (said.level == "all")])
    axes = figures.plot_outcome_pairs(scores, correlations).axes
    assert f"r = {correlations.r[0]:.2f}\nover 3 models" in axes[0].get_title(loc="left")
    ax = figures.plot_vfat_categories(metrics.vfat_scores(answers, ["category"])).axes[0]
    assert [tick.get_text() for tick in ax.get_yticklabels()] == ["Physical\nn = 240"]
    with pytest.raises(ValueError, match="no answers were read by 'thought'"):
        figures.plot_vrs(scores, reading="thought")


def test_published_values_are_drawn_where_they_are_of_these_models_and_data_or_asked_for():
    nothing = paper.neighbours(["mini_qwen3vl", "qwen25vl_7b"], "photos")
    assert nothing.empty and paper.neighbours(["mini_qwen3vl"], "vlind").empty
    assert len(paper.neighbours(["mini_qwen3vl", "qwen25vl_7b"], "weird")) == len(paper.published_vfat())
    assert set(paper.neighbours(["mini_qwen3vl"], "mini_vfat", "Gemma-3-12B").model) == {"Gemma-3-12B"}
    scores = metrics.vfat_scores(_models())
    for make in (figures.plot_vrs, figures.plot_vfat_radar, figures.plot_outcomes):
        fig = make(scores, nothing)
        texts = [text.get_text() for legend in fig.legends for text in legend.get_texts()]
        texts += [tick.get_text() for ax in fig.axes for tick in ax.get_yticklabels()]
        assert not any("published" in text for text in texts)
    fig = figures.plot_vfat_radar(scores, paper.neighbours([], "photos", "Gemma-3-12B"))
    assert "published, VF Table 1: Gemma-3-12B" in [line.get_label() for line in fig.axes[0].lines]


def test_published_values_stand_beside_ours():
    scores = metrics.vfat_scores(_models().assign(model=lambda a: a.model.replace("large", "qwen25vl_72b")))
    table = paper.beside_vfat(scores, "Gemma-3-12B").set_index(["model", "reading", "format", "level"]).sort_index()
    theirs = table.loc[("qwen25vl_72b", "generation")]
    assert theirs.loc[("mcq", "L2"), "mAcc_published"] == 0.8543 and theirs.loc[("all", "L2"), "VRS_published"] == 0.78
    assert theirs.loc[("all", "L2"), "published_source"] == "VF Figure 4, Qwen2.5-VL-72B"
    assert table.loc[("small", "generation", "oe", "all"), "mAcc_published"] == 0.5508
    assert table.loc[("small", "likelihood"), "mAcc_published"].isna().all()
    with pytest.raises(ValueError, match="Qwen3-VL-8B"):
        paper.beside_vfat(scores, "Qwen3-VL-9B")


# --- a run ------------------------------------------------------------------------------------------------------------


def test_a_run_of_items_on_the_embedded_model(tmp_path):
    config = dict(
        model="mini_qwen3vl", dataset="mini_vfat", families=(), probes=True, controls=1, verify=0, out=tmp_path
    )
    run = vfkit.run_study(vfkit.StudyConfig(n=12, study="vfat", **config | {"out": str(tmp_path)}), progress=False)
    samples = run.samples()
    assert samples.meta.map(lambda meta: meta["item"]).value_counts().to_list() == [6, 6]  # whole items are chosen
    answers = metrics.vfat_answers(run.records(), samples)
    assert answers.groupby("reading").size().to_dict() == {"generation": 12, "likelihood": 6, "truth_or_trap": 6}
    pd.testing.assert_frame_equal(run.table("vfat"), metrics.vfat_scores(answers))
    drift = metrics.vfat_drift(answers[answers.reading == "generation"], run.records(), run.vectors(), run.controls())
    whole = drift[drift.answer == "all"]
    assert set(whole.family) == {"mcq L1 -> L3", "oe L1 -> L3"} and (whole["samples"] == 2).all()
    assert (whole.drift > 0).all() and whole.percent_same_question.notna().all()
