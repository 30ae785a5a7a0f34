"""The method on one page: `notebooks/00_one_page.ipynb` counts the flips that the kit counts."""

import json
from pathlib import Path

import pandas as pd
import pytest

import vfkit
from vfkit import notebook

PAGE = Path(__file__).parents[1] / "notebooks" / "00_one_page.ipynb"
CODE = [
    "".join(cell["source"])
    for cell in json.loads(PAGE.read_text(encoding="utf-8"))["cells"]
    if cell["cell_type"] == "code"
]


def test_it_is_a_page_without_the_engine():
    lines = [line for cell in CODE for line in cell.splitlines() if line.strip() and not line.lstrip().startswith("#")]
    assert len(lines) <= 60
    assert not [word for word in ("vfkit.read", "load_model", "run_study", "readout") if word in "\n".join(CODE)]


@pytest.mark.parametrize("model, dataset, n", [("mini_qwen3vl", "easy_vqa", 4), ("mini_gemma3", "easy_vqa", 3)])
def test_its_flips_are_those_of_the_flip_table(model, dataset, n, tmp_path, monkeypatch, capsys):
    monkeypatch.setattr(notebook, "validate", lambda: None)  # no kernel here: the values stand below
    page: dict = {}
    exec(CODE[0], page)
    page |= {"model": model, "dataset": dataset, "n": n, "out": str(tmp_path)}
    for cell in CODE[1:]:
        exec(cell, page)
    families = ["translation", "scale", "rotation", "text_overlay"]
    config = vfkit.StudyConfig(model=model, dataset=dataset, n=n, families=families, out=str(tmp_path), device="cpu")
    table = vfkit.run_study(config, progress=False).table("flips").set_index("family")
    columns = ["flips", "instances", "IFR", "IV"]
    kit = table.loc[families, columns].astype(float)
    pd.testing.assert_frame_equal(page["flips"].loc[families, columns].astype(float), kit, check_names=False)
    assert kit.flips.sum() > 0  # else equal tables would say little
    assert pd.read_csv(tmp_path / "one_page.csv").family.tolist() == families
