"""Command line: `python -m vfkit.study plan|run|status FILE` of a study file, `list [outputs]` of the runs in a folder.

`FILE` is a study file, or the name of one that vfkit brings: `hi`, `vf`, `smoke`.
"""

import argparse
import signal
import sys
from collections.abc import Sequence

import pandas as pd

from vfkit.study import launch
from vfkit.study.plan import DEVICES, plan
from vfkit.study.plan import total as plan_total
from vfkit.study.runs import open_runs
from vfkit.study.status import status
from vfkit.study.status import total as status_total
from vfkit.study.studyfile import Planned, Study, planned, read_study

ENGINE = ("engine", "workers", "gpus_per_worker", "cpus_per_worker", "batch_tokens")


def main(arguments: Sequence[str] | None = None) -> None:
    """Do what a command line asks; errors that vfkit raises on purpose end it with one line."""
    given = _parser().parse_args(arguments)
    try:
        code = given.do(given)
    except (OSError, ValueError) as error:
        sys.exit(str(error))
    except KeyboardInterrupt:
        sys.exit("Stopped; what is finished is kept. The same command goes on.")
    if code:
        sys.exit(code)


def _plan(given: argparse.Namespace) -> int:
    study, runs = _read(given)
    table = plan(study, runs, given.device)
    _show(table.drop(columns=["missing", "instances"]), given.csv, table)
    print(plan_total(table))
    return 0


def _run(given: argparse.Namespace) -> int:
    study, runs = _read(given)
    own = [sys.executable, "-m", "vfkit.study", "run", *_again(given), "--here", "--only"]
    if given.slurm:
        print(launch.slurm(study, runs, own, given.partition, given.hours), end="")
        return 0
    for ending in (signal.SIGTERM, signal.SIGHUP):  # a closed terminal or a scheduler stops as Ctrl-C does
        signal.signal(ending, signal.default_int_handler)
    if given.here or given.engine == "ray":  # Ray spreads one run over workers
        gaps = launch.do_here(study, runs)
    else:
        gaps = launch.launch(study, runs, own, jobs=given.jobs)
    if not given.here:
        table = status(study, runs)
        for row in table[table.reason != ""].itertuples():
            print(f"left out: run {row.run} ({row.model} on {row.dataset}): {row.reason}")
        print(status_total(table))
    return int(gaps > 0) if given.strict else 0


def _status(given: argparse.Namespace) -> int:
    study, runs = _read(given)
    table = status(study, runs, given.device)
    _show(table.drop(columns="folder"), given.csv, table)
    print(status_total(table))
    return 0


def _list(given: argparse.Namespace) -> int:
    _show(open_runs(given.outputs, finished=None, study=None).table().drop(columns=["series", "params", "seconds"]))
    return 0


def _read(given: argparse.Namespace) -> tuple[Study, list[Planned]]:
    places = dict(one.split("=", 1) for one in given.data if "=" in one)
    if wrong := [one for one in given.data if not all(one.partition("="))]:
        raise ValueError(f"--data {wrong[0]}: give NAME=PLACE")
    settings = {name: getattr(given, name) for name in ENGINE if getattr(given, name, None) is not None}
    if given.command == "run" and given.device:
        settings["device"] = given.device
    study = read_study(given.file, places, out=given.out, **settings)
    return study, planned(study, given.models, given.datasets, given.parts, given.only)


def _again(given: argparse.Namespace) -> list[str]:
    """The command line of a process that does some of the same runs."""
    words = [given.file]
    for name in ("out", "device", *ENGINE):
        if getattr(given, name, None) is not None:
            words += [f"--{name.replace('_', '-')}", str(getattr(given, name))]
    return words + [word for one in given.data for word in ("--data", one)]


def _show(table: pd.DataFrame, csv: str | None = None, whole: pd.DataFrame | None = None) -> None:
    with pd.option_context("display.max_columns", None, "display.width", None, "display.max_colwidth", 60):
        print(table.to_string(index=False, na_rep="", float_format=_fraction))
    if csv:
        (table if whole is None else whole).to_csv(csv, index=False)


def _fraction(value: float) -> str:
    return "< 0.01" if 0 < value < 0.01 else f"{value:.3g}"


def _positive(text: str) -> int:
    """A whole number of at least 1; argparse names the option of another."""
    if (number := int(text)) < 1:
        raise argparse.ArgumentTypeError(f"{text} is less than 1")
    return number


def _parser() -> argparse.ArgumentParser:
    parser = argparse.ArgumentParser(prog="python -m vfkit.study", description="Studies of many models and data sets.")
    commands = parser.add_subparsers(dest="command", required=True)
    for name, do, text in (
        ("plan", _plan, "what each run reads, needs and lacks; nothing is loaded"),
        ("run", _run, "do all runs that are not done; what is not available is left out and reported"),
        ("status", _status, "which runs are done, running, stopped or left out, and the time left"),
    ):
        one = commands.add_parser(name, help=text, description=text)
        one.set_defaults(do=do)
        one.add_argument("file", help="a study file, or the name of one that vfkit brings: hi, vf, smoke")
        one.add_argument("--models", nargs="+", default=[], metavar="MODEL", help="only these of its models")
        one.add_argument("--datasets", nargs="+", default=[], metavar="DATASET", help="only these of its data sets")
        one.add_argument("--parts", nargs="+", default=[], metavar="PART", help="only these of its parts")
        one.add_argument(
            "--only", nargs="+", default=[], type=int, metavar="RUN", help="only the runs of these numbers"
        )
        one.add_argument("--data", action="append", default=[], metavar="NAME=PLACE", help="where a data set lies")
        one.add_argument("--out", help="folder of all runs (default: the study's, else outputs)")
        if name != "run":
            one.add_argument("--device", default="h100", choices=DEVICES, help="whose speed estimates take (h100)")
            one.add_argument("--csv", metavar="FILE", help="write the whole table too")
    run = commands.choices["run"]
    run.add_argument("--device", help="of all models: cpu, cuda, auto (spread over all GPUs)")
    run.add_argument("--engine", choices=("local", "ray"), help="ray: the workers of a cluster share each run")
    run.add_argument("--workers", type=int, help="with ray: how many")
    run.add_argument("--gpus-per-worker", type=float, help="with ray: GPUs, or the part of one, of each")
    run.add_argument("--cpus-per-worker", type=float, help="with ray: cores of each")
    run.add_argument("--batch-tokens", type=int, help="tokens in one batch")
    run.add_argument("--jobs", type=_positive, help="processes side by side, at most")
    run.add_argument("--here", action="store_true", help="in this process, one run after the other")
    run.add_argument("--strict", action="store_true", help="end with status 1 if a run is left out")
    run.add_argument("--slurm", action="store_true", help="print a SLURM array script instead")
    run.add_argument("--partition", default="", help="with --slurm: its partition")
    run.add_argument("--hours", type=_positive, default=24, help="with --slurm: the limit of each run")
    listing = commands.add_parser("list", help="every run in a folder, finished or not")
    listing.add_argument("outputs", nargs="?", default="outputs", help="the folder of all runs (default: outputs)")
    listing.set_defaults(do=_list)
    return parser


if __name__ == "__main__":
    main()
