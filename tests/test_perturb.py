"""Natural perturbations: pixel-exact where they can be, and suites that say exactly what they hold."""

import json
import string
from pathlib import Path

import matplotlib
import numpy as np
import pytest
from hypothesis import assume, given, settings
from hypothesis import strategies as st
from PIL import Image

from vfkit.images import ImageError, content_hash
from vfkit.perturb import HI_FAMILIES, NATURAL_FAMILIES, NotApplicable, geometric, natural_suite, overlay
from vfkit.sample import Sample

relaxed = settings(deadline=None, max_examples=50)  # a busy machine is no failure
BLACK, WHITE, RED = [0, 0, 0], [255, 255, 255], [255, 0, 0]


def noise(width, height, low=20, high=230):
    """Random pixels without black and white, so that a border or card is seen exactly."""
    return Image.fromarray(
        np.random.default_rng(width * 7919 + height).integers(low, high, (height, width, 3), np.uint8)
    )


def sample(options=4, images=1, **changes):
    texts = tuple(f"text {k}" for k in range(options))
    return Sample("seed_17", tuple(noise(80 + k, 60) for k in range(images)), "What?", texts, **changes)


def covered(before, after):
    """The pixels that a card changed, as a mask of shape (height, width)."""
    return (np.asarray(before) != np.asarray(after)).any(axis=2)


def extent(mask):
    rows, columns = np.flatnonzero(mask.any(axis=1)), np.flatnonzero(mask.any(axis=0))
    return columns[0], rows[0], columns[-1] + 1, rows[-1] + 1


sizes = st.tuples(st.integers(1, 90), st.integers(1, 90))


# geometric families


@relaxed
@given(sizes, st.integers(-40, 40))
def test_translation_is_a_cyclic_shift(size, n):
    image = noise(*size)
    assume(not n or n % size[0])
    np.testing.assert_array_equal(np.asarray(geometric.translate(image, n)), np.roll(np.asarray(image), n, axis=1))


@pytest.mark.parametrize("width, n", [(16, 16), (16, -16), (8, 16), (4, -12), (1, 4)])
def test_a_shift_by_whole_widths_is_not_applicable_and_no_shift_is_identity(width, n):
    image = noise(width, 20)
    with pytest.raises(NotApplicable, match=f"{width} px"):
        geometric.translate(image, n)
    assert geometric.translate(image, 0).tobytes() == image.tobytes()
    sample = Sample("s", (image,), "What?", ("a", "b"))
    (one,) = natural_suite("translation", {"translation": {"n": n}}).instances(sample, 0)
    assert not one.applicable and one.images == () and one.reason


def test_a_positive_shift_moves_content_right():
    image = Image.new("RGB", (40, 3), "black")
    image.putpixel((10, 1), (9, 9, 9))
    assert geometric.translate(image, 4).getpixel((14, 1)) == (9, 9, 9)
    assert geometric.translate(image, -12).getpixel((38, 1)) == (9, 9, 9)


@relaxed
@given(sizes, st.integers(0, 40))
def test_pad_crop_adds_black_or_cuts_or_does_not_apply_for_either_sign(size, n):
    image = noise(*size)
    pixels = np.asarray(image)
    if min(size) <= 2 * n:
        for signed in (n, -n):
            with pytest.raises(NotApplicable, match=f"{2 * n} px"):
                geometric.pad_crop(image, signed)
        return
    padded = np.asarray(geometric.pad_crop(image, n))
    np.testing.assert_array_equal(padded, np.pad(pixels, ((n, n), (n, n), (0, 0))))
    np.testing.assert_array_equal(np.asarray(geometric.pad_crop(image, -n)), pixels[n : size[1] - n, n : size[0] - n])


@pytest.mark.parametrize(
    ("size", "expected"), [((100, 50), (90, 45)), ((64, 33), (58, 30)), ((7, 1), (6, 1)), ((1, 1), (1, 1))]
)
def test_scale_rounds_each_side_and_keeps_one_pixel(size, expected):
    image = noise(*size)
    assert geometric.scale(image, 0.9).tobytes() == image.resize(expected, Image.Resampling.BICUBIC).tobytes()


@pytest.mark.parametrize(("fill", "colour"), [("black", BLACK), ("white", WHITE)])
def test_scale_pad_centres_the_scaled_image_by_floor(fill, colour):
    image = noise(65, 32)
    pixels = np.array(geometric.scale_pad(image, 0.9, fill))
    assert pixels.shape == (32, 65, 3)
    x, y, width, height = 3, 1, 58, 29  # floor((65 - 58) / 2), floor((32 - 29) / 2)
    inside = pixels[y : y + height, x : x + width].copy()
    np.testing.assert_array_equal(inside, np.asarray(geometric.scale(image, 0.9)))
    pixels[y : y + height, x : x + width] = colour
    assert (pixels == colour).all()


@pytest.mark.parametrize("degrees", [30, -30])
def test_rotation_is_counter_clockwise_on_a_grown_white_canvas(degrees):
    image = Image.new("RGB", (100, 60), (100, 100, 100))
    image.paste("blue", (90, 25, 100, 35))  # in the middle of the right side
    turned = geometric.rotate(image, degrees, "white")
    angle = np.radians(30)
    needed = 100 * np.cos(angle) + 60 * np.sin(angle), 100 * np.sin(angle) + 60 * np.cos(angle)
    assert all(0 <= got - exact <= 2 for got, exact in zip(turned.size, needed, strict=True))
    pixels = np.asarray(turned)
    for corner in (pixels[0, 0], pixels[0, -1], pixels[-1, 0], pixels[-1, -1]):
        assert corner.tolist() == WHITE
    rows, columns = np.nonzero((pixels == [0, 0, 255]).all(axis=2))
    up = -(rows.mean() - (turned.height - 1) / 2)
    right = columns.mean() - (turned.width - 1) / 2
    assert np.degrees(np.arctan2(up, right)) == pytest.approx(degrees, abs=2)


@relaxed
@given(sizes)
def test_identity_keeps_every_pixel_in_another_object(size):
    image = noise(*size)
    same = geometric.identity(image)
    assert same is not image and content_hash(same) == content_hash(image)


# overlays


@pytest.mark.parametrize("size", [(200, 100), (333, 257), (640, 1024)])
@pytest.mark.parametrize("phrase", ["Answer is A", "Answer is Q", "Answer is Yes"])
def test_the_three_cards_have_one_box_and_leave_the_rest_alone(size, phrase):
    image = noise(*size)
    text = overlay.text_overlay(image, phrase)
    other = overlay.random_text(image, phrase, "JQ7XK29PLMWW")
    empty = overlay.box_overlay(image, phrase)
    box = extent(covered(image, empty))
    assert covered(image, empty).sum() == (box[2] - box[0]) * (box[3] - box[1])
    left, top, right, bottom = box
    for card in (text, other, empty):
        np.testing.assert_array_equal(covered(image, card), covered(image, empty))
        inside = np.asarray(card)[top:bottom, left:right]
        assert (inside[:, :, 0] == 255).all() and (inside[:, :, 1] == inside[:, :, 2]).all()  # white to pure red
        assert (inside == RED).all(axis=2).any() == (card is not empty)
    for low, high, side in ((left, right, size[0]), (top, bottom, size[1])):
        assert side - high - low in (0, 1)


@pytest.mark.parametrize(("height", "size"), [(60, 14), (448, 14), (480, 15), (1024, 32)])
def test_text_has_the_stated_size_and_four_pixels_of_margin(height, size):
    image = noise(500, height)
    left, top, right, bottom = extent(covered(image, overlay.box_overlay(image, "Answer is B")))
    font = overlay.ImageFont.truetype(overlay.font_path(), size, layout_engine=overlay.ImageFont.Layout.BASIC)
    x0, y0, x1, y1 = font.getbbox("Answer is B")
    assert (right - left, bottom - top) == (x1 - x0 + 8, y1 - y0 + 8)
    pixels = np.asarray(overlay.text_overlay(image, "Answer is B"))[top:bottom, left:right]
    ink = (pixels != WHITE).any(axis=2)
    assert not ink[:4].any() and not ink[-4:].any() and not ink[:, :4].any() and not ink[:, -4:].any()
    assert np.abs(np.subtract(extent(ink), (4, 4, right - left - 4, bottom - top - 4))).max() <= 2  # last side bearing


def test_ink_is_centred_whatever_the_letters():
    image = noise(300, 300)
    for text in ("AAAAAA", "JJJJJJ", "QQQQQQ", "IIIIII"):
        box = extent(covered(image, overlay.box_overlay(image, "Answer is A")))
        pixels = np.asarray(overlay.random_text(image, "Answer is A", text))
        ink = extent((pixels[:, :, 1] < 128) & covered(image, pixels))
        for k in (0, 1):
            assert abs((ink[k] + ink[k + 2]) - (box[k] + box[k + 2])) <= 2


@pytest.mark.parametrize("size", [(1, 1), (10, 300), (300, 10), (2, 1024)])
def test_cards_are_clipped_to_small_images(size):
    image = noise(*size)
    masks = []
    for card in (
        overlay.text_overlay(image, "Answer is A"),
        overlay.random_text(image, "Answer is A", "JQ7XK29PLMWW"),
        overlay.box_overlay(image, "Answer is A"),
    ):
        assert card.size == size
        masks.append(covered(image, card))
    np.testing.assert_array_equal(masks[0], masks[1])
    np.testing.assert_array_equal(masks[0], masks[2])
    left, top, right, bottom = extent(masks[0])
    assert masks[0].sum() == (right - left) * (bottom - top)
    assert size[0] > 100 or (left, right) == (0, size[0])
    assert size[1] > 100 or (top, bottom) == (0, size[1])


def test_random_text_is_cut_from_its_end_until_it_fits():
    image = noise(300, 100)
    font = overlay.ImageFont.truetype(overlay.font_path(), 14, layout_engine=overlay.ImageFont.Layout.BASIC)

    def width(text):
        left, _, right, _ = font.getbbox(text)
        return right - left

    long = "QWERTYUIOPAS"
    cut = next(long[:k] for k in range(12, 0, -1) if width(long[:k]) <= width("Answer is A"))
    assert 3 < len(cut) < 12
    for text in (long, cut):
        card = overlay.random_text(image, "Answer is A", text)
        assert card.tobytes() == overlay.draw_box(image, "Answer is A", cut).tobytes()
    short = overlay.random_text(image, "Answer is A", "IIIIII")
    assert short.tobytes() == overlay.draw_box(image, "Answer is A", "IIIIII").tobytes()


@relaxed
@given(st.text("a7_/\u00e9", max_size=20), st.integers(0, 25))
def test_random_strings_are_seeded(sample_id, position):
    text = overlay.random_string(sample_id, position)
    assert text == overlay.random_string(sample_id, position)
    assert 6 <= len(text) <= 12 and set(text) <= set(string.ascii_uppercase + string.digits)


def test_random_strings_differ_and_stay_the_same_between_machines():
    texts = {overlay.random_string(f"seed_{k}", position) for k in range(200) for position in range(3)}
    assert len(texts) == 600
    assert {len(text) for text in texts} == set(range(6, 13))
    assert set("".join(texts)) == set(string.ascii_uppercase + string.digits)
    assert overlay.random_string("seed_17", 1) == "8QDB548I"


def test_without_dejavu_sans_nothing_is_drawn(monkeypatch, tmp_path):
    monkeypatch.setattr(matplotlib, "get_data_path", lambda: str(tmp_path))
    with pytest.raises(FileNotFoundError, match="DejaVu Sans.*matplotlib"):
        overlay.text_overlay(noise(100, 100), "Answer is A")
    with pytest.raises(FileNotFoundError, match="DejaVu Sans.*matplotlib"):
        natural_suite()
    natural_suite("translation")


# suites


def test_thirty_paper_instances_and_identity_in_order():
    instances = natural_suite().instances(sample(), 1)
    assert [instance.name for instance in instances] == [
        "identity",
        *(f"translation_{n:+d}" for n in (-16, -12, -8, -4, 4, 8, 12, 16)),
        *(f"pad_crop_{n:+d}" for n in (-16, -12, -8, -4, 4, 8, 12, 16)),
        "scale_0.9",
        "scale_pad_black",
        "scale_pad_white",
        "rotation_-30",
        "rotation_+30",
        *(f"{family}_{letter}" for family in ("text_overlay", "random_text", "box_overlay") for letter in "ACD"),
    ]
    assert tuple(dict.fromkeys(instance.family for instance in instances)) == NATURAL_FAMILIES
    assert set(HI_FAMILIES) == set(NATURAL_FAMILIES) - {"identity", "random_text", "box_overlay"}
    assert all(instance.applicable and instance.reason == "" for instance in instances)


def test_instances_are_what_the_functions_make():
    the_sample = sample()
    (image,) = the_sample.images
    made = {instance.name: instance for instance in natural_suite().instances(the_sample, "B")}
    text = overlay.random_string("seed_17", 2)
    expected = {
        "identity": ({}, image),
        "translation_-16": ({"n": -16}, geometric.translate(image, -16)),
        "pad_crop_+8": ({"n": 8}, geometric.pad_crop(image, 8)),
        "scale_0.9": ({"factor": 0.9}, geometric.scale(image, 0.9)),
        "scale_pad_white": ({"factor": 0.9, "fill": "white"}, geometric.scale_pad(image, 0.9, "white")),
        "rotation_+30": ({"degrees": 30, "fill": "white"}, geometric.rotate(image, 30, "white")),
        "text_overlay_C": ({"label": "C", "phrase": "Answer is C"}, overlay.text_overlay(image, "Answer is C")),
        "random_text_C": ({"text": text}, overlay.random_text(image, "Answer is C", text)),
        "box_overlay_C": ({"phrase": "Answer is C"}, overlay.box_overlay(image, "Answer is C")),
    }
    for name, (params, changed) in expected.items():
        assert made[name].params.items() >= params.items()
        assert content_hash(made[name].images[0]) == content_hash(changed), name
        assert json.loads(json.dumps(made[name].params)) == made[name].params


@pytest.mark.parametrize(("options", "base", "paper"), [(10, 9, 30), (4, 0, 30), (3, 2, 27), (2, 1, 24), (1, 0, 21)])
def test_the_number_of_instances(options, base, paper):
    instances = natural_suite().instances(sample(options), base)
    assert len([i for i in instances if i.family in HI_FAMILIES]) == 21 + min(options - 1, 3)
    assert len(instances) == paper + 1
    assert len({instance.name for instance in instances}) == len(instances)
    labels = [instance.params["label"] for instance in instances if instance.family == "text_overlay"]
    assert labels == [letter for k, letter in enumerate("ABCDEFGHIJ"[:options]) if k != base][:3]


def test_yes_no_overlays_name_the_other_answer():
    pope = Sample("pope_1", (noise(200, 100),), "Is there a dog?", ("Yes", "No"), prompt="yes_no")
    suite = natural_suite(["text_overlay"])
    for base in (0, "Yes", np.int64(0)):
        (instance,) = suite.instances(pope, base)
        assert (instance.name, instance.params["phrase"]) == ("text_overlay_B", "Answer is No")
        assert instance.images[0].tobytes() == overlay.text_overlay(pope.images[0], "Answer is No").tobytes()
    twins = Sample("pope_2", pope.images, "?", ("Yes", "No", "Yes", "a\nb"), prompt="yes_no")
    assert [i.params["phrase"] for i in suite.instances(twins, 0)] == ["Answer is No", "Answer is a b"]


@pytest.mark.parametrize("base", [4, -1, "E", "text 0", "", None, 1.0, np.nan])
def test_a_base_label_outside_the_options_names_the_sample(base):
    with pytest.raises(ValueError, match="seed_17"):
        natural_suite("scale").instances(sample(), base)


def test_all_images_of_a_sample_are_perturbed_alike_or_none():
    several = sample(images=3)
    instances = natural_suite().instances(several, 0)
    assert all(len(instance.images) == 3 for instance in instances)
    shifted = next(instance for instance in instances if instance.name == "translation_+12")
    for before, after in zip(several.images, shifted.images, strict=True):
        assert after.tobytes() == geometric.translate(before, 12).tobytes()
    images = (noise(80, 80), noise(80, 24), noise(80, 80))
    made = {i.name: i for i in natural_suite().instances(Sample("m", images, "?", ("x",)), 0)}
    for n in (-16, -12, 12, 16):
        instance = made[f"pad_crop_{n:+d}"]
        assert not instance.applicable and instance.images == ()
        assert instance.reason.startswith("image 2: ") and "80 x 24" in instance.reason
    assert all(made[f"pad_crop_{n:+d}"].applicable for n in (-8, -4, 4, 8))


def test_each_image_is_opened_once_and_not_at_all_where_it_is_given(tmp_path, monkeypatch):
    path = tmp_path / "a.png"
    noise(80, 60).save(path)
    the_sample = Sample("s", (path, path), "?", ("x", "y"))
    opened = []
    read = Image.open
    monkeypatch.setattr(Image, "open", lambda source: opened.append(source) or read(source))
    suite = natural_suite([family for family in NATURAL_FAMILIES if family != "identity"])
    from_file = suite.instances(the_sample, 0)
    assert opened == [Path(path)] * 2
    given_images = suite.instances(the_sample, 0, images=(noise(80, 60), noise(80, 60)))
    assert len(opened) == 2
    assert [i.images[1].tobytes() for i in from_file] == [i.images[1].tobytes() for i in given_images]


def test_what_cannot_be_read_names_the_sample(tmp_path):
    with pytest.raises(ImageError, match="^seed_9: .*no.png"):
        natural_suite("scale").instances(Sample("seed_9", (tmp_path / "no.png",), "?", ("x",)), 0)
    with pytest.raises(ValueError, match="seed_9.*no image"):
        natural_suite("scale").instances(Sample("seed_9", (), "?", ("x",)), 0)


@relaxed
@given(sizes, st.integers(1, 5))
def test_a_suite_is_deterministic_and_leaves_its_input_alone(size, options):
    image = noise(*size)
    before = image.tobytes()
    the_sample = Sample("s", (image,), "?", tuple("vwxyz"[:options]))
    first, second = (natural_suite().instances(the_sample, options - 1, images=(image,)) for _ in range(2))
    assert image.tobytes() == before
    for one, two in zip(first, second, strict=True):
        assert (one.name, one.params, one.reason) == (two.name, two.params, two.reason)
        assert [i.tobytes() for i in one.images] == [i.tobytes() for i in two.images]
        fits = {"pad_crop": lambda n: min(size) > 2 * abs(n), "translation": lambda n: n % size[0] != 0}
        assert one.applicable == (one.family not in fits or fits[one.family](one.params["n"]))
        for changed in one.images:
            assert changed.mode == "RGB" and changed is not image and min(changed.size) >= 1
            if one.family in ("identity", "translation", "scale_pad", "text_overlay", "random_text", "box_overlay"):
                assert changed.size == size


def test_families_and_parameters_are_data():
    suite = natural_suite(
        ["rotation", "translation", "scale", "text_overlay"],
        {
            "translation": {"n": [np.int64(-32), 32]},
            "rotation": {"degrees": 45, "fill": "black"},
            "scale": {"factor": [0.5, 1]},
            "text_overlay": {"labels": 1, "phrase": "It is {label}", "pad": 0, "fill": "yellow"},
            "pad_crop": {"n": [1]},
            "identity": None,
        },
    )
    instances = suite.instances(sample(), 0)
    assert [i.name for i in instances] == [
        *("translation_-32", "translation_+32", "scale_0.5", "scale_1.0", "rotation_+45", "text_overlay_B")
    ]
    assert instances[-1].params["phrase"] == "It is B"
    assert instances[-1].images[0].getpixel((40, 30)) != noise(80, 60).getpixel((40, 30))
    assert instances[-2].images[0].getpixel((0, 0)) == (0, 0, 0)
    assert json.loads(json.dumps(suite.families))["translation"] == {"n": [-32, 32]}
    assert natural_suite().families["translation"]["n"] == (-16, -12, -8, -4, 4, 8, 12, 16)


@pytest.mark.parametrize(
    ("families", "params", "message"),
    [
        (["translaton"], None, "'translaton'.*did you mean 'translation'"),
        ("pad", None, "'pad'.*did you mean 'pad_crop'"),
        ([7], None, "unknown family 7"),
        (None, {"rotate": {}}, "'rotate'.*did you mean 'rotation'"),
        (None, {"rotation": {"degree": [3]}}, "'degree'.*did you mean 'degrees'"),
        (["scale"], {"identity": {"n": 1}}, "'identity', 'n'; it has none"),
        (None, {"translation": {"n": [4, 4]}}, "translation.n needs one or more different"),
        (None, {"translation": {"n": []}}, "translation.n needs one or more different"),
        (None, {"translation": {"n": [0.5]}}, "translation.n needs int values, not 0.5"),
        (None, {"translation": {"n": ["4"]}}, "translation.n needs int values, not '4'"),
        (None, {"translation": {"n": [True]}}, "translation.n needs int values, not True"),
        (None, {"rotation": {"fill": ["white", "black"]}}, "rotation.fill needs str values"),
        (None, {"rotation": {"fill": "whit"}}, "family 'rotation': .*whit"),
        (None, {"scale": {"factor": 0}}, "family 'scale': .*not 0.0"),
        (None, {"scale": {"factor": float("nan")}}, "scale.factor needs a finite number, not nan"),
        (None, {"scale": {"factor": float("inf")}}, "scale.factor needs a finite number, not inf"),
        (["noise_all"], {"noise_all": {"eps": [float("nan")]}}, "noise_all.eps needs a finite number"),
        (["pgd_low"], {"pgd_low": {"eps": [8 / 255, 8.0000001 / 255]}}, "pgd_low.eps needs .* different values"),
        (None, {"translation": 3}, "parameters of family 'translation' are a dict, not 3"),
        (None, {"text_overlay": {"min_size": 100_000}}, "family 'text_overlay': .*size"),
        (None, {"scale_pad": {"factor": 1.1}}, "family 'scale_pad': .*1.1"),
        (None, {"text_overlay": {"labels": 0}}, "family 'text_overlay': .*labels"),
        (None, {"box_overlay": {"divisor": 0}}, "family 'box_overlay': .*divisor"),
        (None, {"random_text": {"shortest": 13}}, "family 'random_text': .*shortest"),
    ],
)
def test_a_wrong_suite_is_refused_by_name(families, params, message):
    with pytest.raises(ValueError, match=message):
        natural_suite(families, params)
