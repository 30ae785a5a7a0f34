"""Data sets in the exact layouts they are released in, read whole; and the same files wrong in ten ways, each named."""

import base64
import csv
import io
import json
import pickle
import subprocess
import sys
import warnings

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from PIL import Image

import vfkit
from vfkit.datasets import load_dataset, resolve
from vfkit.datasets.base import fingerprint, image_identity
from vfkit.datasets.files import ImageFolders
from vfkit.datasets.rows import Cell, read_rows
from vfkit.datasets.samples import decide
from vfkit.images import content_hash, load_image

IMAGE = pa.struct({"bytes": pa.binary(), "path": pa.string()})


def picture(seed=0, side=32, kind="PNG"):
    """The bytes of an image file, another one for each seed."""
    pixels = np.random.default_rng(seed).integers(0, 256, (side // 8, side // 8, 3), np.uint8).repeat(8, 0).repeat(8, 1)
    file = io.BytesIO()
    Image.fromarray(pixels).save(file, kind)
    return file.getvalue()


def white_pixel():
    file = io.BytesIO()
    Image.new("RGB", (1, 1), "white").save(file, "JPEG")
    return file.getvalue()


def cell(content, path=None):
    return {"bytes": content, "path": path}


def shows(sample, seed, number=0):
    return content_hash(load_image(sample.images[number])) == content_hash(load_image(picture(seed)))


def parquet(file, rows, schema, **options):
    file.parent.mkdir(parents=True, exist_ok=True)
    pq.write_table(pa.Table.from_pylist(rows, schema), file, **options)
    return file


def load(*args, **options):
    """The samples by id, the errors by id, and what was said of the data as a whole."""
    with warnings.catch_warnings(record=True) as said:
        warnings.simplefilter("always")
        samples = load_dataset(*args, **options)
    errors = {error.sample_id: error.reason for error in samples.errors}
    return {sample.id: sample for sample in samples}, errors, " ".join(str(one.message) for one in said)


# --- SEEDBench --------------------------------------------------------------------------------------------------------

SEED = pa.schema(
    {"answer": pa.string()} | {f"choice_{letter}": pa.string() for letter in "abcd"}
    | {"data_id": pa.string(), "data_type": pa.string()}
    | {"image": pa.list_(pa.struct({"bytes": pa.binary(), "path": pa.null()}))}
    | {"question": pa.string(), "question_id": pa.string(), "question_type_id": pa.int64()}
    | {"segment": pa.list_(pa.float64())}
)  # fmt: skip


def seed_row(number, kind="image", **cells):
    row = {"answer": "B", "choice_a": "a cup", "choice_b": "a plate", "choice_c": "a bowl", "choice_d": "a spoon"}
    row |= {
        "data_id": f"{number}.jpg",
        "data_type": kind,
        "question": "What is it?",
        "question_id": str(101000 + number),
    }
    images = [{"bytes": picture(number)}] * (1 if kind == "image" else 8)
    return row | {"question_type_id": 3 if kind == "image" else 10, "image": images, "segment": None} | cells


def test_seedbench_of_the_hub_reads_image_rows_and_counts_videos(tmp_path):
    rows = [
        seed_row(0),
        seed_row(1, answer="D"),
        seed_row(2, "video"),
        seed_row(3, "video"),
        seed_row(4, choice_d=None),
    ]
    parquet(tmp_path / "data" / "test-00000-of-00002.parquet", rows[:3], SEED, row_group_size=2)
    parquet(tmp_path / "data" / "test-00001-of-00002.parquet", rows[3:], SEED)
    found, errors, _ = load("seedbench", path=tmp_path)
    assert sorted(found) == ["seedbench/101000", "seedbench/101001", "seedbench/101004"]
    one = found["seedbench/101001"]
    assert one.answer == 3 and one.category == "Instance Attributes" and shows(one, 1)
    assert found["seedbench/101004"].options == ("a cup", "a plate", "a bowl") and shows(found["seedbench/101004"], 4)
    assert list(errors) == ["seedbench/videos"] and errors["seedbench/videos"].startswith("2 rows are about videos")


def test_seedbench_of_the_hub_wrong_in_ten_ways(tmp_path):
    bad = {
        1: (dict(answer="E"), "none of its 4 options"),
        2: (dict(answer=None), "no answer"),
        3: (dict(question=" "), "no question"),
        4: (dict(choice_b=""), "without a gap"),
        5: (dict(choice_a=None, choice_b=None, choice_c=None, choice_d=None), "options are empty"),
        6: (dict(image=[]), "no image"),
        7: (dict(image=None), "missing"),
        8: (dict(image=[{"bytes": b"no image"}]), "empty, or no image"),
        9: (dict(image=[{"bytes": None}]), "missing"),
        10: (dict(question_id=None), "no question_id"),
    }
    rows = [seed_row(0)] + [seed_row(number, **cells) for number, (cells, _) in bad.items()]
    file = parquet(tmp_path / "data" / "test-00000-of-00001.parquet", [*rows, seed_row(0)], SEED)
    found, errors, _ = load("seedbench", path=file)
    assert list(found) == ["seedbench/101000"] and "occurs again" in errors.pop("seedbench/101000")
    for number, (_, says) in bad.items():
        id = f"seedbench/{101000 + number}" if number != 10 else "seedbench/test-00000-of-00001/row 10"
        assert says in errors.pop(id), number
    assert not errors
    parquet(file, [{"a": 1}], pa.schema({"a": pa.int64()}))
    with pytest.raises(ValueError, match="no column choice_a in a"):
        load("seedbench", path=file)


def local_tsv(folder, paths, name="SEEDBench_IMG_local.tsv"):
    lines = ["index\tquestion\tA\tB\tanswer\tcategory\timage_path"]
    lines += [f"{i}\tWhat?\ta cup\ta plate\tB\tScene\t{path}" for i, path in enumerate(paths)]
    (folder / name).write_text("\n".join(lines) + "\n")
    return folder


def test_absolute_paths_of_another_machine_are_found_by_their_end(tmp_path):
    for number, place in enumerate(["images/SEEDBench_IMG/0.jpg", "images/SEEDBench_IMG/sub/1.jpg", "2.jpg"]):
        (tmp_path / place).parent.mkdir(parents=True, exist_ok=True)
        (tmp_path / place).write_bytes(picture(number))
    paths = ["/data/me/LMUData/images/SEEDBench_IMG/0.jpg", "C:\\data\\images\\SEEDBench_IMG\\sub\\1.jpg"]
    paths += [str(tmp_path / "2.jpg"), "/etc/passwd", "/other/images/SEEDBench_IMG/0.jpg", "/data/../2.jpg"]
    found, errors, _ = load("seedbench", path=local_tsv(tmp_path, paths))
    assert [shows(found[f"seedbench/{i}"], i) for i in range(3)] == [True] * 3 and len(found) == 3
    assert "no such end" in errors["seedbench/3"] and "both end in" in errors["seedbench/4"]
    assert "leads out" in errors["seedbench/5"]


def test_cells_that_pandas_wrote_as_nan_are_empty_unless_some_cell_is(tmp_path):
    image = base64.b64encode(picture(0, 64)).decode()
    header = "index\tquestion\thint\tA\tB\tC\tD\tanswer\tcategory\timage"
    rows = [f"1\tWhich?\tnan\ta cup\ta plate\tnan\tnan\tB\tidentity\t{image}"]
    (tmp_path / "a.tsv").write_text("\n".join([header, *rows]) + "\n")
    (sample,) = load("seedbench", path=tmp_path / "a.tsv")[0].values()
    assert sample.options == ("a cup", "a plate") and sample.hint == "" and sample.answer == 1
    rows.append(f"2\tWhich?\t\tnan\tNone\tNA\tinf\tA\tnumbers\t{image}")
    (tmp_path / "a.tsv").write_text("\n".join([header, *rows]) + "\n")
    found, _, _ = load("seedbench", path=tmp_path / "a.tsv")
    assert found["seedbench/2"].options == ("nan", "None", "NA", "inf")
    assert found["seedbench/1"].options == ("a cup", "a plate", "nan", "nan")


# --- MMMU-Pro ---------------------------------------------------------------------------------------------------------

PRO = pa.schema(
    {name: pa.string() for name in ("id", "question", "options", "explanation")}
    | {f"image_{k}": IMAGE for k in range(1, 8)}
    | {name: pa.string() for name in ("img_type", "answer", "topic_difficulty", "subject")}
)


def pro_row(number, question="In <image 2>, which?", images=(1, 2), n=10, answer="J", **cells):
    row = {f"image_{k}": cell(picture(k), f"{k}.png") for k in images}
    row |= {"id": f"test_History_{number}", "question": question, "subject": "History", "img_type": "['Maps']"}
    return row | {"options": str([f"answer {i}" for i in range(n)]), "answer": answer} | cells


def test_mmmu_pro_in_its_folders_with_ten_options_and_marks_anywhere(tmp_path):
    rows = [
        pro_row(1),
        pro_row(2, "Compare <image 3> with <image 1>.", (1, 2, 3), answer="A"),
        pro_row(3, "No mark", n=4, answer="D"),
    ]
    parquet(tmp_path / "standard (10 options)" / "test-00000-of-00002.parquet", rows[:2], PRO)
    parquet(tmp_path / "standard (10 options)" / "test-00001-of-00002.parquet", rows[2:], PRO)
    parquet(tmp_path / "standard (4 options)" / "test-00000-of-00001.parquet", [pro_row(9, n=4, answer="C")], PRO)
    parquet(tmp_path / "vision" / "test-00000-of-00001.parquet", [{"id": "x"}], pa.schema({"id": pa.string()}))
    found, errors, _ = load("mmmu", path=tmp_path)
    assert not errors and sorted(found) == [f"mmmu/test_History_{i}" for i in (1, 2, 3)]
    one, two, three = (found[f"mmmu/test_History_{i}"] for i in (1, 2, 3))
    assert len(one.options) == 10 and one.answer == 9 and one.category == "History"
    assert one.question == "In <image 1>, which?" and shows(one, 2, 0) and shows(one, 1, 1)
    assert two.question == "Compare <image 1> with <image 2>." and [shows(two, k, i) for i, k in enumerate((3, 1, 2))]
    assert three.question == "No mark" and shows(three, 1, 0) and shows(three, 2, 1)
    parts = vfkit.prompts.user_turn(vfkit.prompts.text(one, "mcq"), 2, one.question)[0]["content"]
    assert [part["type"] for part in parts] == ["text", "image", "text", "image", "text"]
    assert parts[0]["text"].endswith("In ") and parts[2]["text"] == ", which?"  # image 2 at its mark, image 1 after
    with pytest.raises(ValueError, match="no column image_1 in id"):
        load("mmmu", path=tmp_path / "vision")
    four, _, _ = load("mmmu", path=tmp_path / "standard (4 options)")
    assert four["mmmu/test_History_9"].answer == 2


def test_mmmu_pro_wrong_in_ten_ways(tmp_path):
    bad = {
        1: (dict(answer="K"), "none of its 10 options"),
        2: (dict(options="[]"), "open question"),
        3: (dict(options="['a', ''"), "no list"),
        4: (dict(options="['a', '']"), "no list of texts"),
        5: (dict(question="In <image 5>?"), "marks <image 5>, which it lacks"),
        6: (dict(image_1=None, image_2=None), "no image"),
        7: (dict(image_1=cell(b"")), "image 1 is empty, or no image"),
        8: (dict(image_2=cell(None)), "image 2 is missing"),
        9: (dict(question=None), "no question"),
        10: (dict(answer=None), "no answer"),
    }
    rows = [pro_row(0)] + [pro_row(number, **cells) for number, (cells, _) in bad.items()]
    found, errors, _ = load("mmmu", path=parquet(tmp_path / "test-00000-of-00001.parquet", rows, PRO))
    assert list(found) == ["mmmu/test_History_0"]
    for number, (_, says) in bad.items():
        assert says in errors.pop(f"mmmu/test_History_{number}"), number
    assert not errors


# --- POPE and RePOPE --------------------------------------------------------------------------------------------------


def pope_file(folder, name, label="yes"):
    row = {"question_id": 1, "image": "COCO_1.jpg", "text": "Is there a cup in the image?", "label": label}
    (folder / "val2014").mkdir(exist_ok=True, parents=True)
    (folder / "val2014" / "COCO_1.jpg").write_bytes(picture(1))
    (folder / name).write_text(json.dumps(row) + "\n")
    return folder / name


def test_two_label_sets_for_one_split_are_refused_by_name(tmp_path):
    pope_file(tmp_path, "coco_pope_random.json")
    other = pope_file(tmp_path, "coco_repope_random.json", "no")
    with pytest.raises(ValueError, match="two label sets for the split random, coco_pope_random.json and coco_repope"):
        load("pope", path=tmp_path)
    pope_file(tmp_path, "coco_pope_popular.json")
    assert list(load("pope", path=tmp_path, split="popular")[0]) == ["pope/popular/1"]  # of this split there is one
    (sample,) = load("pope", path=other)[0].values()
    assert sample.answer == 1 and sample.meta["labels"] == "RePOPE"
    (tmp_path / "coco_pope_random.json").rename(tmp_path / "pope_random.json")  # nothing says it is not COCO's
    with pytest.raises(ValueError, match="two label sets for the split random"):
        load("pope", path=tmp_path, split="random")
    (tmp_path / "pope_random.json").rename(tmp_path / "coco_pope_random.json")
    other.unlink()
    pope_file(tmp_path, "coco_pope_random.json.bak.json")  # the same labels again
    assert "labels" not in load("pope", path=tmp_path)[0]["pope/random/1"].meta


# --- VLind-Bench by item ----------------------------------------------------------------------------------------------

VLIND = pa.schema(
    {"global_id": pa.int64(), "context_id": pa.int64()}
    | {name: pa.string() for name in ("concept", "context", "factual_context", "true_statement", "false_statement")}
    | {"existent_noun": pa.string(), "non_existent_noun": pa.string(), "best_img_id": pa.int64()}
    | {"good_img_ids": pa.list_(pa.int64()), "instance_id": pa.int64(), "factual_image": IMAGE}
    | {f"cf_image_{k}": IMAGE for k in range(12)}
)


def vlind_row(id, images=(2, 5), **cells):
    """The counterfactual image k shows picture 100 * id + k, the ordinary one picture id."""
    row = {
        f"cf_image_{k}": cell(picture(100 * id + k, kind="JPEG") if k in images else white_pixel()) for k in range(12)
    }
    row |= {"global_id": id, "context_id": id, "concept": "color", "context": "bananas are blue"}
    row |= {"factual_context": "bananas are yellow", "true_statement": "The banana is blue."}
    row |= {"false_statement": "The banana is yellow.", "existent_noun": "a banana", "non_existent_noun": "a bus"}
    row |= {"best_img_id": 2, "good_img_ids": [2, 5], "instance_id": id - 1}
    return row | {"factual_image": cell(picture(id, kind="JPEG"))} | cells


def size_of(sample):
    return load_image(sample.images[0]).size


def test_vlind_by_item_takes_the_best_image_and_never_a_white_pixel(tmp_path):
    rows = [vlind_row(1), vlind_row(2, (5,)), vlind_row(3, (7,), best_img_id=7, good_img_ids=[7])]
    rows += [vlind_row(4, best_img_id=None), vlind_row(5, (3,), best_img_id=3, good_img_ids=None)]
    parquet(tmp_path / "data" / "test-00000-of-00001.parquet", rows, VLIND)
    found, errors, said = load("vlind", path=tmp_path)
    assert not errors and len(found) == 30 and "have no votes" in said
    assert [found[f"{i}/L1/mcq"].meta["candidate"] for i in range(1, 6)] == ["2", "5", "7", "2", "3"]
    assert all(size_of(sample) != (1, 1) for sample in found.values())
    one, two = (np.asarray(load_image(found[id].images[0]), int) for id in ("1/L1/oe", "1/L2/oe"))
    same = [np.asarray(load_image(picture(seed, kind="JPEG")), int) for seed in (102, 1)]
    assert np.array_equal(one, same[0]) and np.array_equal(two, same[1])
    assert (
        len({image_identity(sample) for sample in found.values()}) == 10
    )  # two images an item, whatever their numbers


def test_items_whose_images_have_equal_numbers_are_each_others_controls(tmp_path):
    """VLind-Bench's candidate numbers name no image; where there are too few others, a row says so."""
    file = parquet(tmp_path / "vlind.parquet", [vlind_row(i, (2,)) for i in (1, 2, 3)], VLIND)
    config = vfkit.StudyConfig(
        model="mini_qwen3vl", dataset="vlind", dataset_path=str(file), n=None,
        families=("identity",), probes=True, controls=6, verify=1, out=str(tmp_path / "out"), device="cpu",
    )  # fmt: skip
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        run = vfkit.run_study(config, progress=False)
    controls, errors = run.controls(), run.errors()
    assert (controls.groupby("sample_id").size() == 5).all() and controls.sample_id.nunique() == 18
    assert set(errors.stage) == {"control"} and errors.sample_id.nunique() == 18
    assert errors.message.str.contains("5 of 6 control images").all()


def test_vlind_by_image_without_votes_takes_its_only_counterfactual_image(tmp_path):
    """As the hub's mirror has it: every field a text, two rows an item, no votes."""
    names = "global_id context_id context true_statement false_statement concept factual_context image_type".split()
    names += ["existent_noun", "non_existent_noun", "best_img_id", "prompt"]
    schema = pa.schema({name: pa.string() for name in names} | {"image": IMAGE})
    rows = []
    for id in (1, 2, 3):
        shared = {name: str(value) for name, value in vlind_row(id).items() if name in names}
        kinds = ("counterfactual", "factual") if id != 3 else ("counterfactual",)
        rows += [
            shared
            | {"image_type": kind, "image": cell(picture(10 * id + k), f"{7 * id}_{kind}.png"), "best_img_id": "4"}
            for k, kind in enumerate(kinds)
        ]
    found, errors, said = load("vlind", path=parquet(tmp_path / "train-00000-of-00001.parquet", rows, schema))
    assert len(found) == 12 and "no votes" in said and list(errors) == ["3"] and "factual image 0" in errors["3"]
    assert shows(found["2/L1/oe"], 20) and shows(found["2/L2/oe"], 21)


def test_vlind_by_item_wrong_in_ten_ways(tmp_path):
    bad = {
        1: (dict(good_img_ids=[], best_img_id=None), "called good"),
        2: (dict(images=()), "single pixel"),
        3: (dict(factual_image=cell(white_pixel())), "factual image 0 is missing"),
        4: (dict(factual_image=cell(None)), "factual image 0 is missing"),
        5: (dict(true_statement=None), "true_statement"),
        6: (dict(false_statement="The banana is blue."), "alike"),
        7: (dict(concept=" "), "concept"),
        8: (dict(good_img_ids=[77], best_img_id=77), "there is no cf_image_77"),
        9: (dict(cf_image_2=cell(b"no image"), cf_image_5=cell(b"")), "empty, or no image"),
    }
    rows = [vlind_row(20)] + [vlind_row(number, **cells) for number, (cells, _) in bad.items()]
    rows += [vlind_row(20), vlind_row(10, global_id=None)]
    found, errors, _ = load("vlind", path=parquet(tmp_path / "data" / "test.parquet", rows, VLIND))
    assert {id.split("/")[0] for id in found} == {"20"}
    for number, (_, says) in bad.items():
        assert says in errors.pop(str(number)), number
    assert "occurs again" in errors.pop("20") and "no global_id" in errors.pop("row 11") and not errors
    with pytest.raises(ValueError, match="is no mirror of VLind-Bench: it has columns a"):
        load("vlind", path=parquet(tmp_path / "a.parquet", [{"a": 1}], pa.schema({"a": pa.int64()})))


# --- WEIRD ------------------------------------------------------------------------------------------------------------

GROUPS = pa.struct({"commonsense_violation_group": pa.string(), "commonsense_violation_subgroup": pa.string()})
WEIRD = pa.schema(
    {
        "instruction": pa.string(),
        "inputs": pa.struct(
            {"image": IMAGE, "question": pa.string(), "option_a": pa.string(), "option_b": pa.string()}
        ),
        "outputs": pa.string(),
        "meta": pa.struct(
            {"id": pa.int64(), "categories": GROUPS, "pair_id": pa.int64()}
            | {"image": pa.struct({"synt_source": pa.list_(pa.string()), "source": pa.string()})}
        ),
    }
)


def weird_row(id, pair, odd, swapped=False, **meta):
    """Which option is the odd one changes from row to row."""
    texts = ("нормальное", "странное") if swapped else ("странное", "нормальное")
    inputs = {"image": cell(picture(id), f"{id}.png"), "question": "Какое изображение?"}
    inputs |= {"option_a": texts[0], "option_b": texts[1]}
    groups = {"commonsense_violation_group": "Food and Nutrition", "commonsense_violation_subgroup": "diet"}
    return {
        "instruction": "{question}", "inputs": inputs, "outputs": "A" if odd != swapped else "B",
        "meta": {"id": id, "pair_id": pair, "categories": groups, "image": None} | meta,
    }  # fmt: skip


def test_weird_in_parquet_knows_its_pairs_and_takes_annotations(tmp_path):
    rows = [weird_row(0, 0, True), weird_row(1, 0, False), weird_row(2, 1, False, True), weird_row(3, 1, True, True)]
    parquet(tmp_path / "data" / "test-00000-of-00001.parquet", rows, WEIRD)
    parquet(tmp_path / "data" / "shots-00000-of-00001.parquet", [weird_row(0, 0, True)], WEIRD)
    found, errors, said = load("weird", path=tmp_path)
    assert not errors and "no V-FAT items" in said and len(found) == 4
    assert {id: sample.meta["partner"] for id, sample in found.items()} == {
        "weird/0": "1", "weird/1": "0", "weird/2": "3", "weird/3": "2",
    }  # fmt: skip
    assert [found[f"weird/{i}"].meta["odd"] for i in range(4)] == [True, False, False, True]
    assert found["weird/3"].options[found["weird/3"].answer] == "странное"
    assert found["weird/0"].category == "Biological" and shows(found["weird/2"], 2)
    assert len(load("weird", path=tmp_path, split="shots")[0]) == 1
    note = {"question": "What is eaten?", "truth": "a book", "trap": "bread"}
    lines = [note | {"id": "3"}, note | {"id": "0", "ordinary": "1"}]
    (tmp_path / "annotations.jsonl").write_text("\n".join(map(json.dumps, lines)))
    items, errors, said = load("weird", path=tmp_path)
    assert not errors and not said and len(items) == 12
    assert shows(items["3/L1/mcq"], 3) and shows(items["3/L2/mcq"], 2) and items["3/L2/mcq"].meta["ordinary"] == "2"
    assert len(load("weird", path=tmp_path, baseline=True)[0]) == 16


def test_weird_in_parquet_wrong_in_ten_ways(tmp_path):
    rows = [weird_row(i, i // 2, i % 2 == 0) for i in range(16)]
    rows[2]["inputs"]["image"] = cell(None)
    rows[4]["inputs"]["image"] = cell(b"no image")
    rows[6]["inputs"]["option_b"] = None
    rows[8]["inputs"]["option_b"] = "странное"
    rows[9]["outputs"] = "C"  # no answer: which it is nobody knows
    rows[10]["meta"]["id"] = None
    rows[12]["meta"]["id"] = 0
    rows[15]["meta"]["pair_id"] = None
    file = parquet(tmp_path / "data" / "test-00000-of-00001.parquet", rows, WEIRD)
    found, errors, _ = load("weird", path=tmp_path)
    for id, says in {2: "missing", 4: "empty, or no image", 6: "options are", 8: "options are"}.items():
        assert says in errors.pop(f"weird/{id}"), id
    assert "no id" in errors.pop(f"{file.stem} row 10") and "'0' occurs again" in errors.pop(f"{file.stem} row 12")
    assert not errors and found["weird/9"].answer is None and found["weird/0"].meta["partner"] == "1"
    assert found["weird/15"].meta["partner"] == found["weird/14"].meta["partner"] == ""
    note = {"question": "What?", "truth": "a book", "trap": "bread"}
    notes = [note | {"id": str(id)} for id in (0, 1, 2, 14, 99)] + [note | {"id": "0", "ordinary": "0"}]
    (tmp_path / "annotations.jsonl").write_text("\n".join(map(json.dumps, notes)))
    items, errors, _ = load("weird", path=tmp_path)
    assert {id.split("/")[0] for id in items} == {"0"}
    for id, says in {"1": "ordinary, not odd", "2": "missing", "14": "no pair_id", "99": "has no image '99'"}.items():
        assert says in errors[id], id
    assert "odd, not ordinary" in errors["0"]
    with pytest.raises(ValueError, match="no parquet file of WEIRD: it has columns a"):
        load("weird", path=parquet(tmp_path / "b" / "test-0.parquet", [{"a": 1}], pa.schema({"a": pa.int64()})))
    with pytest.raises(FileNotFoundError, match="no WEIRD"):
        load("weird", path=tmp_path / "nowhere")


# --- sets that ship truth and trap ------------------------------------------------------------------------------------


def cdh_row(number=1, sub="Luminescence/Transparency", **fields):
    choice = {"question": "How many legs?", "options": ["A. four", "B. five", "C. six", "D. three"]}
    choice |= {"commonsense_gt": "A", "counterfactual_gt": "B"}
    direct = {"question": "Has it four legs?", "commonsense_gt": "yes", "counterfactual_gt": "no"}
    row = {"pair_id": f"Pair {number:04d}", "category": "Counting Anomalies", "subcategory": sub}
    return row | {"direct_qa": direct, "multiple_choice": choice} | fields


def cdh_folder(folder, rows):
    for number, row in enumerate(rows):
        if isinstance(row, dict) and row.get("pair_id") and number != 9:
            sub = str(row["subcategory"]).replace(" ", "_").replace("/", "_")
            place = folder / "data" / "images" / sub / row["pair_id"].replace(" ", "_")
            place.mkdir(parents=True, exist_ok=True)
            (place / "counterfactual.png").write_bytes(picture(2 * number))
            (place / "commonsense.png").write_bytes(picture(2 * number + 1))
    lines = [row if isinstance(row, str) else json.dumps(row) for row in rows]
    (folder / "data" / "benchmark.jsonl").write_text("\n".join(lines) + "\n")
    return folder


def test_cdh_bench_fills_every_level(tmp_path):
    found, errors, _ = load(
        "cdh_bench", path=cdh_folder(tmp_path, [cdh_row(1), cdh_row(2, "Animal Parts")]), baseline=True
    )
    assert not errors and len(found) == 16
    l1, l2, l3 = (found[f"Pair 0001/{level}/mcq"] for level in ("L1", "L2", "L3"))
    assert (l1.meta["truth"], l1.meta["trap"], l1.hint) == ("five", "four", "") and shows(l1, 0)
    assert (l2.meta["truth"], l2.meta["trap"]) == ("four", "five") and "five" in l2.hint and shows(l2, 1)
    assert (l3.meta["truth"], l3.hint) == ("five", vfkit.prompts.answer_assertion("four")) and shows(l3, 0)
    assert sorted(l1.options) == ["five", "four", "six", "three"] and l1.category == "Counting Anomalies"
    assert found["Pair 0002/L0/oe"].meta["truth"] == "four" and shows(found["Pair 0002/L0/oe"], 3)


def test_cdh_bench_wrong_in_ten_ways(tmp_path):
    def choice(**fields):
        return {"multiple_choice": cdh_row()["multiple_choice"] | fields}

    bad = {
        1: (choice(commonsense_gt="E"), "none of its options"),
        2: (choice(commonsense_gt="B"), "alike"),
        3: (choice(counterfactual_gt=None), "counterfactual_gt"),
        4: (choice(options=["four", "five"]), "does not begin with its letter"),
        5: (choice(options=[]), "none of its options"),
        6: (choice(options="A. four"), "no list"),
        7: (choice(question=""), "no question"),
        8: ({"multiple_choice": None}, "none of its options"),
        9: ({}, "no image"),
    }
    rows = [cdh_row(0), *(cdh_row(number, **fields) for number, (fields, _) in bad.items()), "{", cdh_row(0)]
    found, errors, _ = load("cdh_bench", path=cdh_folder(tmp_path, rows))
    assert {sample.meta["item"] for sample in found.values()} == {"Pair 0000"}
    for number, (_, says) in bad.items():
        assert says in errors.pop(f"Pair {number:04d}") or number in (5, 8), number
    assert "not JSON" in errors.pop("benchmark.jsonl line 11") and "again" in errors.pop("Pair 0000") and not errors


FACTS = pa.schema(
    {name: pa.string() for name in ("correct_answer", "incorrect_answer", "object")}
    | {"original_image": IMAGE, "counterfact_image": IMAGE}
)


def fact_row(number, usual="['brown', 'white']", shown="purple", thing="Band Aid", **cells):
    images = {"original_image": cell(picture(2 * number)), "counterfact_image": cell(picture(2 * number + 1))}
    return {"correct_answer": usual, "incorrect_answer": shown, "object": thing} | images | cells


def test_visual_counterfact_asks_for_colours_and_sizes(tmp_path):
    parquet(tmp_path / "data" / "color-00000-of-00001.parquet", [fact_row(0), fact_row(1, "['green']", "brown")], FACTS)
    parquet(tmp_path / "data" / "size-00000-of-00001.parquet", [fact_row(2, "strawberry", "fly", "strawberry")], FACTS)
    found, errors, _ = load("visual_counterfact", path=tmp_path)
    assert not errors and len(found) == 18
    one = found["color/0/L1/mcq"]
    assert (one.meta["truth"], one.meta["trap"], one.meta["trap_aliases"]) == ("purple", "brown", ["white"])
    assert "white" not in one.options and len(one.options) == 4 and "Band Aid" in one.question and shows(one, 1)
    assert found["color/0/L2/oe"].meta["aliases"] == ["white"] and shows(found["color/0/L2/oe"], 0)
    size = found["size/0/L3/oe"]
    assert (size.meta["truth"], size.meta["trap"]) == ("fly", "strawberry") and "strawberry is larger" in size.hint
    assert len(load("visual_counterfact", path=tmp_path, split="size")[0]) == 6
    with pytest.raises(ValueError, match="did you mean 'color'"):
        load("visual_counterfact", path=tmp_path, split="colour")


def test_visual_counterfact_wrong_in_ten_ways(tmp_path):
    bad = {
        1: (dict(shown="white"), "one of the usual ones"),
        2: (dict(usual="[]"), "usual ones"),
        3: (dict(usual="['brown'"), "no list"),
        4: (dict(usual=None), "no correct_answer"),
        5: (dict(shown=" "), "no incorrect_answer"),
        6: (dict(thing=None), "no object"),
        7: (dict(original_image=None), "missing"),
        8: (dict(counterfact_image=cell(b"x")), "empty, or no image"),
        9: (dict(counterfact_image=cell(None)), "missing"),
        10: (dict(usual="purple"), "alike"),
    }
    rows = [fact_row(0), *(fact_row(number, **cells) for number, (cells, _) in bad.items())]
    found, errors, _ = load("visual_counterfact", path=parquet(tmp_path / "color-0.parquet", rows, FACTS))
    assert {sample.meta["item"] for sample in found.values()} == {"color/0"}
    for number, (_, says) in bad.items():
        assert says in errors.pop(f"color/{number}"), number
    assert not errors
    with pytest.raises(ValueError, match="no file of Visual-Counterfact: no column correct_answer"):
        load("visual_counterfact", path=parquet(tmp_path / "size-0.parquet", [{"a": 1}], pa.schema({"a": pa.int64()})))


BIASED = pa.schema(
    {"image": IMAGE, "ID": pa.string(), "image_path": pa.string(), "topic": pa.string(), "sub_topic": pa.string()}
    | {name: pa.string() for name in ("prompt", "ground_truth", "expected_bias", "type_of_question")}
    | {"with_title": pa.bool_(), "pixel": pa.int64()}
)


def biased_row(number, truth="4", bias="3", pixel=1152, **cells):
    prompt = "How many stripes are there in this logo? Answer with a number in curly brackets, e.g., {9}."
    row = {"ID": f"adidas_{number}_px{pixel}", "image": cell(picture(number)), "topic": "Logos", "sub_topic": "Adidas"}
    return row | {"prompt": prompt, "ground_truth": truth, "expected_bias": bias, "pixel": pixel} | cells


def test_vlms_are_biased_fills_two_levels_and_says_so(tmp_path):
    rows = [biased_row(1, pixel=pixel) for pixel in (384, 768, 1152)] + [biased_row(2, "{No}", "{Yes}")]
    parquet(tmp_path / "data" / "main-00000-of-00001.parquet", rows, BIASED)
    found, errors, said = load("vlms_are_biased", path=tmp_path)
    assert not errors and "L2 and L0 cannot be" in said
    assert sorted(found) == sorted(
        f"adidas_{i}_px1152/{level}/{form}" for i in (1, 2) for level in ("L1", "L3") for form in ("mcq", "oe")
    )
    one, three = found["adidas_1_px1152/L1/oe"], found["adidas_1_px1152/L3/mcq"]
    assert one.question == "How many stripes are there in this logo?" and "{9}" in one.meta["prompt"]
    assert (three.meta["truth"], three.meta["trap"]) == ("4", "3") and three.hint.endswith("the answer is 3.")
    assert found["adidas_2_px1152/L1/mcq"].options[found["adidas_2_px1152/L1/mcq"].answer] == "No"
    assert len(load("vlms_are_biased", path=tmp_path, pixel=None)[0]) == 16


def test_vlms_are_biased_wrong_in_ten_ways(tmp_path):
    bad = {
        1: (dict(truth="3"), "alike"),
        2: (dict(bias=None), "no expected_bias"),
        3: (dict(truth=None), "no ground_truth"),
        4: (dict(truth="{}"), "truth"),
        5: (dict(prompt=None), "no prompt"),
        6: (dict(image=None), "missing"),
        7: (dict(image=cell(None)), "missing"),
        8: (dict(image=cell(b"")), "empty, or no image"),
        9: (dict(ID=None), "no ID"),
    }
    rows = [biased_row(0), *(biased_row(number, **cells) for number, (cells, _) in bad.items()), biased_row(0)]
    file = parquet(tmp_path / "main-0.parquet", rows, BIASED)
    found, errors, _ = load("vlms_are_biased", path=file)
    assert {sample.meta["item"] for sample in found.values()} == {"adidas_0_px1152"}
    for number, (_, says) in bad.items():
        id = f"adidas_{number}_px1152" if number != 9 else "main-0 row 9"
        assert says in errors.pop(id), number
    assert "occurs again" in errors.pop("adidas_0_px1152") and not errors
    with pytest.raises(ValueError, match="no file of VLMs are biased: no column ID"):
        load("vlms_are_biased", path=parquet(tmp_path / "b.parquet", [{"a": 1}], pa.schema({"a": pa.int64()})))


@pytest.mark.parametrize("name", ["cdh_bench", "visual_counterfact", "vlms_are_biased"])
def test_without_a_path_a_public_set_says_where_it_comes_from(name):
    with pytest.raises(vfkit.DatasetUnavailable, match=f"{name} needs path=.*dataset_path"):
        load_dataset(name)


# --- one's own questions ----------------------------------------------------------------------------------------------

OWN = [
    {
        "id": "one",
        "question": "What is it?",
        "image": "0.png",
        "A": "a cup",
        "B": "None",
        "answer": "B",
        "category": "x",
    },
    {"id": "two", "question": "Is it a cup?", "image": "1.png", "answer": "no"},
    {"id": "three", "question": "What colour is it?", "image": "2.png", "answer": "dark red", "hint": "Look."},
    {"id": "four", "question": "Which?", "image": "0.png", "A": "a", "B": "b", "C": "c", "source": "me"},
]


def own_file(folder, form, rows=OWN):
    folder.mkdir(parents=True, exist_ok=True)
    for number in range(3):
        (folder / f"{number}.png").write_bytes(picture(number))
    file = folder / f"photos.{form}"
    names = list(dict.fromkeys(name for row in rows for name in row))
    if form == "jsonl":
        file.write_text("\n".join(map(json.dumps, rows)))
    elif form == "json":
        file.write_text(json.dumps(rows))
    elif form == "parquet":
        pq.write_table(pa.Table.from_pylist([{name: row.get(name) for name in names} for row in rows]), file)
    else:
        with file.open("w", newline="", encoding="utf-8") as opened:
            writer = csv.DictWriter(opened, names, delimiter="," if form == "csv" else "\t", lineterminator="\n")
            writer.writeheader()
            writer.writerows(rows)
    return file


@pytest.mark.parametrize("form", ["tsv", "csv", "jsonl", "json", "parquet"])
def test_own_questions_are_read_in_every_form_and_called_by_their_file(tmp_path, form):
    file = own_file(tmp_path, form)
    for args, options in (((str(file),), {}), (("table",), {"path": file}), (("photos",), {"path": str(file)})):
        samples = load_dataset(*args, **options)
        assert samples.name == "photos" and not samples.errors
    found = {sample.id: sample for sample in samples}
    one, two, three, four = (found[f"photos/{name}"] for name in ("one", "two", "three", "four"))
    assert (one.options, one.answer, one.prompt, one.category) == (("a cup", "None"), 1, "mcq", "x") and shows(one, 0)
    assert (two.options, two.answer, two.prompt) == (("Yes", "No"), 1, "yes_no") and shows(two, 1)
    assert (three.options, three.answer, three.prompt, three.hint) == (("dark red",), 0, "open", "Look.")
    assert (four.options, four.answer) == (("a", "b", "c"), None) and four.meta == {"id": "four", "source": "me"}


def test_own_questions_take_embedded_images_several_and_lists(tmp_path):
    inside = base64.b64encode(picture(5, 64)).decode()
    rows = [
        {"question": "a?", "image": inside, "options": ["x", "y"], "answer": "y"},
        {"question": "b <image 2>?", "images": ["0.png", "1.png"], "options": '["x", "y"]', "answer": 0},
        {"question": "c?", "image_1": "2.png", "image_2": "0.png", "options": ["x", "y"], "type": "open"},
    ]
    found, errors, _ = load(own_file(tmp_path, "jsonl", rows))
    assert not errors
    one, two, three = (found[f"photos/line {i}"] for i in (1, 2, 3))
    assert isinstance(one.images[0], Cell) and one.answer == 1
    assert content_hash(load_image(one.images[0])) == content_hash(load_image(picture(5, 64)))
    assert two.question == "b <image 1>?" and shows(two, 1, 0) and shows(two, 0, 1) and two.answer == 0
    assert three.prompt == "open" and three.options == ("x", "y") and three.answer is None and len(three.images) == 2
    schema = {"question": pa.string(), "answer": pa.string(), "image": IMAGE}
    parquet(tmp_path / "p.parquet", [{"question": "d?", "answer": "yes", "image": cell(picture(3))}], pa.schema(schema))
    (four,) = load(tmp_path / "p.parquet")[0].values()
    assert shows(four, 3) and isinstance(four.images[0], Cell)


def test_own_questions_wrong_in_ten_ways(tmp_path):
    sound = OWN[0]
    bad = {
        "no question": sound | {"question": " "},
        "no image": sound | {"image": ""},
        "there is no image 'gone.png'": sound | {"image": "gone.png"},
        "leads out": sound | {"image": "../secret.png"},
        "is none of its 2 options": sound | {"answer": "Z"},
        "without a gap": sound | {"A": ""},
        "nothing to score": {"question": "What?", "image": "0.png"},
        "neither yes nor no": sound | {"type": "yes_no", "answer": "perhaps"},
        "unknown type: 'mqc'; did you mean 'mcq'": sound | {"type": "mqc"},
        "marks <image 2>, which it lacks": sound | {"question": "In <image 2>?"},
    }
    rows = [sound, *(row | {"id": f"bad {i}"} for i, row in enumerate(bad.values())), sound]
    found, errors, _ = load(own_file(tmp_path, "csv", rows))
    assert list(found) == ["photos/one"] and "occurs again" in errors.pop("photos/one")
    for number, says in enumerate(bad):
        assert says in errors.pop(f"photos/bad {number}"), says
    assert not errors
    for columns, lacks in (
        ("question,answer\n?,x\n", "no column image"),
        ("image,answer\n0.png,x\n", "no column question"),
    ):
        (tmp_path / "b.csv").write_text(columns)
        with pytest.raises(ValueError, match=f"no table of questions: {lacks}.*Wanted"):
            load(str(tmp_path / "b.csv"))
    with pytest.raises(ValueError, match="no file .*gone.csv"):
        load(str(tmp_path / "gone.csv"))
    with pytest.raises(ValueError, match="unknown dataset: 'phots'"):
        load("phots", path=tmp_path / "photos.csv")


def test_a_table_called_like_a_data_set_is_no_data_set(tmp_path):
    file = own_file(tmp_path, "csv").rename(tmp_path / "pope.csv")
    assert resolve(str(file)) == ("table", str(file), "own_pope")
    assert load_dataset(str(file)).name == load_dataset("own_pope", path=file).name == "own_pope"
    assert resolve("pope", "x") == ("pope", "x", "pope")


def test_a_study_of_own_questions_runs_to_its_tables(tmp_path):
    file = own_file(tmp_path, "csv")
    config = vfkit.StudyConfig(
        model="mini_qwen3vl", dataset=str(file), n=None, families=("identity", "scale"), out=str(tmp_path / "out"),
        device="cpu",
    )  # fmt: skip
    run = vfkit.run_study(config, progress=False)
    assert sorted(run.records().sample_id.unique()) == sorted(
        f"photos/{name}" for name in ("one", "two", "three", "four")
    )
    assert len(run.table("flips")) and run.errors().empty
    assert run.folder.parent.name == run.config.dataset == "photos" and run.config.dataset_path == str(file)
    again = config.model_copy(update={"dataset": "photos", "dataset_path": str(file)})
    assert vfkit.run_study(again, progress=False).folder == run.folder


# --- answers that read two ways ---------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    "rows, meant",
    [
        ([("a", "badc")], [None]),  # by letter b, by text a
        ([("a", "badc"), ("C", ["one", "two", "three"])], [0, 2]),  # the file gives letters
        ([("a", "badc"), ("two", ["one", "two"])], [1, 1]),  # the file gives texts
        ([("2", "1234")], [None]),  # by text 2, by index 3
        ([("2", "1234"), ("0", ["x", "y"])], [2, 0]),  # indices from 0
        ([("2", "1234"), ("7", "789")], [1, 0]),  # texts
        ([("1", "xy"), ("2", "xy")], [0, 1]),  # numbers from 1: no index reaches 2
        ([("1", "xy"), ("0", "xy")], [1, 0]),
        ([("B", "xy"), ("y", "xy"), ("1", "xy")], [1, 1, 1]),  # each reads one way
        ([("", "xy"), ("A", "xy")], ["none", 0]),
    ],
)
def test_an_answer_that_reads_two_ways_is_decided_by_its_file_or_not_at_all(rows, meant):
    decided = decide([(answer, tuple(options)) for answer, options in rows])
    for found, wanted in zip(decided, meant, strict=True):
        if wanted is None:
            assert isinstance(found, ValueError) and "reads 2 ways" in str(found)
        else:
            assert found == (None if wanted == "none" else wanted)


# --- files as they lie on disks ---------------------------------------------------------------------------------------


def test_links_of_the_hubs_cache_are_followed_and_others_are_not(tmp_path):
    repo = tmp_path / "hub" / "datasets--me--set"
    snapshot = repo / "snapshots" / "abc"
    (repo / "blobs").mkdir(parents=True)
    (snapshot / "images").mkdir(parents=True)
    (repo / "blobs" / "0123").write_bytes(picture(1))
    (tmp_path / "secret").write_bytes(picture(2))
    (snapshot / "images" / "1.png").symlink_to("../../../blobs/0123")
    (snapshot / "images" / "2.png").symlink_to(tmp_path / "secret")
    (snapshot / "own.png").symlink_to("images/1.png")
    (snapshot / "photos.csv").write_text("id,question,image,answer\na,?,images/1.png,yes\nb,?,images/2.png,yes\n")
    folders = ImageFolders(snapshot)
    assert folders.find("images/1.png") == folders.find("own") == str(repo / "blobs" / "0123")
    with pytest.raises(ValueError, match="link that leads out"):
        folders.find("images/2.png")
    found, errors, _ = load(str(snapshot / "photos.csv"))
    assert shows(found["photos/a"], 1) and "leads out" in errors["photos/b"]
    (tmp_path / "data").symlink_to(snapshot)
    assert ImageFolders(tmp_path / "data").find("own") == str(repo / "blobs" / "0123")


def rewritten(file, form, order):
    """The same rows in another order, as a tool might write them while a study runs."""
    rows = [seed_row(i) for i in order]
    if form == "parquet":
        return parquet(file, rows, SEED)
    lines = ["index\timage\tquestion\tA\tB\tanswer"]
    lines += [f"{i}\t{base64.b64encode(picture(i, 64)).decode()}\tWhat?\tx\ty\tA" for i in order]
    file.write_text("\n".join(lines) + "\n")
    return file


@pytest.mark.parametrize("form", ["tsv", "parquet"])
def test_a_file_rewritten_after_loading_never_gives_another_rows_image(tmp_path, form):
    file = rewritten(tmp_path / f"a.{form}", form, [0, 1, 2])
    samples = load_dataset("seedbench", path=file)
    before = fingerprint(samples)
    for sample in samples:
        load_image(sample.images[0], sample.id)
    rewritten(file, form, [2, 0, 1])
    for sample in samples:
        with pytest.raises(vfkit.ImageError, match="changed since it was read"):
            load_image(sample.images[0], sample.id)
    again = load_dataset("seedbench", path=file)
    assert {s.id: image_identity(s) for s in again} == {s.id: image_identity(s) for s in samples}
    assert fingerprint(sorted(again, key=lambda s: s.id)) == fingerprint(sorted(samples, key=lambda s: s.id)) and before
    file.write_bytes(b"")
    with pytest.raises(vfkit.ImageError, match="changed since|cannot read"):
        load_image(again[0].images[0])
    cells = pickle.loads(pickle.dumps([sample.images for sample in again]))  # as they go to workers
    assert cells == [sample.images for sample in again]


def test_an_image_file_replaced_after_loading_is_an_error_and_no_other_image(tmp_path):
    file = own_file(tmp_path, "csv")
    samples = {sample.id: sample for sample in load_dataset(str(file))}
    one, four = samples["photos/one"], samples["photos/four"]  # about the same file
    assert one.images == (str(tmp_path / "0.png"),) and image_identity(one) == image_identity(four)
    again = pickle.loads(pickle.dumps(one.images[0]))  # as it goes to a worker
    assert again == one.images[0] and content_hash(load_image(again)) == content_hash(load_image(picture(0)))
    (tmp_path / "0.png").touch()
    assert shows(one, 0)  # the same content, whatever its times
    (tmp_path / "0.png").write_bytes(picture(9))
    for sample in (one, four):
        with pytest.raises(vfkit.ImageError, match="0.png.*has changed since the data set was read"):
            load_image(sample.images[0], sample.id)
    assert shows({sample.id: sample for sample in load_dataset(str(file))}["photos/one"], 9)


MEMORY = """
import resource, sys
from vfkit.datasets import load_dataset
import pyarrow.parquet, PIL.PngImagePlugin
load_dataset("seedbench", path=sys.argv[2])
before = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss
samples = load_dataset("seedbench", path=sys.argv[1])
after = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss
samples[7].images[0]()
print(len(samples), after - before, resource.getrusage(resource.RUSAGE_SELF).ru_maxrss - before)
"""


@pytest.mark.parametrize("form", ["tsv", "parquet"])
def test_ten_thousand_rows_open_without_their_images(tmp_path, form):
    """The images are 250 MB and more; a table of one row group, as pandas writes it, and a TSV alike."""
    noise = np.random.default_rng(0).integers(0, 256, 30_000, np.uint8).tobytes()
    small, large = tmp_path / f"small.{form}", tmp_path / f"large.{form}"
    rewritten(small, form, [0])
    head = picture(0, 16)
    if form == "parquet":
        rows = (seed_row(i, image=[{"bytes": head + i.to_bytes(4) + noise}]) for i in range(10_000))
        with pq.ParquetWriter(large, SEED) as writer:
            writer.write_table(pa.Table.from_pylist(list(rows), SEED), row_group_size=10_000)
    else:
        with large.open("w") as opened:
            opened.write("index\timage\tquestion\tA\tB\tanswer\n")
            for i in range(10_000):
                image = base64.b64encode(head + i.to_bytes(4) + noise).decode()
                opened.write(f"{i}\t{image}\tWhat?\tx\ty\tA\n")
    assert large.stat().st_size > 240e6
    done = subprocess.run([sys.executable, "-c", MEMORY, large, small], capture_output=True, text=True, check=True)
    n, loaded, opened = map(int, done.stdout.split())
    unit = 1024 if sys.platform != "darwin" else 1
    assert n == 10_000 and loaded * unit < 100e6 and opened * unit < 150e6


def test_a_pointer_to_a_file_that_was_not_fetched_is_named(tmp_path):
    pointer = "version https://git-lfs.github.com/spec/v1\noid sha256:4d7a\nsize 12345\n"
    (tmp_path / "test-00000-of-00001.parquet").write_text(pointer)
    (tmp_path / "photos.csv").write_text(pointer)
    for name, path in (("seedbench", tmp_path), ("photos", tmp_path / "photos.csv"), ("weird", tmp_path)):
        with pytest.raises(ValueError, match="Git LFS pointer.*git lfs pull"):
            load(name, path=path)


def test_a_form_is_told_by_what_a_file_begins_with(tmp_path):
    (tmp_path / "a").write_text('[{"a": 1}, {"a": 2}]')
    (tmp_path / "b").write_text('{"a": 1}\n\n{"a": 2}\n[3]\n')
    (tmp_path / "c.csv").write_text('a\n1\n"2"\n')
    (tmp_path / "d.tsv").write_text("a\tb\n1\t\n2\t\n3\n")
    rows = {name: list(read_rows(tmp_path / name)) for name in ("a", "b", "c.csv", "d.tsv")}
    assert [row["a"] for _, row in rows["a"]] == [1, 2] and [row["a"] for _, row in rows["c.csv"]] == ["1", "2"]
    assert [place for place, _ in rows["b"]] == ["line 1", "line 3", "line 4"] and "no object" in str(rows["b"][2][1])
    assert "1 cells where the header has 2" in str(rows["d.tsv"][2][1])
