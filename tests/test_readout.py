"""The engine against the oracle: the same numbers, with every image encoded once."""

import copy
import re
from collections import Counter
from dataclasses import replace
from types import SimpleNamespace

import numpy as np
import pytest
import torch
from PIL import Image

import vfkit
from vfkit.images import content_hash, open_images
from vfkit.readout import conversation, engine, greedy, rules
from vfkit.readout.batch import ContextError, Group, Question, RowCost, cut, grouped, question
from vfkit.readout.conversation import ConversationError
from vfkit.readout.oracle import read_oracle
from vfkit.readout.readout import Readout
from vfkit.readout.verify import VerifyError, compare, verify
from vfkit.sample import Sample

CLOSE = 1e-4


def _image(size: tuple[int, int], seed: int) -> Image.Image:
    noise = np.random.default_rng(seed).integers(0, 256, (8, 8, 3), dtype=np.uint8)
    return Image.fromarray(noise).resize(size, Image.Resampling.BICUBIC)


def _requests() -> list[engine.Request]:
    """Options of one and of several tokens, two to five of them, one and two images, many sizes."""
    asked = [
        Sample("one token", (), "What color is the circle?", ("red", "teal", "blue", "gray"), 1),
        Sample(
            "several tokens", (), "Where is the red star?", ("top left", "bottom right", "an unheard-of place", "1"), 0
        ),
        Sample("yes no", (), "Is there a ring in the image?", ("Yes", "No"), 1, prompt="yes_no"),
        Sample("five", (), "What is it?", ("None", "NA", "red", "red", "x" * 40), 2, hint="Count twice."),
        Sample("two images", (), "Which shape is teal?", ("star", "ring", "cross"), 0),
        Sample("interleaved", (), "Is <image 1> as red as <image 2>?", ("as red", "<image 1>", "less"), 0),
        Sample("open", (), "What is it?", ("a red star", "a ring"), 0, hint="It is a ring.", prompt="open"),
        Sample("one option", (), "What shape is in the image?", ("circle",), 0),
    ]
    sizes = [(256, 256), (300, 120), (90, 400), (64, 64), (256, 200), (128, 90), (200, 100), (31, 57)]
    images = [(_image(size, seed),) for seed, size in enumerate(sizes)]
    images[4] += (_image((120, 300), 9),)
    images[5] += (_image((120, 300), 9),)
    return list(zip(asked, images, strict=True))


@pytest.fixture(scope="module")
def expected(vlm) -> list[Readout]:
    return [read_oracle(vlm, sample, images, probes=True) for sample, images in _requests()]


def _differences(one: Readout, other: Readout) -> dict[str, float]:
    return {name: value for name, value in compare(one, other).items() if not value <= CLOSE}


@pytest.fixture
def encoded(vlm):
    """Images that really went through the vision encoder, counted where they enter it."""
    grids = []
    hook = vlm.model.model.visual.register_forward_pre_hook(
        lambda _, args, kwargs: grids.append(len(kwargs["grid_thw"])), with_kwargs=True
    )
    yield grids
    hook.remove()


@pytest.mark.parametrize("batch", [1, 2, 5])
@pytest.mark.parametrize("order", [[0, 1, 2, 3, 4, 5], [5, 3, 1, 4, 2, 0]])
def test_engine_equals_oracle(vlm, expected, batch, order):
    requests = [_requests()[index] for index in order]
    longest = grouped(vlm, requests, False, 8192)[0][0].n_tokens
    readouts = engine.read_many(vlm, requests, probes=False, batch_tokens=batch * longest)
    for index, readout in zip(order, readouts, strict=True):
        bare = Readout(expected[index].labels, expected[index].option_texts, **expected[index].parts())
        assert _differences(readout, bare) == {}


@pytest.mark.parametrize("batch_tokens", [1, 100_000])
def test_probes_vision_tokens_and_answers_equal_the_oracles(vlm, expected, batch_tokens):
    readouts = engine.read_many(vlm, _requests(), probes=True, batch_tokens=batch_tokens)
    for readout, truth in zip(readouts, expected, strict=True):
        assert set(readout.probes) == {"ctx_open", "ctx_mcq", "ans_open", "ans_mcq", "ans_mcq_free"}
        assert readout.texts == truth.texts
        assert _differences(readout, truth) == {}
    assert [len(readout.vision) for readout in readouts] == [1, 1, 1, 1, 2, 2, 1, 1]


def test_the_oracle_itself_adds_up_to_the_likelihood_of_the_conversation(vlm):
    """Held against plain teacher forcing with the library's own loss, which knows nothing of this package."""
    sample, images = _requests()[1]
    readout = read_oracle(vlm, sample, images, probes=False)
    turn = {"role": "user", "content": [{"type": "image", "image": images[0]}, {"type": "text", "text": ""}]}
    turn["content"][1]["text"] = vfkit.prompts.text(sample, "mcq")
    chat = dict(tokenize=True, return_dict=True, return_tensors="pt")
    asked = vlm.processor.apply_chat_template([turn], add_generation_prompt=True, **chat)
    for option, score in zip(sample.options, readout.scores("paper"), strict=True):
        answer = {"role": "assistant", "content": [{"type": "text", "text": option}]}
        inputs = vlm.processor.apply_chat_template([turn, answer], **chat)
        labels = inputs["input_ids"].clone()
        labels[:, : asked["input_ids"].shape[1]] = -100
        vlm.model.model.rope_deltas = None
        with torch.inference_mode():
            mean = vlm.model(**inputs, labels=labels).loss
        assert -float(mean) * int((labels >= 0).sum()) == pytest.approx(score, abs=CLOSE)


def test_reading_twice_gives_the_same_numbers_whatever_was_read_between(vlm):
    (first, images), (other, others), *_ = _requests()
    before = vfkit.read(vlm, first, images)
    vfkit.read(vlm, other, others)  # another grid: positions of an image must not survive it
    after = vfkit.read(vlm, first, images)
    assert max(compare(before, after).values()) <= 1e-6
    assert before.texts == after.texts


def test_every_distinct_image_is_encoded_once(vlm, encoded):
    """Base, 30 paper instances and identity of a four-option sample: 32 images. Empty boxes of equally wide labels are
    one image; every other is encoded once, the base again as identity."""
    sample = next(s for s in vfkit.load_dataset("mini_seed", n=20) if len(s.options) == 4)
    base = (vfkit.load_image(sample.images[0]),)
    before = vlm.counters.copy()
    (readout,) = engine.read_many(vlm, [(sample, base)], probes=True)
    instances = vfkit.natural_suite().instances(sample, readout.prediction(), base)
    paper = [instance for instance in instances if instance.family != "identity"]
    assert (len(paper), len(instances)) == (30, 31)
    engine.read_many(vlm, [(sample, instance.images) for instance in instances], probes=True)
    boxes = {content_hash(instance.images[0]) for instance in instances if instance.family == "box_overlay"}
    assert sum(encoded) == 32 - (3 - len(boxes))
    assert (vlm.counters - before)["encodes"] == (vlm.counters - before)["prefills"] == sum(encoded)


def test_questions_about_one_image_share_its_encode_and_answer_as_if_alone(vlm, encoded):
    image = (_image((200, 150), 3),)
    samples = [
        Sample(str(i), (), f"How many shapes are {word}?", ("1", "2", "3"), 0) for i, word in enumerate(("red", "blue"))
    ]
    together = engine.read_many(vlm, [(sample, image) for sample in samples], probes=True)
    assert sum(encoded) == 1
    alone = [vfkit.read(vlm, sample, image) for sample in samples]
    assert [_differences(*pair) for pair in zip(together, alone, strict=True)] == [{}, {}]


def test_many_questions_on_an_image_are_cut_into_the_rows_that_cost_least(vlm, encoded, monkeypatch):
    image = (_image((200, 150), 3),)
    samples = [Sample(str(i), (), f"Is there a red star beside {i} rings?", ("Yes", "No"), 0) for i in range(60)]
    requests = [(sample, image) for sample in samples]
    rows, _ = grouped(vlm, requests, False, 10**6)
    assert 1 < len(rows) < 20 and max(map(len, (row.questions for row in rows))) < 20
    assert sorted(q.index for row in rows for q in row.questions) == list(range(60))
    readouts = engine.read_many(vlm, requests, batch_tokens=10**6)
    assert sum(encoded) == len(rows)
    whole = Group(image, [question(vlm, *request, index=i) for i, request in enumerate(requests)], rows[0].n_prefix)
    monkeypatch.setattr(engine, "grouped", lambda *_: ([whole], {}))
    monolith = engine.read_many(vlm, requests)
    for index, readout in enumerate(readouts):
        np.testing.assert_allclose(readout.scores(), monolith[index].scores(), atol=1e-5)


def _group(n_questions: int) -> Group:
    """Questions of 40 tokens on an image of 100."""
    prompt = conversation.Prompt([], "", 0, (), tuple(range(40)))
    asked = Sample("s", (), "?", ("a", "b"))
    return Group((Image.new("RGB", (8, 8)),), [Question(asked, prompt) for _ in range(n_questions)], 100, 100)


@pytest.mark.parametrize(
    "image, pair, rows",
    [(5.0, 0.0, 1), (5.0, 1e-6, 1), (0.0, 0.01, 15), (5.0, 1e-3, 3), (20.0, 1e-3, 2)],
)
def test_rows_are_cut_where_attention_past_other_questions_costs_more_than_another_encode(image, pair, rows):
    cost = RowCost(image, pair)
    parts = cut(_group(60), cost, 10**6)
    assert len(parts) == rows
    alternatives = [[_group(size) for _ in range(60 // size)] for size in (1, 2, 3, 4, 5, 6, 10, 12, 15, 20, 30, 60)]
    assert sum(map(cost, parts)) == min(sum(map(cost, each)) for each in alternatives)


def test_rows_stay_within_a_batch_and_a_single_question_is_the_least(vlm):
    cheap = RowCost(1e6, 0.0)  # nothing but a batch's size is against one row
    assert [len(part.questions) for part in cut(_group(10), cheap, 300)] == [5, 5]
    assert [len(part.questions) for part in cut(_group(3), cheap, 50)] == [1, 1, 1]


def test_identity_never_flips_nor_moves_a_score(vlm):
    samples = vfkit.load_dataset("mini_seed", n=12, seed=2)
    suite = vfkit.natural_suite(families=["identity", "translation"])
    bases = [(sample, (vfkit.load_image(sample.images[0]),)) for sample in samples]
    base_readouts = engine.read_many(vlm, bases)
    requests, owners = [], []
    for (sample, images), readout in zip(bases, base_readouts, strict=True):
        for instance in suite.instances(sample, readout.prediction(), images):
            requests.append((sample, instance.images))
            owners.append((instance.family, readout))
    for (family, base), readout in zip(owners, engine.read_many(vlm, requests), strict=True):
        if family == "identity":
            assert readout.prediction() == base.prediction()
            assert np.abs(readout.scores() - base.scores()).max() <= 1e-5


def test_equal_options_are_exact_ties_however_long(vlm):
    sample = Sample("s", (), "What is it?", ("a large red circle", "a large red circle"), 1)
    readout = vfkit.read(vlm, sample, (_image((200, 90), 1),), probes=False)
    assert readout.logp_text[0] == readout.logp_text[1]
    assert readout.tied() and readout.prediction() == 0


def test_a_failure_names_its_sample(vlm):
    sample = Sample("the thin one", (_image((1000, 4), 0),), "What is it?", ("red", "blue"))
    with pytest.raises(ValueError) as caught:
        vfkit.read(vlm, sample)
    assert "the thin one" in " ".join(caught.value.__notes__)


def test_a_request_that_fails_leaves_the_others_alone(vlm, expected):
    requests = _requests()
    impossible = (requests[0][0], (_image((1000, 4), 0),))  # the processor refuses aspect ratios above 200
    readouts = engine.read_many(vlm, [requests[0], impossible, requests[1]])
    assert isinstance(readouts[1], ValueError) and "200" in str(readouts[1])
    assert readouts[0].scores() == pytest.approx(expected[0].scores(), abs=CLOSE)
    assert readouts[2].scores() == pytest.approx(expected[1].scores(), abs=CLOSE)


def test_out_of_memory_is_met_once_with_half_the_batch(vlm, monkeypatch, expected):
    sizes, forward = [], engine.forward_rows

    def small(vlm, groups, *rest, **options):
        sizes.append(len(groups))
        if len(groups) > 4:
            raise torch.OutOfMemoryError("too much")
        return forward(vlm, groups, *rest, **options)

    monkeypatch.setattr(engine, "forward_rows", small)
    monkeypatch.setattr(vlm, "counters", Counter())
    with pytest.warns(UserWarning, match="half as large from here on"):
        readouts = engine.read_many(vlm, _requests())
    assert sizes == [8, 4, 4] and vlm.counters["out_of_memory"] == 1
    room = 8 * grouped(vlm, _requests(), False, 8192)[0][0].n_tokens
    sizes.clear()
    engine.read_many(vlm, _requests(), batch_tokens=room)  # no memory runs out again
    assert sizes[0] == 4 and max(sizes) == 4 and vlm.counters["out_of_memory"] == 1
    assert [
        _differences(r, Readout(e.labels, e.option_texts, **e.parts())) for r, e in zip(readouts, expected, strict=True)
    ] == [{}] * 8

    never = lambda *_, **options: (_ for _ in ()).throw(torch.OutOfMemoryError("never fits"))  # noqa: E731
    monkeypatch.setattr(engine, "forward_rows", never)
    assert all(isinstance(readout, torch.OutOfMemoryError) for readout in engine.read_many(vlm, _requests()))


# --- images, long prompts and templates -------------------------------------------------------------------------------


def _grey_ramp() -> np.ndarray:
    return np.linspace(0, 1, 96 * 128).reshape(96, 128)


@pytest.mark.parametrize("kind", ["16 bit", "float", "uint8 array", "float array", "path", "bytes", "turned"])
@pytest.mark.parametrize("read", [vfkit.read, vfkit.read_oracle])
def test_images_given_to_read_are_opened_as_a_samples_own(vlm, tmp_path, kind, read):
    ramp = _grey_ramp()
    picture = _image((400, 200), 1)
    picture.save(tmp_path / "picture.png")
    exif = Image.Exif()
    exif[0x0112] = 6
    turned = picture.copy()
    turned.info["exif"] = exif.tobytes()
    source = {
        "16 bit": Image.fromarray((ramp * 65535).astype(np.uint16)),
        "float": Image.fromarray(ramp.astype(np.float32)),
        "uint8 array": np.asarray(picture),
        "float array": np.asarray(picture) / 255,
        "path": str(tmp_path / "picture.png"),
        "bytes": (tmp_path / "picture.png").read_bytes(),
        "turned": turned,
    }[kind]
    sample = Sample("s", (source,), "What is it?", ("red", "teal"))
    expected = read(vlm, sample, probes=False).scores()
    np.testing.assert_allclose(read(vlm, sample, [source], probes=False).scores(), expected, atol=1e-6)
    other = read(vlm, replace(sample, images=(Image.new("RGB", (128, 96), "white"),)), probes=False).scores()
    assert np.abs(expected - other).max() > 1e-3


def test_a_perturbed_image_larger_than_what_is_loaded_is_read_as_it_is(vlm):
    large = _image((1100, 900), 2)
    assert open_images(Sample("s", (), "?", ("a",)), [large])[0].tobytes() == large.tobytes()
    assert open_images(Sample("s", (large,), "?", ("a",)))[0].size == (1024, 838)


@pytest.mark.parametrize("probes", [False, True])
def test_a_prompt_beyond_the_models_context_is_an_error_with_both_numbers(vlm, monkeypatch, probes):
    (sample, images), (other, others) = _requests()[:2]
    fits = grouped(vlm, [(sample, images)], probes, 8192)[0][0]
    longest = fits.n_prefix + max(
        len(fits.questions[0].scored.tail) + max([32 * probes, *map(len, fits.questions[0].candidates)]),
        len(fits.questions[0].open.tail) + 32 if probes else 0,
    )
    monkeypatch.setattr(vlm.model.config.get_text_config(), "max_position_embeddings", longest)
    good, long = engine.read_many(vlm, [(sample, images), (replace(sample, hint="very " * 40), images)], probes)
    assert isinstance(good, Readout)
    assert isinstance(long, ContextError) and f"holds {longest:,}" in str(long)
    assert int(re.search(r"takes ([\d,]+) tokens", str(long))[1].replace(",", "")) > longest


def test_a_row_longer_than_a_batch_is_read_alone(vlm, expected, monkeypatch):
    sizes, forward = [], engine.forward_rows
    count = lambda vlm, groups, *rest, **options: sizes.append(len(groups)) or forward(vlm, groups, *rest, **options)  # noqa: E731
    monkeypatch.setattr(engine, "forward_rows", count)
    readouts = engine.read_many(vlm, _requests(), batch_tokens=60)
    assert sizes[0] == 1 and max(group.n_tokens for group in grouped(vlm, _requests(), False, 60)[0]) > 60
    for readout, truth in zip(readouts, expected, strict=True):
        np.testing.assert_allclose(readout.scores(), truth.scores(), atol=CLOSE)


@pytest.fixture
def images_last(vlm, monkeypatch):
    """The model with a template that writes a turn's texts before its images."""
    template, loop = vlm.processor.chat_template, "message.content"
    parts = [f"({loop} | {pick}attr('type', 'equalto', 'text') | list)" for pick in ("select", "reject")]
    changed = template.replace(f"in {loop} ", f"in ({' + '.join(parts)}) ")
    assert changed != template
    monkeypatch.setattr(vlm.processor, "chat_template", changed)
    return vlm


def test_a_template_that_writes_images_last_is_scored_rightly_and_its_probes_are_refused(images_last):
    sample, images = _requests()[0]
    scored = vfkit.read(images_last, sample, images, probes=False)
    assert _differences(scored, read_oracle(images_last, sample, images, probes=False)) == {}
    with pytest.raises(ConversationError, match="images after the text"):
        vfkit.read(images_last, sample, images)
    assert vfkit.read(images_last, sample, (), probes=True).probes  # without images nothing is in the way


# --- the end of an answer ---------------------------------------------------------------------------------------------


def _lengths(vlm) -> list[int]:
    """Tokens of generated answers, by the engine; the oracle must agree."""
    requests = _requests()[:3]
    readouts = engine.read_many(vlm, requests, probes=True)
    assert verify(vlm, requests, readouts) <= CLOSE
    return [len(ids) for readout in readouts for ids in readout.said.values()]


@pytest.mark.parametrize("left", ["generation config", "config", "text config", "tokenizer", "template"])
def test_answers_end_at_any_token_that_anything_calls_the_end(vlm, monkeypatch, left):
    """A fine-tune of which all but one name another end than the model was trained with."""
    before = _lengths(vlm)
    assert max(before) < 32
    processor = copy.deepcopy(vlm.processor)
    end = processor.tokenizer.eos_token_id
    other = processor.tokenizer.pad_token_id
    assert other != end
    named = {"generation config": vlm.model.generation_config, "config": vlm.model.config}
    named["text config"] = vlm.model.config.get_text_config()
    for name, config in named.items():
        monkeypatch.setattr(config, "eos_token_id", [other, end] if name == left else other, raising=False)
    if left != "tokenizer":
        processor.tokenizer.eos_token = processor.tokenizer.pad_token
    if left != "template":
        monkeypatch.setattr(greedy, "turn_end", lambda *_: None)
    monkeypatch.setattr(vlm, "processor", processor)
    assert end in greedy.end_tokens(vlm)
    assert _lengths(vlm) == before


def test_an_engine_that_runs_on_past_the_end_of_a_turn_is_caught(vlm, monkeypatch):
    monkeypatch.setattr(greedy, "end_tokens", lambda vlm: {vlm.processor.tokenizer.pad_token_id})
    requests = _requests()[:1]
    with pytest.raises(VerifyError):
        verify(vlm, requests, engine.read_many(vlm, requests, probes=True))


# --- verify -----------------------------------------------------------------------------------------------------------


def test_verify_passes_a_right_engine_and_says_how_close_it_is(vlm):
    requests = _requests()[:2]
    assert verify(vlm, requests, engine.read_many(vlm, requests, probes=True)) <= CLOSE


def test_verify_stops_a_wrong_one(vlm, monkeypatch):
    """Positions that count image tokens one by one: the mistake an adapter makes most easily."""
    right = vlm.adapter.positions

    def wrong(model, inputs):
        ids, shift = right(model, inputs)
        return ids, torch.zeros_like(shift)

    adapter = SimpleNamespace(
        **{name: getattr(vlm.adapter, name) for name in dir(vlm.adapter) if not name.startswith("_")}
    )
    adapter.positions = wrong
    monkeypatch.setattr(vlm, "adapter", adapter)
    requests = _requests()[:1]
    with pytest.raises(VerifyError, match="'one token'.*'mini_qwen3vl'"):
        verify(vlm, requests, engine.read_many(vlm, requests))


# --- rules ------------------------------------------------------------------------------------------------------------

PARTS = dict(
    logp_text=[-1.0, -3.0, -2.0], logp_end=[-1.5, -0.1, -0.5], n_tokens=[1, 3, 2], logp_letter=[-2.0, -1.0, -1.0]
)


@pytest.mark.parametrize(
    "rule, values, prediction, tied",
    [
        ("paper", [-2.5, -3.1, -2.5], 0, True),
        ("text", [-1, -3, -2], 0, False),
        ("text_mean", [-1, -1, -1], 0, True),
        ("letter", [-2, -1, -1], 1, True),
    ],
)
def test_rules_pick_from_the_parts_and_the_first_of_equals_wins(rule, values, prediction, tied):
    readout = Readout(("A", "B", "C"), ("x", "y", "z"), **{name: np.array(part) for name, part in PARTS.items()})
    assert readout.scores(rule).tolist() == values
    assert (readout.prediction(rule), readout.tied(rule)) == (prediction, tied)


def test_margins_are_what_equation_2_says():
    values = np.array([-2.0, -0.5, -1.0])
    assert rules.margins(values, base=1) == (0.5, 0.5)
    assert rules.margins(values, base=0) == (0.5, -1.5)
    assert np.isnan(rules.margins(values[:1], base=0)).all()


def test_off_mass_is_what_the_letters_leave():
    readout = Readout(("A", "B"), ("x", "y"), np.zeros(2), np.zeros(2), np.ones(2), np.log([0.25, 0.5]))
    assert readout.off_mass == pytest.approx(0.25)


@pytest.mark.parametrize("rule", ["papr", "letter"])
def test_a_rule_that_cannot_be_used_is_refused(rule):
    parts = PARTS | {"logp_letter": [np.nan] * 3}
    with pytest.raises(ValueError, match=rule):
        rules.scores(rule, **parts)
