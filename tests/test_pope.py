"""Yes/no studies: blanks, encodes shared by the questions on one image, the prior, drift to it, and the verdict."""

import numpy as np
import pandas as pd
import pytest
import stored
from PIL import Image
from scipy.special import expit

import vfkit
from vfkit import figures, metrics, paper
from vfkit.datasets import load_dataset
from vfkit.measure import change
from vfkit.perturb import NATURAL_FAMILIES, natural_suite
from vfkit.readout import rules
from vfkit.readout.batch import Question
from vfkit.readout.engine import read_many
from vfkit.readout.verify import compare
from vfkit.sample import Sample
from vfkit.study import StudyConfig, job, run_study
from vfkit.study.workers import ENGINES
from vfkit.workshop.worlds import pope_records

FAMILY = "rotation"


# --- records of a stub whose margins are known ------------------------------------------------------------------------


def question(id, image, truth, base, blank, perturbed, category="random", family=FAMILY, fill="white"):
    """The records of one question: yes-no margins on its base, its blank and each perturbed image (None: not read)."""
    margins = {("base", "base"): base, ("blank", f"blank_{fill}"): blank}
    margins |= {(family, f"{family}_{i}"): margin for i, margin in enumerate(perturbed)}
    rows = []
    for (name, instance), margin in margins.items():
        if margin is None:
            continue
        scores = np.array([margin / 2, -margin / 2])  # Yes, No
        best = int(base < 0)
        row = dict(zip(("margin", "base_margin"), rules.margins(scores, best), strict=True))
        row |= dict(sample_id=id, image_id=image, category=category, family=name, instance=instance, params="{}")
        row |= dict(applicable=True, answer=int(not truth), n_options=2, tied=False)
        rows.append(row | dict(base_prediction=best, prediction=rules.predict(scores)[0]))
    return rows


def records(*questions):
    return pd.DataFrame([row for rows in questions for row in rows])


def planted(share, n=24, blank=lambda i: -8.0 - i % 3, noise=0.2):
    """Questions of all four cases, three an image; perturbed margins have gone `share` of the way to the blank's."""
    rng = np.random.default_rng(0)
    questions = []
    for i in range(n):
        base, truth = (3.0 + rng.random()) * (1 if i % 2 else -1), i % 4 in (1, 2)
        goal = base + share * (blank(i) - base)
        perturbed = goal + noise * rng.normal(size=4)
        split = ("random", "popular", "adversarial")[i % 3]
        questions.append(question(f"q{i}", f"image {i // 3}", truth, base, blank(i), perturbed, split))
    return records(*questions)


def samples_of(rows, options=("Yes", "No")):
    ids = rows.sample_id.unique()
    return pd.DataFrame({"sample_id": ids, "options": [list(options)] * len(ids)})


# --- POPE's metrics ---------------------------------------------------------------------------------------------------


def test_the_measures_are_those_of_a_hand_worked_table():
    """Base: 2 hits, 1 miss, 1 hallucination, 2 correct rejections. Perturbed: a hit is lost, a hallucination gone."""
    truths, bases, perturbed = (1, 1, 1, 0, 0, 0), (1, 1, -1, 1, -1, -1), (1, -1, -1, -1, -1, -1)
    rows = records(
        *(question(f"q{i}", f"{i}", t, b, -1, [p]) for i, (t, b, p) in enumerate(zip(truths, bases, perturbed)))  # noqa: B905
    )
    table = metrics.pope_table(rows).set_index(["category", "family"])
    base, now = table.loc[("all", "base")], table.loc[("all", FAMILY)]
    measures = ["accuracy", "precision", "recall", "F1", "FPR", "yes_rate"]
    assert base[measures].tolist() == pytest.approx([4 / 6, 2 / 3, 2 / 3, 2 / 3, 1 / 3, 3 / 6])
    assert now[measures].tolist() == pytest.approx([4 / 6, 1, 1 / 3, 1 / 2, 0, 1 / 6])
    differences = now[[f"{name}_difference" for name in measures]].astype(float)
    assert differences.tolist() == pytest.approx([0, 1 / 3, -1 / 3, -1 / 6, -1 / 3, -1 / 3])
    assert np.isnan(now.FPR_difference_low)  # three images: too few
    assert now.accuracy_difference_low < now.accuracy_difference < now.accuracy_difference_high
    assert base.accuracy_low < base.accuracy < base.accuracy_high and np.isnan(base.accuracy_difference)
    blank = table.loc[("all", "blank_white")]
    assert blank.yes_rate == 0 and np.isnan(blank.precision) and blank.accuracy == 0.5


def test_splits_stand_side_by_side_and_add_up():
    table = metrics.pope_table(planted(0.3)).set_index(["category", "family"])
    assert list(table.index.get_level_values(0).unique()) == ["all", "random", "popular", "adversarial"]
    parts = table.xs(FAMILY, level="family")
    assert parts.instances["all"] == parts.instances.drop("all").sum() == 24 * 4
    weighted = (parts.accuracy * parts.instances).drop("all").sum() / parts.instances["all"]
    assert weighted == pytest.approx(parts.accuracy["all"])


def test_where_yes_stands_among_the_options_is_asked_of_the_samples():
    rows = planted(0.3)
    turned = rows.assign(
        **{name: 1 - rows[name] for name in ("answer", "prediction", "base_prediction")},
    )
    expected = metrics.pope_table(rows, samples_of(rows))
    pd.testing.assert_frame_equal(metrics.pope_table(turned, samples_of(rows, ("no", " Yes "))), expected)
    pd.testing.assert_frame_equal(metrics.pope_table(rows), expected)
    other = metrics.pope_table(rows, samples_of(rows, ("cat", "dog")))  # no yes/no question
    assert (other.instances == 0).all() and other.left_out[0] == 24


# --- cases ------------------------------------------------------------------------------------------------------------


def test_every_question_is_in_the_case_of_its_base_answer_and_truth():
    cases = {"Yes/Yes": (1, 2.0), "No/No": (0, -2.0), "Yes/No": (0, 2.0), "No/Yes": (1, -2.0)}
    rows = records(
        *(question(case, case, truth, base, -1, [base, -base, 3 * base, base]) for case, (truth, base) in cases.items())
    )
    table = metrics.pope_transition_table(rows).set_index(["case", "family"]).xs(FAMILY, level="family")
    assert (table.questions == 1).all() and (table.flips == 1).all() and (table.stays == 3).all()
    assert (table.flip_rate == 0.25).all()
    assert table.meaning["Yes/No"] == "hallucination" and table.meaning["No/Yes"] == "miss"
    assert table.becomes.to_dict() == {"Yes/Yes": "No/Yes", "No/No": "Yes/No", "Yes/No": "No/No", "No/Yes": "Yes/Yes"}
    margins = metrics.pope_margin_table(rows).set_index(["case", "family", "answer"])["margin"]
    assert margins[("Yes/No", FAMILY, "flipped")] == -2 and margins[("Yes/No", FAMILY, "kept")] == 10 / 3
    assert margins[("No/Yes", FAMILY, "flipped")] == 2 and margins[("No/No", FAMILY, "all")] == -2


def test_the_published_margin_stands_beside_flipped_hallucinations_alone():
    rows = pd.concat([planted(0.9), planted(0.9).assign(family="scale").query("instance != 'base'")])
    rows = rows[~((rows.family == "scale") & rows.instance.str.startswith("blank"))]
    rows = pd.concat([rows, *(rows[rows.family == "scale"].assign(family=f) for f in
                     ("translation", "pad_crop", "scale_pad", "text_overlay"))])  # fmt: skip
    table = paper.beside(metrics.pope_margin_table(rows), "qwen3vl_2b")
    shown = table[table.margin_published.notna()]
    assert shown[["case", "family", "answer"]].values.tolist() == [["Yes/No", metrics.UNION, "flipped"]]
    assert shown.margin_published.tolist() == [-0.96] and "sec 7" in shown.published_source.iloc[0]


def test_tables_by_case_are_the_tables_of_each_cases_questions():
    rows = planted(0.8)
    table = metrics.by_case(metrics.flip_table, rows).set_index(["case", "family"])
    expected = metrics.pope_transition_table(rows).set_index(["case", "family"])
    for case in metrics.pope.CASES:
        assert table.flips[(case, FAMILY)] == expected.flips[(case, FAMILY)]
        assert table.instances[(case, FAMILY)] == expected.instances[(case, FAMILY)] == 24


# --- the prior and the drift to it ------------------------------------------------------------------------------------


def test_the_prior_is_the_two_way_probability_on_the_blank():
    rows = records(question("a", "1", 1, 2.0, -1.0, []), question("b", "2", 0, 1.0, 3.0, []))
    table = metrics.prior_table(rows).set_index(["fill", "group"])
    assert table.prior[("white", "all")] == pytest.approx((expit(-1) + expit(3)) / 2)
    assert table.prior[("white", "Yes/No")] == pytest.approx(expit(3))
    assert table.blank_yes_rate[("white", "all")] == table.same_rate[("white", "all")] == 0.5
    assert metrics.question_priors(rows).set_index("sample_id").prior["a"] == pytest.approx(expit(-1))


@pytest.mark.parametrize("share", [-0.2, 0.0, 0.3, 1.0])
def test_drift_to_the_prior_comes_out_as_planted(share):
    table = metrics.prior_drift_table(planted(share)).set_index(["case", "family"])
    for case in ("all", *metrics.pope.CASES):
        row = table.loc[(case, FAMILY)]
        assert row.drift == pytest.approx(share, abs=0.1) and row.pooled == pytest.approx(share, abs=0.05)
        assert row.drift_low < row.drift < row.drift_high and row.instances == (96 if case == "all" else 24)
        assert row.near_zero == row.no_blank == row.unmoved == 0
    row = table.loc[("all", FAMILY)]
    assert (row.p < 0.05) == (share != 0) and row.p_holm >= row.p
    assert abs(row.towards_rate - (0.5 if share == 0 else share > 0)) < 0.2


def test_a_gap_near_zero_leaves_the_median_alone_and_is_counted():
    clear = planted(0.3)
    close = records(*(question(f"close {i}", f"x{i}", 1, 2.0, 2.0 + 1e-6, [2.5, 1.5, 9]) for i in range(30)))
    before, after = (metrics.prior_drift_table(rows) for rows in (clear, pd.concat([clear, close])))
    kept = ["questions", "instances", "drift", "towards_rate"]
    pd.testing.assert_frame_equal(after[["case", "family", *kept]], before[["case", "family", *kept]])
    assert after.near_zero[0] == 90 and before.near_zero[0] == 0
    assert abs(after.pooled[0] - before.pooled[0]) > 0.01  # it counts them, at their true weight


def test_what_does_not_move_is_no_movement():
    row = metrics.prior_drift_table(planted(0.0, noise=0.0)).iloc[0]
    assert row.drift == row.pooled == 0 and row.unmoved == 96 and row.p == 1 and np.isnan(row.towards_rate)


def test_a_blank_that_was_not_read_is_named():
    with pytest.raises(ValueError, match="no blank 'black'.*white"):
        metrics.prior_drift_table(planted(0.3), fill="black")
    with pytest.raises(ValueError, match="there is none"):
        metrics.verdict(planted(0.3).query("family != 'blank'"), "m", "d")


def test_without_a_known_answer_there_is_no_verdict():
    with pytest.raises(ValueError, match="no yes/no questions with a known answer"):
        metrics.verdict(planted(0.3).assign(answer=None), "m", "d")


def test_where_every_truth_is_yes_nothing_is_said_of_the_others():
    says = metrics.verdict(planted(0.3).assign(answer=0), "m", "d")
    assert "whose truth is No" not in says and "nan" not in says


# --- joins ------------------------------------------------------------------------------------------------------------

TABLES = [
    metrics.pope_table,
    metrics.pope_transition_table,
    metrics.pope_margin_table,
    metrics.prior_table,
    metrics.prior_drift_table,
    metrics.verdict_table,
    metrics.pope_balance_table,
]


@pytest.mark.parametrize("make", TABLES, ids=lambda make: make.__name__)
def test_the_order_of_rows_changes_nothing(make):
    rows = pd.concat([planted(0.3), planted(0.3).query("family == 'blank'").assign(instance="blank_none")])
    shuffled = rows.sample(frac=1, random_state=1)
    samples = samples_of(rows)
    pd.testing.assert_frame_equal(make(shuffled, samples.iloc[::-1]), make(rows, samples))


@pytest.mark.parametrize("make", TABLES, ids=lambda make: make.__name__)
def test_missing_rows_take_their_own_question_out_and_no_other(make):
    rows = planted(0.3)
    gone = rows.sample_id.isin(["q3", "q8"])
    headless = rows[~(gone & (rows.family == "base"))]  # what is left of them has nothing to be compared with
    expected, found = make(rows[~gone]), make(headless)
    samples = samples_of(rows[~gone])  # nothing is known of their options
    expected, *found = (one.drop(columns="left_out", errors="ignore") for one in (expected, found, make(rows, samples)))
    for one in found:
        pd.testing.assert_frame_equal(one, expected)


def test_what_is_left_out_is_counted():
    rows = planted(0.3)
    whole = metrics.pope_table(rows).set_index(["category", "family"])
    headless = metrics.pope_table(rows[~((rows.sample_id == "q3") & (rows.family == "base"))])
    headless = headless.set_index(["category", "family"])
    assert whole.left_out.sum() == 0
    assert headless.left_out[("all", FAMILY)] == 4 and headless.left_out[("all", "blank_white")] == 1
    unknown = rows.assign(answer=rows.answer.astype("Int64").mask(rows.sample_id == "q3"))
    table = metrics.pope_table(unknown).set_index(["category", "family"])
    assert table.left_out[("all", "base")] == 1 and table.questions[("all", "base")] == 23
    missing = metrics.prior_drift_table(rows[~((rows.sample_id == "q3") & (rows.family == "blank"))]).iloc[0]
    assert missing.no_blank == 4 and missing.questions == 23


# --- the verdict ------------------------------------------------------------------------------------------------------


def fragile():
    """The blank says No; where the truth is No perturbation takes most of what was seen, elsewhere nothing."""
    return pope_records(np.random.default_rng(0), "fragile", 40)


def test_the_verdict_finds_what_was_planted():
    """How often it does is in METHODS 15 and tests/test_rules.py."""
    says = metrics.verdict(fragile(), "stub", "toy")
    assert "Verdict: suppression of fragile visual evidence" in says and "of 160 yes/no questions of toy are" in says
    biased = pope_records(np.random.default_rng(1), "bias", 40)
    assert "Verdict: language bias" in metrics.verdict(biased, "stub", "toy")
    few = records(question("a", "1", 0, 2.0, -3, [-1.0]), question("b", "2", 1, 2.0, -3, [-1.0]))
    assert "Verdict: undecided" in metrics.verdict(few, "stub", "toy")


def test_a_constant_shift_and_plain_noise_come_out_as_such():
    shift = pope_records(np.random.default_rng(2), "shift", 120)
    assert "Verdict: a shift towards No of all answers" in metrics.verdict(shift, "stub", "toy")
    table = metrics.verdict_table(shift).set_index("name")
    assert (table.holds["fall"], table.holds["hits_fall"]) == ("yes", "yes") and table.holds["fragile"] != "yes"
    noise = metrics.verdict_table(pope_records(np.random.default_rng(3), "selection", 120)).set_index("name")
    assert noise.holds[["fall", "fragile"]].tolist() == ["undecided"] * 2
    away = metrics.verdict(planted(-0.2, n=120), "stub", "toy")
    assert "suppression of" not in away and "selection" not in away


def test_gains_and_losses_of_a_hand_worked_table():
    """Hallucinations: two of three lost, one of three new ones; hits: one of two lost; a miss is found."""
    truths, bases, now = (0, 0, 0, 0, 0, 0, 1, 1, 1), (1, 1, 1, -1, -1, -1, 1, 1, -1), (-1, -1, 1, 1, -1, -1, -1, 1, 1)
    each = zip(truths, bases, now, strict=True)
    rows = records(*(question(f"q{i}", f"{i}", truth, base, -1, [m]) for i, (truth, base, m) in enumerate(each)))
    table = metrics.pope_balance_table(rows).set_index("family")
    rates = [f"{name}_rate" for name in ("hallucinations_lost", "hits_lost", "rejections_lost", "misses_found")]
    assert table.loc[FAMILY, rates].tolist() == pytest.approx([2 / 3, 1 / 2, 1 / 3, 1])
    changes = ["FPR_difference", "recall_difference", "accuracy_difference"]
    assert table.loc[FAMILY, changes].tolist() == pytest.approx([-1 / 6, 0, 1 / 9])
    pope = metrics.pope_table(rows).set_index(["category", "family"]).loc[("all", FAMILY)]
    assert table.loc[FAMILY, changes].tolist() == pytest.approx(pope[changes].tolist())


def test_only_a_net_fall_is_called_fewer_hallucinations():
    def balance(kind, seed):
        rows = pope_records(np.random.default_rng(seed), kind, 120)
        still = rows[rows.family == "base"].assign(family="identity", instance="identity")
        return metrics.pope_balance_table(pd.concat([rows, still])).set_index("family")

    gone = balance("fragile", 0).drop("identity").iloc[0]
    assert (gone.hallucinations, gone.right_answers) == ("fewer", "more") and gone.hits_lost_rate < 0.05
    shift = balance("shift", 2).drop("identity").iloc[0]
    assert shift.hallucinations == "fewer" and shift.hits_lost_rate > 0.2 and shift.right_answers != "more"
    chance = [balance("selection", seed) for seed in range(12)]
    lost = [table.drop("identity").iloc[0] for table in chance]
    assert min(row.hallucinations_lost_rate for row in lost) > 0.3  # though nothing is gained
    assert sum(row.hallucinations == "fewer" for row in lost) <= 2
    assert {table.hallucinations["identity"] for table in chance} == {"too few flips to tell"}


def test_each_criterion_is_stated_with_what_the_data_say_of_it():
    table = metrics.verdict_table(fragile()).set_index("name")
    assert table.holds.to_dict() == {
        "ignored": "no", "prior_yes": "no", "prior_no": "yes", "fall": "yes", "unchanged": "undecided",
        "hits_fall": "undecided", "fragile": "yes",
    }  # fmt: skip
    assert table.value["fragile"] > 0.5 and table.criterion.str.len().min() > 20
    assert table.low["prior_yes"] == 0 and table.high["prior_yes"] == pytest.approx(
        1 - 0.025 ** (1 / table.images["prior_yes"])
    )


def test_of_a_model_that_ignores_the_image_prior_and_prediction_are_one():
    rng = np.random.default_rng(1)
    margins = rng.normal(0, 2, 72)
    rows = records(*(question(f"q{i}", f"{i // 3}", i % 2, m, m, [m] * 3) for i, m in enumerate(margins)))
    table = metrics.prior_table(rows).set_index("group")
    assert table.prior["all"] == table.base_yes["all"] and table.same_rate["all"] == table.near_rate["all"] == 1
    drift = metrics.prior_drift_table(rows).iloc[0]
    assert drift.near_zero == 216 and drift.instances == 0 and np.isnan(drift.drift)
    says = metrics.verdict(rows, "stub", "toy")
    assert "the image is ignored" in says and "Prior and prediction are the same" in says


# --- figures ----------------------------------------------------------------------------------------------------------


def test_figures_draw_whatever_cases_there_are():
    for rows in (planted(0.5), fragile(), records(question("a", "1", 0, 2.0, -3, [-1.0]))):
        assert len(figures.plot_pope(metrics.pope_table(rows)).axes) == 6
        assert len(figures.plot_pope_transitions(metrics.pope_transition_table(rows)).axes) == 4
        assert len(figures.plot_pope_balance(metrics.pope_balance_table(rows)).axes) == 2
        assert len(figures.plot_prior_drift(metrics.prior_drift_table(rows)).axes) == 4
        assert (
            figures.plot_pope_margins(paper.beside(metrics.pope_margin_table(rows), "qwen3vl_2b")).axes[0].get_xlabel()
        )
        assert len(figures.plot_priors(metrics.question_priors(rows)).axes) == 2


def test_inside_by_case_draws_the_union_of_both_tables():
    records, samples = stored.frames(stored.POPE, "records", "samples")
    frames = {kind: stored.frame(stored.POPE, kind) for kind in ("vectors", "controls")}
    drift = metrics.by_case(metrics.drift_table, records, samples, **frames)
    energy = metrics.by_case(metrics.dirichlet_table, records, samples)
    axes = figures.plot_inside_cases(drift, energy).axes
    for ax, table, name in zip(axes, (drift, energy), ("drift", "delta"), strict=True):
        shown = {line.get_label(): line.get_xdata() for line in ax.lines}
        own = table[table.family.isin(metrics.pooled_family(table.family))]
        for answer in ("kept", "flipped"):
            expected = own.loc[own.answer == answer, name]
            np.testing.assert_allclose(shown[f"answer {answer}"], expected)
    assert [label.get_text().split("\n")[0] for label in axes[0].get_yticklabels()][0] == "Yes/Yes: hit"
    figures.plot_inside_cases(drift[:0], energy[:0])


def test_one_frame_of_answers_makes_every_table():
    records, samples = stored.frames(stored.POPE, "records", "samples")
    answers = metrics.pope_answers(records, samples)
    for make in (metrics.pope_table, metrics.pope_margin_table, metrics.prior_table, metrics.prior_drift_table):
        pd.testing.assert_frame_equal(make(answers), make(records, samples))


# --- blanks -----------------------------------------------------------------------------------------------------------


def picture(seed, size=(64, 48)):
    return Image.fromarray(np.random.default_rng(seed).integers(0, 256, (size[1], size[0], 3), np.uint8))


def test_blanks_are_of_the_images_size_and_one_colour():
    sample = Sample("s", (picture(0), picture(1, (30, 40))), "Is it?", ("Yes", "No"), prompt="yes_no")
    fills = ["white", "black", "grey", "mean", "none"]
    blanks = natural_suite(["blank"], {"blank": {"fill": fills}}).instances(sample, 0)
    assert [one.name for one in blanks] == [f"blank_{fill}" for fill in fills]
    assert all(one.applicable and one.params == {"fill": fill} for one, fill in zip(blanks, fills, strict=True))
    for one, colour in zip(blanks[:3], (255, 0, 128), strict=True):
        assert [image.size for image in one.images] == [(64, 48), (30, 40)]
        assert all(image.getcolors() == [(image.width * image.height, (colour,) * 3)] for image in one.images)
    for image, base in zip(blanks[3].images, sample.images, strict=True):
        ((_, colour),) = image.getcolors()
        np.testing.assert_allclose(colour, np.asarray(base).mean(axis=(0, 1)), atol=0.5)
    assert blanks[4].images == ()


def test_blanks_are_asked_for_by_name_only():
    assert "blank" not in NATURAL_FAMILIES and "blank" not in natural_suite().families
    assert natural_suite(["blank"]).families == {"blank": {"fill": ("white",)}}
    with pytest.raises(ValueError, match="blank.*wite"):
        natural_suite(["blank"], {"blank": {"fill": "wite"}})


# --- encodes shared by the questions on one image ---------------------------------------------------------------------


def asked(n_images, each, named=False):
    """`each` questions on every image; told apart by the image's name, or by its content alone."""
    return [
        Sample(
            f"{number}/{i}", (picture(i),), f"Is it {number}?", ("Yes", "No"),
            meta={"image": f"photo {i}"} if named else {},
        )
        for number in range(each) for i in range(n_images)
    ]  # fmt: skip


@pytest.mark.parametrize("named", [False, True])
def test_questions_on_one_image_stay_in_one_chunk(named):
    samples = asked(5, 6, named)
    for size in (1, 4, 8, 12, 100):
        pieces = list(job.chunks(samples, size))
        assert sorted(sample.id for piece in pieces for sample in piece) == sorted(sample.id for sample in samples)
        images = [{sample.id.split("/")[1] for sample in piece} for piece in pieces]
        assert sum(map(len, images)) == 5  # no image is in two
        assert max(map(len, pieces)) == (30 if size == 100 else 12 if size == 12 else 6)
    assert [len(piece) for piece in job.chunks(asked(1, 60), 8)] == [24, 24, 12]  # within bounds
    assert [len(piece) for piece in job.chunks(asked(7, 1), 3)] == [3, 3, 1]


def test_questions_on_one_image_share_their_controls():
    samples = asked(9, 6)
    partners = job.control_samples(samples, 2)
    for i in range(9):
        (others,) = {tuple(other.id for other in partners[f"{number}/{i}"]) for number in range(6)}
        images = [other.split("/")[1] for other in others]
        assert len(set(images)) == len(images) == 8 and str(i) not in images


def test_chosen_questions_on_one_image_follow_each_other():
    images = [sample.meta["image"] for sample in load_dataset("mini_pope", n=90, size=10)]
    assert len(images) == 90 and len(set(images)) == 10
    assert 1 + sum(one != other for one, other in zip(images, images[1:], strict=False)) == 10


FAMILIES = {"identity": {}, "translation": {"n": (-4, 4)}, "text_overlay": {}, "blank": {"fill": ("black", "none")}}


def run(out, **fields):
    return run_study(
        StudyConfig(
            model="mini_qwen3vl", dataset="mini_pope", dataset_options={"size": 2, "split": "adversarial"}, n=None,
            families=tuple(FAMILIES), family_params=FAMILIES, device="cpu", out=str(out), **fields,
        ),
        progress=False,
    )  # fmt: skip


@pytest.fixture(scope="module")
def shared(tmp_path_factory):
    """Six questions on each of two images, read by the real model."""
    return run(tmp_path_factory.mktemp("shared"))


def test_encodes_fall_by_the_number_of_questions_and_the_records_stay(shared, tmp_path, monkeypatch):
    monkeypatch.setattr(job, "TOGETHER", 1)
    alone = run(tmp_path, chunk=1, verify=0)
    rows = shared.records()
    seen = rows[rows.image_hash.notna()]
    own = seen.family == "text_overlay"
    assert alone.manifest["counters"]["encodes"] == len(seen) == 6 * 2 * (1 + 1 + 2 + 1 + 1)
    overlays = len(seen[own].drop_duplicates(["image_id", "image_hash"]))  # as many as there are different answers
    assert shared.manifest["counters"]["encodes"] == 2 * (1 + 1 + 2 + 1) + overlays
    assert len(seen[~own]) == 6 * (shared.manifest["counters"]["encodes"] - overlays)  # six questions an image
    pd.testing.assert_frame_equal(rows, alone.records(), check_exact=False, rtol=0, atol=1e-4)


def test_a_run_goes_on_in_chunks_of_another_size_and_shares_as_before(shared, tmp_path):
    class Stop(Exception):
        pass

    def once(*args):
        yield next(local(*args))
        raise Stop

    local = ENGINES["local"]
    with pytest.MonkeyPatch.context() as patch, pytest.raises(Stop):
        patch.setitem(ENGINES, "local", once)
        run(tmp_path, chunk=1, verify=0)
    resumed = run(tmp_path, chunk=50, verify=0)
    pd.testing.assert_frame_equal(resumed.records(), shared.records(), check_exact=False, rtol=0, atol=1e-4)
    assert resumed.manifest["counters"] == shared.manifest["counters"]


def test_a_blank_of_no_image_at_all_is_read_and_recorded(shared, vlm):
    rows = shared.records()
    none = rows[rows.instance == "blank_none"]
    assert len(none) == 12 and none.applicable.all() and none.prediction.notna().all() and not len(shared.errors())
    assert none[["image_hash", "width", "height"]].isna().all(axis=None) and none.image_id.notna().all()
    assert metrics.prior_table(rows, shared.samples()).query("fill == 'none'").questions.iloc[0] == 12
    sample = load_dataset("mini_pope", n=18)[0]
    blank, oracle = (read(vlm, sample, (), probes=True) for read in (vfkit.read, vfkit.read_oracle))
    assert max(compare(blank, oracle).values()) < 1e-4 and blank.vision == []
    base = vfkit.read(vlm, sample, probes=True)
    assert change.smoothness(blank) == change.spectrum((), []) == {}
    assert change.measures(blank, base, (), [])["cos_ctx_open_post_norm"] > 0


def test_requests_without_images_keep_apart_from_those_with(vlm):
    sample = load_dataset("mini_pope", n=18)[0]
    images = (vfkit.load_image(sample.images[0]),)
    mixed = read_many(vlm, [(sample, ()), (sample, images), (sample, ())], probes=True)
    for readout, one in zip(mixed, ((), images, ()), strict=True):
        assert max(compare(readout, vfkit.read(vlm, sample, one)).values()) < 1e-5


def test_a_row_stays_within_the_batch_and_one_that_fails_costs_no_other(vlm, monkeypatch):
    samples = load_dataset("mini_pope", size=1, split="random")
    images = (vfkit.load_image(samples[0].images[0]),)
    whole = read_many(vlm, [(sample, images) for sample in samples])
    before = vlm.counters["encodes"]
    halves = read_many(vlm, [(sample, images) for sample in samples], batch_tokens=150)
    assert 1 < vlm.counters["encodes"] - before < 6
    grow = Question.grow

    def broken(self, row, closing):
        if self.sample.id == samples[3].id:
            raise ValueError("this question alone")
        return grow(self, row, closing)

    monkeypatch.setattr(Question, "grow", broken)
    some = read_many(vlm, [(sample, images) for sample in samples])
    assert [type(one).__name__ for one in some] == [*["Readout"] * 3, "ValueError", *["Readout"] * 2]
    for one, other, expected in zip(some, halves, whole, strict=True):
        assert max(compare(other, expected).values()) < 1e-4
        assert isinstance(one, ValueError) or max(compare(one, expected).values()) < 1e-4
