"""Review by a person: a sheet of candidates with their images, and the items accepted in it (VF 3.1)."""

import base64
import csv
import html
import io
from pathlib import Path

from vfkit.datasets import vfat
from vfkit.datasets.base import unknown
from vfkit.datasets.vfat_items import Item, item_samples, why
from vfkit.images import load_image
from vfkit.workshop.items.generate import CANDIDATES, made

SHEET, PAGE = "review.csv", "review.html"
DECISIONS = ("accept", "edit", "drop")
_TEXTS = ("category", "question", "open_question", "truth", "trap")
_LISTS = ("distractors", "aliases", "trap_aliases")  # joined by " | "
_ASSERTED = ("L2", "L3")
COLUMNS = ("decision", "id", *_TEXTS, *_LISTS, *_ASSERTED, "critic", "comment")
_SIDE = 384  # px, longest side of an image on the page


def candidates(folder: str | Path) -> dict[str, Item]:
    """Return the items in a folder that a critic accepted.

    Raises:
        FileNotFoundError: nothing was generated there.
    """
    file = made(Path(folder, CANDIDATES), "generate")
    lines = file.read_text(encoding="utf-8").splitlines()
    items = [Item.model_validate_json(line) for line in lines]
    return {item.id: item for item in items}


def write_sheet(folder: str | Path) -> tuple[Path, Path]:
    """Write `review.csv`, to be filled in, and `review.html`, which shows the same items with their images.

    Raises:
        FileExistsError: the sheet exists and may hold decisions.
    """
    sheet, page = Path(folder, SHEET), Path(folder, PAGE)
    if sheet.exists():
        raise FileExistsError(f"{sheet} is there already and may hold decisions; move it away for a new one")
    items = candidates(folder)
    page.write_text(_page(list(items.values())), encoding="utf-8")
    with open(sheet, "w", encoding="utf-8-sig", newline="") as file:  # spreadsheets know UTF-8 by the mark
        writer = csv.DictWriter(file, COLUMNS)
        writer.writeheader()
        writer.writerows(map(_row, items.values()))
    return sheet, page


def accept(folder: str | Path, out: str | Path, order_seed: int = 0) -> tuple[Path, dict[str, int]]:
    """Write the items that a person accepted as a V-FAT file; returns the file and the number of rows by decision.

    `accept` takes the candidate as proposed, `edit` takes the texts of the row, `drop` leaves it out, and so does a row
    without a decision, counted as `undecided`.

    Raises:
        ValueError: an invalid decision, an unknown or repeated id, or an invalid edit; every such row is named, and
            nothing is written.
        FileExistsError: `out` exists.
        FileNotFoundError: the folder holds no candidates, or no sheet.
    """
    known, kept, problems = candidates(folder), {}, []
    counts = dict.fromkeys((*DECISIONS, "undecided"), 0)
    with open(made(Path(folder, SHEET), "review"), encoding="utf-8-sig", newline="") as file:
        for row in csv.DictReader(file):
            item_id, decision = (row.get("id") or "").strip(), (row.get("decision") or "").strip().casefold()
            try:
                if item_id not in known:
                    raise unknown("item", item_id, known)
                if decision and decision not in DECISIONS:
                    raise unknown("decision", decision, DECISIONS)
                if item_id in kept:
                    raise ValueError("the item occurs twice")
                if decision in ("accept", "edit"):
                    kept[item_id] = known[item_id] if decision == "accept" else _edited(known[item_id], row)
                counts[decision or "undecided"] += 1
            except ValueError as error:
                problems.append(f"{item_id or 'a row without id'}: {why(error)}")
    if problems:
        raise ValueError(f"{Path(folder, SHEET)}: " + "; ".join(problems))
    samples = [sample for item in kept.values() for sample in item_samples(item, order_seed)]
    return vfat.write(out, samples), counts


def _row(item: Item) -> dict[str, str]:
    lists = {name: " | ".join(getattr(item, name)) for name in _LISTS}
    asserted = {level: item.assertions.get(level, "") for level in _ASSERTED}
    texts = {name: getattr(item, name) for name in ("id", *_TEXTS)}
    return texts | lists | asserted | {"critic": item.meta.get("critic", "")}


def _edited(item: Item, row: dict[str, str]) -> Item:
    texts = {name: row[name] or "" for name in _TEXTS}
    lists = {name: [part.strip() for part in (row[name] or "").split("|") if part.strip()] for name in _LISTS}
    asserted = {level: row[level].strip() for level in _ASSERTED if (row[level] or "").strip()}
    return Item(**item.model_dump() | texts | lists | {"assertions": asserted, "meta": item.meta | {"edited": True}})


# --- the page ---------------------------------------------------------------------------------------------------------

_HEAD = """<!doctype html><meta charset="utf-8"><title>Review of V-FAT items</title>
<style>body{font-family:sans-serif;max-width:70em;margin:2em auto}section{border-top:1px solid #999;padding:1em 0}
figure{display:inline-block;margin:0 1em 0 0}th{text-align:left;vertical-align:top;padding-right:1em}</style>
<h1>Review of V-FAT items</h1>
<p>An item counts only with a decision in <code>review.csv</code>: <b>accept</b> it as it stands here, <b>edit</b> it in
its row, or <b>drop</b> it.</p>
"""


def _page(items: list[Item]) -> str:
    return _HEAD + "\n".join(map(_section, items))


def _section(item: Item) -> str:
    rows = "".join(
        f"<tr><th>{html.escape(name)}</th><td>{html.escape(text)}</td></tr>"
        for name, text in _row(item).items()
        if text and name != "id"
    )
    figures = _figure(item.atypical, "against expectation: L1, L3") + _figure(item.ordinary, "ordinary: L2")
    return f"<section><h2>{html.escape(item.id)}</h2>{figures}<table>{rows}</table></section>"


def _figure(source, caption: str) -> str:
    image = load_image(source)
    image.thumbnail((_SIDE, _SIDE))
    file = io.BytesIO()
    image.save(file, "JPEG", quality=85)
    url = f"data:image/jpeg;base64,{base64.b64encode(file.getvalue()).decode()}"
    return f'<figure><img src="{url}" alt=""><figcaption>{html.escape(caption)}</figcaption></figure>'
