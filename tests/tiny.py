"""Checkpoints of the real classes, shrunken and random, with their real processor classes; what adapters are tested on.

The chat templates write turns as those of the released models do, and the tokenizers name their special tokens as the
released ones do, oddities included.
"""

from pathlib import Path

import torch
import transformers as tf
from tokenizers import Tokenizer, decoders, models, pre_tokenizers, processors, trainers

TEXTS = [
    "Question: What color is the circle?\nOptions:\nA. red\nB. teal\nSelect the correct answer from the options above.",
    "Hint: it is a ring.\nQuestion: Is there a star in the image?\nAnswer with exactly one word, Yes or No.",
    "Give a concise answer. user assistant model system You are a helpful assistant. top left bottom right",
] * 4
TEXT = dict(
    hidden_size=32, intermediate_size=48, num_hidden_layers=3, num_attention_heads=4, num_key_value_heads=2,
    max_position_embeddings=2048, tie_word_embeddings=False, bos_token_id=None, pad_token_id=0, eos_token_id=1,
)  # fmt: skip
VISION = dict(hidden_size=32, intermediate_size=48)
SIGLIP = dict(**VISION, num_hidden_layers=2, num_attention_heads=4, patch_size=8, vision_use_head=False)
MEAN = dict(image_mean=[0.5] * 3, image_std=[0.5] * 3)
PIXELS = {"shortest_edge": 32**2, "longest_edge": 64**2}

CHATML = (  # {system}: text before all; {image}: what stands for an image
    "{system}{%- for m in messages -%}{{- '<|im_start|>' + m.role + '\n' -}}"
    "{%- if m.content is string -%}{{- m.content -}}{%- else -%}{%- for part in m.content -%}"
    "{%- if part.type == 'image' -%}{{- '{image}' -}}{%- else -%}{{- part.text -}}{%- endif -%}"
    "{%- endfor -%}{%- endif -%}{{- '<|im_end|>\n' -}}{%- endfor -%}"
    "{%- if add_generation_prompt -%}{{- '<|im_start|>assistant\n' -}}{%- endif -%}"
)
QWEN_IMAGE = "<|vision_start|><|image_pad|><|vision_end|>"
QWEN = CHATML.replace("{image}", QWEN_IMAGE).replace(
    "{system}", "{{- '<|im_start|>system\nYou are a helpful assistant.<|im_end|>\n' -}}"
)
INTERNVL = CHATML.replace("{image}", "<IMG_CONTEXT>\n").replace("{system}", "")
THINKING = (  # an empty reasoning before every answer; the generation prompt opens it only
    QWEN.replace("assistant\n' -}}{%- endif", "assistant\n<think>\n' -}}{%- endif").replace(
        "'<|im_start|>' + m.role + '\n' -}}",
        "'<|im_start|>' + m.role + '\n' + ('<think>\n\n</think>\n\n' if m.role == 'assistant' else '') -}}",
    )
)
LLAVA = (  # images first; an answered turn opens with a space more than the generation prompt; no bare texts
    "{%- for m in messages -%}{{- '<|im_start|>' + m.role + ' ' -}}"
    "{%- for part in m.content | selectattr('type', 'equalto', 'image') -%}{{- '<image>' -}}{%- endfor -%}"
    "{%- for part in m.content | selectattr('type', 'equalto', 'text') -%}{{- '\n' + part.text -}}{%- endfor -%}"
    "{{- '<|im_end|>' -}}{%- endfor -%}"
    "{%- if add_generation_prompt -%}{{- '<|im_start|>assistant\n' -}}{%- endif -%}"
)
GEMMA = (  # texts are trimmed; the assistant is called model
    "{{- bos_token -}}{%- for m in messages -%}"
    "{{- '<start_of_turn>' + ('model' if m.role == 'assistant' else m.role) + '\n' -}}"
    "{%- if m.content is string -%}{{- m.content | trim -}}{%- else -%}{%- for part in m.content -%}"
    "{%- if part.type == 'image' -%}{{- '<start_of_image>' -}}{%- else -%}{{- part.text | trim -}}{%- endif -%}"
    "{%- endfor -%}{%- endif -%}{{- '<end_of_turn>\n' -}}{%- endfor -%}"
    "{%- if add_generation_prompt -%}{{- '<start_of_turn>model\n' -}}{%- endif -%}"
)
GLM4 = (  # nothing ends a turn but the next one; an answer given in parts would be written as a Python list
    "{{- '[gMASK]<sop>' -}}{%- for m in messages -%}{%- if m.role == 'user' -%}{{- '<|user|>\n' -}}"
    "{%- for part in m.content -%}{%- if part.type == 'image' -%}"
    "{{- '<|begin_of_image|><|image|><|end_of_image|>\n' -}}{%- else -%}{{- part.text + '\n' -}}{%- endif -%}"
    "{%- endfor -%}{%- else -%}{{- '<|assistant|>\n{open}' ~ m.content -}}{%- endif -%}{%- endfor -%}"
    "{%- if add_generation_prompt -%}{{- '<|assistant|>\n' -}}{%- endif -%}"
)
GLM = [
    "<pad>", "<|endoftext|>", "[gMASK]", "<sop>", "<|user|>", "<|assistant|>", "<|begin_of_image|>", "<|image|>",
    "<|end_of_image|>", "<|begin_of_video|>", "<|video|>", "<|end_of_video|>", "<|observation|>",
]  # fmt: skip


def tokenizer(
    special: list[str], named: dict[str, str] | None = None, unlisted: tuple[str, ...] = (), **more
) -> tf.PreTrainedTokenizerFast:
    """A small byte-level BPE; the first special token pads, the second is the tokenizer's `eos_token`.

    Args:
        named: special tokens that the processor asks for by a name, such as `image_token`.
        unlisted: special tokens that are only added tokens: neither named nor among `all_special_tokens`.
    """
    bpe = Tokenizer(models.BPE())
    bpe.pre_tokenizer, bpe.decoder = pre_tokenizers.ByteLevel(add_prefix_space=False), decoders.ByteLevel()
    alphabet = pre_tokenizers.ByteLevel.alphabet()
    bpe.train_from_iterator(
        TEXTS,
        trainers.BpeTrainer(vocab_size=420, special_tokens=special, initial_alphabet=alphabet, show_progress=False),
    )
    if "bos_token" in more:  # as released tokenizers do for plain texts
        bos = more["bos_token"], bpe.token_to_id(more["bos_token"])
        bpe.post_processor = processors.TemplateProcessing(single=f"{bos[0]} $A", special_tokens=[bos])
    return tf.PreTrainedTokenizerFast(
        tokenizer_object=bpe, pad_token=special[0], eos_token=special[1],
        extra_special_tokens=named or [token for token in special[2:] if token not in unlisted],
        model_max_length=4096, **more,
    )  # fmt: skip


QWEN_TOKENS = [
    "<|endoftext|>", "<|im_end|>", "<|im_start|>", "<|vision_start|>", "<|vision_end|>", "<|image_pad|>",
    "<|video_pad|>",
]  # fmt: skip


def qwen3_vl():
    return _qwen3_vl(tf.Qwen3VLConfig, tf.Qwen3VLForConditionalGeneration)


def qwen3_vl_moe():
    experts = dict(num_experts=4, num_experts_per_tok=2, moe_intermediate_size=16, decoder_sparse_step=1)
    return _qwen3_vl(tf.Qwen3VLMoeConfig, tf.Qwen3VLMoeForConditionalGeneration, experts)


def _qwen3_vl(config, model, more: dict | None = None):
    """Image features are added again after the first two text layers (DeepStack)."""
    words = tokenizer(QWEN_TOKENS, padding_side="left")
    rope = {"rope_type": "default", "rope_theta": 1e4, "mrope_section": [2, 1, 1], "mrope_interleaved": True}
    vision = dict(
        **VISION, depth=3, num_heads=4, patch_size=8, out_hidden_size=32, num_position_embeddings=64,
        deepstack_visual_indexes=[0, 1],
    )  # fmt: skip
    text = TEXT | dict(vocab_size=len(words), head_dim=8, rope_parameters=rope) | (more or {})
    config = config(text_config=text, vision_config=vision, tie_word_embeddings=False, **_ids(words))
    images = tf.Qwen2VLImageProcessor(size=PIXELS, patch_size=8, **MEAN)
    video = tf.Qwen3VLVideoProcessor(patch_size=8)
    processor = tf.Qwen3VLProcessor(images, words, video, chat_template=INTERNVL.replace("<IMG_CONTEXT>\n", QWEN_IMAGE))
    return model(config), processor


def qwen2_5_vl():
    words = tokenizer(QWEN_TOKENS, padding_side="left")
    rope = {"rope_type": "default", "rope_theta": 1e4, "mrope_section": [2, 1, 1]}
    vision = dict(
        **VISION, depth=2, num_heads=4, patch_size=8, out_hidden_size=32, window_size=32, fullatt_block_indexes=[1]
    )
    config = tf.Qwen2_5_VLConfig(
        text_config=TEXT | dict(vocab_size=len(words), rope_parameters=rope), vision_config=vision, **_ids(words),
    )  # fmt: skip
    images = tf.Qwen2VLImageProcessor(size=PIXELS, patch_size=8, **MEAN)
    processor = tf.Qwen2_5_VLProcessor(images, words, tf.Qwen2VLVideoProcessor(patch_size=8), chat_template=QWEN)
    return tf.Qwen2_5_VLForConditionalGeneration(config), processor


def _ids(words) -> dict[str, int]:
    ends = {"vision_start_token_id": "<|vision_start|>", "vision_end_token_id": "<|vision_end|>"}
    tokens = {"image_token_id": "<|image_pad|>", "video_token_id": "<|video_pad|>", **ends}
    return {name: words.convert_tokens_to_ids(token) for name, token in tokens.items()}


def glm4v():
    return _glm(tf.Glm4vConfig, tf.Glm4vForConditionalGeneration, tf.Glm4vProcessor, tf.Glm4vImageProcessor, "")


def glm46v():
    return _glm(
        tf.Glm46VConfig, tf.Glm46VForConditionalGeneration, tf.Glm46VProcessor, tf.Glm46VImageProcessor,
        "<think></think>\n",
    )  # fmt: skip


def glm4v_moe():
    experts = dict(
        n_routed_experts=4, num_experts_per_tok=2, moe_intermediate_size=16, n_shared_experts=1, first_k_dense_replace=1
    )
    return _glm(
        tf.Glm4vMoeConfig, tf.Glm4vMoeForConditionalGeneration, tf.Glm46VProcessor, tf.Glm46VImageProcessor,
        "<think></think>\n", experts,
    )  # fmt: skip


def _glm(config, model, processor, images, opening: str, more: dict | None = None):
    words = tokenizer(GLM, padding_side="left")
    token = words.convert_tokens_to_ids
    rope = dict(rope_type="default", rope_theta=1e4, partial_rotary_factor=0.5, mrope_section=[2, 1, 1])
    size = dict(hidden_size=64, vocab_size=len(words), rope_parameters=rope)  # heads of 16, half of each rotated
    vision = dict(**VISION, depth=2, num_heads=4, patch_size=8, image_size=64, out_hidden_size=64)
    config = config(
        text_config=TEXT | size | (more or {}), vision_config=vision, image_token_id=token("<|image|>"),
        video_token_id=token("<|video|>"), image_start_token_id=token("<|begin_of_image|>"),
        image_end_token_id=token("<|end_of_image|>"), video_start_token_id=token("<|begin_of_video|>"),
        video_end_token_id=token("<|end_of_video|>"),
    )  # fmt: skip
    pixels = {"shortest_edge": 2 * 32**2, "longest_edge": 2 * 64**2}  # of both frames that an image becomes
    images = images(size=pixels, patch_size=8, **MEAN)
    video = tf.Glm4vVideoProcessor(patch_size=8)
    model = model(config)
    model.generation_config.eos_token_id = token(["<|endoftext|>", "<|user|>", "<|observation|>"])
    return model, processor(images, words, video, chat_template=GLM4.replace("{open}", opening))


def gemma3():
    """Windows of 12 tokens, shorter than an image's 16 and than every prompt; a tokenizer that pads left, whose
    `eos_token` ends no turn and whose turn tokens are added tokens only."""
    named = {"boi_token": "<start_of_image>", "eoi_token": "<end_of_image>", "image_token": "<image_soft_token>"}
    words = tokenizer(
        ["<pad>", "<eos>", "<bos>", "<start_of_turn>", "<end_of_turn>", *named.values()], named, padding_side="left",
        bos_token="<bos>",
    )  # fmt: skip
    token = words.convert_tokens_to_ids
    text = TEXT | dict(
        vocab_size=len(words), head_dim=8, query_pre_attn_scalar=8, sliding_window=12, sliding_window_pattern=2
    )
    config = tf.Gemma3Config(
        text_config=text, vision_config=SIGLIP | dict(image_size=64, model_type="siglip_vision_model"),
        mm_tokens_per_image=16, boi_token_index=token("<start_of_image>"), eoi_token_index=token("<end_of_image>"),
        image_token_index=token("<image_soft_token>"), tie_word_embeddings=False,
    )  # fmt: skip
    images = tf.Gemma3ImageProcessor(size={"height": 64, "width": 64}, image_seq_length=16, **MEAN)
    processor = tf.Gemma3Processor(images, words, chat_template=GEMMA, image_seq_length=16)
    model = tf.Gemma3ForConditionalGeneration(config)
    model.generation_config.eos_token_id = token(["<eos>", "<end_of_turn>"])
    return model, processor


def llava_onevision():
    """Tiles of 4 x 4 tokens; images of four tiles and more are brought down to two tiles' worth of tokens."""
    words = tokenizer(
        ["<|endoftext|>", "<|im_end|>", "<|im_start|>", "<image>", "<video>"], unlisted=("<image>", "<video>"),
        padding_side="left",
    )  # fmt: skip
    grid = [[32, 32], [32, 64], [64, 32], [64, 64], [32, 96], [96, 32]]
    config = tf.LlavaOnevisionConfig(
        text_config=TEXT | dict(vocab_size=len(words), model_type="qwen2"),
        vision_config=SIGLIP | dict(image_size=32, model_type="siglip_vision_model"),
        image_token_index=words.convert_tokens_to_ids("<image>"), image_grid_pinpoints=grid,
        video_token_index=words.convert_tokens_to_ids("<video>"), vision_aspect_ratio="anyres_max_2",
    )  # fmt: skip
    images = tf.LlavaOnevisionImageProcessor(size={"height": 32, "width": 32}, image_grid_pinpoints=grid, **MEAN)
    processor = tf.LlavaOnevisionProcessor(
        images, words, tf.LlavaOnevisionVideoProcessor(), num_image_tokens=16, vision_feature_select_strategy="full",
        chat_template=LLAVA, vision_aspect_ratio="anyres_max_2",
    )  # fmt: skip
    return tf.LlavaOnevisionForConditionalGeneration(config), processor


def internvl():
    """Tiles of 2 x 2 tokens, up to four of them and a thumbnail."""
    named = {
        "start_image_token": "<img>", "end_image_token": "</img>", "context_image_token": "<IMG_CONTEXT>",
        "video_token": "<video>",
    }  # fmt: skip
    words = tokenizer(["<|endoftext|>", "<|im_end|>", "<|im_start|>", *named.values()], named, padding_side="left")
    vision = dict(**VISION, num_hidden_layers=2, num_attention_heads=4, image_size=[32, 32], patch_size=[8, 8])
    config = tf.InternVLConfig(
        text_config=TEXT | dict(vocab_size=len(words), model_type="qwen2"), vision_config=vision,
        image_token_id=words.convert_tokens_to_ids("<IMG_CONTEXT>"), image_seq_length=4, tie_word_embeddings=False,
    )  # fmt: skip
    images = tf.GotOcr2ImageProcessor(size={"height": 32, "width": 32}, min_patches=1, max_patches=4, **MEAN)
    processor = tf.InternVLProcessor(
        images, words, tf.InternVLVideoProcessor(), image_seq_length=4, chat_template=INTERNVL
    )
    return tf.InternVLForConditionalGeneration(config), processor


ALL = {
    build.__name__: build
    for build in (qwen3_vl, qwen3_vl_moe, qwen2_5_vl, glm4v, glm46v, glm4v_moe, gemma3, llava_onevision, internvl)
}  # fmt: skip


def save(name: str, folder: Path) -> str:
    """Write the checkpoint called `name` as an ordinary one; returns its folder."""
    torch.manual_seed(0)
    model, processor = ALL[name]()
    for parameter in model.parameters():  # larger than the usual start, so that no mistake drowns in rounding
        if parameter.ndim > 1:
            torch.nn.init.normal_(parameter, std=parameter[0].numel() ** -0.5)
    model.generation_config.eos_token_id = model.generation_config.eos_token_id or 1
    model.save_pretrained(folder)
    processor.save_pretrained(folder)
    return str(folder)
