"""A script, not a test: a checkpoint of full size and random weights goes through `--check` and a study.

    python tests/full_size.py qwen3vl_2b FOLDER

The network is that of the release's config, vocabulary included; tokenizer and chat template are those of the tests'
tiny model of the same type. It needs as many GB on disk and in memory as the weights take in bfloat16, and minutes.
"""

import argparse
import resource
import time
from pathlib import Path

import tiny
import torch
from transformers import AutoConfig, AutoModelForImageTextToText

import vfkit
from vfkit.models import find, self_check
from vfkit.models.registry import released


def build(name: str, folder: Path) -> None:
    """Save a random checkpoint of the size of a registered model."""
    figures = released()[name]["config"]
    _, processor = tiny.ALL[figures["model_type"]]()
    ids = {
        key: value for key, value in tiny.ALL[figures["model_type"]]()[0].config.to_dict().items() if "token_i" in key
    }
    config = AutoConfig.for_model(**figures | ids)
    config.get_text_config().update({"eos_token_id": 1, "pad_token_id": 0, "bos_token_id": None})
    images = processor.image_processor
    images.patch_size, images.merge_size = config.vision_config.patch_size, config.vision_config.spatial_merge_size
    images.size = {"shortest_edge": 65536, "longest_edge": 2097152}
    torch.manual_seed(0)
    torch.set_default_dtype(torch.bfloat16)
    model = AutoModelForImageTextToText.from_config(config, dtype=torch.bfloat16, trust_remote_code=False)
    torch.set_default_dtype(torch.float32)
    model.save_pretrained(folder, max_shard_size="1GB")
    processor.save_pretrained(folder)


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("name", choices=sorted(released()))
    parser.add_argument("folder", type=Path)
    given = parser.parse_args()
    if not (given.folder / "config.json").exists():
        build(given.name, given.folder)
    print(f"found as {find(given.folder).name}; its files are hashed once", flush=True)
    for _ in range(2):
        start = time.monotonic()
        digest = vfkit.models.fingerprint(given.folder)
        print(f"fingerprint {digest} in {time.monotonic() - start:.2f} s", flush=True)
    print(self_check(str(given.folder), device="cpu" if not torch.cuda.is_available() else None), flush=True)
    families = ("identity", "scale", "rotation")
    config = vfkit.StudyConfig(
        model=str(given.folder), dataset="easy_vqa", n=2, families=families, verify=1, out=str(given.folder / "outputs")
    )
    print(vfkit.run_study(config).table("flips").to_string())
    print(f"memory at its highest: {resource.getrusage(resource.RUSAGE_SELF).ru_maxrss / 1e6:.1f} GB")


if __name__ == "__main__":
    main()
