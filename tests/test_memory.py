"""A run of many samples holds no more at its end than at its beginning. `memory.py` does it with 50,000."""

import gc
import tracemalloc

import memory
import test_study


def test_records_are_written_as_they_come_and_images_are_not_held(monkeypatch, tmp_path):
    stub, held, sizes = test_study.Stub().install(monkeypatch.setitem), {}, {}

    def watch(done):
        stub.calls.clear()
        gc.collect()
        held[done], sizes[done] = tracemalloc.get_traced_memory()[0], memory.resident()

    tracemalloc.start()
    try:
        run = memory.study(200, tmp_path, watch, side=300, chunk=10)
    finally:
        tracemalloc.stop()
    assert len(run.records()) == 400
    assert held[200] - held[50] < 150_000  # bytes; 300 records alone would be about 600,000
    assert sizes[200] - sizes[50] < 25e6  # images of 150 samples would be 80 MB
