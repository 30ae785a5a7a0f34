"""Command line: `python -m vfkit.study list [outputs]` lists the runs in a folder."""

import argparse
import sys
from collections.abc import Sequence

import pandas as pd

from vfkit.study.runs import open_runs


def main(arguments: Sequence[str] | None = None) -> None:
    parser = argparse.ArgumentParser(prog="python -m vfkit.study", description="Studies that were done.")
    commands = parser.add_subparsers(dest="command", required=True)
    listing = commands.add_parser("list", help="every run in a folder, finished or not")
    listing.add_argument("outputs", nargs="?", default="outputs", help="the folder of all runs (default: outputs)")
    given = parser.parse_args(arguments)
    try:
        table = open_runs(given.outputs, finished=None).table()
    except FileNotFoundError as error:
        sys.exit(str(error))
    with pd.option_context("display.max_columns", None, "display.width", None, "display.max_colwidth", None):
        print(table.drop(columns=["series", "params", "seconds"]).to_string(index=False))


if __name__ == "__main__":
    main()
