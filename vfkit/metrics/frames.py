"""Tables are made from frames that runs give: one of another kind is refused by name."""

import pandas as pd


def need(frame: pd.DataFrame, of: str, *columns: str) -> None:
    """Raise ValueError, naming them, unless a frame (`of` says what it should hold) has all these columns."""
    missing = [name for name in columns if name not in frame]
    if missing:
        raise ValueError(f"the {of} lack the columns {', '.join(missing)}")
