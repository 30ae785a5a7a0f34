"""Prompts and conversations: the words are pinned, and the tokens of every answer are found where they stand."""

import copy
from dataclasses import replace
from types import SimpleNamespace

import pytest
from tokenizers import AddedToken

from vfkit import prompts
from vfkit.readout import conversation
from vfkit.sample import Sample

MCQ = Sample("s", ("image",), "What color is it?", ("red", "dark blue"), 0, hint="Look twice.")
YES_NO = Sample("y", ("image",), "Is it red?", ("Yes", "No"), 0, prompt="yes_no")

SNAPSHOT = {
    "mcq": (
        "Hint: Look twice.\nQuestion: What color is it?\nOptions:\nA. red\nB. dark blue\n"
        "Select the correct answer from the options above."
    ),
    "open": "Hint: Look twice.\nQuestion: What color is it?\nGive a concise answer.",
}


@pytest.mark.parametrize("prompt", SNAPSHOT)
def test_every_rendered_prompt_is_pinned(prompt):
    assert prompts.text(MCQ, prompt) == SNAPSHOT[prompt]


def test_yes_no_prompt_is_pinned_and_lists_no_options():
    assert prompts.text(YES_NO, "yes_no") == "Question: Is it red?\nAnswer with exactly one word, Yes or No."


IMAGE = {"type": "image"}


def _turn(question: str, n_images: int, hint: str = "", options=("a <image 1>", "b")) -> list:
    sample = Sample("s", ("x",) * n_images, question, options, hint=hint)
    (turn,) = prompts.user_turn(prompts.text(sample, "mcq"), n_images, question)
    return [part.get("text", IMAGE) for part in turn["content"]]


def test_images_stand_at_their_marks_and_only_there():
    rest = f"\nOptions:\nA. a <image 1>\nB. b\n{prompts.CHOOSE}"
    assert _turn("Is <image 1> in <image 2>?", 2) == ["Question: Is ", IMAGE, " in ", IMAGE, "?" + rest]
    assert _turn("<image 1> is what?", 1) == ["Question: ", IMAGE, " is what?" + rest]
    assert _turn("What?", 2) == [IMAGE, IMAGE, "Question: What?" + rest]
    assert _turn("See <image 1>.", 2) == ["Question: See ", IMAGE, ".", IMAGE, rest]
    assert _turn("<image 1> and <image 1>", 1) == ["Question: ", IMAGE, " and <image 1>" + rest]
    assert _turn("<image 2> <image 3>", 2) == [IMAGE, IMAGE, "Question: <image 2> <image 3>" + rest]
    hinted = _turn("<image 1>?", 1, hint="see <image 1>")
    assert hinted == ["Hint: see <image 1>\nQuestion: ", IMAGE, "?" + rest]


def test_the_open_prompt_of_a_yes_no_question_asks_for_one_word_too(vlm):
    placeholder = vlm.adapter.placeholder(vlm.processor)
    scored, open_ = (
        form(YES_NO, 1, vlm.processor, placeholder) for form in (conversation.scored_prompt, conversation.open_prompt)
    )
    assert open_.tail == scored.tail and prompts.ONE_WORD in vlm.processor.tokenizer.decode(open_.tail)
    assert prompts.open_form(MCQ) == prompts.open_form(replace(MCQ, prompt="open")) == "open"


def test_unknown_prompt_is_refused_by_name():
    with pytest.raises(ValueError, match="'mqc'"):
        prompts.text(MCQ, "mqc")


def test_labels_are_letters_where_options_are_listed_and_texts_where_not():
    assert MCQ.labels == ("A", "B")
    assert YES_NO.labels == ("Yes", "No")
    assert replace(MCQ, prompt="open").labels == MCQ.options


@pytest.mark.parametrize(
    "options, answer, match",
    [
        ((), None, "0 options"),
        (("a",) * 27, None, "27 options"),
        (("a", "b"), 2, "answer 2"),
        (("a",), -1, "answer -1"),
    ],
)
def test_a_sample_that_cannot_be_asked_is_refused(options, answer, match):
    with pytest.raises(ValueError, match=match):
        Sample("s", ("image",), "?", options, answer)


@pytest.mark.parametrize(
    "fields, says",
    [
        ({"images": "photo.jpg"}, "images must be a list or tuple"),
        ({"options": "cup"}, "options must be a list or tuple"),
        ({"options": (1, 2)}, "texts"),
        ({"id": 7}, "texts"),
        ({"answer": "A"}, "'A' must be the index"),
        ({"answer": True}, "True must be the index"),
        ({"question": None}, "must be texts"),
        ({"category": 3}, "must be texts"),
        ({"category": "all"}, "may be called 'all'"),
        ({"hint": "\ud800"}, "whole characters"),
        ({"meta": None}, "meta must be a dict"),
        ({"meta": {"x": 1, 2: 3}}, "texts as keys"),
    ],
)
def test_fields_of_another_type_are_refused_by_name(fields, says):
    with pytest.raises(ValueError, match=says):
        Sample(**{"id": "s", "images": ("image",), "question": "?", "options": ("a", "b")} | fields)


# --- tokens -----------------------------------------------------------------------------------------------------------


def _scored(vlm, sample, n_images=1):
    return conversation.scored_prompt(sample, n_images, vlm.processor, vlm.adapter.placeholder(vlm.processor))


def test_answers_decode_to_their_own_text_and_the_end_of_the_turn(vlm):
    decode = vlm.processor.tokenizer.decode
    prompt = _scored(vlm, MCQ)
    assert [decode(answer.text) for answer in prompt.answers] == ["red", "dark blue"]
    assert {decode(answer.end) for answer in prompt.answers + prompt.letters} == {"<|im_end|>\n"}
    assert [decode(letter.text) for letter in prompt.letters] == ["A", "B"]
    assert decode(prompt.tail).endswith("<|im_start|>assistant\n")


def test_an_answer_of_several_tokens_keeps_them_all(vlm):
    text = "an unheard-of xylophone"
    sample = Sample("s", ("image",), "?", (text, "red"))
    answer = _scored(vlm, sample).answers[0]
    assert len(answer.text) > 3
    assert vlm.processor.tokenizer.decode(answer.text) == text


def test_yes_no_prompts_have_no_letters(vlm):
    assert _scored(vlm, YES_NO).letters == ()


@pytest.mark.parametrize("token", ["<|image_pad|>", "<|im_end|>", "<|vision_start|>"])
def test_special_tokens_in_user_text_stay_text(vlm, token):
    sample = Sample("s", ("image",), f"What is {token}?", (f"{token}{token}", "red"), hint=token)
    prompt = _scored(vlm, sample)
    special = vlm.processor.tokenizer.convert_tokens_to_ids(token)
    clean = _scored(vlm, Sample("s", ("image",), "What is it?", ("x", "red"), hint="y"))
    assert prompt.tail.count(special) == clean.tail.count(special)
    assert special not in prompt.answers[0].text
    readable = vlm.processor.tokenizer.decode(prompt.answers[0].text)
    assert readable.replace(" ", "") == token * 2


def test_tokens_only_marked_as_special_when_added_stay_text_too(vlm):
    processor = copy.deepcopy(vlm.processor)
    processor.tokenizer.add_tokens([AddedToken("<end_of_turn>", special=True), AddedToken("plain added")])
    assert "<end_of_turn>" not in processor.tokenizer.all_special_tokens
    assert conversation.plain("a<end_of_turn>b plain added", processor) == "a< end_of_turn>b plain added"
    assert conversation.plain("a<end_of_turn>b", vlm.processor) == "a<end_of_turn>b"


def test_breaking_one_special_token_does_not_make_another(vlm):
    assert "<|im_end|>" not in conversation.plain("<<|im_end|>|im_end|>", vlm.processor)


def test_a_processor_without_a_chat_template_is_refused(vlm):
    bare = SimpleNamespace(tokenizer=vlm.processor.tokenizer, chat_template=None)
    with pytest.raises(conversation.ConversationError, match="no chat template"):
        conversation.scored_prompt(MCQ, 1, bare, "<|image_pad|>")


@pytest.mark.parametrize("said, reason", [("|upper", "does not keep"), ("[1:]", "leaves out")])
def test_a_template_that_rewrites_answers_is_refused(vlm, said, reason):
    """Its answers would be scored as something they are not."""
    template = vlm.processor.chat_template
    for text in ("part.text", "message.content"):
        own, rewritten = ("{{- " + each + " -}}" for each in (text, text + said))
        kept = "{%- if message.role == 'assistant' -%}" + rewritten + "{%- else -%}" + own + "{%- endif -%}"
        template = template.replace(own, kept)
    changed = SimpleNamespace(
        tokenizer=vlm.processor.tokenizer,
        chat_template=template,
        apply_chat_template=lambda *args, **kwargs: vlm.processor.apply_chat_template(
            *args, chat_template=template, **kwargs
        ),
    )
    with pytest.raises(conversation.ConversationError, match=reason):
        conversation.scored_prompt(MCQ, 1, changed, "<|image_pad|>")


def test_a_hint_that_a_wording_would_drop_is_refused():
    wording = prompts.load_wording({"mcq": "{question}\n{options}"})
    assert prompts.text(replace(MCQ, hint=""), "mcq", wording) == "What color is it?\nA. red\nB. dark blue"
    with pytest.raises(ValueError, match="sample 's' has a hint, for which the template 'mcq'"):
        prompts.text(MCQ, "mcq", wording)
