"""`python -m vfkit.items`: V-FAT items by rule from VLind-Bench, or by a language model, a critic and a person."""

import argparse
import sys
from dataclasses import replace
from pathlib import Path

from vfkit.chat import Chat
from vfkit.datasets import DatasetUnavailable, vfat, vlind
from vfkit.models import ModelUnavailable
from vfkit.models.api import endpoint
from vfkit.workshop.items import generate, review

WRITTEN = 4096  # tokens that a proposal or a verdict may take, thoughts included


def main(argv: list[str] | None = None) -> None:
    parser = argparse.ArgumentParser(prog="python -m vfkit.items", description=__doc__)
    commands = parser.add_subparsers(dest="command", required=True)

    rule = commands.add_parser("vlind", help="by rule, from the statements of VLind-Bench, to a V-FAT file")
    rule.add_argument("path", help="folder of VLind-Bench, or its parquet mirror")

    make = commands.add_parser("generate", help="propose items by a language model and have a critic look at them")
    make.add_argument("seeds", help="JSON lines: id, atypical, ordinary (images), annotation, optional category")
    make.add_argument("folder", help="gets candidates.jsonl, rejects.jsonl and every reply")
    for role in ("generator", "critic"):
        make.add_argument(f"--{role}", required=True, help="a hosted model of params/models.yaml; the two must differ")
    make.add_argument("--estimate", action="store_true", help="say what the generator would cost, and ask nothing")

    sheet = commands.add_parser("review", help="write review.csv and review.html for a person to decide")
    sheet.add_argument("folder")
    take = commands.add_parser("accept", help="write what review.csv accepts as a V-FAT file")
    take.add_argument("folder")
    for command in (rule, take):
        command.add_argument("out", help="the V-FAT file; its images are put beside it")
        command.add_argument("--order-seed", type=int, default=0, help="of the options' order")

    args = parser.parse_args(argv)
    globals()[f"_{args.command}"](args)


def _vlind(args) -> None:
    rows = vlind.load(args.path, args.order_seed)
    file = vfat.write(args.out, map(rows.finish, rows.samples))
    print(f"{len(rows.samples) // 6} items, {len(rows.samples)} samples: {file}")
    _report(rows.errors)


def _generate(args) -> None:
    seeds, errors = generate.seeds(args.seeds)
    generator, critic = (_chat(getattr(args, role), Path(args.folder)) for role in ("generator", "critic"))
    if args.estimate:
        print(generate.estimate(seeds, generator))
    else:
        accepted, rejected = generate.generate(seeds, generator, critic, args.folder)
        print(f"{accepted} candidates, {rejected} rejected (see {Path(args.folder, generate.REJECTS)})")
        print(f"Next: python -m vfkit.items review {args.folder}")
    _report(errors)


def _review(args) -> None:
    sheet, page = review.write_sheet(args.folder)
    print(
        f"Look at {page}, put accept, edit or drop into {sheet}, then: python -m vfkit.items accept {args.folder} OUT"
    )


def _accept(args) -> None:
    file, counts = review.accept(args.folder, args.out, args.order_seed)
    print(f"{', '.join(f'{n} {name}' for name, n in counts.items())}: {file}")


def _chat(name: str, folder: Path) -> Chat:
    asked = endpoint(name)
    request = {key: WRITTEN if key.startswith("max_") else value for key, value in asked.request.items()}
    return Chat(replace(asked, request=request), folder / "replies" / f"{name}.jsonl")


def _report(errors) -> None:
    for id, reason in errors:
        print(f"left out: {id}: {reason}")


if __name__ == "__main__":
    try:
        main()
    except (ValueError, OSError, DatasetUnavailable, ModelUnavailable) as error:
        sys.exit(f"error: {error}")
