"""Building a mini model: tokenizer, processor and randomly initialised network of the real classes."""

import re
from dataclasses import replace
from random import Random
from types import SimpleNamespace

import torch
from jaxtyping import Float
from tokenizers import Tokenizer, decoders, models, pre_tokenizers, trainers
from transformers import PreTrainedTokenizerFast

from vfkit import prompts
from vfkit.mini import questions, world
from vfkit.models.load import VLM, adapter_of
from vfkit.sample import Sample
from vfkit.workshop.zoo.networks import FAMILIES, MAX_LENGTH, Family, Size

VOCABULARY = 768


def build_tokenizer(family: Family, seed: int = 0) -> PreTrainedTokenizerFast:
    """Train a byte-level BPE tokenizer on the texts of the world and of easy-VQA."""
    rng = Random(f"tokenizer/{seed}")
    corpus = []
    for _ in range(3000):
        scenes = [world.make_scene(rng, world.n_things(rng), held_out=False, typical=0.3) for _ in range(2)]
        corpus.append(world.caption(scenes[0]))
        asked = [generator(scenes[0], rng) for generator in questions.GENERATORS.values()]
        asked += [generator(*scenes, rng) for generator in questions.PAIRS.values()]
        for question in filter(None, asked):
            sample = questions.to_sample("", (None,), question, rng)
            sample = replace(sample, hint=questions.assertion(question.text, rng.choice(sample.options)))
            corpus += [prompts.text(sample, sample.prompt), prompts.text(sample, "open"), *sample.options]
            corpus.append(f"Choose {question.truth}.")
    corpus += _easy_vqa_texts()
    corpus += ["Describe the image.", "A", "B", "C", "D", "user", "assistant", *world.WORDS] * 50
    tokenizer = Tokenizer(models.BPE())
    tokenizer.pre_tokenizer = pre_tokenizers.ByteLevel(add_prefix_space=False)
    tokenizer.decoder = decoders.ByteLevel()
    trainer = trainers.BpeTrainer(
        vocab_size=VOCABULARY,
        special_tokens=list(family.special),
        initial_alphabet=pre_tokenizers.ByteLevel.alphabet(),
        show_progress=False,
    )
    tokenizer.train_from_iterator(corpus, trainer)
    begin = {"bos_token": family.begin} if family.begin else {}
    return PreTrainedTokenizerFast(
        tokenizer_object=tokenizer, eos_token=family.end, pad_token=family.pad, padding_side=family.padding_side,
        extra_special_tokens=family.named or list(family.special), model_max_length=MAX_LENGTH, **begin,
    )  # fmt: skip


def _easy_vqa_texts() -> list[str]:
    import easy_vqa

    questions, answers, _ = easy_vqa.get_train_questions()
    samples = [Sample("", (None,), question, ("Yes", "No"), prompt="yes_no") for question in questions[:4000]]
    return [prompts.text(sample, "yes_no") for sample in samples] + answers[:4000]


def build(family: str, size: Size, seed: int = 0) -> VLM:
    """Make a randomly initialised model of a family with its processor, in float32, as `vfkit.load_model` returns
    it."""
    words = build_tokenizer(FAMILIES[family])
    torch.manual_seed(seed)
    model, processor = FAMILIES[family].make(size, words)
    model.generation_config.eos_token_id = words.eos_token_id
    model.generation_config.pad_token_id = words.pad_token_id
    adapter = adapter_of(family, model.config)
    return VLM(family, model, processor, adapter, "", torch.device("cpu"), torch.float32)


def vision_tokens(vlm, vision: dict[str, torch.Tensor]) -> Float[torch.Tensor, "image height width channel"]:
    """Return the vision tokens of images of one size, as the language model gets them."""
    outputs = SimpleNamespace(image_outputs=vlm.model.get_image_features(**vision))
    return torch.stack(vlm.adapter.vision_grids(outputs, vision, vlm.processor))


def vision_parameters(model) -> list[torch.nn.Parameter]:
    """Return the parameters of all layers that make vision tokens."""
    text = {id(each) for each in model.model.language_model.parameters()}
    text |= {id(each) for each in model.get_output_embeddings().parameters()}
    return [each for each in model.parameters() if id(each) not in text]


def grow(vlm, trained) -> None:
    """Copy the weights of a trained model of the same width and no more layers: all weights within one architecture,
    else those of the text layers; embeddings by token.

    Additional layers begin as copies whose outputs are zero, so that a deeper model first answers as the trained one.
    """
    state, own = trained.model.state_dict(), vlm.model.state_dict()
    if vlm.model.config.model_type == "gemma3" != trained.model.config.model_type:
        state = _as_gemma3(state, vlm.model.config.get_text_config().hidden_size)
    for name, value in own.items():
        if name.endswith(("embed_tokens.weight", "lm_head.weight")):
            old, new = (each.processor.tokenizer.get_vocab() for each in (trained, vlm))
            known = [token for token in new if token in old]
            value[[new[token] for token in known]] = state[name][[old[token] for token in known]].to(value.dtype)
        elif name in state:
            value.copy_(state[name])
        elif (source := _layer_below(name, state)) in state:
            adds = re.search(r"(o_proj|down_proj|attn\.proj|linear_fc2)\.", name)
            value.copy_(torch.zeros_like(value) if adds else state[source])
    vlm.model.load_state_dict(own)


_ADDED = 0.3  # about the root mean square of a trained layer's output: the gain of the norms that Qwen3 does not have


def _as_gemma3(state: dict, width: int) -> dict:
    """Convert Qwen3's text weights to Gemma-3's form: gains relative to one, embeddings divided by the root of the
    width, and norms after attention and MLP as well as before."""
    state = dict(state)
    for name, value in list(state.items()):
        if name.endswith(("embed_tokens.weight", "lm_head.weight")):
            state[name] = value / width**0.5
        elif name.endswith("language_model.norm.weight"):
            state[name] = value * width**0.5 - 1  # the embeddings are what logits are made with, too
        elif name.endswith("post_attention_layernorm.weight"):
            state[name.replace("post_attention", "pre_feedforward")] = value - 1
            state[name] = state[name.replace("attention", "feedforward")] = torch.full_like(value, _ADDED - 1)
        elif name.endswith("norm.weight"):
            state[name] = value - 1
    return state


def _layer_below(name: str, state: dict) -> str:
    """Name the weight of the layer that an additional layer copies; empty for weights outside layers."""
    layer = re.fullmatch(r"(.*(?:layers|blocks)\.)(\d+)(\..*)", name)
    if not layer:
        return ""
    stem, index, rest = layer.groups()
    depth = sum(re.fullmatch(re.escape(stem) + r"\d+" + re.escape(rest), key) is not None for key in state)
    return f"{stem}{int(index) % depth}{rest}" if depth else ""
