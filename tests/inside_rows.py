"""Made-up rows of what moves inside: patches and hidden tokens with a planted path, states, lens, attention, radius."""

import json

import numpy as np
import pandas as pd

LAYERS, PATHS = range(5), {"image": (1, 1, 0.9, 0.2, 0), "region": (0.6, 0.5, 0.3, 0, 0), "answer": (0, 0, 0.1, 0.8, 1)}


def edits(n: int = 24, path: dict | None = None, undone: float = 0.8, chance: float = 0.05, seed: int = 0):
    """Edits of `n` samples on `n` images, each with one flipped instance: what comes back by layer and place, and what
    hiding the region, or random tokens, undoes."""
    draw, rows = np.random.default_rng(seed), []
    for i in range(n):
        who = {"sample_id": f"s{i}", "image_id": f"i{i}", "family": "text_overlay", "instance": "text_overlay_B"}
        who |= {"margin_base": 3.0, "margin_perturbed": -2.0 - draw.random(), "reason": "", "n_tokens": 4}
        drop = who["margin_base"] - who["margin_perturbed"]
        for layer in LAYERS:
            for place, shares in (PATHS if path is None else path).items():
                for donor, share in (("base", shares[layer]), ("random tokens", 0.0), ("other image", 0.0)):
                    if donor != "random tokens" or place != "image":
                        back = who["margin_perturbed"] + drop * (share + draw.normal(0, 0.05))
                        row = {"kind": "patch", "into": "perturbed", "layer": layer, "last": layer, "place": place}
                        rows.append(who | row | {"donor": donor, "base_margin": back})
                row = {
                    "kind": "patch",
                    "into": "base",
                    "layer": layer,
                    "last": layer,
                    "place": place,
                    "donor": "perturbed",
                }
                rows.append(who | row | {"base_margin": 3.0 - drop * shares[layer]})
        for place, share in (("region", undone), ("random tokens", chance), ("image", 0.5)):
            for window in ((0, 4), (0, 2), (3, 4)):
                row = {"kind": "knockout", "into": "perturbed", "layer": window[0], "last": window[1], "place": place}
                rows.append(who | row | {"base_margin": 1.0 if draw.random() < share else -1.0})
    return pd.DataFrame(rows)


def records(n: int, flips, instances=("text_overlay_B",), answer: int = 0) -> pd.DataFrame:
    rows = []
    for i in range(n):
        who = {"sample_id": f"s{i}", "image_id": f"i{i}", "applicable": True, "category": "", "answer": answer}
        who |= {"n_options": 4, "base_prediction": 0, "margin": 2.0, "base_margin": 2.0, "tied": False, "params": "{}"}
        rows.append(who | {"family": "base", "instance": "base", "prediction": 0})
        for name in instances:
            rows.append(who | {"family": "text_overlay", "instance": name, "prediction": int(flips[i])})
    return pd.DataFrame(rows)


def inside(n: int = 24, seed: int = 3) -> dict[str, list[pd.DataFrame]]:
    """By kind, the frame of `run.inside(kind)` and the records of its samples: half of the overlays flip the answer."""
    draw = np.random.default_rng(seed)
    rows: dict[str, list[dict]] = {kind: [] for kind in ("layers", "lens", "attention", "radius")}
    own = records(n, draw.integers(0, 2, n))
    for i in range(n):
        base = {"sample_id": f"s{i}", "image_id": f"i{i}", "family": "base", "instance": "base"}
        overlay = base | {"family": "text_overlay", "instance": "text_overlay_B"}
        controls = [base | {"family": "same_question", "instance": f"s{(i + k) % n}"} for k in (1, 2, 3)]
        for layer in range(3):
            for who in (overlay, *controls):
                moved = dict.fromkeys(["pixels_l2", "cos", "l2", "cos_tokens", "l2_tokens"], 0.1) | {
                    "cos": draw.random()
                }
                at = {"layer": layer, "point": "state", "place": "answer", "n_tokens": 1}
                rows["layers"].append(who | at | moved)
            for who in (base, overlay):
                margin = draw.normal()
                rows["lens"].append(who | {"layer": layer, "base_margin": margin, "prediction": int(margin < 0)})
                share = dict.fromkeys(["on_region", "on_region_base", "on_first", "on_answer"], 0.1)
                share |= {"on_image": (seen := draw.random()), "on_question": 1 - seen, "entropy": draw.random()}
                rows["attention"].append(who | {"layer": layer, "n_image": 9, "n_region": 2} | share)
        numbers = {"radius": draw.random(), "margin": draw.random(), "prediction": 0, "rival": 1}
        rows["radius"].append(base | numbers)
    frames = {kind: [pd.DataFrame(made), own] for kind, made in rows.items()}
    attack = [
        own[own["family"] == "base"].assign(
            family="pgd_pixel",
            instance=f"pgd_{eps}",
            params=json.dumps({"eps": eps / 255}),
            prediction=draw.integers(0, 2, n),
        )
        for eps in (1, 2)
    ]
    frames["radius"][1] = pd.concat([own, *attack], ignore_index=True)
    return frames | {"edits": [edits(n)]}
