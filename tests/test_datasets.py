"""Datasets: what a loader must give, the seeded choice, fingerprints, and easy-VQA itself."""

import json
from collections import Counter
from dataclasses import replace

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from PIL import Image

from vfkit.datasets import LOADERS, RowError, Rows, easy_vqa, load_dataset
from vfkit.datasets.base import fingerprint, quotas, select
from vfkit.images import load_image
from vfkit.sample import Sample


def make(id, category="c", images=(b"x",), **fields):
    return Sample(str(id), images, "which?", ("a", "b"), 0, category, **fields)


@pytest.fixture
def register(monkeypatch):
    """Give a dataset `toy` these rows."""
    return lambda *args: monkeypatch.setitem(LOADERS, "toy", lambda path=None, size=1: Rows(*args))


# --- the choice of samples --------------------------------------------------------------------------------------------


@given(st.dictionaries(st.text(max_size=3), st.integers(1, 40), min_size=1), st.data())
def test_quotas_are_proportional_to_the_strata(sizes, data):
    total = sum(sizes.values())
    n = data.draw(st.integers(1, total))
    given = quotas(sizes, n)
    assert sum(given.values()) == n
    assert all(given[name] <= size and abs(given[name] - n * size / total) < 1 for name, size in sizes.items())


def test_choice_is_seeded_stratified_and_blind_to_the_order_of_rows():
    samples = [make(i, category="rare" if i % 10 == 0 else "common") for i in range(200)]
    chosen = select(samples, 30, seed=0)
    assert Counter(s.category for s in chosen) == {"rare": 3, "common": 27}
    assert [s.id for s in chosen] == [s.id for s in select(samples[::-1], 30, seed=0)]
    assert {s.id for s in chosen} != {s.id for s in select(samples, 30, seed=1)}
    assert max(int(s.id) for s in chosen) > 100  # never the first n
    # pinned: the choice may not depend on the machine, the Python version or its string hashing
    assert [s.id for s in chosen[:6]] == ["80", "171", "47", "193", "24", "158"]


def test_more_than_there_are_takes_all_with_a_warning(register):
    register([make(i) for i in range(5)])
    with pytest.warns(UserWarning, match="holds 5 samples; all are taken, not 9"):
        assert sorted(s.id for s in load_dataset("toy", n=9)) == list("01234")


@pytest.mark.parametrize(
    ("call", "message"),
    [
        (dict(name="easy_vqq"), "unknown dataset: 'easy_vqq'; did you mean 'easy_vqa'"),
        (dict(name="easy_vqa", splt="train"), "unknown option of dataset 'easy_vqa': 'splt'; did you mean 'split'"),
        (dict(name="easy_vqa", n=0), "n is 0"),
        (dict(name="easy_vqa", split="val"), "no split 'val'"),
        (dict(name="easy_vqa", enlarge=0), "enlarge=0"),
    ],
)
def test_wrong_calls_say_what_is_wrong(call, message):
    with pytest.raises(ValueError, match=message):
        load_dataset(**call)


@pytest.mark.parametrize("given", [[], Rows([1, 2])], ids=["a list", "no samples"])
def test_a_loader_that_returns_something_else_is_named(given, monkeypatch):
    monkeypatch.setitem(LOADERS, "toy", lambda path=None: given)
    with pytest.raises(ValueError, match="loader of dataset 'toy' must return"):
        load_dataset("toy")


# --- rows that cannot be used -----------------------------------------------------------------------------------------


def test_bad_rows_are_reported_and_never_chosen(register):
    def finish(sample):
        if sample.id == "2":
            raise ValueError("cannot be drawn")
        return replace(sample, question="finished")

    register([make(0), make(1), make(2), make(1, category="later")], [RowError("7", "no answer")], finish)
    samples = load_dataset("toy")
    assert sorted(s.id for s in samples) == ["0", "1"]
    assert {s.question for s in samples} == {"finished"} and {s.category for s in samples} == {"c"}
    assert [error.sample_id for error in samples.errors] == ["7", "1", "2"]
    assert "occurs again" in samples.errors[1].reason


def test_a_dataset_without_usable_rows_is_an_error(register):
    register([], [RowError("7", "no answer")])
    with pytest.raises(ValueError, match="no usable row.*no answer"):
        load_dataset("toy")


# --- fingerprints -----------------------------------------------------------------------------------------------------


def test_fingerprint_covers_everything_a_model_is_asked(tmp_path):
    file = tmp_path / "image.png"
    file.write_bytes(b"one")
    sample = make(0, images=(str(file),))
    known = {fingerprint([sample])}
    changes = dict(id="1", question="?", options=("a", "c"), answer=1, category="d", hint="h", prompt="yes_no")
    for field, value in changes.items():
        known.add(fingerprint([replace(sample, **{field: value})]))
    known.add(fingerprint([sample], [RowError("7", "no answer")]))
    file.write_bytes(b"two")  # same name, same size
    known.add(fingerprint([sample]))
    file.unlink()
    known.add(fingerprint([sample]))
    assert len(known) == len(changes) + 4


@pytest.mark.parametrize("kind", [bytes, np.asarray, Image.fromarray])
def test_fingerprint_sees_image_content(kind):
    black, white = np.zeros((4, 4), np.uint8), np.full((4, 4), 255, np.uint8)
    first, again, other = (fingerprint([make(0, images=(kind(array),))]) for array in (black, black.copy(), white))
    assert first == again != other


# --- easy-VQA ---------------------------------------------------------------------------------------------------------


def test_easy_vqa_is_the_packages_real_test_split():
    import easy_vqa as package

    samples = load_dataset("easy_vqa", enlarge=1)
    questions, answers, images = package.get_test_questions()
    paths = package.get_test_image_paths()
    assert len(samples) == len(questions) == 9673 and not samples.errors
    for sample in samples:
        row = int(sample.id.removeprefix("easy_vqa/test/"))
        assert sample.question == questions[row]
        assert sample.options[sample.answer].lower() == answers[row]
        assert sample.images == (paths[images[row]],)


def test_easy_vqa_options_are_answers_of_one_kind():
    by_category = {}
    for sample in load_dataset("easy_vqa", enlarge=1):
        by_category.setdefault(sample.category, []).append(sample)
    assert set(by_category) == {"shape", "color", "existence", "negation"}
    for category, pool, count in (("shape", easy_vqa.SHAPES, 3), ("color", easy_vqa.COLORS, 4)):
        for sample in by_category[category]:
            assert sample.prompt == "mcq" and len(set(sample.options)) == count and set(sample.options) <= set(pool)
        places = Counter(sample.answer for sample in by_category[category])
        assert len(places) == count and max(places.values()) < 1.25 * min(places.values())  # no telling place
    for category in ("existence", "negation"):
        assert {(s.prompt, s.options) for s in by_category[category]} == {("yes_no", ("Yes", "No"))}
    assert all(("no" in s.question.split()) != ("not" in s.question.split()) for s in by_category["negation"])
    assert not any({"no", "not"} & set(s.question.split()) for s in by_category["existence"])


def test_easy_vqa_enlarges_four_times_and_shares_images():
    samples = load_dataset("easy_vqa", n=200)
    assert {load_image(sample.images[0]).size for sample in samples} == {(256, 256)}
    assert len({id(s.images[0]) for s in samples}) == len({s.meta["image"] for s in samples}) < 200
    small = load_image(load_dataset("easy_vqa", n=200, enlarge=1)[0].images[0])
    back = load_image(samples[0].images[0]).resize((64, 64), Image.Resampling.BOX)
    assert np.abs(np.asarray(back, float) - np.asarray(small, float)).mean() < 2


def test_easy_vqa_from_a_folder_names_its_bad_rows(tmp_path):
    (tmp_path / "test/images").mkdir(parents=True)
    Image.new("RGB", (64, 64)).save(tmp_path / "test/images/0.png")
    (tmp_path / "test/images/1.png").write_bytes(b"")
    rows = [["what shape is present?", "circle", 0], ["what shape?", "hexagon", 0], ["is it?"], ["is it?", "yes", 1]]
    (tmp_path / "test/questions.json").write_text(json.dumps(rows))
    samples = load_dataset("easy_vqa", path=tmp_path)
    assert [s.id for s in samples] == ["easy_vqa/test/0"]
    reasons = {error.sample_id: error.reason for error in samples.errors}
    assert set(reasons) == {"easy_vqa/test/1", "easy_vqa/test/2", "easy_vqa/test/3"}
    assert "hexagon" in reasons["easy_vqa/test/1"] and "empty" in reasons["easy_vqa/test/3"]
    with pytest.raises(FileNotFoundError, match="train"):
        load_dataset("easy_vqa", path=tmp_path, split="train")


def test_easy_vqa_not_installed(monkeypatch):
    monkeypatch.setattr(easy_vqa, "find_spec", lambda name: None)
    with pytest.raises(ModuleNotFoundError, match="pip install easy-vqa"):
        load_dataset("easy_vqa")


def test_images_that_look_different_have_different_fingerprints():
    """A palette is not in the pixels, yet it is what they mean."""
    prints = []
    for color in ((255, 0, 0), (0, 0, 255)):
        image = Image.new("P", (8, 8))
        image.putpalette(color)
        prints.append(fingerprint([Sample("s", (image,), "?", ("a", "b"))]))
    assert prints[0] != prints[1]
