"""The columns of a run's parts."""

import pyarrow as pa

_per_option = pa.list_(pa.float64())

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
            "tied": pa.bool_(),
            "margin": pa.float64(),  # HI eq. 2; NaN for one option
            "base_margin": pa.float64(),  # negative where the answer flipped
            "off_mass": pa.float64(),  # probability outside the listed letters; NaN where none are asked
            "logp_text": _per_option,  # natural log, as are the two below
            "logp_end": _per_option,
            "logp_letter": _per_option,
            "n_tokens": pa.list_(pa.int64()),
            "image_hash": pa.string(),  # content of the images read, joined by "+"
            "image_id": pa.string(),  # content of the sample's base images: what the bootstrap resamples
            "width": pa.int64(),  # px, of the first image read
            "height": pa.int64(),
        }
    ),
    # one row per row of the data, sample (instance `base`) or instance that failed
    "errors": pa.schema({name: pa.string() for name in ("sample_id", "instance", "stage", "error", "message")}),
}
