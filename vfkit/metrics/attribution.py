"""Where an answer breaks, in words: what the tables of patches and hidden tokens allow to be said (METHODS 16)."""

from collections.abc import Sequence

import numpy as np
import pandas as pd

from vfkit.metrics import rules
from vfkit.metrics.causes import RESTORES, UNDOES, handover, knockout_contrasts, patch_contrasts, patch_table
from vfkit.metrics.frames import need


def attribution_finding(edits: pd.DataFrame, family: str = "text_overlay", model: str = "") -> str:
    """Where a family enters, what hiding it undoes, and where it is handed to the text, as far as the rules of METHODS
    15 allow: contrasts with as many random tokens, Holm-adjusted over each table, and layers by their intervals.

    Args:
        edits: of one run. family: the perturbation. model: its name, for the sentence.
    """
    need(edits, "edits", "family", "kind", "reason")
    own = edits[edits["family"] == family]
    about = f"**{model + ', ' if model else ''}{family.replace('_', ' ')}**\n\n"
    claims = filter(None, [entry_sentence(own), knockout_sentence(own), path_sentence(own)])
    return about + "\n".join(f"- {claim}" for claim in claims)


def entry_sentence(edits: pd.DataFrame) -> str:
    """What base states at the changed tokens bring back before the first layer, against random tokens."""
    table = patch_table(edits)
    early = edits[(edits["place"] == "region") & (edits["layer"] == edits["layer"].min())]
    own = patch_contrasts(early)
    if own.empty:
        return "No instance that changes one region of the image lost enough of its margin to be patched."
    (row,) = own.to_dict("records")
    at = table[(table["into"] == "perturbed") & (table["place"] == "region") & (table["layer"] == row["layer"])]
    shown = {one["donor"]: rules.shown(one, "restoration") for one in at.to_dict("records")}
    return (
        f"Of {row['instances']} instances whose margin fell, base states at the tokens that show the change, before "
        f"layer {row['layer']}, bring back {shown['base']} of what was lost (median); at as many random tokens "
        f"{shown['random tokens']}: {_said(row['verdict'], RESTORES)}."
    )


def knockout_sentence(edits: pd.DataFrame) -> str:
    """What hiding the changed tokens in all layers undoes, against random tokens."""
    width = edits["last"] - edits["layer"]
    own = knockout_contrasts(edits[width == width.max()])
    if own.empty:
        return "No answer flipped by a change in one region of the image, so that there is nothing to undo."
    (row,) = own.to_dict("records")
    return (
        f"Hiding these tokens from all others in all layers undoes {100 * row['first']:.0f} % of {row['flipped']} "
        f"flips, hiding as many random image tokens {100 * row['second']:.0f} %, a difference of "
        f"{rules.shown(row, 'difference', unit=' points', signed=True)}: "
        f"{_said(row['verdict'], UNDOES)}."
    )


def path_sentence(edits: pd.DataFrame) -> str:
    """Between which layers all image tokens lose half of the way, and question and answer position gain it."""
    table = patch_table(edits)
    if table.empty:
        return ""
    if table["images"].max() < rules.FEWEST:
        return "Of so few images nothing can be said about where it is handed to the text."
    leaves, text = handover(table, "image"), []
    if np.isfinite(leaves).all():
        text.append(
            f"All image tokens together bring back more than half up to layer {leaves[0]:g} and less than half from "
            f"layer {leaves[1]:g} on: between these, what they carry is handed to the text."
        )
    for place, name in (("question", "The question's tokens bring"), ("answer", "The answer position brings")):
        arrives = handover(table, place)
        if np.isfinite(arrives).all():
            text.append(
                f"{name} back less than half up to layer {arrives[0]:g} and more than half from layer {arrives[1]:g}."
            )
    return " ".join(text) or "Between which layers it is handed to the text is undecided."


def _said(verdict: str, words: Sequence[str]) -> str:
    """The verdict as the end of a sentence."""
    of = {words[0]: "what shows the change matters more", words[1]: "what shows the change matters less"}
    return of.get(verdict, verdict)
