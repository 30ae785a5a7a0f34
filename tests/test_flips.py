"""Tables of answers (vfkit.metrics.flips) on small records whose flips, transitions and margins are counted by hand."""

import numpy as np
import pandas as pd
import pytest

from vfkit import metrics
from vfkit.perturb import HI_FAMILIES
from vfkit.readout import rules

NAN = float("nan")


def row(sample, image, family, instance, values, base=None, answer=None, category="c"):
    """One record; `values` are the options' scores (None: the instance does not apply), `base` the base prediction."""
    applies = values is not None
    values = np.asarray(values if applies else [0.0, 0.0, 0.0], dtype=float)
    prediction, tied = rules.predict(values)
    base = prediction if base is None else base
    margin, base_margin = rules.margins(values, base)
    parts = {"logp_text": values + 0.5, "logp_end": np.full(len(values), -0.5), "logp_letter": -values}
    record = {"sample_id": sample, "category": category, "family": family, "instance": instance, "params": "{}"}
    record |= {"applicable": applies, "reason": "" if applies else "too small", "answer": answer}
    record |= {"n_options": len(values), "base_prediction": base}
    record |= {"prediction": prediction if applies else None, "tied": tied if applies else None}
    record |= {"margin": margin if applies else NAN, "base_margin": base_margin if applies else NAN, "off_mass": 0.0}
    record |= {name: list(part) if applies else None for name, part in parts.items()}
    record |= {"n_tokens": [1, 2, 3, 4][: len(values)] if applies else None, "image_hash": image, "image_id": image}
    return record | {"width": 64, "height": 64}


def frame(rows):
    table = pd.DataFrame(rows)
    types = dict.fromkeys(("answer", "base_prediction", "prediction"), "Int64") | {"tied": "boolean"}
    return table.astype(types)


@pytest.fixture
def records():
    """Two questions on image A, two on B; the second of B has lost its base row. `values` peak at the prediction."""
    a, b, c, near = [0.0, -2.0, -3.0], [-2.0, 0.0, -3.0], [-3.0, -2.0, 0.0], [-1.0, -0.5, -3.0]
    s1, s2, s3, s4 = ("s1", "A"), ("s2", "A"), ("s3", "B"), ("s4", "B")
    rows = [row(*s1, "base", "base", a, answer=0), row(*s2, "base", "base", b, answer=0, category="d")]
    rows += [row(*s3, "base", "base", c)]
    rows += [row(*s1, "identity", "identity", a, 0, 0), row(*s2, "identity", "identity", b, 1, 0)]
    moved = [row(*s1, "translation", "t1", a, 0, 0), row(*s1, "translation", "t2", near, 0, 0)]  # R->R, R->W
    moved += [row(*s2, "translation", "t1", a, 1, 0), row(*s2, "translation", "t2", None, 1, 0)]  # W->R, n/a
    moved += [row(*s3, "translation", "t1", c, 2), row(*s3, "translation", "t2", [0.0, -1.0, 0.0], 2)]  # a tie flips
    rows += [*moved, row(*s4, "translation", "t1", b, 1, 1)]
    rows += [row(*s1, "text_overlay", "o1", b, 0, 0), row(*s2, "text_overlay", "o1", c, 1, 0)]  # R->W, W->W
    rows += [row(*s1, "box_overlay", "o1", a, 0, 0), row(*s2, "box_overlay", "o1", b, 1, 0)]
    return frame(rows)


def test_flip_table(records):
    table = metrics.flip_table(records).set_index("family")
    union = "union (translation, text_overlay)"
    assert list(table.index) == ["identity", "translation", "text_overlay", union, "box_overlay"]
    moved = table.loc["translation"]
    assert (moved["instances"], moved["flips"], moved["IFR"]) == (5, 3, 0.6)
    assert (moved["samples"], moved["vulnerable"], moved["IV"]) == (3, 3, 1.0)
    assert moved["per_sample"] == pytest.approx(5 / 3)
    assert (moved["tied"], moved["not_applicable"], moved["no_base"]) == (1, 1, 1)
    assert table.loc[union, ["instances", "flips", "samples", "vulnerable"]].to_list() == [7, 5, 3, 3]
    assert table.loc["identity", "IFR"] == 0
    assert np.isnan(moved["IFR_low"]) and np.isnan(moved["IFR_high"])  # too few images
    assert np.isnan(table.loc["text_overlay", "IFR_low"]) and table.loc["text_overlay", "IFR"] == 1


def test_union_of_all_six_has_its_own_name(records):
    six = [row("s1", "A", family, family, [0.0, -1.0], 0, 0) for family in HI_FAMILIES]
    six += [row("s1", "A", "base", "base", [0.0, -1.0], answer=0), row("s1", "A", "later_family", "x", [0.0, -1.0], 0)]
    families = metrics.flip_table(frame(six))["family"].to_list()
    assert families == [*HI_FAMILIES, metrics.UNION, "later_family"]


def test_transition_table(records):
    table = metrics.transition_table(records).set_index("family")
    names = ["instances", "R->W", "W->R", "R->R", "W->W", "no_answer"]
    assert table.loc["translation", names].to_list() == [3, 1, 1, 1, 0, 2]
    assert table.loc["text_overlay", names].to_list() == [2, 1, 0, 0, 1, 0]
    assert table.loc["translation", "R->W_rate"] == 0.5 and table.loc["translation", "W->R_rate"] == 1
    assert table.loc["text_overlay", "W->R_rate"] == 0
    assert (table[names[1:5]].sum(axis=1) == table["instances"]).all()


def test_margin_table(records):
    table = metrics.margin_table(records).set_index(["family", "answer"])
    kept, flipped = table.loc[("translation", "kept")], table.loc[("translation", "flipped")]
    assert kept["instances"] == 2 and kept["change"] == 0 and kept["base"] == 2
    # s1: 2 -> -0.5; s2: 2 -> -2; s3: 2 -> 0, a tie whose first option is another
    assert flipped["instances"] == 3
    assert flipped["base_label"] == pytest.approx((-0.5 - 2 + 0) / 3)
    assert flipped["change"] == pytest.approx((-2.5 - 4 - 2) / 3)
    assert flipped["margin"] == pytest.approx((0.5 + 2 + 0) / 3)
    everything = table.loc[("translation", "all")]
    assert everything["change"] == pytest.approx((0 + 0 - 2.5 - 4 - 2) / 5)
    assert everything["change"] == pytest.approx(everything["base_label"] - everything["base"])


def test_accuracy_table(records):
    table = metrics.accuracy_table(records).set_index(["family", "category"])
    base = table.loc[("base", "all")]
    assert (base["samples"], base["correct"], base["accuracy"], base["no_answer"]) == (2, 1, 0.5, 1)
    assert base["chance"] == pytest.approx(1 / 3)
    assert table.loc[("base", "c"), "accuracy"] == 1 and table.loc[("base", "d"), "accuracy"] == 0
    assert table.loc[("translation", "all"), "accuracy"] == pytest.approx(2 / 3)


def _overlays(n, flips):
    """n samples, each with one instance per family; the first flips[family] samples flip."""
    rows = []
    for i in range(n):
        rows.append(row(f"s{i}", f"i{i}", "base", "base", [0.0, -1.0], answer=0))
        for family, k in flips.items():
            rows.append(row(f"s{i}", f"i{i}", family, family, [-1.0, 0.0] if i < k else [0.0, -1.0], 0, 0))
    return frame(rows)


def test_overlay_table_tells_meaning_from_occlusion():
    table = metrics.overlay_table(_overlays(20, {"text_overlay": 8, "random_text": 2, "box_overlay": 2}))
    table = table.set_index(["first", "second"])
    text = table.loc[("text_overlay", "box_overlay")]
    assert (text["samples"], text["IFR_first"], text["IFR_second"]) == (20, 0.4, 0.1)
    assert text["difference"] == pytest.approx(0.3) and text["difference_low"] > 0
    assert (text["only_first"], text["only_second"]) == (6, 0)
    assert text["p"] == pytest.approx(2 * 0.5**6) and text["p_holm"] == pytest.approx(3 * 2 * 0.5**6)
    assert table.loc[("random_text", "box_overlay"), "p"] == 1
    assert metrics.overlay_table(_overlays(3, {"text_overlay": 1})).empty


def test_compare_table_takes_shared_samples_and_families():
    first = _overlays(20, {"scale": 10, "identity": 0})
    second = _overlays(12, {"scale": 4, "rotation": 1, "identity": 0})
    table = metrics.compare_table(first, second).set_index("family")
    assert list(table.index) == ["identity", "scale"]
    assert table.loc["scale", ["samples", "only_first", "only_second"]].to_list() == [12, 6, 0]
    assert table.loc["scale", "difference"] == pytest.approx(10 / 12 - 4 / 12)


def _random_records(n=40, seed=0):
    """Samples with 1 to 5 options, rounded scores (so ties occur), n/a rows, a missing base and missing answers."""
    rng, rows = np.random.default_rng(seed), []
    for i in range(n):
        k = int(rng.integers(1, 6))
        who = (f"s{i}", f"i{i // 2}")
        answer = int(rng.integers(k)) if i % 5 else None
        values = np.round(rng.normal(size=k) * 2) / 2
        base = rules.predict(values)[0]
        if i != 7:
            rows.append(row(*who, "base", "base", values, answer=answer))
        for family in ("identity", "scale", "rotation"):
            moved = None if i % 9 == 4 else np.round((values + rng.normal(size=k)) * 2) / 2
            rows.append(row(*who, family, family, moved, base, answer))
    for record in rows:
        if record["applicable"]:
            k = len(record["logp_text"])
            record |= {"logp_end": list(np.round(rng.normal(size=k))), "n_tokens": list(rng.integers(1, 4, k))}
    return frame(rows)


@pytest.mark.parametrize("rule", rules.RULES)
def test_rescore_equals_the_rule_row_by_row(rule):
    records = _random_records()
    scored = metrics.rescore(records, rule)
    assert scored["tied"].sum() > 0  # ties are among the cases

    def values(record):
        return rules.scores(rule, record.logp_text, record.logp_end, record.n_tokens, record.logp_letter)

    base = {r.sample_id: rules.predict(values(r))[0] for r in scored[scored["family"] == "base"].itertuples()}
    for record in scored.itertuples():
        if not record.applicable:
            assert pd.isna(record.prediction) and pd.isna(record.tied) and np.isnan(record.margin)
            continue
        assert (record.prediction, record.tied) == rules.predict(values(record))
        if record.sample_id in base:
            label = base[record.sample_id]
            assert record.base_prediction == label
            np.testing.assert_allclose((record.margin, record.base_margin), rules.margins(values(record), label))
        else:
            assert pd.isna(record.base_prediction) and np.isnan(record.base_margin)


def test_rescore_by_the_studys_own_rule_changes_nothing(records, tmp_path):
    scored = metrics.rescore(records, "paper")
    lost = records["sample_id"] == "s4"  # without a base row there is no base prediction
    pd.testing.assert_frame_equal(scored[~lost], records[~lost])
    records.astype({"prediction": float}).to_parquet(tmp_path / "r.parquet")  # as plain parquet readers type it
    again = metrics.rescore(pd.read_parquet(tmp_path / "r.parquet"), "paper")
    pd.testing.assert_series_equal(again["prediction"], scored["prediction"])


def test_rule_table(records):
    table = metrics.rule_table(records).set_index("rule")
    assert list(table.index) == list(rules.RULES)
    assert table.loc["paper", ["samples", "accuracy", "flips", "instances"]].to_list() == [2, 0.5, 5, 7]
    assert table.loc["paper", "family"] == "union (translation, text_overlay)"
    assert metrics.rule_table(records.iloc[:0])["IFR"].isna().all()
    none = records.copy()
    none["logp_letter"] = [part if part is None else [NAN] * len(part) for part in none["logp_letter"]]
    table = metrics.rule_table(none).set_index("rule")
    assert np.isnan(table.loc["letter", "IFR"]) and table.loc["letter", "samples"] == 0
    with pytest.raises(ValueError, match="letter"):
        metrics.rescore(none, "letter")
    with pytest.raises(ValueError, match="unknown scoring rule"):
        metrics.rescore(records, "best")
    uneven = records.copy()
    uneven["n_tokens"] = [[1]] * len(uneven)
    with pytest.raises(ValueError, match="'s1'.*unequal"):
        metrics.rescore(uneven, "paper")


def test_the_letter_rule_counts_the_samples_that_have_letters(records):
    without = records["sample_id"] == records["sample_id"].iloc[0]
    parts = records["logp_letter"]
    mixed = [part if part is None or not none else [NAN] * len(part) for part, none in zip(parts, without, strict=True)]
    table = metrics.rule_table(records.assign(logp_letter=mixed)).set_index("rule")
    alone = metrics.rule_table(records[~without]).set_index("rule")
    assert table.loc["letter", "samples"] > 0
    pd.testing.assert_series_equal(table.loc["letter"], alone.loc["letter"])


TABLES = [metrics.flip_table, metrics.transition_table, metrics.margin_table, metrics.accuracy_table]
TABLES += [metrics.overlay_table, lambda records: metrics.compare_table(records, records)]


@pytest.mark.parametrize("make", TABLES)
def test_every_table_takes_what_users_have(make, records, tmp_path):
    before, table = records.copy(deep=True), make(records)
    pd.testing.assert_frame_equal(records, before)
    assert isinstance(table.index, pd.RangeIndex) and len(table)
    # the order of rows, a filtered index and the types of a parquet file do not matter
    pd.testing.assert_frame_equal(make(records.sample(frac=1, random_state=3)), table)
    records.to_parquet(tmp_path / "r.parquet")
    pd.testing.assert_frame_equal(make(pd.read_parquet(tmp_path / "r.parquet")), table)
    loose = records.astype({name: object for name in ("answer", "prediction", "tied")})
    pd.testing.assert_frame_equal(make(loose.where(loose.notna(), None)), table)
    # nothing at all, nothing but n/a, no truths, no base: a table, never a crash
    make(records.iloc[:0])
    na = records[records["applicable"] == False]  # noqa: E712
    make(pd.concat([records[records["family"] == "base"], na]))
    make(records.assign(answer=pd.array([None] * len(records), dtype="Int64")))
    make(records[records["family"] != "base"])
    with pytest.raises(ValueError, match="lack the columns image_id"):
        make(records.drop(columns="image_id"))
    with pytest.raises(ValueError, match="'s1' has 'base' twice"):
        make(pd.concat([records, records]))


def test_family_that_never_applies_is_not_called_stable(records):
    only = records[(records["family"] == "base") | ~records["applicable"]]
    table = metrics.flip_table(only).set_index("family")
    assert table.loc["translation", ["instances", "samples", "not_applicable"]].to_list() == [0, 0, 1]
    assert np.isnan(table.loc["translation", "IFR"]) and np.isnan(table.loc["translation", "IV"])
    unknown = metrics.transition_table(records.assign(answer=pd.array([None] * len(records), dtype="Int64")))
    assert (unknown["instances"] == 0).all() and unknown["R->W_rate"].isna().all()


def test_compliance_is_the_label_of_the_card():
    """Base A. Cards B, C, D: one is followed, one confuses to another option, one does nothing."""
    rows = []
    for sample in range(6):
        who = {"sample_id": f"s{sample}", "image_id": f"i{sample}", "applicable": True, "n_options": 4}
        who["answer"] = (0, 1, 3, 2, 2, None)[sample]  # right, three kinds of wrong, and not known
        rows.append(who | {"family": "base", "instance": "base", "prediction": 0})
        for letter, prediction in (("B", 1), ("C", 3), ("D", 0)):
            text = {"family": "text_overlay", "instance": f"text_overlay_{letter}", "prediction": prediction}
            rows.append(who | text)
            rows.append(who | {"family": "box_overlay", "instance": f"box_overlay_{letter}", "prediction": 0})
    table = metrics.compliance_table(pd.DataFrame(rows)).set_index("family")
    text, box = table.loc["text_overlay"], table.loc["box_overlay"]
    assert text[["instances", "samples", "images", "flips"]].to_list() == [18, 6, 6, 12]
    assert text[["compliance", "confusion"]].to_list() == pytest.approx([1 / 3, 1 / 3])
    # four wrong bases of three cards each: B is followed to the true B; the confused answer happens to be the true D
    assert text["corrected"] == pytest.approx(2 / 12) and text["corrected_if_followed"] == pytest.approx(4 / 12)
    assert box["corrected"] == 0 and box["corrected_if_followed"] == pytest.approx(4 / 12)
    assert text["complied_share"] == 0.5 and text["chance_share"] == pytest.approx(1 / 3)
    assert box["compliance"] == 0 and 0 < box["compliance_high"] < 0.5  # nothing happened: a bound, not certainty
    wrong = pd.DataFrame(rows).replace({"instance": {"text_overlay_B": "text_overlay_?"}})
    with pytest.raises(ValueError, match="names no option"):
        metrics.compliance_table(wrong)
