"""The image door: every odd image is either read rightly or refused with one message that names the sample."""

import io
import struct
import warnings
import zlib

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from hypothesis.extra.numpy import array_shapes, arrays
from PIL import Image

from vfkit import images as module
from vfkit.images import ImageError, content_hash, lasting_hash, load_image, numbered, open_images
from vfkit.sample import Sample

relaxed = settings(deadline=None, max_examples=100)  # a busy machine is no failure
RNG = np.random.default_rng(0)
PIXELS = RNG.integers(0, 256, (6, 9, 3), dtype=np.uint8)


def encode(image, fmt="PNG", **options):
    buffer = io.BytesIO()
    image.save(buffer, fmt, **options)
    return buffer.getvalue()


def pixels(source):
    image = load_image(source)
    assert image.mode == "RGB" and image.info == {}
    return np.asarray(image)


def grey(*values):
    """One row of grey pixels as an RGB array."""
    return np.repeat(np.array(values, dtype=np.uint8).reshape(1, -1, 1), 3, axis=2)


def png(width, height, bits, colour, raw, transparency=None):
    """A PNG by hand: for headers and depths that Pillow does not write."""

    def chunk(kind, data):
        return struct.pack(">I", len(data)) + kind + data + struct.pack(">I", zlib.crc32(kind + data))

    parts = [chunk(b"IHDR", struct.pack(">IIBBBBB", width, height, bits, colour, 0, 0, 0))]
    if transparency is not None:
        parts.append(chunk(b"tRNS", transparency))
    parts += [chunk(b"IDAT", zlib.compress(raw)), chunk(b"IEND", b"")]
    return b"\x89PNG\r\n\x1a\n" + b"".join(parts)


def test_one_picture_through_every_kind_of_source(tmp_path):
    image = Image.fromarray(PIXELS)
    path = tmp_path / "a.png"
    path.write_bytes(encode(image))
    lazy = Image.open(path)
    data = path.read_bytes()
    for source in (path, str(path), data, bytearray(data), memoryview(data), image, lazy, PIXELS, PIXELS[::-1][::-1]):
        np.testing.assert_array_equal(pixels(source), PIXELS)
    assert len({content_hash(load_image(source)) for source in (path, image, PIXELS)}) == 1


def test_content_hash_depends_on_pixels_and_size():
    flat = np.zeros((2, 6, 3), np.uint8)
    dot = flat.copy()
    dot[0, 0, 0] = 1
    hashes = {content_hash(load_image(array)) for array in (flat, flat.reshape(6, 2, 3), flat.reshape(3, 4, 3), dot)}
    assert len(hashes) == 4
    assert all(len(text) == 16 and int(text, 16) >= 0 for text in hashes)


@pytest.mark.parametrize("fmt", ["PNG", "TIFF", "WEBP", "memory"])
@pytest.mark.parametrize("orientation", range(1, 9))
def test_exif_orientation(orientation, fmt):
    # EXIF 4.6.5: the side of the picture that the stored row 0 holds, and the side that column 0 holds
    flipped = PIXELS[::-1]
    stored = {
        1: PIXELS,  # top, left
        2: PIXELS[:, ::-1],  # top, right
        3: flipped[:, ::-1],  # bottom, right
        4: flipped,  # bottom, left
        5: PIXELS.transpose(1, 0, 2),  # left, top
        6: PIXELS[:, ::-1].transpose(1, 0, 2),  # right, top
        7: flipped[:, ::-1].transpose(1, 0, 2),  # right, bottom
        8: flipped.transpose(1, 0, 2),  # left, bottom
    }[orientation]
    exif = Image.Exif()
    exif[0x0112] = orientation
    image = Image.fromarray(np.ascontiguousarray(stored))
    if fmt == "memory":
        image.info["exif"] = exif.tobytes()
        source = image
    else:
        source = encode(image, fmt, exif=exif, **({"lossless": True} if fmt == "WEBP" else {}))
    np.testing.assert_array_equal(pixels(source), PIXELS)
    np.testing.assert_array_equal(pixels(load_image(source)), PIXELS)


@pytest.mark.parametrize("exif", [b"Exif\0\0garbage", b"\xff" * 40, b"Exif\0\0II*\0\x08\0\0\0\x40\x00\x12"])
def test_a_broken_exif_block_does_not_cost_the_picture(exif):
    image = Image.fromarray(PIXELS)
    image.info["exif"] = exif
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        np.testing.assert_array_equal(pixels(image), PIXELS)


def test_alpha_is_composited_over_white():
    rgba = np.array([[[255, 0, 0, 255], [255, 0, 0, 0], [0, 0, 0, 128]]], np.uint8)
    expected = [[[255, 0, 0], [255, 255, 255], [127, 127, 127]]]
    for source in (
        rgba,
        rgba / 255,
        Image.fromarray(rgba),
        encode(Image.fromarray(rgba)),
        Image.fromarray(rgba).convert("RGBa"),
    ):
        assert pixels(source).tolist() == expected
    la = Image.merge("LA", [Image.new("L", (1, 1), 0), Image.new("L", (1, 1), 128)])
    for source in (la, encode(la), encode(la, "TIFF")):
        assert pixels(source).tolist() == [[[127, 127, 127]]]
    premultiplied = Image.new("La", (1, 1), (0, 128))
    assert pixels(premultiplied).tolist() == [[[127, 127, 127]]]


def test_palettes():
    image = Image.new("P", (3, 1))
    image.putpalette([255, 0, 0, 0, 255, 0, 0, 0, 255])
    image.putdata([0, 1, 2])
    opaque = [[[255, 0, 0], [0, 255, 0], [0, 0, 255]]]
    for fmt in ("PNG", "GIF", "BMP"):
        assert pixels(encode(image, fmt)).tolist() == opaque
    assert pixels(encode(image, transparency=1)).tolist() == [[[255, 0, 0], [255, 255, 255], [0, 0, 255]]]
    assert pixels(encode(image, "GIF", transparency=1)).tolist() == [[[255, 0, 0], [255, 255, 255], [0, 0, 255]]]
    assert pixels(encode(image, transparency=bytes([0, 255, 128]))).tolist() == [
        [[255, 255, 255], [0, 255, 0], [127, 127, 255]]
    ]
    pa = Image.new("PA", (1, 1), (0, 0))
    assert pixels(pa).tolist() == [[[255, 255, 255]]]


@pytest.mark.parametrize(
    ("data", "expected"),
    [  # each picture has two pixels, the second of the colour that its tRNS chunk makes transparent
        (png(2, 1, 1, 0, b"\0\x40", struct.pack(">H", 1)), grey(0, 255)),
        (png(2, 1, 2, 0, b"\0\x60", struct.pack(">H", 2)), grey(85, 255)),
        (png(2, 1, 4, 0, b"\0\x37", struct.pack(">H", 7)), grey(51, 255)),
        (png(2, 1, 8, 0, b"\0\x37\x09", struct.pack(">H", 9)), grey(55, 255)),
        (png(2, 1, 16, 0, b"\0\x37\x37\x01\x02", struct.pack(">H", 0x0102)), grey(55, 255)),
        (png(2, 1, 8, 2, b"\0\1\2\3\4\5\6", struct.pack(">HHH", 4, 5, 6)), [[[1, 2, 3], [255, 255, 255]]]),
        (
            png(2, 1, 16, 2, b"\0\1\0\2\0\3\0\4\x09\5\x09\6\x09", struct.pack(">HHH", 0x0409, 0x0509, 0x0609)),
            [[[1, 2, 3], [255, 255, 255]]],
        ),
    ],
    ids=["grey1", "grey2", "grey4", "grey8", "grey16", "rgb8", "rgb16"],
)
def test_a_transparent_colour_becomes_white_at_every_depth(data, expected):
    opened = Image.open(io.BytesIO(data))
    before = opened.info.copy()
    for source in (data, opened):
        assert pixels(source).tolist() == np.asarray(expected).tolist()
    assert opened.info == before


def test_other_colour_models():
    assert pixels(encode(Image.new("CMYK", (1, 1), (0, 255, 255, 0)), "TIFF")).tolist() == [[[255, 0, 0]]]
    red = pixels(encode(Image.new("CMYK", (8, 8), (0, 255, 255, 0)), "JPEG", quality=100))
    assert np.abs(red.astype(int) - [255, 0, 0]).max() <= 3
    assert pixels(Image.new("YCbCr", (1, 1), (200, 128, 128))).tolist() == [[[200, 200, 200]]]
    assert pixels(Image.new("HSV", (1, 1), (0, 255, 255))).tolist() == [[[255, 0, 0]]]
    assert pixels(Image.new("L", (1, 1), 77)).tolist() == [[[77, 77, 77]]]
    assert pixels(encode(Image.fromarray(np.array([[True, False]])))).tolist() == grey(255, 0).tolist()


DEEP = np.array([[0, 257, 128 * 257, 65535, 30000, 128, 129]], np.uint16)
SHALLOW = grey(0, 1, 128, 255, 117, 0, 1)


@pytest.mark.parametrize(
    "source",
    [
        DEEP,
        DEEP.astype(">u2"),
        DEEP[:, :, None],
        Image.fromarray(DEEP),
        Image.fromarray(DEEP.astype(np.int32)),
        encode(Image.fromarray(DEEP)),
        encode(Image.fromarray(DEEP), "TIFF"),
        encode(Image.fromarray(DEEP.astype(np.int32)), "TIFF"),
        encode(Image.fromarray(DEEP.astype(">u2")), "TIFF"),
    ],
    ids=["array", "big-endian", "one channel", "I;16", "I", "png", "tiff", "tiff of mode I", "big-endian tiff"],
)
def test_sixteen_bits_are_scaled_not_saturated(source):
    np.testing.assert_array_equal(pixels(source), SHALLOW)


def test_a_rotated_sixteen_bit_file():
    exif = Image.Exif()
    exif[0x0112] = 3
    np.testing.assert_array_equal(pixels(encode(Image.fromarray(DEEP), exif=exif)), SHALLOW[:, ::-1])


@pytest.mark.parametrize("dtype", [np.float16, np.float32, np.float64])
def test_floats_are_read_from_zero_to_one(dtype):
    values = np.array([[0, 0.25, 0.5, 1]], dtype)
    expected = grey(0, 64, 128, 255)
    np.testing.assert_array_equal(pixels(values), expected)
    np.testing.assert_array_equal(pixels(np.repeat(values[:, :, None], 3, axis=2)), expected)


def test_float_images_and_bool_arrays():
    image = Image.fromarray(np.array([[0, 0.25, 1]], np.float32))
    assert image.mode == "F"
    for source in (image, encode(image, "TIFF")):
        np.testing.assert_array_equal(pixels(source), grey(0, 64, 255))
    np.testing.assert_array_equal(pixels(np.array([[True, False]])), grey(255, 0))


@pytest.mark.parametrize(
    "source",
    [
        np.array([[0.0, 255.0]]),
        np.array([[0.0, 1.001]]),
        np.array([[-0.001, 1.0]]),
        np.array([[np.nan, 1.0]]),
        np.array([[1, 2]]),
        np.array([[1, 2]], np.uint32),
        np.array([[1, 2]], np.int8),
        np.array([[1j]]),
        np.array([["a"]]),
        np.array([[None]]),
        np.zeros((3, 8, 8), np.uint8),
        np.zeros((8, 8, 2), np.uint8),
        np.zeros((1, 8, 8, 3), np.uint8),
        np.zeros(8, np.uint8),
        np.zeros((0, 8, 3), np.uint8),
        np.zeros((8, 0), np.uint8),
        np.broadcast_to(np.uint8(0), (10_000, 9_000)),
        Image.fromarray(np.array([[300.0]], np.float32)),
        Image.new("I", (1, 1), 70_000),
        Image.new("I", (1, 1), -1),
        Image.new("RGB", (0, 5)),
        None,
        7,
        {"bytes": b"", "path": None},
    ],
    ids=lambda source: type(source).__name__,
)
def test_what_has_no_agreed_meaning_is_refused(source):
    with pytest.raises(ImageError, match="^seed_17: cannot read "):
        load_image(source, "seed_17")


def test_broken_files_are_refused_with_one_message_that_names_the_sample(tmp_path):
    files = {
        "empty.png": (b"", "empty"),
        "text.jpg": (b"<html>not found</html>", "not an image"),
        "header.png": (b"\x89PNG\r\n\x1a\n", "not an image"),
        "cut.png": (encode(Image.fromarray(PIXELS))[:-40], "truncated"),
        "huge.png": (png(60_000, 60_000, 8, 2, b"\0"), "pixels that are decoded"),
        "large.png": (png(10_000, 9_000, 1, 0, b"\0"), "10000 x 9000"),
        "none.png": (png(0, 5, 8, 2, b"\0"), "no pixels|not an image"),
    }
    for name, (data, reason) in files.items():
        path = tmp_path / name
        path.write_bytes(data)
        for source, what in ((path, name), (data, f"{len(data)} bytes")):
            with warnings.catch_warnings():
                warnings.simplefilter("ignore", Image.DecompressionBombWarning)
                with pytest.raises(ImageError, match=f"^seed_17: cannot read image .*{what}.*({reason})") as caught:
                    load_image(source, "seed_17")
            assert "\n" not in str(caught.value)
    for source, reason in (
        (tmp_path, "directory"),
        (tmp_path / "no.png", "no such file"),
        ("a\0b", "null"),
        ("", "no such"),
    ):
        with pytest.raises(ImageError, match=f"^seed_17: cannot read image .*{reason}"):
            load_image(source, "seed_17")
    with pytest.raises(ImageError, match="^cannot read image"):
        load_image(b"")


def test_a_closed_image_is_refused(tmp_path):
    path = tmp_path / "a.png"
    path.write_bytes(encode(Image.fromarray(PIXELS)))
    image = Image.open(path)
    image.close()
    with pytest.raises(ImageError, match="^seed_17: "):
        load_image(image, "seed_17")


@pytest.mark.parametrize("fmt", ["PNG", "JPEG", "GIF", "BMP", "TIFF", "WEBP"])
def test_a_truncated_file_is_never_read_as_another_picture(fmt):
    data = encode(Image.fromarray(RNG.integers(0, 256, (20, 20, 3), dtype=np.uint8)), fmt)
    whole = pixels(data)
    refused = 0
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        for length in range(0, len(data), 13):
            try:
                np.testing.assert_array_equal(pixels(data[:length]), whole)
            except ImageError:
                refused += 1
    assert refused >= len(data) / 13 * 0.9


@relaxed
@given(st.sampled_from(["PNG", "JPEG", "GIF", "TIFF"]), st.data())
def test_a_damaged_file_is_read_or_refused_and_nothing_else(fmt, data):
    damaged = bytearray(encode(Image.fromarray(PIXELS), fmt))
    for _ in range(data.draw(st.integers(1, 6))):
        damaged[data.draw(st.integers(0, len(damaged) - 1))] = data.draw(st.integers(0, 255))
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        try:
            assert load_image(bytes(damaged)).mode == "RGB"
        except ImageError:
            pass


@pytest.mark.parametrize(
    ("size", "expected"),
    [
        ((1, 1), (1, 1)),
        ((1, 40), (1, 40)),
        ((1024, 1024), (1024, 1024)),
        ((1025, 1024), (1024, 1023)),
        ((2048, 1000), (1024, 500)),
        ((300, 3000), (102, 1024)),
        ((20_000, 2), (1024, 1)),
        ((1, 5_000), (1, 1024)),
    ],
)
def test_the_longer_side_is_at_most_1024(size, expected):
    image = Image.new("RGB", size, (10, 20, 30))
    small = load_image(image)
    assert small.size == expected
    assert small.getextrema() == ((10, 10), (20, 20), (30, 30))
    assert load_image(small).tobytes() == small.tobytes()


def test_shrinking_is_bicubic():
    image = Image.fromarray(RNG.integers(0, 256, (30, 1500, 3), dtype=np.uint8))
    assert load_image(image).tobytes() == image.resize((1024, 20), Image.Resampling.BICUBIC).tobytes()


def test_of_several_frames_the_first_is_read():
    frames = [Image.new("RGB", (4, 4), colour) for colour in ("red", "lime", "blue")]
    for fmt in ("GIF", "TIFF", "PNG"):
        data = encode(frames[0], fmt, save_all=True, append_images=frames[1:])
        assert Image.open(io.BytesIO(data)).n_frames == 3
        assert (pixels(data) == [255, 0, 0]).all()


@relaxed
@given(arrays(np.uint8, array_shapes(min_dims=3, max_dims=3, min_side=1, max_side=12).map(lambda s: (*s[:2], 3))))
def test_sources_stay_as_they_are_and_the_door_is_idempotent(array):
    before = array.copy()
    image = Image.fromarray(array)
    image.info["transparency"] = tuple(int(value) for value in array[0, 0])
    once = load_image(image)
    assert image.info == {"transparency": tuple(array[0, 0])} and image.tobytes() == before.tobytes()
    direct = load_image(array)
    direct.paste("black", (0, 0, *direct.size))  # drawing on what the door gave does not reach the source
    np.testing.assert_array_equal(array, before)
    transparent = (array == array[0, 0]).all(axis=2, keepdims=True)
    np.testing.assert_array_equal(np.asarray(once), np.where(transparent, 255, array))
    twice = load_image(once)
    assert twice is not once and content_hash(twice) == content_hash(once)


def test_one_image_needs_no_list_and_no_full_path(tmp_path, monkeypatch):
    monkeypatch.setenv("HOME", str(tmp_path))
    (tmp_path / "one.png").write_bytes(encode(Image.fromarray(PIXELS)))
    sample = Sample("s", (), "?", ("a", "b"))
    for one in (
        "~/one.png",
        tmp_path / "one.png",
        (tmp_path / "one.png").read_bytes(),
        PIXELS,
        Image.fromarray(PIXELS),
    ):
        for sources in (one, [one]):
            (image,) = open_images(sample, sources)
            np.testing.assert_array_equal(np.asarray(image), PIXELS)


def test_images_of_equal_pixels_have_equal_numbers_also_where_they_differ_in_one_value():
    flat = np.zeros((16, 24, 3), np.uint8)
    dot = flat.copy()
    dot[0, 0, 1] = 1  # not among every sixty-first value
    wide = flat.reshape(24, 16, 3)
    images = [load_image(array) for array in (flat, dot, flat, wide, dot)]
    numbers = numbered([*images, images[0]])
    assert len(numbers) == 5
    one, other, same, turned, other_same = (numbers[id(image)] for image in images)
    assert one == same and other == other_same and len({one, other, turned}) == 3


def test_an_image_is_hashed_once_for_as_long_as_it_lives(monkeypatch):
    calls = []
    monkeypatch.setattr(module, "content_hash", lambda image: calls.append(1) or content_hash(image))
    for round_ in range(3):  # the next image may take the place, and the id, of the one before
        image = load_image(np.full((8, 8, 3), round_, np.uint8))
        assert lasting_hash(image) == lasting_hash(image) == content_hash(image)
        assert len(calls) == round_ + 1
