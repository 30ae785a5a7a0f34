"""Loaders of files: small files in exactly the real formats, sound and damaged, from the row to the finished study."""

import base64
import csv
import io
import json
import string

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st
from PIL import Image

import vfkit
from vfkit.datasets import DatasetUnavailable, load_dataset, mmmu, pope
from vfkit.datasets.files import ImageFolders
from vfkit.datasets.rows import Cell
from vfkit.datasets.samples import decide
from vfkit.images import content_hash, load_image


def picture(seed=0, side=64, kind="JPEG"):
    """The bytes of an image file."""
    file = io.BytesIO()
    pixels = np.random.default_rng(seed).integers(0, 256, (side // 8, side // 8, 3), np.uint8).repeat(8, 0).repeat(8, 1)
    Image.fromarray(pixels).save(file, kind)
    return file.getvalue()


def reasons(samples):
    return {error.sample_id: error.reason for error in samples.errors}


def by_id(samples):
    return {sample.id: sample for sample in samples}


# --- SEEDBench --------------------------------------------------------------------------------------------------------

HEADER = ["index", "question", "A", "B", "C", "D", "answer", "category", "hint", "image"]


def seed_row(index, **cells):
    row = dict(
        zip(
            HEADER,
            [index, f"What is shown in {index}?", "a cat", "a dog", "None", "NA", "C", "Scene", ""],
            strict=False,
        )
    )
    return row | {"image": base64.b64encode(picture(index)).decode()} | cells


def write_tsv(path, rows, header=HEADER):
    """As pandas writes tables: cells are quoted where they must be."""
    with path.open("w", newline="", encoding="utf-8") as file:
        writer = csv.writer(file, delimiter="\t", lineterminator="\n")
        writer.writerow(header)
        writer.writerows([row.get(name, "") for name in header] for row in rows)
    return path


def test_seedbench_rows_are_read_word_for_word(tmp_path):
    rows = [
        seed_row(1),
        seed_row(2, answer="a dog", question='She said "two\tlines"\nand more'),
        seed_row(3, answer="0", hint="Look well."),
        seed_row(4, C="", D="", answer="b", image="1"),
        seed_row(5, B="", C="", D="", answer="A", category=""),
        seed_row(6, A="same", B="same", answer="B"),
    ]
    file = write_tsv(tmp_path / "SEEDBench_IMG.tsv", rows)
    before = file.read_bytes()
    for path in (file, tmp_path, str(file)):
        samples = load_dataset("seedbench", path=path)
        assert not samples.errors and len(samples) == 6
    found = by_id(samples)
    one = found["seedbench/1"]
    assert one.options == ("a cat", "a dog", "None", "NA") and one.answer == 2 and one.prompt == "mcq"
    assert one.category == "Scene" and one.meta == {"index": "1"} and one.hint == ""
    assert found["seedbench/2"].question == 'She said "two\tlines"\nand more' and found["seedbench/2"].answer == 1
    assert found["seedbench/3"].answer == 0 and found["seedbench/3"].hint == "Look well."
    assert found["seedbench/4"].options == ("a cat", "a dog") and found["seedbench/4"].answer == 1
    assert found["seedbench/5"].options == ("a cat",) and found["seedbench/6"].answer == 1
    for number, shown in {1: 1, 2: 2, 3: 3, 4: 1, 5: 5, 6: 6}.items():  # row 4 names the image of row 1
        opened = load_image(found[f"seedbench/{number}"].images[0])
        assert content_hash(opened) == content_hash(load_image(picture(shown)))
    assert file.read_bytes() == before


def test_seedbench_holds_no_images(tmp_path):
    """A file of many gigabytes is read a row at a time: what stays is where each image lies."""
    write_tsv(tmp_path / "a.tsv", [seed_row(i) for i in range(3)])
    for sample in load_dataset("seedbench", path=tmp_path):
        (source,) = sample.images
        assert isinstance(source, Cell)
        assert not any(isinstance(value, bytes) or len(str(value)) > 1000 for value in vars(source).values())


def test_seedbench_says_row_by_row_what_is_wrong(tmp_path):
    whole = seed_row(0)["image"]
    bad = {
        1: (dict(question="  "), "no question"),
        2: (dict(answer="E"), "answer 'E' is none of its 4 options"),
        3: (dict(answer=""), "no answer"),
        4: (dict(answer="an owl"), "answer 'an owl' is none"),
        5: (dict(A="x", B="x", answer="x"), "the text of 2 options"),
        6: (dict(B=""), "options are A, C, D"),
        7: (dict(A="", B="", C="", D=""), "options are empty"),
        8: (dict(image=whole[:-3]), "not sound base64"),
        9: (dict(image="!" + whole[1:]), "not sound base64"),
        10: (dict(image=base64.b64encode(b"no image" * 20).decode()), "empty, or no image"),
        11: (dict(image="nonsense"), "neither base64 nor the index of a row"),
        12: (dict(image="8"), "not sound base64"),  # names a row whose own image is broken
        13: (dict(image=""), "it has no image"),
        14: (dict(answer="4"), "answer '4' is none"),
    }
    rows = [seed_row(0)] + [seed_row(index, **cells) for index, (cells, _) in bad.items()]
    rows += [seed_row(0, question="Doubled?"), seed_row(0, question="Nameless?") | {"index": ""}]
    write_tsv(tmp_path / "a.tsv", rows)
    samples = load_dataset("seedbench", path=tmp_path)
    assert [sample.id for sample in samples] == ["seedbench/0"] and "Doubled" not in samples[0].question
    found = reasons(samples)
    for index, (_, says) in bad.items():
        assert says in found.pop(f"seedbench/{index}"), index
    assert "occurs again" in found.pop("seedbench/0")
    assert "no index" in found.pop(f"seedbench/line {len(rows) + 1}") and not found


@pytest.mark.parametrize(
    "line, says",
    [
        (
            b'7\t"Who said this?" she asked\ta\tb\tc\td\tA\tScene\t\tx',
            "cannot be read",
        ),  # a quote that should be doubled
        (b'7\t"Who is it?\ta\tb\tc\td\tA\tScene\t\tx', "cannot be read"),  # a quote that never closes
        (b"7\tToo short?\ta\tb", "4 cells where the header has 10"),
        (b"7\tToo long?\ta\tb\tc\td\tA\tScene\t\tx\ty", "11 cells"),
        (b"7\tBroken \xff text?\ta\tb\tc\td\tA\tScene\t\t1", "not sound UTF-8"),
    ],
)
def test_a_damaged_line_costs_itself_alone(tmp_path, line, says):
    file = write_tsv(tmp_path / "a.tsv", [seed_row(i) for i in range(4)])
    lines = file.read_bytes().splitlines(keepends=True)
    file.write_bytes(b"".join([*lines[:3], line + b"\n", *lines[3:]]))
    samples = load_dataset("seedbench", path=file)
    assert sorted(by_id(samples)) == [f"seedbench/{i}" for i in range(4)]
    (error,) = samples.errors
    assert error.sample_id in ("seedbench/line 4", "seedbench/7") and says in error.reason


def test_a_tsv_that_was_cut_off_keeps_its_whole_rows(tmp_path):
    file = write_tsv(tmp_path / "a.tsv", [seed_row(i) for i in range(3)])
    file.write_bytes(file.read_bytes()[:-50])
    samples = load_dataset("seedbench", path=file)
    assert sorted(by_id(samples)) == ["seedbench/0", "seedbench/1"]
    assert "base64" in reasons(samples)["seedbench/2"]


def test_seedbench_with_a_byte_order_mark_windows_lines_and_shuffled_columns(tmp_path):
    file = write_tsv(tmp_path / "a.tsv", [seed_row(i) for i in range(3)], HEADER[::-1])
    plain = load_dataset("seedbench", path=file)
    file.write_bytes(b"\xef\xbb\xbf" + file.read_bytes().replace(b"\n", b"\r\n"))
    marked = load_dataset("seedbench", path=file)
    assert not marked.errors and marked.fingerprint == plain.fingerprint


def test_seedbench_image_paths_stay_within_the_data(tmp_path):
    data, header = tmp_path / "data", [*HEADER[:-1], "image_path"]
    (data / "images").mkdir(parents=True)
    (tmp_path / "secret.jpg").write_bytes(picture(9))
    (data / "images" / "1.jpg").write_bytes(picture(1))
    (data / "images" / "empty.jpg").write_bytes(b"")
    (data / "images" / "link.jpg").symlink_to(tmp_path / "secret.jpg")
    names = ["1.jpg", "images/1.jpg", "../secret.jpg", str(tmp_path / "secret.jpg"), "link.jpg", "2.jpg", "empty.jpg"]
    rows = [seed_row(i, image_path=name) for i, name in enumerate([*names, "a" * 3000, "images", "x\\..\\1.jpg"])]
    samples = load_dataset("seedbench", path=write_tsv(data / "a.tsv", rows, header))
    assert {sample.images for sample in samples} == {(str(data / "images" / "1.jpg"),)}
    assert sorted(by_id(samples)) == ["seedbench/0", "seedbench/1"]
    says = [
        "leads out",
        "leads out",
        "link that leads out",
        "no image '2.jpg'",
        "no image",
        "a",
        "no image",
        "leads out",
    ]
    for number, reason in enumerate(says, 2):
        assert reason in reasons(samples)[f"seedbench/{number}"]


@pytest.mark.parametrize(
    "content", [b"", b"id,question\n1,what?\n", b"\x00\x01\xff\xfe" * 100, b"index\tquestion\tA\n", b"index\rA\n"]
)
def test_what_is_no_such_table_is_refused_whole(tmp_path, content):
    (tmp_path / "a.tsv").write_bytes(content)
    with pytest.raises(ValueError, match="not a table as seedbench reads it: no column .*answer"):
        load_dataset("seedbench", path=tmp_path)


def test_seedbench_without_its_file_says_what_is_wanted(tmp_path):
    with pytest.raises(DatasetUnavailable, match="SEEDBench_IMG.tsv.*VLMEvalKit.*mini_seed"):
        load_dataset("seedbench")
    with pytest.raises(FileNotFoundError, match="no file or folder"):
        load_dataset("seedbench", path=tmp_path / "missing")
    with pytest.raises(FileNotFoundError, match="holds no SEEDBench_IMG.tsv"):
        load_dataset("seedbench", path=tmp_path)
    for name in ("a.tsv", "b.tsv"):
        write_tsv(tmp_path / name, [seed_row(1)])
    with pytest.raises(FileNotFoundError, match="which of a.tsv, b.tsv"):
        load_dataset("seedbench", path=tmp_path)


cells = st.text(st.characters(exclude_categories=("Cs",), exclude_characters="\0\r"), min_size=1).filter(str.strip)


@settings(max_examples=60, deadline=None, suppress_health_check=[HealthCheck.function_scoped_fixture])
@given(st.lists(st.tuples(cells, st.lists(cells, min_size=1, max_size=4)), min_size=1, max_size=4))
def test_any_text_comes_back_from_a_tsv(tmp_path, rows):
    given = [
        seed_row(i, question=question, answer="A") | {letter: "" for letter in "ABCD"}
        | dict(zip("ABCD", options, strict=False))
        for i, (question, options) in enumerate(rows)
    ]  # fmt: skip
    samples = load_dataset("seedbench", path=write_tsv(tmp_path / "a.tsv", given))
    assert not samples.errors
    found = by_id(samples)
    for i, (question, options) in enumerate(rows):
        assert found[f"seedbench/{i}"].question == question and found[f"seedbench/{i}"].options == tuple(options)
        load_image(found[f"seedbench/{i}"].images[0])


@given(st.lists(st.text(string.ascii_letters + " ", min_size=2), min_size=1, max_size=26), st.data())
def test_answers_as_letter_text_or_index_mean_the_same(options, data):
    options = list({option.strip().casefold(): option for option in options if len(option.strip()) > 1}.values()) or [
        "it"
    ]
    index = data.draw(st.integers(0, len(options) - 1))
    letter = string.ascii_uppercase[index]
    asked = [letter, letter.lower(), f" {letter} ", str(index)]
    asked += [options[index], options[index].strip()]  # two letters at least: a text of one letter is a letter
    assert [decide([(answer, options)]) for answer in asked] == [[index]] * len(asked)
    assert "is none of its" in str(decide([(str(len(options) + 1), options)])[0])


# --- MMMU -------------------------------------------------------------------------------------------------------------

IMAGE = pa.struct({"bytes": pa.binary(), "path": pa.string()})
MMMU = pa.schema(
    {"id": pa.string(), "question": pa.string(), "options": pa.string(), "explanation": pa.string()}
    | {f"image_{k}": IMAGE for k in range(1, 8)}
    | {name: pa.string() for name in ("img_type", "answer", "topic_difficulty", "question_type", "subfield")}
)


def mmmu_row(id, question="What is in <image 1>?", images=1, **cells):
    """A row with `images` pictures, or with those of a dict."""
    pictures = dict.fromkeys(range(1, images + 1)) if isinstance(images, int) else images
    cells = {
        f"image_{k}": {"bytes": content or picture(k), "path": f"{id}_{k}.png"} for k, content in pictures.items()
    } | cells
    row = {"id": id, "question": question, "options": "['$6', \"Bob's\", 'None']", "answer": "B"}
    return row | {"question_type": "multiple-choice", "subfield": "Auditing", "img_type": "['Tables']"} | cells


def write_mmmu(folder, rows, subject="Accounting", split="validation"):
    file = folder / subject / f"{split}-00000-of-00001.parquet"
    file.parent.mkdir(parents=True, exist_ok=True)
    pq.write_table(pa.Table.from_pylist(rows, MMMU), file, row_group_size=2)
    return file


def hashes(images):
    return [content_hash(load_image(image)) for image in images]


def test_mmmu_rows_with_their_images_in_turn(tmp_path):
    rows = [
        mmmu_row("validation_Accounting_1"),
        mmmu_row("validation_Accounting_2", "As <image 3> and <image 1> show, but <image 3> more, which?", 3),
        mmmu_row("validation_Accounting_3", "No mark", 2, options="['<image 2>', 'no']", answer="1"),
        mmmu_row("validation_Accounting_4", "Later <image 5>", {5: None, 7: None}, options="['<image 5>', 'x', 'y']"),
    ]
    write_mmmu(tmp_path, rows)
    write_mmmu(tmp_path, [mmmu_row("validation_Art_Theory_1", answer="None")], "Art_Theory")
    write_mmmu(tmp_path, [mmmu_row("dev_Art_1")], "Art", split="dev")
    samples = load_dataset("mmmu", path=tmp_path)
    found = by_id(samples)
    assert not samples.errors and len(samples) == 5
    one = found["mmmu/validation_Accounting_1"]
    assert one.options == ("$6", "Bob's", "None") and one.answer == 1 and one.prompt == "mcq"
    assert one.category == "Accounting" and one.meta == {"id": "validation_Accounting_1", "subfield": "Auditing"}
    two = found["mmmu/validation_Accounting_2"]
    assert two.question == "As <image 1> and <image 2> show, but <image 1> more, which?"
    assert hashes(two.images) == hashes([picture(3), picture(1), picture(2)])
    three = found["mmmu/validation_Accounting_3"]
    assert three.question == "No mark" and hashes(three.images) == hashes([picture(1), picture(2)])
    assert three.options == ("<image 2>", "no") and three.answer == 1
    four = found["mmmu/validation_Accounting_4"]
    assert four.question == "Later <image 1>" and hashes(four.images) == hashes([picture(5), picture(7)])
    assert four.options[0] == "<image 1>"
    assert found["mmmu/validation_Art_Theory_1"].category == "Art_Theory"
    assert found["mmmu/validation_Art_Theory_1"].answer == 2
    assert [sample.id for sample in load_dataset("mmmu", path=tmp_path, split="dev")] == ["mmmu/dev_Art_1"]
    one_file = load_dataset("mmmu", path=tmp_path / "Art_Theory" / "validation-00000-of-00001.parquet")
    assert [sample.id for sample in one_file] == ["mmmu/validation_Art_Theory_1"]


def test_mmmu_says_row_by_row_what_is_wrong(tmp_path):
    bad = {
        "open": (dict(options="[]", question_type="open", answer="6"), "open question"),
        "code": (dict(options="__import__('os').getcwd()"), "options are no list"),
        "cut": (dict(options="['a', 'b"), "options are no list"),
        "deep": (dict(options="[" * 5000), "options are no list"),
        "numbers": (dict(options="[1, 2]"), "no list of texts"),
        "answer": (dict(answer="?"), "answer '?' is none"),
        "question": (dict(question=None), "no question"),
        "images": (dict(image_1=None), "no image"),
        "mark": (dict(question="What is <image 2>?"), "marks <image 2>, which it lacks"),
        "bytes": (dict(image_1={"bytes": b"no image", "path": None}), "its image 1 is empty, or no image"),
        "nothing": (dict(image_1={"bytes": None, "path": None}), "its image 1 is missing"),
        "path": (dict(image_1={"bytes": None, "path": "../../secret.png"}), "leads out"),
    }
    rows = [mmmu_row("good")] + [mmmu_row(name, **cells) for name, (cells, _) in bad.items()]
    file = write_mmmu(tmp_path, [*rows, mmmu_row("good", answer="A"), mmmu_row(None)])
    (tmp_path / "secret.png").write_bytes(picture(0))
    samples = load_dataset("mmmu", path=file)
    assert [(sample.id, sample.answer, sample.category) for sample in samples] == [("mmmu/good", 1, "Accounting")]
    found = reasons(samples)
    for name, (_, says) in bad.items():
        assert says in found.pop(f"mmmu/{name}"), name
    assert "occurs again" in found.pop("mmmu/good")
    ((id, reason),) = found.items()
    assert f"row {len(rows) + 1}" in id and "no id" in reason


def test_a_damaged_parquet_file_costs_its_own_rows(tmp_path):
    write_mmmu(tmp_path, [mmmu_row("validation_Accounting_1")])
    broken = write_mmmu(tmp_path, [mmmu_row("validation_Art_1")], "Art")
    broken.write_bytes(broken.read_bytes()[:-100])
    samples = load_dataset("mmmu", path=tmp_path)
    assert [sample.id for sample in samples] == ["mmmu/validation_Accounting_1"]
    ((id, reason),) = reasons(samples).items()
    assert "Art" in id and "damaged" in reason


def test_a_text_that_is_not_utf8_costs_its_own_row(tmp_path):
    rows = [mmmu_row(f"validation_Art_{i}", f"Question {i} about <image 1>?") for i in range(5)]
    table = pa.Table.from_pylist(rows, MMMU)
    raw = [question.encode().replace(b"Question 3", b"Question \xff") for question in table["question"].to_pylist()]
    texts = pa.array(raw, pa.binary()).view(pa.string())
    file = write_mmmu(tmp_path, rows, "Art")
    pq.write_table(table.set_column(table.schema.get_field_index("question"), "question", texts), file)
    samples = load_dataset("mmmu", path=file)
    assert sorted(by_id(samples)) == [f"mmmu/validation_Art_{i}" for i in (0, 1, 2, 4)]
    ((id, reason),) = reasons(samples).items()
    assert id.endswith("row 3") and "utf-8" in reason


def test_a_missing_part_is_never_taken_for_the_whole(tmp_path):
    file = write_mmmu(tmp_path, [mmmu_row("validation_Accounting_1")])
    file.rename(file.with_name("validation-00000-of-00002.parquet"))
    with pytest.raises(FileNotFoundError, match="of 2 files like validation-00000-of-00002.parquet 1 are there"):
        load_dataset("mmmu", path=tmp_path)


@given(st.lists(st.integers(1, 7), max_size=9), st.sets(st.integers(1, 7), min_size=1))
def test_marks_come_in_turn_and_keep_naming_their_images(marks, there):
    question = " ".join(f"see <image {k}>" for k in marks)
    images = sorted(there | set(marks))
    text, order = mmmu.in_turn(question, images)
    assert sorted(order) == images
    new = [int(number) for number in mmmu.MARK.findall(text)]
    assert [order[number - 1] for number in new] == marks  # each mark names the image it named before
    assert list(dict.fromkeys(new)) == list(range(1, len(set(marks)) + 1))  # first mentions come in turn


# --- POPE -------------------------------------------------------------------------------------------------------------


def pope_row(number, **fields):
    """As published."""
    row = {"question_id": number, "image": f"COCO_{number % 3}.jpg", "text": "Is there a dining table in the image?"}
    return row | {"label": "yes" if number % 2 else "no"} | fields


def write_pope(folder, rows, form="lines", split="adversarial"):
    (folder / "val2014").mkdir(exist_ok=True, parents=True)
    for i in range(3):
        (folder / "val2014" / f"COCO_{i}.jpg").write_bytes(picture(i))
    file = folder / f"coco_pope_{split}.json"
    file.write_text("\n".join(map(json.dumps, rows)) + "\n" if form == "lines" else json.dumps(rows, indent=1))
    return file


def hub_rows(rows, split="adversarial"):
    """The same rows as the hub's parquet has them."""
    return [
        {
            "id": str(i), "question_id": str(row["question_id"]), "question": row["text"], "answer": row["label"],
            "image_source": row["image"].removesuffix(".jpg"), "category": split,
            "image": {"bytes": picture(row["question_id"] % 3), "path": None},
        }
        for i, row in enumerate(rows)
    ]  # fmt: skip


def write_hub(folder, rows):
    (folder / "data").mkdir(parents=True)
    schema = {name: pa.string() for name in ("id", "question_id", "question", "answer", "image_source", "category")}
    table = pa.Table.from_pylist(rows, pa.schema(schema | {"image": IMAGE}))
    pq.write_table(table, folder / "data" / "test-00000-of-00001.parquet")


def test_the_three_forms_of_pope_say_the_same(tmp_path):
    rows = [
        pope_row(1),
        pope_row(2, label="No"),
        pope_row(3, label="YES"),
        pope_row(4, text="Is there an owl in the image?"),
    ]
    write_pope(tmp_path / "lines", rows)
    write_pope(tmp_path / "list", rows, "list")
    write_hub(tmp_path / "hub", hub_rows(rows))
    forms = [load_dataset("pope", path=tmp_path / form) for form in ("lines", "list", "hub")]
    for samples in forms:
        assert not samples.errors
        found = by_id(samples)
        assert [(s.id, s.images[0] is None, s.question, s.answer) for s in samples] == [
            (s.id, False, s.question, s.answer) for s in forms[0]
        ]
        one, four = found["pope/adversarial/1"], found["pope/adversarial/4"]
        assert one.options == ("Yes", "No") and one.prompt == "yes_no" and one.category == "adversarial"
        assert [found[f"pope/adversarial/{i}"].answer for i in (1, 2, 3, 4)] == [0, 1, 0, 1]
        assert one.meta["question_id"] == "1" and one.meta["object"] == "dining table" and four.meta["object"] == "owl"
        assert one.meta["image"] == "COCO_1"
        assert hashes(one.images) == hashes([picture(1)])
    one, four = (by_id(forms[2])[f"pope/adversarial/{i}"] for i in (1, 4))
    assert one.images[0] is four.images[0]  # the hub repeats an image for each of its questions; it is held once


def test_pope_splits_are_told_by_the_row_or_by_the_file(tmp_path):
    for split in pope.SPLITS:
        write_pope(tmp_path, [pope_row(1), pope_row(2)], split=split)
    every = load_dataset("pope", path=tmp_path)
    assert sorted(by_id(every)) == sorted(f"pope/{split}/{i}" for split in pope.SPLITS for i in (1, 2))
    assert {s.category for s in load_dataset("pope", path=tmp_path, split="popular")} == {"popular"}
    plain = (tmp_path / "coco_pope_random.json").rename(tmp_path / "mine.json")
    with pytest.raises(ValueError, match="nothing tells its split"):
        load_dataset("pope", path=plain)
    assert {s.category for s in load_dataset("pope", path=plain, split="random")} == {"random"}
    named = write_pope(tmp_path, [pope_row(1, category="popular", object="cup"), pope_row(2, category="odd")])
    samples = load_dataset("pope", path=named)
    assert by_id(samples)["pope/popular/1"].meta["object"] == "cup"
    assert [error.reason for error in samples.errors] == ["its category 'odd' is none of adversarial, popular, random"]
    with pytest.raises(ValueError, match="unknown split of pope: 'populer'; did you mean 'popular'"):
        load_dataset("pope", path=named, split="populer")


def test_pope_images_may_lie_elsewhere(tmp_path):
    write_pope(tmp_path / "pope", [pope_row(1)])
    (tmp_path / "pope" / "val2014").rename(tmp_path / "coco")
    with pytest.raises(ValueError, match="no usable row.*no image 'COCO_1.jpg'"):
        load_dataset("pope", path=tmp_path / "pope")
    assert len(load_dataset("pope", path=tmp_path / "pope", images=str(tmp_path / "coco"))) == 1


BAD_POPE = {
    11: (dict(label="maybe"), "label 'maybe' is neither yes nor no"),
    12: (dict(label=None), "no label"),
    13: (dict(text=" "), "no text"),
    14: (dict(image="COCO_9.jpg"), "no image 'COCO_9.jpg'"),
    15: (dict(image="../../etc/passwd"), "leads out"),
    16: (dict(image="/etc/passwd"), "leads out"),
    17: (dict(image=None), "its image is missing"),
    18: (dict(text="\ud800?"), "not sound UTF-8"),
    19: (dict(label=True), "its label is True, not a text"),
}


@pytest.mark.parametrize("form", ["lines", "list"])
def test_pope_says_row_by_row_what_is_wrong(tmp_path, form):
    rows = [pope_row(1), *(pope_row(i, **fields) for i, (fields, _) in BAD_POPE.items()), pope_row(1), pope_row(2)]
    nameless = {name: value for name, value in pope_row(3).items() if name != "question_id"}
    file = write_pope(tmp_path, [*rows, nameless, pope_row(4), pope_row(5)], form)
    text = file.read_text()
    file.write_text(text.replace('"question_id": 4', '"question_id": , 4'))
    samples = load_dataset("pope", path=file)
    assert sorted(by_id(samples)) == [f"pope/adversarial/{i}" for i in (1, 2, 5)]
    found = reasons(samples)
    for number, (_, says) in BAD_POPE.items():
        assert says in found.pop(f"pope/adversarial/{number}"), number
    assert "occurs again" in found.pop("pope/adversarial/1")
    (nameless, damaged) = found.values()
    assert "no question_id" in nameless and "line" in damaged


@pytest.mark.parametrize("form", ["lines", "list"])
@pytest.mark.parametrize("deep", ['{"a": ' + "[" * 20_000, '{"a": ' * 20_000 + "1" + "}" * 20_000])
def test_pope_rows_nested_too_deep_cost_themselves_alone(tmp_path, form, deep):
    file = write_pope(tmp_path, [pope_row(1), pope_row(2), pope_row(3)], form)
    row = json.dumps(pope_row(2))
    file.write_text(file.read_text().replace(row, deep) if form == "lines" else f"[{json.dumps(pope_row(1))}, {deep}]")
    samples = load_dataset("pope", path=file)
    assert "pope/adversarial/1" in by_id(samples) and "pope/adversarial/2" not in by_id(samples)
    assert any("recursion" in reason for reason in reasons(samples).values()) and len(samples.errors) < 5


def test_an_image_source_of_pope_that_is_no_text_is_passed_over(tmp_path):
    schema = {"question_id": pa.int64(), "question": pa.string(), "answer": pa.string(), "category": pa.string()}
    row = {"question_id": 1, "question": "Is there a cup in the image?", "answer": "yes", "category": "random"}
    row |= {"image_source": 7, "image": {"bytes": picture(), "path": "a.jpg"}}
    table = pa.Table.from_pylist([row], pa.schema(schema | {"image_source": pa.int64(), "image": IMAGE}))
    pq.write_table(table, tmp_path / "pope.parquet")
    (sample,) = load_dataset("pope", path=tmp_path / "pope.parquet")
    assert sample.meta["image"] == "a"


def test_a_list_that_was_cut_off_keeps_its_whole_rows(tmp_path):
    file = write_pope(tmp_path, [pope_row(1), pope_row(2)], "list")
    file.write_text(file.read_text()[:-10])
    samples = load_dataset("pope", path=file)
    assert sorted(by_id(samples)) == ["pope/adversarial/1"]
    assert any("does not end" in reason for reason in reasons(samples).values())


@pytest.mark.parametrize(
    "question, thing",
    [
        ("Is there a snowboard in the image?", "snowboard"),
        ("Is there an orange in this picture?", "orange"),
        ("Are there any potted plants in the image?\nAnswer the question using a single word.", "potted plants"),
        ("What color is the cup?", ""),
    ],
)
def test_the_object_is_read_from_the_question(question, thing):
    assert pope.object_of(question) == thing


# --- names of images --------------------------------------------------------------------------------------------------


@settings(max_examples=200, deadline=None, suppress_health_check=[HealthCheck.function_scoped_fixture])
@given(
    st.lists(st.sampled_from(["..", ".", "", "in", "out", "up", "/", "1.png", "\\", "C:", "~", "\0"]), max_size=6),
    st.text(max_size=3),
)
def test_no_name_leads_out_of_the_data(tmp_path, parts, end):
    inside, outside = tmp_path / "data", tmp_path / "out"
    if not inside.exists():
        for folder in (inside / "in", outside):
            folder.mkdir(parents=True)
            (folder / "1.png").write_bytes(picture(kind="PNG"))
        (inside / "up").symlink_to(tmp_path)
        (inside / "loop").symlink_to("loop")
    for name in ("/".join(parts) + end, "loop"):
        try:
            found = ImageFolders(inside).find(name)
        except (ValueError, OSError):
            continue
        assert found == str((inside / "in" / "1.png").resolve())


# --- the hub ----------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("name, repo", [("mmmu", "MMMU/MMMU"), ("pope", "lmms-lab/POPE")])
def test_without_network_a_loader_says_what_to_do(name, repo, monkeypatch, tmp_path):
    monkeypatch.setattr("huggingface_hub.constants.HF_HUB_CACHE", str(tmp_path))
    with pytest.raises(vfkit.DatasetUnavailable, match=f"{repo}.*hf download {repo} --repo-type dataset.*dataset_path"):
        load_dataset(name)


def test_a_hub_that_cannot_be_reached_is_given_up_on(monkeypatch):
    import huggingface_hub

    monkeypatch.setattr("huggingface_hub.constants.HF_HUB_OFFLINE", False)

    def unreachable(self, repo_id, **options):
        assert options["timeout"] <= 10
        raise ConnectionError("no route")

    monkeypatch.setattr(huggingface_hub.HfApi, "dataset_info", unreachable)
    with pytest.raises(vfkit.DatasetUnavailable, match="cannot be reached"):
        load_dataset("pope")


def test_what_the_hub_gave_is_read(monkeypatch, tmp_path):
    """A cached copy that lacks subjects is completed first."""
    import huggingface_hub

    calls = []

    def snapshot(repo_id, repo_type, revision, allow_patterns, local_files_only=False):
        calls.append((repo_id, repo_type, local_files_only))
        for subject in mmmu.SUBJECTS[: 1 if local_files_only else None]:
            assert f"{subject}/validation-*.parquet" in allow_patterns
            write_mmmu(tmp_path, [mmmu_row(f"validation_{subject}_1")], subject)
        return str(tmp_path)

    monkeypatch.setattr("huggingface_hub.constants.HF_HUB_OFFLINE", False)
    monkeypatch.setattr(huggingface_hub, "snapshot_download", snapshot)
    monkeypatch.setattr(huggingface_hub.HfApi, "dataset_info", lambda self, repo_id, **options: None)
    samples = load_dataset("mmmu")
    assert len(samples) == 30 and {sample.category for sample in samples} == set(mmmu.SUBJECTS)
    assert calls == [("MMMU/MMMU", "dataset", True), ("MMMU/MMMU", "dataset", False)]
    load_dataset("mmmu")
    assert calls[2:] == [("MMMU/MMMU", "dataset", True)]


# --- the whole path ---------------------------------------------------------------------------------------------------


def test_images_among_the_text_are_read_as_the_oracle_reads_them(tmp_path, vlm):
    from vfkit.readout.verify import verify

    rows = [
        mmmu_row("validation_Art_1", "Is <image 2> or <image 1> red, or the third?", 3),
        mmmu_row("validation_Art_2", "Which?", 2),
        mmmu_row("validation_Art_3", "In <image 1>, which?", 1),
    ]
    samples = load_dataset("mmmu", path=write_mmmu(tmp_path, rows))
    requests = [(sample, tuple(map(load_image, sample.images))) for sample in samples]
    from vfkit.readout.engine import read_many

    readouts = read_many(vlm, requests, True)
    verify(vlm, requests, readouts)  # raises where they differ
    swapped = requests[[s.id for s in samples].index("mmmu/validation_Art_1")]
    other = vfkit.read(vlm, swapped[0], images=swapped[1][::-1])
    assert not np.allclose(other.scores("paper"), vfkit.read(vlm, swapped[0]).scores("paper"), atol=1e-3)


@pytest.mark.parametrize("name", ["seedbench", "mmmu", "pope"])
def test_a_study_of_files_reports_bad_rows_and_broken_images(name, tmp_path):
    cut = picture(5, kind="PNG")[:-300]  # a sound header, pixels missing: found when the image is opened
    if name == "seedbench":
        rows = [seed_row(1), seed_row(2, answer="Z"), seed_row(3, image=base64.b64encode(cut).decode())]
        path = write_tsv(tmp_path / "a.tsv", rows)
    elif name == "mmmu":
        rows = [
            mmmu_row("1", "<image 2> or <image 1>?", 2),
            mmmu_row("2", options="[]"),
            mmmu_row("3", images={1: cut}),
        ]
        path = write_mmmu(tmp_path, rows)
    else:
        path = write_pope(tmp_path, [pope_row(1), pope_row(2, label="?"), pope_row(3, image="cut.png")])
        (tmp_path / "val2014" / "cut.png").write_bytes(cut)
    config = vfkit.StudyConfig(
        model="mini_qwen3vl", dataset=name, dataset_path=str(path), n=None, families=("identity", "scale"),
        out=str(tmp_path / "out"), device="cpu",
    )  # fmt: skip
    run = vfkit.run_study(config, progress=False)
    records, errors = run.records(), run.errors()
    assert records.sample_id.nunique() == 1 and len(records) == 3 and records.prediction.notna().all()
    assert sorted(errors.stage) == ["dataset", "image"]
    assert errors.set_index("stage").error.to_dict() == {"dataset": "RowError", "image": "ImageError"}
    assert errors.sample_id.iloc[0].startswith(name) and run.samples().meta.iloc[0]
    assert vfkit.run_study(config, progress=False).folder == run.folder


def test_a_whole_number_with_pandas_zero_is_that_number():
    """pandas writes whole numbers of a column that has empty cells as 1.0."""
    assert decide([("1.0", ("1", "2")), ("2.0", ("2", "3")), ("1.0", ("1.0", "1")), ("7.0", ("1", "2"))])[:3] == [
        0,
        0,
        0,
    ]
