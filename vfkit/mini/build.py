"""Build a mini model from nothing: tokenizer, processor and randomly initialised network of the real classes."""

import math
import re
from collections.abc import Callable
from dataclasses import dataclass, replace
from importlib import import_module
from random import Random

import torch
from jaxtyping import Float
from tokenizers import Tokenizer, decoders, models, pre_tokenizers, trainers
from transformers import (
    PreTrainedTokenizerFast,
    Qwen2VLImageProcessor,
    Qwen3VLConfig,
    Qwen3VLForConditionalGeneration,
    Qwen3VLProcessor,
    Qwen3VLVideoProcessor,
)

from vfkit import prompts
from vfkit.mini import questions, world
from vfkit.models.load import ADAPTERS, VLM
from vfkit.sample import Sample

SPECIAL = [
    "<|endoftext|>",
    "<|im_start|>",
    "<|im_end|>",
    "<|vision_start|>",
    "<|vision_end|>",
    "<|image_pad|>",
    "<|video_pad|>",
]
VOCABULARY = 768

# The turn format of Qwen3-VL; image parts become one placeholder that the processor widens to the image's tokens.
CHAT_TEMPLATE = (
    "{%- for message in messages -%}"
    "{{- '<|im_start|>' + message.role + '\n' -}}"
    "{%- if message.content is string -%}{{- message.content -}}"
    "{%- else -%}{%- for part in message.content -%}"
    "{%- if part.type == 'image' -%}{{- '<|vision_start|><|image_pad|><|vision_end|>' -}}"
    "{%- else -%}{{- part.text -}}{%- endif -%}"
    "{%- endfor -%}{%- endif -%}"
    "{{- '<|im_end|>\n' -}}"
    "{%- endfor -%}"
    "{%- if add_generation_prompt -%}{{- '<|im_start|>assistant\n' -}}{%- endif -%}"
)


@dataclass(frozen=True)
class Size:
    """Widths and depths of a mini model and the pixels it sees."""

    width: int = 96
    text_layers: int = 6
    vision_width: int = 96
    vision_layers: int = 3
    heads: int = 4
    patch: int = 14
    side: int = 112  # images are resized to about side x side pixels before patching


def build_tokenizer(seed: int = 0) -> PreTrainedTokenizerFast:
    """A byte-level BPE over the world's and easy-VQA's texts: words for what is known, pieces for the rest."""
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
    corpus += ["Describe the image.", "A", "B", "C", "D", "user", "assistant"] * 50
    tokenizer = Tokenizer(models.BPE())
    tokenizer.pre_tokenizer = pre_tokenizers.ByteLevel(add_prefix_space=False)
    tokenizer.decoder = decoders.ByteLevel()
    trainer = trainers.BpeTrainer(
        vocab_size=VOCABULARY,
        special_tokens=SPECIAL,
        initial_alphabet=pre_tokenizers.ByteLevel.alphabet(),
        show_progress=False,
    )
    tokenizer.train_from_iterator(corpus, trainer)
    return PreTrainedTokenizerFast(
        tokenizer_object=tokenizer, eos_token="<|im_end|>", pad_token="<|endoftext|>", padding_side="right",
        additional_special_tokens=SPECIAL[3:], model_max_length=2048,
    )  # fmt: skip


def _easy_vqa_texts() -> list[str]:
    import easy_vqa

    questions, answers, _ = easy_vqa.get_train_questions()
    samples = [Sample("", (None,), question, ("Yes", "No"), prompt="yes_no") for question in questions[:4000]]
    return [prompts.text(sample, "yes_no") for sample in samples] + answers[:4000]


def qwen3_vl_processor(size: Size, tokenizer: PreTrainedTokenizerFast) -> Qwen3VLProcessor:
    pixels = {"shortest_edge": size.side**2, "longest_edge": size.side**2}
    mean = {"image_mean": [0.5] * 3, "image_std": [0.5] * 3}
    image_processor = Qwen2VLImageProcessor(
        size=pixels, patch_size=size.patch, merge_size=2, temporal_patch_size=2, **mean
    )
    video_processor = Qwen3VLVideoProcessor(
        size=pixels, patch_size=size.patch, merge_size=2, temporal_patch_size=2, **mean
    )
    return Qwen3VLProcessor(image_processor, tokenizer, video_processor, chat_template=CHAT_TEMPLATE)


def qwen3_vl(size: Size, tokenizer: PreTrainedTokenizerFast) -> Qwen3VLForConditionalGeneration:
    """A randomly initialised Qwen3-VL of the given size, float32."""
    head = size.width // size.heads
    section = [head // 2 - 2 * (head // 6), head // 6, head // 6]  # rotary frequencies for time, height and width
    text = dict(
        vocab_size=len(tokenizer), hidden_size=size.width, intermediate_size=3 * size.width,
        num_hidden_layers=size.text_layers, num_attention_heads=size.heads, num_key_value_heads=size.heads,
        head_dim=head,
        max_position_embeddings=2048, tie_word_embeddings=True,
        rope_parameters={
            "rope_type": "default", "rope_theta": 10000.0, "mrope_section": section, "mrope_interleaved": True,
        },
    )  # fmt: skip
    vision = dict(
        depth=size.vision_layers, hidden_size=size.vision_width, intermediate_size=3 * size.vision_width,
        num_heads=size.heads, patch_size=size.patch, spatial_merge_size=2, temporal_patch_size=2,
        out_hidden_size=size.width, num_position_embeddings=(size.side // size.patch) ** 2,
        deepstack_visual_indexes=[size.vision_layers // 3, 2 * size.vision_layers // 3],
    )  # fmt: skip
    token = tokenizer.convert_tokens_to_ids
    config = Qwen3VLConfig(
        text_config=text, vision_config=vision, tie_word_embeddings=True, image_token_id=token("<|image_pad|>"),
        video_token_id=token("<|video_pad|>"), vision_start_token_id=token("<|vision_start|>"),
        vision_end_token_id=token("<|vision_end|>"),
    )  # fmt: skip
    return Qwen3VLForConditionalGeneration(config)


FAMILIES: dict[str, tuple[Callable, Callable]] = {"qwen3_vl": (qwen3_vl_processor, qwen3_vl)}
"""Architecture -> what builds its processor and its network, each from a size and a tokenizer."""


def build(family: str, size: Size, seed: int = 0, device: str = "cpu") -> VLM:
    """A randomly initialised model of a family with its processor, float32, as `vfkit.load_model` would load it."""
    tokenizer = build_tokenizer()
    processor, network = FAMILIES[family]
    torch.manual_seed(seed)
    model = network(size, tokenizer)
    token = tokenizer.convert_tokens_to_ids
    model.generation_config.eos_token_id = token("<|im_end|>")
    model.generation_config.pad_token_id = token("<|endoftext|>")
    adapter = import_module(ADAPTERS[model.config.model_type])
    return VLM(family, model, processor(size, tokenizer), adapter, "", torch.device(device), torch.float32)


def vision_tokens(model, vision: dict[str, torch.Tensor]) -> Float[torch.Tensor, "image height width channel"]:
    """Vision tokens of square images as the language model gets them."""
    tokens = model.get_image_features(**vision).pooler_output
    tokens = torch.stack(list(tokens)) if not isinstance(tokens, torch.Tensor) else tokens
    side = math.isqrt(tokens.shape[1])
    return tokens[:, : side * side].unflatten(1, (side, side))


def vision_parameters(model) -> list[torch.nn.Parameter]:
    """Of everything that makes vision tokens."""
    text = {id(each) for each in model.model.language_model.parameters()}
    text |= {id(each) for each in model.get_output_embeddings().parameters()}
    return [each for each in model.parameters() if id(each) not in text]


def grow(model, trained) -> None:
    """Give a model the weights of a trained one that is as wide and not deeper. Layers that it has more of begin as
    copies whose outputs are zero, so that it first says exactly what the trained one says."""
    state, own = trained.state_dict(), model.state_dict()
    for name in own:
        source = name
        if name not in state:
            stem, index, rest = re.fullmatch(r"(.*layers|.*blocks)\.(\d+)\.(.*)", name).groups()
            depth = len({key.split(".")[stem.count(".") + 1] for key in state if key.startswith(f"{stem}.")})
            source = f"{stem}.{int(index) % depth}.{rest}"
        adds = name not in state and re.search(r"(o_proj|down_proj|attn\.proj|linear_fc2)\.", name)
        own[name] = torch.zeros_like(own[name]) if adds else state[source].to(own[name].dtype)
    model.load_state_dict(own)
