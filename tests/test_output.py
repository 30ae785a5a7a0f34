"""Tables for people: an estimate and its interval in one cell, nothing lost in the CSV."""

import pandas as pd
import pytest

from vfkit import output

TABLE = pd.DataFrame(
    {
        "family": ["scale", "rotation"],
        "IFR": [0.0625, float("nan")],
        "IFR_low": [0.05, float("nan")],
        "IFR_high": [0.075, float("nan")],
        "instances": [1600, 0],
        "slope": [-1.23456, 2.0],
    }
)


def test_estimates_and_intervals_share_a_cell():
    shown = output.readable(TABLE)
    assert list(shown.columns) == ["family", "IFR (%)", "instances", "slope"]
    assert shown.loc[0].tolist() == ["scale", "6.2 [5.0, 7.5]", "1,600", "-1.23"]
    assert shown.loc[1, "IFR (%)"] == ""


def test_columns_are_chosen_by_their_own_names():
    assert list(output.readable(TABLE, ["instances", "IFR"]).columns) == ["instances", "IFR (%)"]


def test_saved_tables_keep_every_digit_and_escape_latex(tmp_path):
    csv, tex = output.save(TABLE, tmp_path / "t", "flips")
    pd.testing.assert_frame_equal(pd.read_csv(csv), TABLE)
    assert r"IFR (\%)" in tex.read_text()


def test_missing_control_images_are_one_sentence_and_other_errors_a_table(monkeypatch):
    shown = []
    monkeypatch.setattr(output, "display", lambda what: shown.append(getattr(what, "data", None) or what.to_html()))
    row = dict(sample_id="a", instance="control", stage="control", error="LookupError", message="2 of 5 control images")
    errors = pd.DataFrame([row, row | {"sample_id": "b"}, row | {"error": "ImageError", "message": 80 * "long "}])
    output.show_errors(errors[:0], errors[:2], errors)
    assert len(shown) == 3 and shown[0] == shown[1] and shown[0].startswith("<p>2 samples have fewer control images")
    assert (80 * "long ").strip() in shown[2] and "LookupError" not in shown[2]


def test_a_notebooks_output_is_saved_shown_and_listed(tmp_path, capsys):
    notebook = output.Output(tmp_path)
    shown = notebook.table("flips", TABLE, "family IFR", TABLE.instances > 0)
    assert shown.frame.to_dict("list") == {"family": ["scale"], "IFR (%)": ["6.2 [5.0, 7.5]"]}
    assert len(pd.read_csv(tmp_path / "tables" / "flips.csv")) == 2  # saved whole
    with pytest.raises(ValueError, match="no output"):
        output.Output(tmp_path).finish()
    notebook.finish()
    (tmp_path / "tables" / "flips.csv").unlink()
    with pytest.raises(FileNotFoundError, match="flips.csv"):
        notebook.finish()


def test_too_few_images_for_an_interval_are_named():
    table = TABLE.assign(images=[3, 40]).assign(IFR=[0.5, 0.25], IFR_low=float("nan"), IFR_high=float("nan"))
    assert output.readable(table)["IFR (%)"].to_list() == ["50.0 [n too small]", "25.0"]


def test_what_says_nothing_is_named_below_the_table():
    table = pd.DataFrame(
        {
            "family": ["scale", "rotation", "crop", "union", "empty"],
            "answer": ["all"] * 5,
            "IFR": [0.0, 0.25, 0.0, 0.1, float("nan")],
            "IFR_low": [0.0, 0.2, 0.0, 0.05, float("nan")],
            "IFR_high": [0.1, 0.3, 0.2, 0.2, float("nan")],
            "IFR_published": [float("nan")] * 5,
            "no_answer": [0, 0, 0, 0, 0],
            "instances": [8, 8, 8, 24, 0],
        }
    )
    shown = output.shown(table)
    assert list(shown.frame.columns) == ["family", "answer", "IFR (%)", "instances"]
    assert shown.frame.family.tolist() == ["rotation", "union"]
    assert shown.note == "Nothing to count in empty. Nothing but 0 in scale, crop. The CSV holds every row."
    assert shown.note in shown._repr_html_() and shown.note in repr(shown)
    certain = output.shown(table[:3].assign(IFR=[1, 0.5, 1]), "family IFR")
    assert certain.frame.family.tolist() == ["rotation"] and certain.note.startswith(
        "Nothing but 100 % in scale, crop."
    )
    alike = output.shown(table.iloc[[0, 2]])  # nothing would be left
    assert len(alike.frame) == 2 and not alike.note


def test_tables_without_estimates_or_rows_are_shown_whole():
    counts = pd.DataFrame({"name": ["a", "b"], "n": [0, 0]})
    assert len(output.shown(counts).frame) == 2
    assert list(output.shown(TABLE[:0]).frame.columns) == ["family", "IFR (%)", "instances", "slope"]


def test_a_table_holds_no_markup_of_its_data():
    assert "<b>" not in output.shown(TABLE.assign(family=["<b>x", "y"]))._repr_html_()


def test_a_table_without_rows_is_saved_too(tmp_path):
    table = pd.DataFrame({"family": pd.Series(dtype=object), "rate": pd.Series(dtype=float), "n": pd.Series(dtype=int)})
    for path in output.save(table, tmp_path, "none"):
        assert "family" in path.read_text()


def test_counts_and_p_values_are_no_percentages():
    table = pd.DataFrame({"ECE": [0.25], "ECE_p": [0.5], "only_first": [8], "change": [-1.5], "delta": [1349.6]})
    assert output.readable(table).iloc[0].to_dict() == {
        "ECE (%)": "25.0", "ECE p": "0.5", "only first": "8", "change": "-1.5", "delta": "1,350"
    }  # fmt: skip


def test_folded_rows_are_named_by_numbers_where_texts_do_not_tell_them_apart():
    table = pd.DataFrame({"family": ["blur"] * 3, "strength": [1, 2, 3], "IFR": [0.0, 0.5, 0.0]})
    assert "Nothing but 0 in strength 1, strength 3." in output.shown(table).note
