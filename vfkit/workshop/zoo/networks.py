"""The networks of the mini models: real transformers classes with shrunken configs, their processors and templates.

A family is a function (size, tokenizer) -> (model, processor); see `FAMILIES`.
"""

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any, NamedTuple

import transformers as tf
from transformers import PreTrainedTokenizerFast as Words

MEAN: dict[str, Any] = {"image_mean": [0.5] * 3, "image_std": [0.5] * 3}
MAX_LENGTH = 2048


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

    grid: int = 4  # Gemma-3: an image becomes grid x grid tokens
    window: int = 64  # Gemma-3: tokens that every other layer looks back


# The turn formats of the released models; an image part becomes one placeholder that the processor widens.
_TURNS = (
    "{%- for message in messages -%}"
    "{{- '<|im_start|>' + message.role + '\n' -}}"
    "{%- if message.content is string -%}{{- message.content -}}"
    "{%- else -%}{%- for part in message.content -%}"
    "{%- if part.type == 'image' -%}{{- 'IMAGE' -}}"
    "{%- else -%}{{- part.text -}}{%- endif -%}"
    "{%- endfor -%}{%- endif -%}"
    "{{- '<|im_end|>\n' -}}"
    "{%- endfor -%}"
    "{%- if add_generation_prompt -%}{{- '<|im_start|>assistant\n' -}}{%- endif -%}"
)
QWEN = _TURNS.replace("IMAGE", "<|vision_start|><|image_pad|><|vision_end|>")
LLAVA = _TURNS.replace("IMAGE", "<image>\n")
GEMMA = "{{- bos_token -}}" + (
    _TURNS.replace("IMAGE", "<start_of_image>")
    .replace("<|im_start|>", "<start_of_turn>").replace("<|im_end|>", "<end_of_turn>")
    .replace("+ message.role +", "+ ('model' if message.role == 'assistant' else message.role) +")
    .replace("assistant\n' -}}{%- endif", "model\n' -}}{%- endif")
)  # fmt: skip


Made = tuple[tf.PreTrainedModel, tf.ProcessorMixin]


def qwen3_vl(size: Size, words: Words) -> Made:
    head = size.width // size.heads
    section = [head // 2 - 2 * (head // 6), head // 6, head // 6]  # rotary frequencies for time, height and width
    rope = {"rope_type": "default", "rope_theta": 10000.0, "mrope_section": section, "mrope_interleaved": True}
    vision = dict(
        depth=size.vision_layers, hidden_size=size.vision_width, intermediate_size=3 * size.vision_width,
        num_heads=size.heads, patch_size=size.patch, spatial_merge_size=2, temporal_patch_size=2,
        out_hidden_size=size.width, num_position_embeddings=(size.side // size.patch) ** 2,
        deepstack_visual_indexes=[min(depth, size.vision_layers - 1) for depth in (1, 2)],
    )  # fmt: skip
    token: Callable[[str], Any] = words.convert_tokens_to_ids
    config = tf.Qwen3VLConfig(
        text_config=_text(size, words, head_dim=head, rope_parameters=rope), vision_config=vision,
        tie_word_embeddings=True, image_token_id=token("<|image_pad|>"), video_token_id=token("<|video_pad|>"),
        vision_start_token_id=token("<|vision_start|>"), vision_end_token_id=token("<|vision_end|>"),
    )  # fmt: skip
    pixels = {"shortest_edge": size.side**2, "longest_edge": size.side**2}
    patches: dict[str, Any] = dict(size=pixels, patch_size=size.patch, merge_size=2, temporal_patch_size=2, **MEAN)
    images, videos = tf.Qwen2VLImageProcessor(**patches), tf.Qwen3VLVideoProcessor(**patches)
    return (
        tf.Qwen3VLForConditionalGeneration(config), tf.Qwen3VLProcessor(images, words, videos, chat_template=QWEN)
    )  # fmt: skip


def llava_onevision(size: Size, words: Words) -> Made:
    """With the text layers of Qwen3, as LLaVA-OneVision 1.5 has them; an image alone is a base view and one tile."""
    token: Callable[[str], Any] = words.convert_tokens_to_ids
    per_view = (size.side // size.patch) ** 2
    grid = [[size.side, size.side]]
    config = tf.LlavaOnevisionConfig(
        text_config=_text(size, words, model_type="qwen3", head_dim=size.width // size.heads),
        vision_config=_siglip(size), image_token_index=token("<image>"), video_token_index=token("<video>"),
        image_grid_pinpoints=grid, vision_aspect_ratio="anyres_max_1", tie_word_embeddings=True,
    )  # fmt: skip
    square = {"height": size.side, "width": size.side}
    images = tf.LlavaOnevisionImageProcessor(size=square, image_grid_pinpoints=grid, **MEAN)
    processor = tf.LlavaOnevisionProcessor(
        images, words, tf.LlavaOnevisionVideoProcessor(), num_image_tokens=per_view,
        vision_feature_select_strategy="full", vision_aspect_ratio="anyres_max_1", chat_template=LLAVA,
    )  # fmt: skip
    return tf.LlavaOnevisionForConditionalGeneration(config), processor


def gemma3(size: Size, words: Words) -> Made:
    """Every other layer looks back a window that is shorter than most prompts."""
    token: Callable[[str], Any] = words.convert_tokens_to_ids
    head, n_tokens = size.width // size.heads, size.grid**2
    text = _text(
        size, words, head_dim=head, query_pre_attn_scalar=head, sliding_window=size.window, sliding_window_pattern=2,
        rope_parameters={kind: {"rope_type": "default", "rope_theta": 10000.0} for kind in _LAYERS},
    )  # fmt: skip
    config = tf.Gemma3Config(
        text_config=text, vision_config=_siglip(size), mm_tokens_per_image=n_tokens, tie_word_embeddings=True,
        boi_token_index=token("<start_of_image>"), eoi_token_index=token("<end_of_image>"),
        image_token_index=token("<image_soft_token>"),
    )  # fmt: skip
    square = {"height": size.side, "width": size.side}
    images = tf.Gemma3ImageProcessor(size=square, image_seq_length=n_tokens, **MEAN)
    processor = tf.Gemma3Processor(images, words, chat_template=GEMMA, image_seq_length=n_tokens)
    return tf.Gemma3ForConditionalGeneration(config), processor


_LAYERS = ("sliding_attention", "full_attention")


def _text(size: Size, words: Words, **more) -> dict:
    return dict(
        vocab_size=len(words), hidden_size=size.width, intermediate_size=3 * size.width,
        num_hidden_layers=size.text_layers, num_attention_heads=size.heads, num_key_value_heads=size.heads,
        max_position_embeddings=MAX_LENGTH, tie_word_embeddings=True, bos_token_id=words.bos_token_id,
        eos_token_id=words.eos_token_id, pad_token_id=words.pad_token_id, **more,
    )  # fmt: skip


def _siglip(size: Size) -> dict:
    return dict(
        model_type="siglip_vision_model", hidden_size=size.vision_width, intermediate_size=3 * size.vision_width,
        num_hidden_layers=size.vision_layers, num_attention_heads=size.heads, image_size=size.side,
        patch_size=size.patch, vision_use_head=False,
    )  # fmt: skip


class Family(NamedTuple):
    """`make` builds a model and its processor; `named` are special tokens that a processor asks its tokenizer for by
    name; `begin` is the token before all text, if any."""

    make: Callable[[Size, Words], Made]
    special: tuple[str, ...]
    pad: str
    end: str
    named: dict[str, str] = {}
    begin: str | None = None
    padding_side: str = "right"


_CHATML = ("<|endoftext|>", "<|im_start|>", "<|im_end|>")
_VISION = ("<|vision_start|>", "<|vision_end|>", "<|image_pad|>", "<|video_pad|>")
_IMAGE = {"boi_token": "<start_of_image>", "eoi_token": "<end_of_image>", "image_token": "<image_soft_token>"}
FAMILIES = {
    "qwen3_vl": Family(qwen3_vl, (*_CHATML, *_VISION), "<|endoftext|>", "<|im_end|>"),
    "llava_onevision": Family(
        llava_onevision, (*_CHATML, "<image>", "<video>"), "<|endoftext|>", "<|im_end|>", padding_side="left"
    ),
    "gemma3": Family(
        gemma3, ("<pad>", "<bos>", "<start_of_turn>", "<end_of_turn>", *_IMAGE.values()), "<pad>", "<end_of_turn>",
        _IMAGE, begin="<bos>", padding_side="left",
    ),
}  # fmt: skip
