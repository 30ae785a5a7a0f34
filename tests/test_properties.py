"""What must hold of perturbations and metrics whatever they are given (hypothesis)."""

import numpy as np
import pandas as pd
import pytest
from hypothesis import assume, given, settings
from hypothesis import strategies as st
from hypothesis.extra import numpy as npst
from PIL import Image

from vfkit import metrics
from vfkit.images import content_hash, load_image
from vfkit.measure import dirichlet_energy, distances, spectrum_of
from vfkit.metrics import stats
from vfkit.perturb import geometric, overlay
from vfkit.readout import rules

quick = settings(max_examples=25, deadline=None)
sizes = st.integers(1, 48)
arrays = st.tuples(sizes, sizes).flatmap(lambda size: npst.arrays(np.uint8, (*size, 3)))
images = arrays.map(Image.fromarray)
shifts = st.integers(-20, 20).filter(bool)
finite = st.floats(-50, 50, width=32)
grids = st.tuples(st.integers(1, 6), st.integers(1, 6), st.integers(1, 4)).flatmap(
    lambda shape: npst.arrays(np.float32, shape, elements=finite)
)


# --- perturbations ----------------------------------------------------------------------------------------------------


@quick
@given(images, shifts)
def test_a_shift_keeps_every_pixel_and_the_opposite_shift_undoes_it(image, n):
    assume(not n or n % image.width)
    moved = geometric.translate(image, n)
    assert moved.size == image.size
    assert sorted(moved.tobytes()) == sorted(image.tobytes())
    assert content_hash(geometric.translate(moved, -n)) == content_hash(image)


@quick
@given(images, st.integers(1, 20))
def test_cropping_undoes_padding(image, n):
    assume(min(image.size) > 2 * n)  # to smaller ones neither applies
    padded = geometric.pad_crop(image, n)
    assert padded.size == (image.width + 2 * n, image.height + 2 * n)
    assert content_hash(geometric.pad_crop(padded, -n)) == content_hash(image)


@quick
@given(images, st.sampled_from(["black", "white"]))
def test_a_scaled_image_on_a_canvas_keeps_the_size_and_the_corner_of_the_canvas(image, fill):
    shown = geometric.scale_pad(image, 0.9, fill)
    assert shown.size == image.size
    if min(image.size) >= 20:  # smaller ones leave no margin on every side
        assert shown.getpixel((0, 0)) == ((0, 0, 0) if fill == "black" else (255, 255, 255))


@quick
@given(images, st.sampled_from([-30.0, 30.0]))
def test_a_rotated_canvas_holds_the_whole_image(image, degrees):
    turned = geometric.rotate(image, degrees, "white")
    cos, sin = np.cos(np.radians(30)), np.sin(np.radians(30))
    assert turned.width + 1 >= image.width * cos + image.height * sin - 1
    assert turned.height + 1 >= image.width * sin + image.height * cos - 1


@quick
@given(st.integers(40, 200), st.integers(40, 200), st.sampled_from("ABCDEFGHIJ"))
def test_a_card_hides_what_it_covers_and_touches_nothing_else(width, height, letter):
    noise = np.random.default_rng(0).integers(0, 256, (2, height, width, 3), np.uint8)
    one, other = (Image.fromarray(each) for each in noise)
    changed = [np.asarray(overlay.box_overlay(image, f"Answer is {letter}")) for image in (one, other)]
    covered = (changed[0] == changed[1]).all(axis=2)  # what no longer depends on the picture
    untouched = (changed[0] == noise[0]).all(axis=2)
    assert covered.any() and (covered | untouched).all()


@quick
@given(images)
def test_what_left_the_door_passes_it_unchanged(image):
    once = load_image(image)
    assert content_hash(load_image(once)) == content_hash(once)


# --- rules and distances ----------------------------------------------------------------------------------------------

scores = npst.arrays(np.float64, st.integers(2, 10), elements=st.floats(-100, 0))


@quick
@given(scores, st.data())
def test_margins_say_who_wins_and_by_how_much(values, data):
    base = data.draw(st.integers(0, len(values) - 1))
    best, tied = rules.predict(values)
    margin, base_margin = rules.margins(values, base)
    assert margin >= 0 and (margin == 0) == tied
    assert (base_margin < 0) == (values[base] < values.max())
    assert rules.margins(values, best)[1] == pytest.approx(margin)
    shifted = rules.margins(values + 3.0, base)
    assert shifted == (pytest.approx(margin, abs=1e-9), pytest.approx(base_margin, abs=1e-9))


vectors = npst.arrays(np.float32, 8, elements=finite)


@quick
@given(vectors, vectors, st.floats(0.1, 10))
def test_distances_are_symmetric_and_the_cosine_forgets_length(one, other, factor):
    cosine, l2 = distances(one, other)
    assert float(l2) == pytest.approx(float(distances(other, one)[1]), rel=1e-5)
    assert float(distances(one, one)[1]) == 0
    if min(np.linalg.norm(one), np.linalg.norm(other)) > 1e-2:
        assert -1e-5 <= float(cosine) <= 2 + 1e-5
        assert float(distances(one * np.float32(factor), other)[0]) == pytest.approx(float(cosine), abs=1e-4)


@quick
@given(grids, st.floats(-5, 5))
def test_smoothness_sees_differences_alone(grid, constant):
    energy, edges = dirichlet_energy(grid)
    height, width, _ = grid.shape
    assert edges == height * (width - 1) + (height - 1) * width and energy >= 0
    assert dirichlet_energy(np.full_like(grid, constant))[0] == pytest.approx(0, abs=1e-6)
    assert dirichlet_energy(grid[::-1, ::-1])[0] == pytest.approx(energy, rel=1e-4, abs=1e-4)
    assert dirichlet_energy(2 * grid)[0] == pytest.approx(4 * energy, rel=1e-4, abs=1e-4)


@quick
@given(st.integers(40, 64), st.integers(40, 64), st.integers(0, 99))
def test_an_image_is_coherent_with_itself_and_a_shift_keeps_its_power(width, height, seed):
    pixels = np.random.default_rng(seed).integers(0, 256, (height, width, 3), np.uint8)
    image = Image.fromarray(pixels)
    moved, own = (spectrum_of(one, image) for one in (geometric.translate(image, 4), image))
    for band in ("low", "mid", "high"):
        assert own[f"coherence_{band}"] == pytest.approx(1, abs=1e-6)
        assert moved[f"power_{band}"] == pytest.approx(own[f"power_{band}"], rel=1e-6)


# --- tables -----------------------------------------------------------------------------------------------------------


@st.composite
def records(draw):
    """Predictions of a few samples and families, some missing, on images that some samples share."""
    rows = []
    for sample in range(draw(st.integers(1, 5))):
        base, answer = draw(st.integers(0, 2)), draw(st.sampled_from([0, 1, 2, None]))
        image = f"i{draw(st.integers(0, 3))}"
        wanted = [("base", 1), ("identity", 1), ("scale", 1), ("rotation", 2)]
        for family, n in wanted:
            for i in range(n):
                there = family == "base" or draw(st.booleans())
                prediction = base if family in ("base", "identity") else draw(st.integers(0, 2))
                rows.append(
                    dict(
                        sample_id=f"s{sample}", category="c", family=family, instance=f"{family}_{i}", applicable=there,
                        answer=answer, n_options=3, base_prediction=base, prediction=prediction if there else None,
                        tied=False if there else None, margin=1.0 if there else None,
                        base_margin=(1.0 if prediction == base else -1.0) if there else None, image_id=image,
                    )
                )  # fmt: skip
    types = dict.fromkeys(("answer", "base_prediction", "prediction"), "Int64") | {"tied": "boolean"}
    return pd.DataFrame(rows).astype(types | dict.fromkeys(("margin", "base_margin"), float))


@quick
@given(records(), st.randoms())
def test_flips_are_counted_whatever_the_order_of_rows(frame, rng):
    table = metrics.flip_table(frame)
    order = list(range(len(frame)))
    rng.shuffle(order)
    columns = ["family", "instances", "flips", "IFR", "samples", "vulnerable", "IV", "not_applicable"]
    again = metrics.flip_table(frame.iloc[order].reset_index(drop=True))
    pd.testing.assert_frame_equal(table[columns], again[columns])
    by = table.set_index("family")
    assert by.flips["identity"] == 0
    counted = table[table.instances > 0]
    assert ((counted.flips > 0) == (counted.vulnerable > 0)).all() and (counted.vulnerable <= counted.flips).all()
    assert counted.IFR.between(0, 1).all() and counted.IV.between(0, 1).all()
    hi = counted[counted.family.isin(["scale", "rotation"])]
    union = counted[counted.family.str.startswith("union")]
    assert union.empty or int(union.flips.iloc[0]) == int(hi.flips.sum())


@quick
@given(records())
def test_transitions_add_up(frame):
    table = metrics.transition_table(frame).set_index("family")
    flips = metrics.flip_table(frame).set_index("family")
    for family, row in table.iterrows():
        assert sum(int(row[name]) for name in ("R->W", "W->R", "R->R", "W->W")) == int(row.instances)
        assert int(row.instances) + int(row.no_answer) == int(flips.instances[family])
        assert int(row["R->W"]) + int(row["W->R"]) <= int(flips.flips[family])


@quick
@given(st.lists(st.tuples(st.booleans(), st.integers(0, 9)), min_size=1, max_size=40))
def test_a_rate_lies_in_its_interval_and_repeats(rows):
    values, clusters = (np.array(column) for column in zip(*rows, strict=True))
    row = stats.rate(values.astype(float), np.ones(len(rows)), clusters).iloc[0]
    assert row.value == pytest.approx(values.mean())
    if row.clusters >= stats.FEWEST:
        assert 0 <= row.low <= row.value + 1e-12 and row.value - 1e-12 <= row.high <= 1
    else:
        assert np.isnan(row.low) and np.isnan(row.high)
    turned = stats.rate(values[::-1].astype(float), np.ones(len(rows)), clusters[::-1]).iloc[0]
    pd.testing.assert_series_equal(turned, row)


@quick
@given(st.lists(st.floats(0, 1), min_size=1, max_size=12))
def test_holm_only_raises_and_keeps_the_order(p):
    adjusted = stats.holm(p)
    assert (adjusted >= np.array(p) - 1e-12).all() and (adjusted <= 1).all()
    order = np.argsort(p, kind="stable")
    assert (np.diff(adjusted[order]) >= -1e-12).all()
