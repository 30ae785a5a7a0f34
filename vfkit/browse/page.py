"""Write the samples of runs as one self-contained HTML file, in which data are text and never markup."""

import base64
import hashlib
import html
import json
import re
from collections import Counter
from collections.abc import Sequence
from dataclasses import dataclass
from importlib.resources import files
from pathlib import Path
from typing import Any

from vfkit.browse import pictures, rows
from vfkit.metrics.hidden import PERCENTILE
from vfkit.study.run import Run
from vfkit.study.store import write_atomic

MEGABYTES = 20
"""Budget of all thumbnails of a page: with its numbers it still fits into an e-mail."""
SAMPLES = 2000
"""Most samples on a page."""
EMBED = 8e6
"""Bytes up to which a notebook shows the page itself; of a larger one it shows a link."""
_BLOCK = 200  # pictures that the page decodes together
_PRIORITY = ("flipped", "moved", "failed", "kept")


@dataclass(frozen=True)
class Page:
    """A page of samples that was written; a notebook shows it below its cell.

    Args:
        path: of the HTML file.
        notes: what is on it and what is not, in sentences.
    """

    path: Path
    notes: tuple[str, ...]

    def _repr_html_(self) -> str:
        name, size = html.escape(str(self.path)), self.path.stat().st_size
        return f'<p>Samples: <a href="{name}" target="_blank">{name}</a> ({size / 1e6:.1f} MB)</p>{self.frame()}'

    def frame(self) -> str:
        """Make the HTML frame in which a notebook shows the page; of a page above `EMBED`, a sentence instead."""
        if self.path.stat().st_size > EMBED:
            return "<p>Open the file in a browser: it is too large to be shown here.</p>"
        inner = html.escape(self.path.read_text(encoding="utf-8"))
        return f'<iframe title="Samples" srcdoc="{inner}" width="100%" height="720" style="border:0"></iframe>'


def write(runs: Run | Sequence[Run], path: str | Path, megabytes: float = MEGABYTES, samples: int = SAMPLES) -> Page:
    """Write the samples of one run, or of several side by side, as an HTML file.

    Perturbed images are made again from the run's data and suite (adversarial ones are read from its `images`), and
    shown only where their content is what the run's records say; a run whose data are not available gives numbers
    without pictures.

    Args:
        runs: with samples of the same ids side by side.
        path: of the file, which is replaced.
        megabytes: most that all thumbnails may take; base images come first, then samples with flips, those kept but
            moved, those with errors, the rest.
        samples: most samples; of more, a choice in proportion to categories and to what happened to them.

    Raises:
        ValueError: no run, or no run with a record or an error; a limit below 0 (1 for samples).
    """
    runs = [runs] if isinstance(runs, Run) else list(runs)
    if not runs or megabytes < 0 or samples < 1:
        raise ValueError(
            f"a page needs a run, megabytes >= 0 and samples >= 1; not {len(runs)}, {megabytes}, {samples}"
        )
    texts = rows.Texts()
    collected = rows.collect(runs, texts)
    if not collected:
        raise ValueError(f"there is nothing to show: no sample is finished in {', '.join(str(r.folder) for r in runs)}")
    chosen = rows.choose(collected, samples)
    album = pictures.Album(megabytes * 1e6)
    missing = _illustrate(runs, chosen, list(texts.index), album)
    titles = _titles(runs)
    notes = [f"{title['name']}: {title['about']}." for title in titles]
    notes += [*_choice(chosen, collected), *missing, _budget(chosen, album, megabytes)]
    data = {"runs": titles, "columns": rows.COLUMNS, "notes": notes, "block": _BLOCK}
    data |= {"percentile": PERCENTILE, "samples": [_slim(sample, texts) for sample in chosen]}
    data["texts"] = list(texts.index)
    write_atomic(Path(path), render(data, album.pictures).encode())
    return Page(Path(path), tuple(notes))


def _illustrate(runs: Sequence[Run], chosen: list[dict[str, Any]], names: list[str], album) -> list[str]:
    """Add thumbnails to all runs, what matters first; return why some have none, as notes."""
    order = sorted(chosen, key=lambda sample: _PRIORITY.index(sample["state"]))
    notes = []
    for number, run in enumerate(runs):
        entries = {sample["id"]: sample["runs"][number] for sample in order if sample["runs"][number]}
        if why := pictures.illustrate(run, entries, names, album):
            notes.append(f"{run.config.model} on {run.config.dataset}: {why}.")
    return notes


def _choice(chosen: list, collected: list) -> list[str]:
    if len(chosen) == len(collected):
        return []
    return [
        f"{len(chosen):,} of {len(collected):,} samples are on this page: of every category, and of samples that "
        "flipped, that kept their answer but moved, that failed and that did neither, in proportion."
    ]


def _budget(chosen: list[dict[str, Any]], album, megabytes: float) -> str:
    forms = [form for sample in chosen for entry in sample["runs"] if entry for form in entry["forms"]]
    seen = Counter(form["seen"] for form in forms if form["hash"])
    text = f"Thumbnails of {seen.pop('', 0):,} of {sum(form['hash'] is not None for form in forms):,} forms"
    text += f" ({album.size / 1e6:.1f} MB of at most {megabytes:g})"
    return text + "".join(f"; {count:,} {why}" for why, count in seen.items()) + "."


def _titles(runs: Sequence[Run]) -> list[dict[str, Any]]:
    titles = []
    for run in runs:
        config, manifest = run.config, run.manifest
        name = f"{Path(config.model).name} on {Path(config.dataset).name}"
        about = f"{config.study}, scoring rule {config.rule}, run {run.folder.name}, "
        about += f"finished {str(manifest['finished'])[:10]}" if manifest["finished"] else "not finished"
        titles.append({"name": name, "about": about, "key": run.folder.name, "probes": rows.probes_of(run.records())})
    names = [title["name"] for title in titles]
    return [t | {"name": f"{t['name']} ({t['key']})"} if names.count(t["name"]) > 1 else t for t in titles]


def _slim(sample: dict[str, Any], texts: rows.Texts) -> dict[str, Any]:
    """Turn a sample's forms into lists, in the order of `rows.COLUMNS`."""
    entries = []
    for entry in sample["runs"]:
        forms = entry and [form | {"seen": texts(form["seen"] or None)} for form in entry["forms"]]
        entries.append(entry and entry | {"forms": [[form[name] for name in rows.COLUMNS] for form in forms]})
    return sample | {"runs": entries}


# --- the file ---------------------------------------------------------------------------------------------------------


def render(data: dict[str, Any], images: Sequence[str]) -> str:
    """Render the page: `data`, the data URIs of its pictures, and the only style and script that may run."""
    place = files("vfkit.browse")
    style = place.joinpath("page.css").read_text(encoding="utf-8")
    script = "".join(place.joinpath(name).read_text(encoding="utf-8") for name in ("list.js", "sample.js", "page.js"))
    blocks = [images[start : start + _BLOCK] for start in range(0, len(images), _BLOCK)]
    parts = {
        "title": html.escape(" and ".join(run["name"] for run in data["runs"])),
        "policy": "default-src 'none'; img-src data:; base-uri 'none'; form-action 'none'; "
        f"style-src '{_digest(style)}'; script-src '{_digest(script)}'",
        "style": style,
        "script": script,
        "data": _json(data),
        "pictures": "\n".join(
            f'<script type="application/json" class="thumbnails">{_json(b)}</script>' for b in blocks
        ),
    }
    template = place.joinpath("page.html").read_text(encoding="utf-8")
    return re.sub(r"\{\{(\w+)\}\}", lambda field: parts[field[1]], template)


def _json(value: Any) -> str:
    """Encode as JSON in which no HTML parser sees a tag."""
    text = json.dumps(value, allow_nan=False, separators=(",", ":"))
    return text.replace("<", "\\u003c").replace(">", "\\u003e").replace("&", "\\u0026")


def _digest(text: str) -> str:
    return f"sha256-{base64.b64encode(hashlib.sha256(text.encode()).digest()).decode()}"
