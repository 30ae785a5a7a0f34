"""Command line: `python -m vfkit.browse RUN... -o FILE.html` writes the samples of runs as one HTML page."""

import argparse
import sys
from collections.abc import Sequence
from pathlib import Path

from vfkit.browse.page import MEGABYTES, SAMPLES, write
from vfkit.study.run import Run
from vfkit.study.runs import find_runs


def main(arguments: Sequence[str] | None = None) -> None:
    parser = argparse.ArgumentParser(prog="python -m vfkit.browse", description="Samples of runs as one HTML page.")
    parser.add_argument("runs", nargs="+", metavar="RUN", help="a run's folder, or a folder with one run in it")
    parser.add_argument("-o", "--out", required=True, metavar="FILE.html", help="the page; an old one is replaced")
    parser.add_argument("--megabytes", type=float, default=MEGABYTES, help="of all thumbnails (default: %(default)s)")
    parser.add_argument("--samples", type=int, default=SAMPLES, help="most samples (default: %(default)s)")
    given = parser.parse_args(arguments)
    try:
        if not given.out.lower().endswith((".html", ".htm")):
            raise ValueError(f"-o {given.out!r}: the page is an HTML file, called something.html")
        page = write([_run(folder) for folder in given.runs], given.out, given.megabytes, given.samples)
    except (ValueError, OSError) as error:
        sys.exit(f"{error}")
    print(*page.notes, f"{page.path} ({page.path.stat().st_size / 1e6:.1f} MB)", sep="\n")


def _run(folder: str) -> Run:
    """Open the run in a folder, or the only one below it."""
    if not Path(folder).is_dir():
        raise FileNotFoundError(f"there is no folder {folder}")
    runs = list(find_runs(folder))
    if not runs:
        raise FileNotFoundError(f"there is no run (no run.json) in {folder}")
    if len(runs) > 1:
        names = ", ".join(str(run.folder) for run in runs[:8])
        raise ValueError(f"{folder} holds {len(runs)} runs; name one: {names}{' ...' if len(runs) > 8 else ''}")
    return runs[0]


if __name__ == "__main__":
    main()
