"""One question of one image: what is printed, what is kept, and what is refused."""

import pytest

import vfkit
from vfkit.ask import ask, main, report


@pytest.fixture(scope="module")
def asked(tmp_path_factory):
    """A scene with a sign, saved as a photo, and the run of a question about it."""
    folder = tmp_path_factory.mktemp("ask")
    sample = next(one for one in vfkit.load_dataset("mini_seed", n=40) if one.category == "reading")
    vfkit.load_image(sample.images[0]).save(folder / "a photo.png")
    return folder, sample, ask(folder / "a photo.png", sample.question, sample.options, out=folder / "out")


def test_answer_is_that_of_the_model_itself(asked):
    folder, sample, run = asked
    mine = vfkit.Sample("mine", (folder / "a photo.png",), sample.question, sample.options)
    readout = vfkit.read(vfkit.load_model("mini_qwen3vl"), mine)
    base = run.records().query("family == 'base'").iloc[0]
    assert base.prediction == readout.prediction("paper")
    assert base.margin == pytest.approx(readout.margin("paper"), abs=1e-3)


def test_report_counts_flips_without_identity_and_blank(asked):
    _, sample, run = asked
    lines = list(report(run))
    records = run.records()
    forms = records[~records.family.isin(["base", "identity", "blank"]) & records.flip.notna()]
    assert lines[0].startswith(f"Answer: {records.iloc[0].prediction_text}")
    assert f"Flips: {forms.flip.sum()} of {len(forms)} perturbed images" in lines
    assert all(any(line.endswith(f"  {option}") for line in lines) for option in sample.options)


def test_command_prints_and_writes_the_page_and_names_the_models_world(asked, capsys):
    folder, sample, run = asked
    page = folder / "page.html"
    main([str(folder / "a photo.png"), sample.question, "--options", *sample.options, "--out", str(folder / "out"),
          "-o", str(page)])  # fmt: skip
    said = capsys.readouterr().out
    assert "Answer: " in said and "knows its own drawn world only" in said and f"Page: {page}" in said
    assert "data:image/webp" in page.read_text()


def test_without_options_yes_or_no_is_asked(asked):
    folder, *_ = asked
    run = ask(folder / "a photo.png", "Is there a cloud in the image?", out=folder / "out")
    assert list(run.samples().options.iloc[0]) == ["Yes", "No"] and run.samples().prompt.iloc[0] == "yes_no"


@pytest.mark.parametrize(
    "changes, message",
    [
        ({"image": "absent.jpg"}, "absent.jpg"),
        ({"image": __file__}, "not an image"),
        ({"question": " "}, "a question and two or more options"),
        ({"options": ["one"]}, "two or more options"),
        ({"model": "mini_qwen"}, "mini_qwen"),
        ({"model": "gpt_5_1"}, "is hosted"),
    ],
)
def test_mistakes_are_one_line(asked, changes, message):
    folder, sample, _ = asked
    given = {"image": str(folder / "a photo.png"), "question": sample.question, "options": ["a", "b"]} | changes
    more = ["--model", given["model"]] if "model" in given else []
    with pytest.raises(SystemExit) as stopped:
        main([given["image"], given["question"], "--options", *given["options"], "--out", str(folder / "out"), *more])
    assert message in str(stopped.value) and "\n" not in str(stopped.value).strip()
