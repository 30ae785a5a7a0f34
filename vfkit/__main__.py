"""The `vfkit` command: `vfkit ask ...` is `python -m vfkit.ask ...`; alone it lists commands, data sets and models."""

import runpy
import sys

from vfkit.names import unknown

COMMANDS = {
    "ask": "one question of one image: the answer, what flips it, how far the state drifts",
    "browse": "the samples of finished runs as one HTML page",
    "study": "plan, run and follow a study of many models and data sets; list runs",
    "models": "models by name, what one takes, whether one works here",
    "notebook": "run a notebook, publish it as a page, copy those that vfkit brings",
    "items": "make V-FAT items of one's own",
    "bench": "how fast this machine reads",
}


def main() -> None:
    name, more = (sys.argv[1], sys.argv[2:]) if len(sys.argv) > 1 else ("--help", [])
    if name in ("-h", "--help"):
        print(overview())
    elif name in COMMANDS:
        sys.argv = [f"vfkit {name}", *more]
        runpy.run_module(f"vfkit.{name}", run_name="__main__", alter_sys=False)
    else:
        sys.exit(str(unknown("command", name, COMMANDS)))


def overview() -> str:
    """List the commands, data sets and models."""
    from vfkit.datasets import LOADERS
    from vfkit.models.registry import specs

    commands = "\n".join(f"  {name:9} {what}" for name, what in COMMANDS.items())
    return (
        f"vfkit COMMAND ...\n\n{commands}\n\nData sets: {', '.join(sorted(LOADERS))},\n"
        f"or a table of one's own questions (TSV, CSV, JSON lines, parquet).\n\nModels: {', '.join(specs())},\n"
        "a hub id, or a folder with a checkpoint."
    )


if __name__ == "__main__":
    main()
