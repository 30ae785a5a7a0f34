"""Progress of a run: a bar on a terminal, plain lines elsewhere."""

import sys
import time

from tqdm import tqdm

EVERY = 10.0  # seconds between plain lines


class Progress:
    """Progress display: samples done, their rate, and the time left.

    The rate is that of reading: time spent on loading the model and on checking it (`overhead`) is left out.

    Args:
        total: samples in all. done: samples that are done before this start.
        show: False says nothing.
    """

    def __init__(self, total: int, done: int, show: bool):
        self.total, self.done, self.first, self.show = total, done, done, show
        self.bar = tqdm(total=total, initial=done, unit="sample", smoothing=0) if show and sys.stderr.isatty() else None
        self.begun = self.last = time.monotonic()
        self.overhead = 0.0

    def say(self, text: str) -> None:
        """Print a separate line."""
        if self.bar is not None:
            self.bar.write(text, file=sys.stderr)
        elif self.show:
            print(text, file=sys.stderr, flush=True)

    def tick(self, n: int, overhead: float) -> None:
        """Count `n` more samples.

        Args:
            overhead: seconds that the worker has spent so far on anything but reading; workers run in parallel, so the
                largest counts.
        """
        self.done += n
        more, self.overhead = max(0.0, overhead - self.overhead), max(overhead, self.overhead)
        self.begun += more
        if self.bar is not None:
            self.bar.start_t += more
            self.bar.update(n)
        elif self.show:
            self._line()

    def _line(self) -> None:
        now = time.monotonic()
        if now - self.last < EVERY and self.done < self.total:
            return
        self.last = now
        rate = (self.done - self.first) / max(now - self.begun, 1e-9)
        left = tqdm.format_interval((self.total - self.done) / rate) if rate else "?"
        pace = f"{rate:.2f} samples/s" if rate >= 1 or not rate else f"{1 / rate:.1f} s/sample"
        self.say(f"{self.done} of {self.total} samples, {pace}, {left} left")

    def __enter__(self) -> "Progress":
        return self

    def __exit__(self, *error) -> None:
        if self.bar is not None:
            self.bar.close()
