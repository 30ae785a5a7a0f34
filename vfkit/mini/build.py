"""Build a mini model from nothing: tokenizer, processor and randomly initialised network of the real classes."""

from dataclasses import dataclass
from random import Random

import torch
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
from vfkit.mini import world
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
    text_layers: int = 4
    vision_width: int = 96
    vision_layers: int = 3
    heads: int = 4
    patch: int = 8
    side: int = 64  # images are resized to about side x side pixels before patching


def build_tokenizer(seed: int = 0) -> PreTrainedTokenizerFast:
    """A byte-level BPE over the world's and easy-VQA's texts: words for what is known, pieces for the rest."""
    rng = Random(f"tokenizer/{seed}")
    corpus = []
    for index in range(3000):
        scene = world.make_scene(rng, world.n_things(rng), held_out=False)
        corpus.append(world.caption(scene))
        for generator in world.GENERATORS.values():
            question = generator(scene, rng)
            if question is not None:
                sample = world.to_sample(str(index), None, question, rng)
                corpus += [prompts.text(sample, sample.prompt), prompts.text(sample, "open"), *sample.options]
    corpus += _easy_vqa_texts()
    corpus += ["Answer is A B C D E Yes No", "Hint: the answer is", "user", "assistant"] * 50
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


def build_processor(size: Size, tokenizer: PreTrainedTokenizerFast) -> Qwen3VLProcessor:
    pixels = {"shortest_edge": size.side**2, "longest_edge": size.side**2}
    mean = {"image_mean": [0.5] * 3, "image_std": [0.5] * 3}
    image_processor = Qwen2VLImageProcessor(
        size=pixels, patch_size=size.patch, merge_size=2, temporal_patch_size=2, **mean
    )
    video_processor = Qwen3VLVideoProcessor(
        size=pixels, patch_size=size.patch, merge_size=2, temporal_patch_size=2, **mean
    )
    return Qwen3VLProcessor(image_processor, tokenizer, video_processor, chat_template=CHAT_TEMPLATE)


def build_model(size: Size, tokenizer: PreTrainedTokenizerFast, seed: int = 0) -> Qwen3VLForConditionalGeneration:
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
    torch.manual_seed(seed)
    model = Qwen3VLForConditionalGeneration(config)
    model.generation_config.eos_token_id = token("<|im_end|>")
    model.generation_config.pad_token_id = token("<|endoftext|>")
    return model
