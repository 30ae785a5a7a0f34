"""V-FAT data: items become six samples by one rule, every source is read or says why not, people have the last word."""

import base64
import csv
import io
import json
import re
from pathlib import Path

import numpy as np
import pandas as pd
import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from chat_server import KEY, ChatServer, text_of
from PIL import Image

import vfkit
from vfkit import prompts
from vfkit.datasets import vfat, vlind
from vfkit.datasets.files import ImageFolders
from vfkit.datasets.vfat_items import Item, gap, item_samples
from vfkit.models import registry
from vfkit.workshop.items import generate, review
from vfkit.workshop.items.__main__ import main
from vfkit.workshop.items.collection import composition

ASKED = dict(atypical="odd.png", ordinary="usual.png", question="What colour is it?", truth="blue", trap="yellow")
ITEM = Item(id="banana", category="Physical", distractors=("red", "green"), aliases=("bluish",), **ASKED)


def png(color):
    file = io.BytesIO()
    Image.new("RGB", (16, 12), color).save(file, "PNG")
    return file.getvalue()


def jpg(path, color="blue"):
    path.parent.mkdir(parents=True, exist_ok=True)
    Image.new("RGB", (16, 12), color).save(path, "JPEG")
    return path


def jsonl(path, rows):
    path.write_text("".join((row if isinstance(row, str) else json.dumps(row)) + "\n" for row in rows))
    return path


def reasons(samples):
    return {error.sample_id: error.reason for error in samples.errors}


# --- items ------------------------------------------------------------------------------------------------------------


def test_an_item_is_asked_at_three_levels_in_two_formats():
    samples = {sample.id: sample for sample in item_samples(ITEM)}
    assert list(samples) == [f"banana/{level}/{form}" for level in ("L1", "L2", "L3") for form in ("mcq", "oe")]
    expected = {  # level: image, truth, trap, what is asserted
        "L1": ("odd.png", "blue", "yellow", ""),
        "L2": ("usual.png", "yellow", "blue", prompts.assertion("blue")),
        "L3": ("odd.png", "blue", "yellow", prompts.assertion("yellow")),
    }
    for id, sample in samples.items():
        _, level, form = id.split("/")
        image, truth, trap, hint = expected[level]
        assert sample.images == (image,) and sample.hint == hint and sample.category == "Physical"
        assert sample.options[sample.answer] == truth == sample.meta["truth"] and sample.meta["trap"] == trap
        assert sample.prompt == ("mcq" if form == "mcq" else "open")
        assert {key: sample.meta[key] for key in ("item", "level", "format")} == {
            "item": "banana", "level": level, "format": form,
        }  # fmt: skip
        if form == "oe":
            assert sample.options == (truth, trap)
        else:
            assert sorted(sample.options) == ["blue", "green", "red", "yellow"]
        roles = dict(zip(sample.options, sample.meta["order"], strict=True))
        assert (
            roles[truth] == "truth" and roles[trap] == "trap" and len(set(roles.values())) == (2 if form == "oe" else 3)
        )
        assert sample.meta["aliases" if level != "L2" else "trap_aliases"] == ["bluish"]


def test_the_order_of_options_is_seeded_by_item_and_the_same_at_all_levels():
    def orders(seed):
        items = [Item(id=str(i), distractors=("red", "green"), **ASKED) for i in range(40)]
        return [{s.options for s in item_samples(item, seed) if s.prompt == "mcq"} for item in items]

    assert all(len(each) == 1 for each in orders(0)) and orders(0) == orders(0) and orders(0) != orders(1)
    at = [next(iter(each)).index("blue") for each in orders(0)]
    assert all(at.count(place) >= 3 for place in range(4))  # no place is the truth's own


def test_what_the_prompts_of_v_fat_say_is_pinned():
    texts = {s.id.split("/", 1)[1]: prompts.text(s, s.prompt) for s in item_samples(ITEM)}
    assert texts["L1/oe"] == "Question: What colour is it?\nGive a concise answer."
    assert texts["L3/oe"] == "Hint: This image shows the following: yellow.\n" + texts["L1/oe"]
    assert texts["L2/oe"] == "Hint: This image shows the following: blue.\n" + texts["L1/oe"]
    assert texts["L3/mcq"].startswith(
        "Hint: This image shows the following: yellow.\nQuestion: What colour is it?\nOptions:\n"
    )


@pytest.mark.parametrize(
    "change, says",
    [
        ({"trap": "Blue"}, "alike"),
        ({"distractors": ["yellow"]}, "alike"),
        ({"truth": " "}, "truth"),
        ({"distractors": [str(i) for i in range(30)]}, "letters"),
        ({"assertions": {"L1": "x"}}, "L1"),
        ({"answer": "blue"}, "answer"),
    ],
)
def test_an_item_that_is_not_sound_is_refused(change, says):
    with pytest.raises(ValueError, match=says):
        Item(**{"id": "x"} | ASKED | change)


def test_statements_that_differ_in_one_stretch_become_a_gap():
    assert gap("The banana is blue.", "The banana is yellow.") == ("The banana is ____", "blue", "yellow")
    assert gap("Snow falls on the dry desert", "Rain falls on the dry desert")[0] == "____ falls on the dry desert"
    assert gap("A man rides a big fish home", "A man rides a horse home")[1:] == ("big fish", "horse")
    assert gap("Cats bark", "Dogs meow loudly") is None  # nothing shared
    assert gap("The sky is clear", "The sky is clear today") is None  # nothing fills the gap of one
    assert gap("a a a", "a a a a") is None


@pytest.mark.parametrize(
    "name", ["../x.jpg", "a/../../x.jpg", "/etc/passwd", "..\\x.jpg", "C:\\x.jpg", "", None, "a\0b"]
)
def test_no_path_of_a_data_file_leads_outside(tmp_path, name):
    jpg(tmp_path / "data" / "a" / "b.jpg")
    jpg(tmp_path / "x.jpg")
    folders = ImageFolders(tmp_path / "data")
    with pytest.raises(ValueError):
        folders.find(name)
    assert folders.find("a/b.jpg") == folders.find("a/b") == str(tmp_path / "data" / "a" / "b.jpg")


# --- V-FAT files ------------------------------------------------------------------------------------------------------

ROW = dict(
    id="b", image="i.jpg", level="L3", format="mcq", question="Which?", options=["x", "y", "z"], answer="y", trap="x"
)


def test_a_v_fat_file_loads_row_by_row_and_says_what_is_wrong_with_each(tmp_path):
    jpg(tmp_path / "i.jpg")
    bad = {
        "level": {"level": "L4"}, "answer": {"answer": "w"}, "trap": {"trap": "w"}, "same": {"trap": "y"},
        "image": {"image": "gone.jpg"}, "out": {"image": "../i.jpg"}, "field": {"anwser": "y"}, "type": {"question": 3},
        "options": {"options": ["x", "y", "y"]}, "empty": {"question": "  "},
    }  # fmt: skip
    rows = [
        ROW,
        ROW | {"id": "open", "format": "oe", "options": []},
        ROW | {"id": "pair", "options": []},
        "not json",
        "[1]",
    ]
    rows += [ROW | change | {"id": id} for id, change in bad.items()] + [ROW]
    samples = vfkit.load_dataset("vfat", path=jsonl(tmp_path / "vfat.jsonl", rows))
    assert sorted(s.id for s in samples) == ["b/L3/mcq", "open/L3/oe", "pair/L3/mcq"]
    by_id = {sample.id: sample for sample in samples}
    assert by_id["b/L3/mcq"].options == ("x", "y", "z") and by_id["b/L3/mcq"].meta["order"] == [
        "trap",
        "truth",
        "distractor",
    ]
    assert by_id["open/L3/oe"].options == ("y", "x") and sorted(by_id["pair/L3/mcq"].options) == ["x", "y"]
    assert by_id["pair/L3/mcq"].meta["order_seed"] == 0 and "order_seed" not in by_id["b/L3/mcq"].meta
    found = reasons(samples)
    assert set(found) == set(bad) | {"vfat.jsonl line 4", "vfat.jsonl line 5", "b/L3/mcq"}
    assert "occurs again" in found["b/L3/mcq"] and "not JSON" in found["vfat.jsonl line 4"]
    for id, says in {
        "field": "anwser",
        "level": "level",
        "out": "leads out",
        "image": "gone.jpg",
        "same": "alike",
    }.items():
        assert says in found[id], found[id]
    assert all("line" in reason for id, reason in found.items() if id in bad)
    assert vfkit.load_dataset("vfat", path=tmp_path).fingerprint == samples.fingerprint  # a folder will do
    jsonl(tmp_path / "vfat.jsonl", [rows[0] | {"aliases": ["why"]}, *rows[1:]])
    assert vfkit.load_dataset("vfat", path=tmp_path).fingerprint != samples.fingerprint


def test_what_is_written_loads_as_it_was(tmp_path):
    item = ITEM.model_copy(update={"atypical": png("blue"), "ordinary": str(jpg(tmp_path / "in" / "u.jpg", "yellow"))})
    samples = item_samples(item, order_seed=5)
    file = vfat.write(tmp_path / "out" / "vfat.jsonl", samples)
    (tmp_path / "out").rename(tmp_path / "moved")
    loaded = {s.id: s for s in vfkit.load_dataset("vfat", path=tmp_path / "moved")}
    assert len(loaded) == 6 and len(list((tmp_path / "moved" / "images").iterdir())) == 2
    for sample in samples:
        again = loaded[sample.id]
        for name in ("question", "options", "answer", "category", "hint", "prompt", "meta"):
            assert getattr(again, name) == getattr(sample, name), name
        assert Path(again.images[0]).is_relative_to(tmp_path / "moved")
        assert np.array_equal(vfkit.load_image(again.images[0]), vfkit.load_image(sample.images[0]))
    with pytest.raises(FileExistsError):
        vfat.write(tmp_path / "moved" / file.name, samples)


def test_items_are_chosen_whole_and_in_proportion(tmp_path):
    jpg(tmp_path / "i.jpg")
    rows = [
        dict(ROW, id=f"{category}{i}", category=category, level=level)
        for category, n in (("Social", 6), ("Physical", 3)) for i in range(n) for level in ("L1", "L2", "L3")
    ]  # fmt: skip
    path = jsonl(tmp_path / "vfat.jsonl", rows)
    samples = vfkit.load_dataset("vfat", path=path, n_items=3)
    assert sorted(s.category for s in samples) == ["Physical"] * 3 + ["Social"] * 6
    assert {s.id for s in samples} != {s.id for s in vfkit.load_dataset("vfat", path=path, n_items=3, item_seed=1)}
    with pytest.raises(ValueError, match="n_items is 0"):
        vfkit.load_dataset("vfat", path=path, n_items=0)


def test_a_line_of_a_v_fat_file_is_what_newlines_set_apart(tmp_path):
    jpg(tmp_path / "i.jpg")
    torn = json.dumps(ROW | {"question": "One\u2028two\u0085three?"}, ensure_ascii=False)
    lines = [torn, "[" * 100_000, json.dumps(ROW | {"id": "long", "image": "x" * 300})]
    (tmp_path / "vfat.jsonl").write_bytes("\r\n".join(lines).encode() + "\n\xe9\n".encode("latin-1"))
    samples = vfkit.load_dataset("vfat", path=tmp_path)
    assert [s.question for s in samples] == ["One\u2028two\u0085three?"]
    found = reasons(samples)
    assert set(found) == {"vfat.jsonl line 2", "long", "vfat.jsonl line 4"} and "there is no image" in found["long"]
    assert "recursion" in found["vfat.jsonl line 2"] and "utf-8" in found["vfat.jsonl line 4"]


@pytest.mark.parametrize("n_items", ["3", 2.0, True, [1]])
def test_a_number_of_items_is_a_whole_one(tmp_path, n_items):
    jpg(tmp_path / "i.jpg")
    jsonl(tmp_path / "vfat.jsonl", [ROW])
    with pytest.raises(ValueError, match="n_items is .*whole number"):
        vfkit.load_dataset("vfat", path=tmp_path, n_items=n_items)


# --- VLind-Bench ------------------------------------------------------------------------------------------------------


def vlind_row(id, context_id, concept="color", best=3, votes=None, **more):
    return {
        "global_id": id, "context_id": context_id, "concept": concept, "context": f"blue banana {context_id}",
        "factual_context": "yellow banana", "true_statement": "The banana is blue.",
        "false_statement": "The banana is yellow.", "existent_noun": "banana", "non-existent_noun": "apple",
        "best_img_id": best, "aggregated_human_label_good_images": {"3": 3, "5": 2} if votes is None else votes,
    } | more  # fmt: skip


VLIND = [
    vlind_row(1, 1),
    vlind_row("2", "2", "history", best="3"),  # ids as texts
    vlind_row(3, 3, best=4, votes={"4": 1, "7": 2, "9": 3}),  # the best has too few votes
    vlind_row(4, 4, votes={"3": 1}),  # no good image at all
    vlind_row(5, 5, best=8, votes={"8": 2}),  # its image is not there
    vlind_row(6, 6),  # has no factual image
    vlind_row(7, 7, concept="folklore", true_statement="Cats bark", false_statement="Dogs meow loudly"),
    vlind_row(8, 8, true_statement=None),
    vlind_row(9, 9, concept="../../secret"),
    vlind_row(11, 11, best=None),
    vlind_row(1, 1),  # again
    "not an object",
]
ERRORS = {"4": "2 votes", "5": "image 8", "6": "factual image 0", "8": "true_statement", "9": "leads out", "1": "again"}


def images_of(row):
    """(kind, number, colour) of the images that a row of `VLIND` has."""
    yield from (("counterfactual", number, (0, 0, number * 20)) for number in (3, 5, 7, 9))
    if row["global_id"] != 6:
        yield "factual", 0, "yellow"


@pytest.fixture(params=["data", "data/images", "VLind-Bench Dataset/images", "images", "."])
def release(request, tmp_path):
    place = tmp_path / request.param
    for row in VLIND[:10]:
        concept = row["concept"].replace("../", "")
        for kind, number, color in images_of(row):
            context = row["context" if kind == "counterfactual" else "factual_context"]
            name = f"{row['context_id']}_{context} and much more that a file system cuts off"[:24]
            jpg(place / kind / concept / name / f"{number}.jpg", color)
    data = tmp_path / ("VLind-Bench Dataset" if "VLind" in request.param else ".") / "data.json"
    data.write_text(json.dumps(VLIND))
    return tmp_path


def blue(sample):
    return round(np.asarray(vfkit.load_image(sample.images[0]))[..., 2].mean() / 20)


def check_vlind(samples, errors):
    by_id = {sample.id: sample for sample in samples}
    assert {id.split("/")[0] for id in by_id} == {"1", "2", "3", "7", "11"} and len(by_id) == 30
    assert [by_id[f"{item}/L1/mcq"].meta["candidate"] for item in ("1", "2", "3", "11")] == ["3", "3", "9", "3"]
    assert [blue(by_id[f"{item}/L3/oe"]) for item in ("1", "2", "3")] == [3, 3, 9]
    pixel = np.asarray(vfkit.load_image(by_id["1/L2/mcq"].images[0]))[0, 0]
    assert pixel[0] > 240 and pixel[2] < 20  # yellow: the factual image
    l1, l2, l3 = (by_id[f"1/{level}/mcq"] for level in ("L1", "L2", "L3"))
    assert (l1.meta["truth"], l1.meta["trap"], l1.hint) == ("The banana is blue.", "The banana is yellow.", "")
    assert (l2.meta["truth"], l2.meta["trap"]) == ("The banana is yellow.", "The banana is blue.") and "blue" in l2.hint
    assert (l3.meta["truth"], l3.meta["trap"]) == (l1.meta["truth"], l1.meta["trap"]) and "yellow" in l3.hint
    assert by_id["1/L1/oe"].question == prompts.FILL_GAP.format(sentence="The banana is ____")
    assert by_id["1/L1/oe"].meta["aliases"] == ["blue"] and by_id["1/L2/oe"].meta["aliases"] == ["yellow"]
    assert "banana" in by_id["7/L1/oe"].question and not by_id["7/L1/oe"].meta["aliases"]
    assert [by_id[f"{item}/L1/mcq"].category for item in ("1", "2", "7")] == ["Physical", "Temporal", "Functional"]
    for id, says in errors.items():
        assert says in reasons(samples)[id], reasons(samples)[id]


def test_every_layout_of_the_release_is_read_and_what_is_missing_is_reported(release):
    samples = vfkit.load_dataset("vlind", path=release)
    check_vlind(samples, ERRORS | {"row 11": "global_id"})
    assert len(samples.errors) == 7


def test_a_number_that_leads_out_of_the_folder_is_refused(tmp_path):
    for kind in ("counterfactual", "factual"):
        jpg(tmp_path / kind / "color" / "1_x" / "0.jpg")
    jpg(tmp_path.parent / "secret.jpg")
    row = vlind_row(1, 1, best="../../../../secret", votes={"../../../../secret": 3})
    (tmp_path / "data.json").write_text(json.dumps([row]))
    with pytest.raises(ValueError, match="leads out"):
        vfkit.load_dataset("vlind", path=tmp_path)


@pytest.mark.parametrize("numbered", ["column", "name"])
def test_the_parquet_mirror_gives_the_same_items(tmp_path, numbered):
    rows = []
    for row in [row for row in VLIND[:10] if row["global_id"] != 9]:
        for kind, number, color in images_of(row):
            shared = {key.replace("-", "_"): value for key, value in row.items()}
            shared["aggregated_human_label_good_images"] = json.dumps(row["aggregated_human_label_good_images"])
            name = f"{number}.jpg" if numbered == "name" else None
            shared |= {"image_type": kind, "image": {"bytes": png(color), "path": name}}
            rows.append(shared | ({"image_id": number} if numbered == "column" else {}))
    for name in ("global_id", "context_id", "best_img_id"):
        for row in rows:
            row[name] = None if row[name] is None else int(row[name])
    (tmp_path / "data").mkdir()
    for part, some in enumerate((rows[:17], rows[17:])):  # an item may lie in two files
        pq.write_table(pa.Table.from_pylist(some), tmp_path / "data" / f"train-{part}.parquet", row_group_size=4)
    samples = vfkit.load_dataset("vlind", path=tmp_path)
    check_vlind(samples, {"4": "2 votes", "5": "image 8", "6": "factual image 0", "8": "true_statement"})


DEEP = "[" * 100_000


def vlind_folder(folder, *rows):
    """A release of these rows, with images of context 1."""
    for kind, number in (("counterfactual", 3), ("factual", 0)):
        jpg(folder / kind / "color" / "1_x" / f"{number}.jpg")
    (folder / "data.json").write_text(json.dumps(rows))
    return folder


def test_a_row_of_vlind_that_cannot_be_used_costs_itself_alone(tmp_path):
    rows = [vlind_row(1, 1), vlind_row(2, 1, concept="x" * 300), vlind_row("9" * 5000, 1), vlind_row(4, 1, votes=DEEP)]
    samples = vfkit.load_dataset("vlind", path=vlind_folder(tmp_path, *rows))
    assert {s.meta["item"] for s in samples} == {"1"}
    found = reasons(samples)
    assert set(found) == {"2", "9" * 100, "4"} and "missing" in found["2"] and "5,000 characters" in found["9" * 100]


def test_vlind_is_found_by_its_data_json(release):
    (file,) = release.rglob("data.json")
    samples = vfkit.load_dataset("vlind", path=file)
    assert [sample.id for sample in samples] == [sample.id for sample in vfkit.load_dataset("vlind", path=file.parent)]


@pytest.mark.parametrize("content", [json.dumps([{"a": "é"}]).encode("utf-16"), b"{", DEEP.encode()])
def test_a_data_json_that_is_none_is_named(tmp_path, content):
    (tmp_path / "data.json").write_bytes(content)
    with pytest.raises(ValueError, match="data.json cannot be read as JSON"):
        vfkit.load_dataset("vlind", path=tmp_path)


def test_a_mirror_that_is_no_parquet_is_named(tmp_path):
    (tmp_path / "a.parquet").write_bytes(b"no parquet")
    with pytest.raises(ValueError, match="a.parquet cannot be read as parquet"):
        vfkit.load_dataset("vlind", path=tmp_path)


@pytest.mark.parametrize("name", ["vfat", "vlind", "weird"])
def test_without_a_path_it_says_what_is_needed(name):
    with pytest.raises(vfkit.DatasetUnavailable, match=f"{name} needs path=.*-p dataset_path"):
        vfkit.load_dataset(name)


def test_vlind_says_what_it_needs(tmp_path):
    for path in (tmp_path, tmp_path / "nowhere"):
        with pytest.raises(FileNotFoundError, match="VLind-Bench"):
            vlind.load(path)


# --- WEIRD ------------------------------------------------------------------------------------------------------------


def test_weird_is_read_with_its_annotations(tmp_path):
    groups = {"1": "Object Function and Misuse", "3": "Animal Behavior", "5": "Something else"}
    images = [
        {"id": id, "path": f"images/{id}", "class": kind, "commonsense_violation_group": groups.get(id, ""),
         "commonsense_violation_subgroup": "s"}
        for id, kind in (("1", "weird"), ("2", "normal"), ("3", "weird"), ("4", "normal"), ("5", "weird"))
    ]  # fmt: skip
    images[2]["path"] = "3"  # from images/ on
    images[4]["path"] = "../5"
    jsonl(tmp_path / "dataset.jsonl", [*images, {"path": "x"}, "{"])
    jpg(tmp_path / "images" / "1.jpg")
    Image.new("RGB", (9, 9)).save(tmp_path / "images" / "2.png")
    jpg(tmp_path / "images" / "3.jpeg")
    note = {"id": "1", "ordinary": "2", "question": "What is held?", "truth": "a phone", "trap": "a sword"}
    notes = [
        note | {"distractors": ["a book"], "assertions": {"L3": "Note the sword."}},
        note | {"id": "3", "ordinary": "4"}, note | {"id": "2"}, note | {"id": "9"}, note | {"id": "5"},
        {"id": "1b"}, note | {"id": "1", "answer": "?"}, "nonsense",
    ]  # fmt: skip
    jsonl(tmp_path / "annotations.jsonl", notes)
    samples = vfkit.load_dataset("weird", path=tmp_path)
    by_id = {s.id: s for s in samples}
    assert sorted(by_id) == [f"1/{level}/{form}" for level in ("L1", "L2", "L3") for form in ("mcq", "oe")]
    assert by_id["1/L3/oe"].hint == "Note the sword." and by_id["1/L2/oe"].hint == prompts.assertion("a phone")
    assert by_id["1/L2/oe"].images[0].endswith("2.png") and by_id["1/L1/mcq"].category == "Functional"
    found = reasons(samples)
    assert "'images/4'" in found["3"] and "ordinary, not odd" in found["2"] and "no image '9'" in found["9"]
    assert "leads out" in found["5"] and "answer" in found["1"] and "annotations.jsonl line 8" in found
    assert len(samples.errors) == 9
    with pytest.raises(FileNotFoundError, match="annotat|asked"):
        vfkit.load_dataset("weird", path=tmp_path, annotations=tmp_path / "other.jsonl")


def test_weird_refuses_ids_and_images_that_are_there_twice(tmp_path):
    images = [{"id": i, "path": path} for i, path in (("1", "1"), ("2", "2"), ("2", "1"), ("3", "x" * 300))]
    jsonl(tmp_path / "dataset.jsonl", [*images, "[" * 100_000])
    jpg(tmp_path / "images" / "1.jpg")
    jpg(tmp_path / "images" / "2.jpg")
    note = {"id": "1", "ordinary": "2", "question": "What\u2028is held?", "truth": "a phone", "trap": "a sword"}
    notes = [note, note | {"id": "2", "ordinary": "2"}, note | {"id": "3"}]
    lines = [json.dumps(each, ensure_ascii=False) for each in notes]
    (tmp_path / "annotations.jsonl").write_text("\n".join(lines), encoding="utf-8")
    samples = vfkit.load_dataset("weird", path=tmp_path)
    assert len(samples) == 6 and {s.images[0][-5:] for s in samples if s.meta["level"] == "L2"} == {"2.jpg"}
    found = reasons(samples)
    assert set(found) == {"dataset.jsonl line 3", "dataset.jsonl line 5", "2", "3"}
    assert "'2' occurs again" in found["dataset.jsonl line 3"] and "the odd one itself" in found["2"]


# --- building items ---------------------------------------------------------------------------------------------------

PROPOSAL = {
    "question": "What colour is the <b>banana</b>?", "open_question": "What colour is it?", "truth": "blue",
    "trap": "yellow", "distractors": ["red", "green"], "aliases": ["bluish"], "trap_aliases": [],
    "assertions": {"L2": "See the blue banana.", "L3": "See the yellow banana."}, "category": "Physical",
}  # fmt: skip


@pytest.fixture
def workshop(tmp_path, monkeypatch):
    """A server that proposes and criticises by a seed's annotation, two registered models, and a file of seeds."""

    def answer(body):
        text = text_of(body)
        if body["model"] == "critic":
            if "curious" in text:
                return 'Let me see. {"accept": "yes", "reason": "?"}'
            accept = "purple" not in text
            return json.dumps({"accept": accept, "reason": "It is plain." if accept else "It cannot be seen."})
        kind = re.search(r"Annotation of the first image: (\w+)", text)[1]
        if kind == "nonsense":
            return "I would rather not."
        if kind == "unsound":
            return json.dumps(PROPOSAL | {"trap": "blue"})
        truth = {"purple": "purple", "curious": "curious"}.get(kind, "blue")
        return f"<think>hm</think>```json\n{json.dumps(PROPOSAL | {'truth': truth})}\n```"

    with ChatServer(answer) as server:
        for model in ("generator", "critic"):
            api = {"base_url": server.url, "key_env": "TOY_KEY", "model": model, "retries": 0}
            api |= {"request": {"temperature": 0, "max_tokens": 9}}
            monkeypatch.setitem(registry.specs(), f"toy_{model}", registry.Spec(f"toy_{model}", api=api))
        monkeypatch.setenv("TOY_KEY", KEY)
        jpg(tmp_path / "odd.jpg")
        jpg(tmp_path / "usual.jpg", "yellow")
        kinds = ("fine", "purple", "nonsense", "unsound", "curious", "good")
        rows = [{"id": i, "atypical": "odd", "ordinary": "usual.jpg", "annotation": k} for i, k in enumerate(kinds)]
        jsonl(tmp_path / "seeds.jsonl", [*rows, {"id": 9, "atypical": "gone", "ordinary": "odd", "annotation": "x"}])
        yield server, tmp_path


def generated(folder, *more):
    seeds = str(folder / "seeds.jsonl")
    main(["generate", seeds, str(folder / "work"), "--generator", "toy_generator", "--critic", "toy_critic", *more])


def sheet_of(folder):
    with open(folder / "work" / review.SHEET, encoding="utf-8-sig", newline="") as file:
        return list(csv.DictReader(file))


def decided(folder, rows):
    with open(folder / "work" / review.SHEET, "w", encoding="utf-8-sig", newline="") as file:
        writer = csv.DictWriter(file, review.COLUMNS)
        writer.writeheader()
        writer.writerows(rows)


def test_items_pass_a_generator_a_critic_and_a_person(workshop, capsys):
    server, folder = workshop
    generated(folder, "--estimate")
    assert not server.requests and "'calls': 6" in capsys.readouterr().out
    generated(folder)
    assert "2 candidates, 4 rejected" in (said := capsys.readouterr().out) and "left out: 9" in said
    assert {body["max_tokens"] for body in server.requests} == {4096}
    image = server.requests[0]["messages"][0]["content"][0]["image_url"]["url"]
    assert Image.open(io.BytesIO(base64.b64decode(image.split(",")[1]))).size == (16, 12)
    rejects = [json.loads(line) for line in (folder / "work" / generate.REJECTS).read_text().splitlines()]
    assert [(row["id"], row["rejected_by"]) for row in rejects] == [
        ("1", "critic"), ("2", "generator"), ("3", "generator"), ("4", "critic"),
    ]  # fmt: skip
    assert rejects[0]["reason"] == "It cannot be seen." and "alike" in rejects[2]["reason"]
    assert "no verdict" in rejects[3]["reason"] and rejects[1]["proposal"] == "I would rather not."
    n = len(server.requests)
    generated(folder)
    assert len(server.requests) == n == 6 + 3  # two of the proposals are the same; nothing is paid for twice

    main(["review", str(folder / "work")])
    page = (folder / "work" / review.PAGE).read_text()
    assert page.count("<img") == 4 and "&lt;b&gt;banana" in page and "<b>banana" not in page and "It is plain." in page
    rows = sheet_of(folder)
    assert [row["id"] for row in rows] == ["0", "5"] and rows[0]["distractors"] == "red | green"
    with pytest.raises(FileExistsError, match="decisions"):
        main(["review", str(folder / "work")])

    rows[0] |= {"decision": "Edit", "truth": "sky blue", "distractors": "red", "L3": ""}
    decided(folder, rows)
    main(["accept", str(folder / "work"), str(folder / "final" / "vfat.jsonl")])
    assert "1 edit, 0 drop, 1 undecided" in capsys.readouterr().out
    samples = {s.id: s for s in vfkit.load_dataset("vfat", path=folder / "final")}
    assert len(samples) == 6 and samples["0/L1/oe"].meta["truth"] == "sky blue" and samples["0/L1/oe"].meta["edited"]
    assert set(samples["0/L1/mcq"].options) == {"sky blue", "yellow", "red"}
    assert samples["0/L2/oe"].hint == "See the blue banana." and samples["0/L3/oe"].hint == prompts.assertion("yellow")
    assert KEY.encode() not in b"".join(path.read_bytes() for path in folder.rglob("*") if path.is_file())


@pytest.mark.parametrize("arguments, first", [
    (["review", "{}"], "generate"), (["accept", "{}", "{}/vfat.jsonl"], "generate"),
    (["generate", "{}/none.jsonl", "{}", "--generator", "a", "--critic", "b"], "seeds"),
])  # fmt: skip
def test_a_missing_input_says_what_to_run_first(tmp_path, arguments, first):
    with pytest.raises(FileNotFoundError, match=f"run `python -m vfkit.items {first}` first"):
        main([argument.format(tmp_path) for argument in arguments])
    (tmp_path / generate.CANDIDATES).touch()
    with pytest.raises(FileNotFoundError, match="vfkit.items review` first"):
        main(["accept", str(tmp_path), str(tmp_path / "vfat.jsonl")])


def test_a_sheet_with_mistakes_is_refused_with_every_one_named(workshop):
    _, folder = workshop
    generated(folder)
    main(["review", str(folder / "work")])
    rows = sheet_of(folder)
    rows[0]["decision"] = "acept"
    rows[1] |= {"decision": "edit", "trap": "blue"}
    decided(folder, [*rows, rows[0] | {"id": "77"}])
    with pytest.raises(ValueError, match="(?s)did you mean 'accept'.*5: .*alike.*unknown item: '77'"):
        review.accept(folder / "work", folder / "final.jsonl")
    assert not (folder / "final.jsonl").exists()
    rows[1] |= {"decision": "accept", "trap": "a slip of the hand"}  # accepted as proposed, not as mangled
    decided(folder, rows[1:])
    file, counts = review.accept(folder / "work", folder / "final.jsonl")
    assert counts == {"accept": 1, "edit": 0, "drop": 0, "undecided": 0}
    assert vfkit.load_dataset("vfat", path=file)[0].meta["item"] == "5" and "slip" not in Path(file).read_text()


def test_the_critic_must_be_independent(workshop):
    _, folder = workshop
    with pytest.raises(ValueError, match="independent"):
        main(
            [
                "generate",
                str(folder / "seeds.jsonl"),
                str(folder / "w"),
                "--generator",
                "toy_critic",
                "--critic",
                "toy_critic",
            ]
        )


@pytest.mark.parametrize("release", ["data/images"], indirect=True)
def test_items_by_rule_are_written_as_a_v_fat_file(release, capsys):
    main(["vlind", str(release), str(release / "out" / "vfat.jsonl"), "--order-seed", "3"])
    assert (
        "5 items, 30 samples" in (said := capsys.readouterr().out) and "left out: 5: its counterfactual image 8" in said
    )
    ours = {s.id: s for s in vfkit.load_dataset("vlind", path=release, order_seed=3)}
    written = vfkit.load_dataset("vfat", path=release / "out")
    assert len(written) == 30 and not written.errors
    for sample in written:
        assert sample.options == ours[sample.id].options and sample.meta == ours[sample.id].meta


# --- from sources to a data set ---------------------------------------------------------------------------------------


def weird_release(folder):
    """Two pairs by `pair_id`, and an image without a partner."""
    rows = [
        {"id": str(i), "path": f"images/{i}", "class": "weird" if i % 2 == 0 else "normal", "pair_id": i // 2,
         "commonsense_violation_group": "Animal Behavior", "commonsense_violation_subgroup": "hunting"}
        for i in range(5)
    ]  # fmt: skip
    for i in range(5):
        jpg(folder / "images" / f"{i}.jpg", (40 * i, 0, 0))
    jsonl(folder / "dataset.jsonl", rows)
    return folder


@pytest.mark.parametrize("release", ["data/images"], indirect=True)
def test_the_whole_way_from_sources_to_a_data_set(release, workshop, tmp_path, capsys):
    """Seeds, generation, critic, sheet, merge and composition, with a scripted stand-in for the language models."""
    server, folder = workshop
    main(["vlind", str(release), str(tmp_path / "rule" / "vfat.jsonl")])
    main(["seeds", "weird", str(weird_release(tmp_path / "weird")), str(tmp_path / "seeds" / "weird.jsonl")])
    said = capsys.readouterr().out
    assert "2 seeds" in said and "left out: 4: pair 2 holds 1 odd and 0 ordinary images of 1" in said
    main(["seeds", "vlind", str(release), str(tmp_path / "seeds" / "vlind.jsonl")])
    assert "5 seeds" in (said := capsys.readouterr().out) and "left out: 5: its counterfactual image 8" in said
    seeds = [json.loads(line) for line in (tmp_path / "seeds" / "weird.jsonl").read_text().splitlines()]
    assert seeds[0]["id"] == "weird-0" and seeds[0]["annotation"] == "Animal Behavior: hunting"
    shown = [int(np.asarray(Image.open(tmp_path / "seeds" / seed["atypical"]))[0, 0, 0]) for seed in seeds]
    assert shown == pytest.approx([0, 80], abs=3) and seeds[0]["category"] == "Biological"
    models = ["--generator", "toy_generator", "--critic", "toy_critic"]
    main(["generate", str(tmp_path / "seeds" / "weird.jsonl"), str(tmp_path / "work"), *models])
    assert "2 candidates, 0 rejected" in capsys.readouterr().out
    with pytest.raises(FileExistsError):
        main(["seeds", "weird", str(tmp_path / "weird"), str(tmp_path / "seeds" / "weird.jsonl")])
    main(["review", str(tmp_path / "work")])
    rows = sheet_of(tmp_path)
    decided(tmp_path, [row | {"decision": "accept"} for row in rows])
    main(["accept", str(tmp_path / "work"), str(tmp_path / "made" / "vfat.jsonl")])
    capsys.readouterr()
    files = [str(tmp_path / name / "vfat.jsonl") for name in ("rule", "made")]
    main(["merge", str(tmp_path / "all" / "vfat.jsonl"), *files])
    said = capsys.readouterr().out
    assert "42 samples" in said and "4026" in said and "790" in said
    (tmp_path / "all").rename(tmp_path / "elsewhere")
    samples = vfkit.load_dataset("vfat", path=tmp_path / "elsewhere")
    assert len(samples) == 42 and not samples.errors
    assert {s.id: s.options for s in samples} == {
        s.id: s.options for file in files for s in vfkit.load_dataset("vfat", path=file)
    }
    table = composition(samples).set_index("count")
    assert table.ours["instances_total"] == 42 and table.ours["image_groups"] == 7
    assert table.ours["Physical"] == 6 * sum(s.category == "Physical" and s.id.endswith("L1/oe") for s in samples)
    assert table.ours[["Environment", "Social"]].tolist() == [0, 0] and pd.isna(table.ours["models"])
    counts = dict(Environment=882, Physical=354, Social=318, Temporal=195, Biological=186, Functional=36)
    counts |= dict(instances_total=4026, instances_total_intro=4020, image_groups=790, source_samples_approx=800)
    counts |= dict(subcategories=181, models=12, instances_per_source_item=6)
    assert table.published.to_dict() == counts and len(counts) == 13


def test_files_that_share_an_item_are_not_merged(tmp_path):
    jpg(tmp_path / "i.jpg")
    for name in ("a", "b"):
        jsonl(tmp_path / f"{name}.jsonl", [ROW, ROW | {"id": name}])
    with pytest.raises(ValueError, match=r"same id: 'b' of .*a.jsonl and .*b.jsonl"):
        main(["merge", str(tmp_path / "c.jsonl"), str(tmp_path / "a.jsonl"), str(tmp_path / "b.jsonl")])
    assert not (tmp_path / "c.jsonl").exists()


def test_categories_of_others_are_counted_apart(tmp_path):
    jpg(tmp_path / "i.jpg")
    file = jsonl(tmp_path / "a.jsonl", [ROW | {"category": "Logos"}, ROW | {"id": "c", "level": "L0"}])
    table = composition(vfat.load(file).samples).set_index("count")
    assert table.ours["Logos"] == 1 == table.ours["instances_total"] and pd.isna(table.published["Logos"])


def test_the_neutral_prompt_on_the_ordinary_image_completes_the_design():
    samples = {s.id: s for s in item_samples(ITEM, baseline=True)}
    assert len(samples) == 8
    zero, two = samples["banana/L0/mcq"], samples["banana/L2/mcq"]
    assert zero.hint == "" and two.hint and zero.images == two.images and zero.options == two.options
    assert (zero.meta["truth"], zero.meta["trap"]) == (two.meta["truth"], two.meta["trap"]) == ("yellow", "blue")
    mini = vfkit.load_dataset("mini_vfat", size=2, baseline=True)
    by_id = {s.id: s for s in mini}
    assert len(mini) == 16 and by_id["mini_vfat/0/0/L0/oe"].images == by_id["mini_vfat/0/0/L2/oe"].images
    assert (
        by_id["mini_vfat/0/0/L0/oe"].hint == ""
        and by_id["mini_vfat/0/0/L0/oe"].meta["truth"] == by_id["mini_vfat/0/0/L2/oe"].meta["truth"]
    )
    without = {s.id: s.images for s in vfkit.load_dataset("mini_vfat", size=2)}
    assert without.items() <= {s.id: s.images for s in mini}.items()


def test_a_gallery_has_one_answer_of_each_level_and_outcome(tmp_path):
    from vfkit.study.gallery import answered

    config = vfkit.StudyConfig(
        model="mini_qwen3vl", dataset="mini_vfat", dataset_options={"size": 4, "baseline": True}, n=None, families=(),
        out=str(tmp_path), device="cpu",
    )  # fmt: skip
    run = vfkit.run_study(config, progress=False)
    answers = vfkit.metrics.vfat_answers(run.records(), run.samples()).query("reading == 'likelihood'")
    items = answered(run, answers)
    shown = [(item["level"], item["outcome"]) for item in items]
    assert len(shown) == len(set(shown)) and set(shown) == set(zip(answers.level, answers.outcome, strict=True))
    for item in items:
        row = answers[(answers.level == item["level"]) & (answers.answer == item["answer"])]
        assert item["outcome"] in set(row.outcome) and item["image"].size[0] > 50
        assert bool(item["hint"]) == (item["level"] in ("L2", "L3"))
