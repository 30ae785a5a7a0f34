"""Every awkward file and row of `corpus.py` through a study with the embedded model: the right result, or its row."""

import re
import warnings

import corpus
import numpy as np
import pytest

import vfkit
from vfkit.datasets import LOADERS, RowError, Rows
from vfkit.study import StudyConfig, run_study


@pytest.fixture(scope="module")
def cases(tmp_path_factory):
    return corpus.build(tmp_path_factory.mktemp("corpus"))


@pytest.fixture(scope="module")
def run(cases, tmp_path_factory):
    def load(path=None):
        samples, errors = [], []
        for case in cases:
            try:
                samples.append(case.sample())
            except ValueError as error:
                errors.append(RowError(case.id, str(error)))
        return Rows(samples, errors)

    LOADERS["corpus"] = load
    try:
        fields = dict(families=["identity"], chunk=16, verify=2, device="cpu", out=str(tmp_path_factory.mktemp("out")))
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")  # of Pillow, on files that are damaged by intent
            return run_study(StudyConfig(model="mini_qwen3vl", dataset="corpus", n=None, **fields), progress=False)
    finally:
        del LOADERS["corpus"]


def test_the_corpus_is_large_and_of_both_kinds(cases):
    assert len(cases) >= 60 and sum(bool(case.error) for case in cases) >= 20
    assert {case.stage for case in cases if case.error} == {"dataset", "image", "read"}


def test_what_is_sound_is_read_and_what_is_not_has_a_row_that_says_why(cases, run):
    records, errors = run.records(), run.errors()
    read = set(records.sample_id)
    assert read == {case.id for case in cases if not case.error}
    wrong = [case for case in cases if case.error]
    assert len(errors) == len(wrong)
    for case in wrong:
        rows = errors[(errors.sample_id == case.id) & (errors.stage == case.stage)]
        assert len(rows) == 1 and re.search(case.error, rows.message.iloc[0], re.S), (case.id, errors.message.tolist())
    assert (records.groupby("sample_id").size() == 2).all()  # the base and its identity
    for row in records.itertuples():
        assert np.isfinite(row.logp_text).all() and np.isfinite(row.logp_end).all(), row.sample_id
        assert (row.logp_text <= 1e-6).all() and len(row.logp_text) == row.n_options
    assert (records.prediction == records.base_prediction).all()


def test_images_are_read_as_they_look(cases):
    """Colours of the four quadrants, as a viewer shows them: turned upright, on white, in eight bits."""
    seen = 0
    for case in cases:
        if case.looks and not case.error:
            image = vfkit.load_image(case.row["images"][0], case.id)
            at = [(x * image.width // 4, y * image.height // 4) for y in (1, 3) for x in (1, 3)]
            found = np.array([image.getpixel(place) for place in at])
            assert np.abs(found - np.array(case.looks)).max() <= 40, (case.id, found.tolist())
            seen += 1
    assert seen >= 25


def test_equal_pixels_are_one_image_whatever_the_file(cases, run):
    base = run.records().query("family == 'base'").set_index("sample_id").image_id
    same = ["plain.png", "plain.bmp", "plain.webp", "plain.tiff", "bytes", "array", "PIL image", "array with alpha"]
    assert base[same].nunique() == 1 and base["plain.jpg"] != base["plain.png"]


def test_words_of_the_models_own_never_become_images(run):
    records = run.records().query("family == 'base'").set_index("sample_id")
    assert run.samples().set_index("sample_id").n_images["a placeholder in the question"] == 1
    assert records.image_id["a placeholder in the question"] == records.image_id["plain.png"]


def test_equal_options_tie(run):
    row = run.records().query("sample_id == 'equal options' and family == 'base'").iloc[0]
    assert row.logp_text[0] == row.logp_text[1]
