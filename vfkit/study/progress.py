"""How far a run is: a bar on a terminal, plain lines elsewhere."""

import sys
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager

from tqdm import tqdm

EVERY = 10.0  # seconds between plain lines


@contextmanager
def progress(total: int, done: int, show: bool) -> Iterator[Callable[[int], None]]:
    """Yields what to call with the number of samples just done; rate and time left count from `done` on."""
    if not show:
        yield lambda n: None
    elif sys.stderr.isatty():
        with tqdm(total=total, initial=done, unit="sample") as bar:
            yield bar.update
    else:
        yield _lines(total, done)


def _lines(total: int, done: int) -> Callable[[int], None]:
    start = last = time.monotonic()
    first = done

    def update(n: int) -> None:
        nonlocal done, last
        done += n
        now = time.monotonic()
        if now - last < EVERY and done < total:
            return
        last = now
        rate = (done - first) / max(now - start, 1e-9)
        left = tqdm.format_interval((total - done) / rate)
        print(f"{done} of {total} samples, {rate:.2f} samples/s, {left} left", file=sys.stderr, flush=True)

    return update
