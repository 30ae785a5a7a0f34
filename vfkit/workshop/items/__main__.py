"""`python -m vfkit.items`: V-FAT items by rule from VLind-Bench, or by a language model, a critic and a person.

From sources to a data set: `seeds`, `generate`, `review`, `accept`, `merge`; `composition` says what it holds.
"""

import argparse
import sys
from dataclasses import replace
from pathlib import Path

from vfkit.chat import Chat
from vfkit.datasets import DatasetUnavailable, vfat, vlind
from vfkit.models import ModelUnavailable
from vfkit.models.api import endpoint
from vfkit.workshop.items import collection, generate, review, sources

WRITTEN = 4096  # tokens that a proposal or a verdict may take, thoughts included


def main(argv: list[str] | None = None) -> None:
    parser = argparse.ArgumentParser(prog="python -m vfkit.items", description=__doc__)
    commands = parser.add_subparsers(dest="command", required=True)

    rule = commands.add_parser("vlind", help="by rule, from the statements of VLind-Bench, to a V-FAT file")
    rule.add_argument("path", help="folder of VLind-Bench, or its parquet mirror")

    pairs = commands.add_parser("seeds", help="pairs of images of a source, as `generate` reads them")
    pairs.add_argument("source", choices=sources.SOURCES)
    pairs.add_argument("path", help="folder or file of that data set, in any form that its loader reads")

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
    join = commands.add_parser("merge", help="make one V-FAT file of several, and say what it holds")
    for command in (rule, take, pairs, join):
        command.add_argument("out", help="the file to write; its images are put beside it")
    join.add_argument("files", nargs="+", help="V-FAT files")
    holds = commands.add_parser("composition", help="what a V-FAT file holds, beside VF's own counts")
    holds.add_argument("file")
    for command in (rule, take):
        command.add_argument("--order-seed", type=int, default=0, help="of the options' order")

    args = parser.parse_args(argv)
    globals()[f"_{args.command}"](args)


def _vlind(args) -> None:
    rows = vlind.load(args.path, args.order_seed)
    file = vfat.write(args.out, rows.samples)
    print(f"{len(rows.samples) // 6} items, {len(rows.samples)} samples: {file}")
    for note in rows.notes:
        print(f"note: {note}")
    _report(rows.errors)


def _seeds(args) -> None:
    n, errors = sources.write_seeds(args.source, args.path, args.out)
    print(f"{n} seeds: {args.out}")
    print(f"Next: python -m vfkit.items generate {args.out} FOLDER --generator NAME --critic NAME")
    _report(errors)


def _merge(args) -> None:
    samples, errors = collection.merge(args.files, args.out)
    print(f"{len(samples)} samples: {args.out}\n{_table(samples)}")
    _report(errors)


def _composition(args) -> None:
    rows = vfat.load(args.file)
    print(_table(rows.samples))
    _report(rows.errors)


def _table(samples) -> str:
    return collection.composition(samples).to_string(index=False, na_rep="-", float_format="{:g}".format)


def _generate(args) -> None:
    seeds, errors = generate.seeds(args.seeds)
    roles = ("generator", "critic")
    generator, critic = (_chat(getattr(args, role), Path(args.folder), not args.estimate) for role in roles)
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


def _chat(name: str, folder: Path, asks: bool) -> Chat:
    asked = endpoint(name)
    request = {key: WRITTEN if key.startswith("max_") else value for key, value in asked.request.items()}
    return Chat(replace(asked, request=request), folder / "replies" / f"{name}.jsonl", asks)


def _report(errors) -> None:
    for item_id, reason in errors:
        print(f"left out: {item_id}: {reason}")


if __name__ == "__main__":
    try:
        main()
    except (ValueError, OSError, DatasetUnavailable, ModelUnavailable) as error:
        sys.exit(f"error: {error}")
