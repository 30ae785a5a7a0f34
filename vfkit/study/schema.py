"""The columns of a run's parts."""

import pyarrow as pa

from vfkit.readout.readout import PROBES, TAPS

_per_option = pa.list_(pa.float64())
DISTANCES = [f"{distance}_{probe}_{tap}" for distance in ("cos", "l2") for probe in PROBES for tap in TAPS]
SPECTRUM = [f"{kind}_{band}" for kind in ("power", "coherence", "phase") for band in ("low", "mid", "high")]

INSIDE = ("layers", "lens", "edits", "attention", "radius")  # kinds of parts of what a study measures by layer


def _inside(**columns: pa.DataType) -> pa.Schema:
    """Who was measured, and the columns."""
    return pa.schema({name: pa.string() for name in ("sample_id", "image_id", "family", "instance")} | columns)


SCHEMAS = {
    # one row per sample and instance, the base too; the readout's columns are null where an instance does not apply
    "records": pa.schema(
        {
            "sample_id": pa.string(),
            "category": pa.string(),
            "family": pa.string(),  # `base`, or the perturbation's family
            "instance": pa.string(),  # unique within the sample
            "params": pa.string(),  # JSON
            "applicable": pa.bool_(),
            "reason": pa.string(),  # why it does not apply, else ""
            "answer": pa.int64(),  # index of the true option, or null
            "n_options": pa.int64(),
            "base_prediction": pa.int64(),  # index, by the study's rule
            "prediction": pa.int64(),  # index, by the study's rule; the first of equals
            "prediction_text": pa.string(),  # the predicted option's; of a hosted model that names none, its answer
            "flip": pa.bool_(),  # whether the prediction differs from the base's; null without a prediction
            "tied": pa.bool_(),
            "margin": pa.float64(),  # HI eq. 2; NaN for one option
            "base_margin": pa.float64(),  # negative where the answer flipped
            "off_mass": pa.float64(),  # probability outside the listed letters; NaN where none are asked
            "logp_text": _per_option,  # natural log, as are the two below
            "logp_end": _per_option,
            "logp_letter": _per_option,
            "n_tokens": pa.list_(pa.int64()),
            "image_hash": pa.string(),  # content of the images read, joined by "+"; null where there was none
            "image_id": pa.string(),  # content of the sample's base images: what the bootstrap resamples
            "width": pa.int64(),  # px, of the first image read
            "height": pa.int64(),
        }
        # what moves inside; null in runs without probes
        | dict.fromkeys(DISTANCES, pa.float64())  # from the sample's base state
        | {
            "dirichlet_sum": pa.float64(),  # of the vision tokens; as the two below, the mean over images
            "dirichlet_edges": pa.float64(),
            "dirichlet": pa.float64(),  # per edge
            "grid": pa.string(),  # height x width of the vision tokens, joined by "+"
        }
        | dict.fromkeys(SPECTRUM, pa.float64())  # of the pixels, against the base image
        | {"text_open": pa.string(), "text_mcq": pa.string()}  # the model's own greedy answers
    ),
    # what was asked: one row per sample that has a base
    "samples": pa.schema(
        {name: pa.string() for name in ("sample_id", "category", "question", "hint")}
        | {"options": pa.list_(pa.string()), "answer": pa.int64()}  # index of the true option, or null
        | {"prompt": pa.string(), "n_images": pa.int64(), "meta": pa.string()}  # meta is JSON
    ),
    # states at the probes: of every sample's base, and of all instances where a run keeps them
    "vectors": pa.schema(
        {name: pa.string() for name in ("sample_id", "instance", "probe", "tap")} | {"vector": pa.list_(pa.float32())}
    ),
    # how far the same question moves on another sample's image
    "controls": pa.schema(
        {name: pa.string() for name in ("sample_id", "partner_id", "image_id", "partner_image_id")}
        | dict.fromkeys(DISTANCES, pa.float64())
    ),
    # what moves inside, by layer: of perturbed instances, and of the same question on control images
    "layers": _inside(
        layer=pa.int64(),  # the state before it; the number of layers: before the final norm
        point=pa.string(),  # `state`, or `before DeepStack` adds image features to it
        place=pa.string(),  # image, region (tokens that show what changed), question, answer
        n_tokens=pa.int64(),
        pixels_l2=pa.float64(),  # distance of the pixels, values in [0, 1]
        cos=pa.float64(),  # of the mean states, from the base's
        l2=pa.float64(),
        cos_tokens=pa.float64(),  # mean over tokens; null where they do not correspond
        l2_tokens=pa.float64(),  # of all tokens' states together
    ),
    # the study's rule applied to the state before each layer
    "lens": _inside(layer=pa.int64(), base_margin=pa.float64(), prediction=pa.int64()),
    # a run whose states are patched or whose tokens are hidden; a row with a reason where neither applies
    "edits": _inside(
        kind=pa.string(),  # patch, knockout
        reason=pa.string(),  # why it does not apply, else ""
        into=pa.string(),  # the run that is edited: perturbed, base
        layer=pa.int64(),  # the patched one; of a knockout the first and
        last=pa.int64(),  # the last in which tokens are hidden
        place=pa.string(),  # whose tokens: image, region, question, answer, random tokens
        donor=pa.string(),  # of a patch: base, perturbed, other image, random tokens (the base's at other tokens)
        n_tokens=pa.int64(),
        margin_base=pa.float64(),  # base-label margins without edits
        margin_perturbed=pa.float64(),
        base_margin=pa.float64(),  # and with this one
        prediction=pa.int64(),
    ),
    # attention of the answer position by layer: shares of the weight, means over heads
    "attention": _inside(
        layer=pa.int64(),
        **dict.fromkeys([f"on_{place}" for place in ("image", "region", "question", "answer", "first")], pa.float64()),
        on_region_base=pa.float64(),  # in the base, on the same tokens; on_first: on the row's first token
        entropy=pa.float64(),  # nats
        n_image=pa.int64(),
        n_region=pa.int64(),
    ),
    # the linear radius of each base
    "radius": _inside(
        prediction=pa.int64(),
        rival=pa.int64(),
        margin=pa.float64(),
        radius=pa.float64(),  # in 1/255
        slope=pa.float64(),  # L1 norm of the gradient, nats per unit of pixel value
    ),
    # adversarial images and their noise controls, 8-bit PNG files, by their place in the sample
    "images": pa.schema({"sample_id": pa.string(), "instance": pa.string(), "number": pa.int64(), "png": pa.binary()}),
    # one row per row of the data, sample (instance `base`) or instance that failed
    "errors": pa.schema({name: pa.string() for name in ("sample_id", "instance", "stage", "error", "message")}),
}
