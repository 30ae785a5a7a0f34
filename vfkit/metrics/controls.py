"""Controls of drift: how far a state would move if the image, or the whole sample, were another one (METHODS 8).

- `same_question`: the sample's prompt on other samples' images; measured while reading, a run's `controls()`.
- `same_category`: base states of other samples of the same category: image, question and options differ.
- `other_sample`: base states of any other samples (HI A.9).

A control of a sample is the mean distance over k pairs. Its SD over samples falls, and Cohen's d grows, with k: compare
controls of one k only.
"""

import numpy as np
import pandas as pd

from vfkit.measure import distances
from vfkit.metrics import stats
from vfkit.metrics.frames import need, numbers
from vfkit.readout.readout import PROBES, TAPS

CONTROLS = ("same_question", "same_category", "other_sample")
DISTANCES = ("cos", "l2")
_BLOCK = 250_000  # numbers of one block of control pairs; larger blocks fall out of the processor's cache
_PAIRS = ["sample", "image", "category", "drift"]


def distance_column(distance: str, probe: str, tap: str) -> str:
    """Name of the records' column of a distance; raises ValueError for an unknown name."""
    for name, known in ((distance, DISTANCES), (probe, PROBES), (tap, TAPS)):
        if name not in known:
            raise ValueError(f"{name!r} is none of {', '.join(known)}")
    return f"{distance}_{probe}_{tap}"


def control_distances(
    vectors: pd.DataFrame,
    probe: str = "ctx_open",
    tap: str = "post_norm",
    k: int = 25,
    seed: int = 0,
    groups: pd.Series | None = None,
) -> pd.DataFrame:
    """Mean distance of each sample to the base states of k others: HI's control (HI A.9), where HI's k is 25.

    Image, question and options all differ (two questions may still share an image, as in HI). The k others are drawn
    without replacement, seeded; all others where there are fewer. The order of rows does not matter.

    Args:
        groups: a group per sample id, such as its category: others are then drawn from the sample's own group.

    Returns:
        One row per sample, by id: `sample_id`, `cos`, `l2`, `pairs` (finite distances averaged; 0 gives NaN).
    """
    samples, states = _base_states(vectors, probe, tap)  # [sample, D]
    group = np.zeros(len(samples), dtype=int)
    if groups is not None:
        group = pd.factorize(pd.Series(samples).map(groups).fillna("").astype(str), sort=True)[0]
    rng = np.random.default_rng(seed)
    means, pairs = np.full((2, len(samples)), np.nan), np.zeros(len(samples), dtype=int)
    for one in np.unique(group):
        members = np.flatnonzero(group == one)
        means[:, members], pairs[members] = _to_others(states[members], k, rng)
    return pd.DataFrame({"sample_id": samples, "cos": means[0], "l2": means[1], "pairs": pairs})


def _to_others(states: np.ndarray, k: int, rng: np.random.Generator) -> tuple[np.ndarray, np.ndarray]:
    """Mean distances [distance, sample] to k other rows of states [sample, D], and the number of pairs of each."""
    n = len(states)
    k = max(min(k, n - 1), 0)
    drawn = [rng.choice(n - 1, k, replace=False) for _ in range(n if k else 0)]
    others = np.reshape(drawn, (n, k)).astype(int)
    others += others >= np.arange(n)[:, None]  # nobody is their own control
    means, pairs = np.full((2, n), np.nan), np.zeros(n, dtype=int)
    block = max(1, _BLOCK // max(k * states.shape[1], 1))
    for start in range(0, n, block):
        rows = slice(start, start + block)
        each = np.stack(distances(states[rows, None], states[others[rows]]))  # [distance, row, k]
        there = np.isfinite(each).all(axis=0)
        pairs[rows] = there.sum(axis=1)
        means[:, rows] = stats.divide(np.where(there, each, 0).sum(axis=2), np.stack([pairs[rows]] * 2))
    return means, pairs


def control_pairs(controls: pd.DataFrame | None, column: str, about: pd.DataFrame) -> pd.DataFrame:
    """Same-question pairs: `sample`, `image`, `category`, `drift`, one row per pair with a finite distance.

    Args:
        controls: a run's same-question pairs. about: `image` and `category` by sample id.
    """
    if controls is None:
        return pd.DataFrame({name: pd.Series(dtype=float if name == "drift" else object) for name in _PAIRS})
    need(controls, "controls", "sample_id", column)
    pairs = pd.DataFrame({"sample": controls["sample_id"], "drift": numbers(controls[column])}).dropna()
    order = ["sample", "partner_id"] if "partner_id" in controls else ["sample"]
    pairs = pairs.assign(partner_id=controls.get("partner_id")).sort_values(order, kind="stable", ignore_index=True)
    return pairs.assign(**_about(pairs, about))[_PAIRS]


def base_controls(
    vectors: pd.DataFrame | None, probe: str, tap: str, about: pd.DataFrame, k: int = 25, seed: int = 0
) -> dict[str, pd.DataFrame]:
    """`control_distances` to samples of the same category and to any others, by the control's name; none without
    vectors."""
    if vectors is None:
        return {}
    groups = {"same_category": about["category"], "other_sample": None}
    return {name: control_distances(vectors, probe, tap, k, seed, group) for name, group in groups.items()}


def control_samples(
    pairs: pd.DataFrame, others: dict[str, pd.DataFrame], distance: str, about: pd.DataFrame, k: int = 25
) -> dict[str, pd.DataFrame]:
    """Reduce each control to one row per sample: `sample`, `image`, `instances` (finite pairs), `drift` (their mean).

    Args:
        pairs: of `control_pairs`, of which a sample's first k count. others: of `base_controls`.
    """
    first = pairs[pairs.groupby("sample").cumcount() < k].groupby("sample")["drift"]
    frames = {"same_question": pd.DataFrame({"instances": first.size(), "drift": first.mean()}).reset_index()}
    for name in CONTROLS[1:]:
        frame = others.get(name, pd.DataFrame(columns=["sample_id", distance, "pairs"]))
        frames[name] = frame.rename(columns={"sample_id": "sample", distance: "drift", "pairs": "instances"})
    for name, frame in frames.items():
        frame = frame.assign(drift=frame["drift"].astype(float), **_about(frame, about))
        frames[name] = frame.loc[frame["drift"].notna(), ["sample", "image", "instances", "drift"]]
    return frames


def states_of(vectors: pd.DataFrame, probe: str, tap: str) -> pd.DataFrame:
    """Select the vectors of one probe and tap: `sample_id`, `instance`, `vector`."""
    need(vectors, "vectors", "sample_id", "instance", "probe", "tap", "vector")
    distance_column("cos", probe, tap)
    here = (vectors["probe"] == probe) & (vectors["tap"] == tap)
    return vectors.loc[here, ["sample_id", "instance", "vector"]]


def stacked(vectors: pd.Series) -> np.ndarray:
    """Vectors as float32 [row, D]; raises ValueError where their lengths differ."""
    rows = [np.asarray(vector, dtype=np.float32) for vector in vectors]
    if len({len(row) for row in rows}) > 1:
        raise ValueError("vectors of unequal length: a table takes the vectors of one model")
    return np.stack(rows) if rows else np.zeros((0, 0), dtype=np.float32)


def _about(frame: pd.DataFrame, about: pd.DataFrame) -> dict[str, pd.Series]:
    """Image (the sample itself where it is unknown) and category of a frame's samples."""
    image = frame["sample"].map(about["image"]).fillna(frame["sample"])
    return {"image": image, "category": frame["sample"].map(about["category"]).fillna("")}


def _base_states(vectors: pd.DataFrame, probe: str, tap: str) -> tuple[np.ndarray, np.ndarray]:
    """Ids, sorted, and base states [sample, D] in float32."""
    base = states_of(vectors, probe, tap)
    base = base[base["instance"] == "base"].sort_values("sample_id")
    doubled = base["sample_id"].duplicated()
    if doubled.any():
        raise ValueError(f"sample {base['sample_id'][doubled].iloc[0]!r} has two base vectors: a table takes one run")
    return base["sample_id"].to_numpy(dtype=object), stacked(base["vector"])
