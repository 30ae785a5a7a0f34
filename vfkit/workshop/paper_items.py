"""The README's table of paper items: which command gives which tables and figures, with what data, memory and time.

`python -m vfkit.workshop.paper_items --readme README.md` writes it between its marks, from the study files and their
plans on a machine with nothing; nothing in it is written by hand.
"""

import argparse
from collections.abc import Iterator
from pathlib import Path

import pandas as pd

from vfkit.study.plan import plan
from vfkit.study.studyfile import Study, planned, read_study

MARKS = ("<!-- items: start -->", "<!-- items: end -->")
STUDIES = ("hi", "vf")
NOWHERE = "no-such-folder"  # so that no finished run of one's own shortens the hours


def rows(study: Study, name: str, device: str) -> Iterator[dict[str, str]]:
    """One row for each part of a study: its items, command, data, memory of its largest model, and hours on a device.

    A run that an earlier part has too is counted there.
    """
    table = plan(study, planned(study), device)
    for part, content in study.parts.items():
        own = table[table.part == part]
        places = [f"--data {each}=PLACE" for each in content.datasets if study.of(each).get and _needs_place(each)]
        command = " ".join([f"python -m vfkit.study run {name} --parts {part}", *places])
        data = "; ".join(dict.fromkeys(study.of(each).get or "comes with vfkit" for each in content.datasets))
        memory = own[["weights_gb", "activations_gb", "masks_gb"]].sum(axis=1)
        local = own[own.weights_gb.notna()]
        yield {
            "paper item": ", ".join(content.items),
            "command": f"`{command}`",
            "runs": str(len(own)),
            "data to get": data,
            "GPU memory": f"{memory.max():.0f} GB" if len(local) and memory.max() > 1 else "",
            f"hours on one {device}, at most": _hours(own, local),
        }


def markdown(device: str = "h100") -> str:
    """The table of all studies, in Markdown."""
    table = pd.DataFrame([row for name in STUDIES for row in rows(read_study(name, out=NOWHERE), name, device)])
    lines = ["| " + " | ".join(table.columns) + " |", "|" + "---|" * len(table.columns)]
    return "\n".join(lines + ["| " + " | ".join(row) + " |" for row in table.itertuples(index=False)])


def write(readme: Path, text: str) -> None:
    """Write text between the marks of a file.

    Raises:
        ValueError: the file lacks the marks.
    """
    content = readme.read_text(encoding="utf-8")
    start, end = (content.find(mark) for mark in MARKS)
    if start < 0 or end < start:
        raise ValueError(f"{readme} needs the lines {' and '.join(MARKS)}, in this order")
    readme.write_text(f"{content[: start + len(MARKS[0])]}\n{text}\n{content[end:]}", encoding="utf-8")


def _needs_place(dataset: str) -> bool:
    return dataset in ("seedbench", "vfat", "vlind", "weird")


def _hours(own: pd.DataFrame, local: pd.DataFrame) -> str:
    if not len(own):
        return "with the part above"
    if not len(local):
        return "asks hosted models"
    hours = local.hours.sum()
    return f"{hours:.0f}" if hours >= 10 else f"{hours:.1f}"


if __name__ == "__main__":
    parser = argparse.ArgumentParser(description="Table of paper items and the commands that give them.")
    parser.add_argument("--device", default="h100")
    parser.add_argument("--readme", type=Path, help="file with the marks; without it the table is printed")
    given = parser.parse_args()
    if given.readme:
        write(given.readme, markdown(given.device))
    else:
        print(markdown(given.device))
