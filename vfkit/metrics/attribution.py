"""Where an answer breaks, in words: what the tables of patches and hidden tokens allow to be said (METHODS 16)."""

from collections.abc import Sequence

import numpy as np
import pandas as pd

from vfkit.metrics import rules
from vfkit.metrics.causes import RESTORES, UNDOES, handover, knockout_contrasts, patch_contrasts, patch_table
from vfkit.metrics.frames import need


def attribution_finding(edits: pd.DataFrame, family: str = "text_overlay", model: str = "") -> str:
    """Where a family enters, what hiding it undoes, and where it is handed to the text, as far as the rules of METHODS
    15 allow: the verdicts are those of `patch_contrasts` and `knockout_contrasts`, layers are told by their intervals.
    What was not measured is not spoken of.

    Args:
        edits: of one run, all families. family: the perturbation. model: its name, for the sentence.
    """
    about = f"**{model + ', ' if model else ''}{family.replace('_', ' ')}**\n\n"
    need(edits, "edits", "family", "kind", "reason")
    if edits.empty:
        return about + "- Neither patching nor knockout was measured."
    claims = [entry_sentence(edits, family), knockout_sentence(edits, family), path_sentence(edits, family)]
    return about + "\n".join(f"- {claim}" for claim in claims if claim)


def entry_sentence(edits: pd.DataFrame, family: str) -> str:
    """What base states at the changed tokens bring back before the first layer patched, against random tokens."""
    own = edits[(edits["kind"] == "patch") & (edits["family"] == family)]
    if own.empty:
        return ""
    contrasts = patch_contrasts(edits)
    rows = contrasts[(contrasts["family"] == family) & (contrasts["place"] == "region")]
    if rows.empty:
        return f"No instance was patched at one region of the image{_reasons(own, 'it changes no such region')}."
    row = rows.loc[rows["layer"].idxmin()].to_dict()
    table = patch_table(own)
    at = table[(table["into"] == "perturbed") & (table["place"] == "region") & (table["layer"] == row["layer"])]
    shown = {one["donor"]: rules.shown(one, "restoration") for one in at.to_dict("records")}
    return (
        f"Of {row['instances']} instances whose margin fell, base states at the tokens that show the change, before "
        f"layer {row['layer']}, bring back {shown['base']} of what was lost (median); at as many random tokens "
        f"{shown['random tokens']}: {_said(row['verdict'], RESTORES)}."
    )


def knockout_sentence(edits: pd.DataFrame, family: str) -> str:
    """What hiding the changed tokens in all layers undoes, against random tokens."""
    own = edits[(edits["kind"] == "knockout") & (edits["family"] == family)]
    if own.empty:
        return ""
    contrasts = knockout_contrasts(edits)
    rows = contrasts[contrasts["family"] == family]
    if rows.empty:
        return f"Hiding tokens could undo no flip{_reasons(own, 'no answer flipped')}."
    row = rows.loc[(rows["last"] - rows["layer"]).idxmax()].to_dict()
    return (
        f"Hiding these tokens from all others in all layers undoes {100 * row['first']:.1f} % of {row['flipped']} "
        f"flips, hiding as many random image tokens {100 * row['second']:.1f} % (difference "
        f"{rules.shown(row, 'difference', unit=' points', signed=True)}): {_said(row['verdict'], UNDOES)}."
    )


def path_sentence(edits: pd.DataFrame, family: str) -> str:
    """Between which layers all image tokens lose half of the way, and question and answer position gain it."""
    table = patch_table(edits[edits["family"] == family])
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


def _reasons(edits: pd.DataFrame, done: str) -> str:
    """Why instances were not edited, with counts; `done` says what those lack that were edited all the same."""
    counts = edits.drop_duplicates(["sample_id", "instance"])["reason"].replace("", done).value_counts()
    return ": " + "; ".join(f"{reason} ({number:,})" for reason, number in counts.items())


def _said(verdict: str, words: Sequence[str]) -> str:
    """The verdict as the end of a sentence."""
    of = {words[0]: "what shows the change matters more", words[1]: "what shows the change matters less"}
    return of.get(verdict, verdict)
