"""One question of one image: `python -m vfkit.ask photo.jpg "What is on the table?" --options "a cup" "a plate"`.

Prints the answer with the scores of all options, what flips it, and how far the state drifts, and writes the page of
the sample. It is a study of one sample: asked again, it is read from its run's folder.
"""

import argparse
import base64
import hashlib
import json
import os
import sys
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import Any

import vfkit
from vfkit.models import ModelUnavailable, find, is_hosted
from vfkit.perturb import NATURAL_FAMILIES
from vfkit.readout import rules
from vfkit.study.run import Run
from vfkit.study.store import write_atomic

DRIFT = "cos_ctx_mcq_post_norm"
OWN_WORLD = (
    "{} is an embedded model: it knows its own drawn world only, coloured shapes and simple things. Of a photo, or in "
    "other words, its answer means nothing. Released models are listed by `python -m vfkit.models`."
)


def ask(
    image: str | Path,
    question: str,
    options: Sequence[str] = (),
    model: str = "mini_qwen3vl",
    device: str | None = None,
    out: str | Path = "outputs",
) -> Run:
    """Ask a model one question of an image and of all natural perturbations of it, and of a blank image.

    Args:
        image: an image file.
        options: two or more, as multiple choice; none for Yes or No.
        model: a name, a hub id or a folder, as in `vfkit.load_model`.
        out: the folder of all runs; question and image are kept in `ask` in it.

    Returns:
        The run, of one sample.

    Raises:
        ValueError: no such image or an image that cannot be read, an empty question, one option, or a hosted model.
        ModelUnavailable: the model is not available here.
    """
    path = Path(image).expanduser().resolve()
    vfkit.load_image(path)  # before a model is loaded
    if not question.strip() or len(options) == 1 or not all(option.strip() for option in options):
        raise ValueError("a question and two or more options, none of them empty, are needed (no option: Yes or No)")
    if is_hosted(model):
        raise ValueError(f"model {model!r} is hosted: it gives answers without the scores that this needs")
    row: dict[str, Any] = {"id": "0", "image": base64.b64encode(path.read_bytes()).decode(), "question": question}
    row |= {"type": "mcq", "options": list(options)} if options else {"type": "yes_no"}
    text = json.dumps(row)
    name = f"{path.stem}-{hashlib.sha256(text.encode()).hexdigest()[:8]}.jsonl"
    table = Path(out).expanduser() / "ask" / name
    write_atomic(table, text.encode())
    fields: dict[str, Any] = dict(model=model, device=device, dataset="table", dataset_path=str(table), n=None)
    fields |= dict(study="ask", out=str(out), families=(*NATURAL_FAMILIES, "blank"), probes=True, controls=0, verify=1)
    run = vfkit.run_study(vfkit.StudyConfig(**fields))
    if not len(run.records()):
        errors = run.errors()
        raise ValueError(errors.message.iloc[0] if len(errors) else "the question could not be read")
    return run


def report(run: Run) -> Iterator[str]:
    """Report a run of one sample line by line: answer, scores, flips and drift by family."""
    records, sample, rule = run.records(), run.samples().iloc[0], run.config.rule
    base = records[records.family == "base"].iloc[0]
    forms = records[~records.family.isin(["base", "blank", "identity"]) & records.flip.notna()]
    blank = records[records.family == "blank"].iloc[0]
    scores = rules.scores(rule, base.logp_text, base.logp_end, base.n_tokens, base.logp_letter)
    yield f"Answer: {base.prediction_text} (margin {base.margin:.2f} nats)"
    yield from (f"  {score:9.3f}  {option}" for score, option in zip(scores, sample.options, strict=True))
    yield f"Generated: {base.text_mcq}"
    without = "the same answer" if not blank.flip else blank.prediction_text
    yield f"Without the image (blank): {without}"
    yield f"Flips: {int(forms.flip.sum())} of {len(forms)} perturbed images"
    for family, part in forms[forms.flip.astype(bool)].groupby("family", sort=False):
        of = int((forms.family == family).sum())
        names = ", ".join(f"{row.instance} -> {row.prediction_text}" for row in part.itertuples())
        yield f"  {family}, {len(part)} of {of}: {names}"
    floor = records[records.family == "identity"][DRIFT].max()
    yield f"Drift ({DRIFT}): a blank image moves the state by {blank[DRIFT]:.3g}, the same pixels by {floor:.1g}"
    for family, drift in forms.groupby("family", sort=False)[DRIFT].mean().items():
        share = f" ({100 * drift / blank[DRIFT]:.0f} % of blank)" if blank[DRIFT] > 0 else ""
        yield f"  {family}: {drift:.3g}{share}"


def main(arguments: Sequence[str] | None = None) -> None:
    parser = argparse.ArgumentParser(prog="python -m vfkit.ask", description="One question of one image.")
    parser.add_argument("image", help="an image file")
    parser.add_argument("question")
    parser.add_argument("--options", nargs="+", default=[], metavar="TEXT", help="two or more; none asks for Yes or No")
    parser.add_argument("--model", default="mini_qwen3vl", help="name, hub id or folder (default: %(default)s)")
    parser.add_argument("--device", help="a torch device; the best there is by default")
    parser.add_argument("--out", default="outputs", help="folder of all runs (default: %(default)s)")
    parser.add_argument("-o", "--page", metavar="FILE.html", help="the page (default: in the run's folder)")
    given = parser.parse_args(arguments)
    try:
        run = ask(given.image, given.question, given.options, given.model, given.device, given.out)
        page = run.browse(given.page)
    except (ValueError, OSError, ModelUnavailable, RuntimeError) as error:
        sys.exit(f"{error}")
    print(*report(run), sep="\n")
    spec = find(given.model)
    if spec.path is not None and not os.path.isabs(spec.path):
        print(OWN_WORLD.format(spec.name))
    print(f"Page: {page.path}")


if __name__ == "__main__":
    main()
