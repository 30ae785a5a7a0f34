"""Every named model with its size and the memory it needs, before anything is downloaded or loaded."""

import pandas as pd

from vfkit.models.registry import specs

BYTES = {"float32": 4, "bfloat16": 2, "float16": 2}


def listing() -> pd.DataFrame:
    """One row per model of params/models.yaml: name, source (hub id, `embedded` or `hosted`), type (architecture),
    billions (of parameters), dtype, gigabytes (of its weights in that type; activations come on top), notes.
    """
    rows = [
        {
            "name": spec.name,
            "source": "embedded" if spec.path else spec.hub or "hosted",
            "type": spec.type or "",
            "billions": spec.params,
            "dtype": spec.dtype or "",
            "gigabytes": spec.params and spec.params * BYTES[spec.dtype],
            "notes": spec.notes,
        }
        for spec in specs().values()
    ]
    return pd.DataFrame(rows).astype({"billions": float, "gigabytes": float})
