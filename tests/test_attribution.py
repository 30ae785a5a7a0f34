"""Tables and findings of layers, patches, hidden tokens and radius, on rows whose truth is known."""

import json

import numpy as np
import pandas as pd
import pytest
from inside_rows import PATHS
from inside_rows import edits as _edits
from inside_rows import records as _records

import vfkit
from vfkit import figures, metrics
from vfkit.images import open_images
from vfkit.inside.attribute import Asked, attribute
from vfkit.metrics.causes import RESTORES, UNDOES, patch_rows


def test_restoration_is_what_was_planted():
    edits = _edits()
    table = metrics.patch_table(edits)
    for place, shares in PATHS.items():
        own = table[(table["place"] == place) & (table["donor"] == "base")]
        assert own["restoration"].to_numpy() == pytest.approx(np.array(shares), abs=0.05)
        effect = table[(table["place"] == place) & (table["donor"] == "perturbed")]
        assert effect["restoration"].to_numpy() == pytest.approx(np.array(shares), abs=1e-9)
    assert (table["restoration_low"] <= table["restoration"]).all()
    assert set(table.loc[table["into"] == "perturbed", "flipped"]) == {24}
    first = table[(table["place"] == "image") & (table["donor"] == "base") & (table["layer"] == 0)].iloc[0]
    assert first["returned_rate"] == 1.0
    rows = patch_rows(edits)
    assert rows["returned"].sum() <= rows["flipped"].sum() and not rows.loc[rows["into"] == "base", "flipped"].any()


def test_the_finding_names_entry_path_and_what_undoes_it():
    text = metrics.attribution_finding(_edits(), model="planted")
    assert text.startswith("**planted, text overlay**\n\n- Of 24 instances")
    assert "bring back 60" in text or "bring back 59" in text or "bring back 61" in text
    assert text.count("what shows the change matters more") == 2
    assert "more than half up to layer 2 and less than half from layer 3 on" in text
    assert "The answer position brings back less than half up to layer 2 and more than half from layer 3" in text


def test_without_a_path_nothing_is_claimed():
    """Null data: the region is as any other tokens, and no place brings anything back. Of forty draws of each contrast
    at most a few are taken for an effect: the tests' 5 %."""
    none = dict.fromkeys(PATHS, (0.0,) * 5)
    text = metrics.attribution_finding(_edits(path=none, undone=0.2, chance=0.2))
    assert "matters" not in text and "handed to the text is undecided" in text
    claims = []
    for seed in range(40):
        edits = _edits(path={"region": none["region"]}, undone=0.3, chance=0.3, seed=seed)
        early = edits[(edits["kind"] == "patch") & (edits["layer"] == 0)]
        whole = edits[(edits["kind"] == "knockout") & (edits["last"] - edits["layer"] == 4)]
        claims += [*metrics.patch_contrasts(early)["verdict"], *metrics.knockout_contrasts(whole)["verdict"]]
    assert len(claims) == 80 and sum(claim in RESTORES[:2] + UNDOES[:2] for claim in claims) <= 8


def test_too_little_data_is_said():
    edits = _edits(n=3)
    text = metrics.attribution_finding(edits)
    assert text.count("too few images to tell") == 2 and "Of so few images nothing can be said" in text
    assert "Neither patching nor knockout was measured" in metrics.attribution_finding(edits.iloc[:0])
    assert metrics.patch_table(edits.iloc[:0]).empty and metrics.knockout_table(edits.iloc[:0]).empty


def test_the_finding_speaks_only_of_what_was_measured_and_done():
    edits = _edits()
    patches, knockouts = edits[edits["kind"] == "patch"], edits[edits["kind"] == "knockout"]
    assert "Hiding" not in metrics.attribution_finding(patches) and "flip" not in metrics.attribution_finding(patches)
    assert metrics.attribution_finding(knockouts).count("\n- ") == 1
    late = metrics.attribution_finding(pd.concat([patches[patches["layer"] >= 2], knockouts]))
    assert "before layer 2, bring back" in late  # though windows of hidden tokens begin at layer 0
    unlike = metrics.attribution_finding(edits.assign(reason="its image tokens are on another grid"))
    assert unlike.count(": its image tokens are on another grid (24).") == 2


def test_the_finding_says_what_its_tables_say():
    """On eight images, with every place and layer in the table."""
    edits = pd.concat([_edits(8), _edits(8).assign(family="random_text", instance="random_text_0")])
    text = metrics.attribution_finding(edits)
    patches, knockouts = metrics.patch_contrasts(edits), metrics.knockout_contrasts(edits)
    first = patches[(patches["place"] == "region") & (patches["layer"] == 0)]
    assert first["p_holm"].to_numpy() == pytest.approx(np.minimum(1, 2 * first["p"]))
    assert set(first["verdict"]) == {RESTORES[0]} and "what shows the change matters more" in text.split("\n- ")[1]
    row = knockouts.iloc[0]
    assert (row["layer"], row["last"]) == (0, 4) and f"undoes {100 * row['first']:.1f} % of 8 flips" in text
    assert "points" in text and not any(f"{digit}%" in text for digit in range(10))


def test_a_path_that_crosses_one_half_twice_is_undecided():
    edits = _edits(path=PATHS | {"image": (1, 0, 1, 0, 0)})
    text = metrics.attribution_finding(edits)
    assert "All image tokens" not in text and "The answer position brings back" in text


def test_knockout_counts_what_it_undoes():
    edits = _edits(n=40)
    table = metrics.knockout_table(edits)
    own = table[(table["place"] == "region") & (table["last"] - table["layer"] == 4)].iloc[0]
    raw = edits[(edits["kind"] == "knockout") & (edits["place"] == "region") & (edits["last"] - edits["layer"] == 4)]
    assert own["flipped"] == 40 and own["undone_rate"] == pytest.approx((raw["base_margin"] > 0).mean())
    contrasts = metrics.knockout_contrasts(edits)
    assert set(contrasts["verdict"]) == {"undoes more"}
    reasons = metrics.edit_reasons(edits)
    assert reasons[["kind", "instances"]].to_numpy().tolist() == [["knockout", 40], ["patch", 40]]


def test_crossover_is_the_layer_from_which_the_side_stays():
    margins = {"base": (-1, 1, -1, 1, 2), "text_overlay_B": (1, 1, 1, -1, -2)}
    rows = [
        {"sample_id": f"s{i}", "image_id": f"i{i}", "family": name.removesuffix("_B"), "instance": name, "layer": layer}
        | {"base_margin": value, "prediction": 0 if value > 0 else 1}
        for i in range(8)
        for name, values in margins.items()
        for layer, value in enumerate(values)
    ]
    lens, records = pd.DataFrame(rows), _records(8, [1] * 8)
    found = metrics.crossovers(lens, records)
    assert set(map(tuple, found[["family", "crossover", "flip"]].to_numpy())) == {
        ("base", 3, False),
        ("text_overlay", 3, True),
    }
    table = metrics.lens_table(lens, records)
    own = table[(table["family"] == "text_overlay") & (table["answer"] == "flipped")]
    assert own["margin"].tolist() == [1, 1, 1, -1, -2] and own["final"].tolist() == [0, 0, 0, 1, 1]
    assert set(table["answer"]) == {"all", "flipped"}
    assert metrics.crossover_table(lens, records)["crossover"].tolist() == [3, 3, 3]


def test_layer_drift_has_its_control_and_the_answer_it_stands_under():
    draw, rows, n = np.random.default_rng(0), [], 30
    flips = np.arange(n) < 10
    for i in range(n):
        for layer in (0, 1):
            who = {"sample_id": f"s{i}", "image_id": f"i{i}", "layer": layer, "point": "state", "place": "image"}
            who |= {"pixels_l2": 2.0, "n_tokens": 4, "cos_tokens": np.nan}
            moved = (0.1, 0.4)[layer] * (1 + flips[i]) + draw.normal(0, 0.01)
            rows.append(
                who
                | {"family": "text_overlay", "instance": "text_overlay_B", "cos": moved, "l2": moved, "l2_tokens": 2.0}
            )
            for k in range(3):
                rows.append(
                    who | {"family": "same_question", "instance": f"c{k}", "cos": 0.5, "l2": 1.0, "l2_tokens": 4.0}
                )
    layers, records = pd.DataFrame(rows), _records(n, flips)
    table = metrics.layer_drift_table(layers, records).set_index(["layer", "answer"])
    assert table.loc[(0, "kept"), "percent_same_question"] == pytest.approx(20, abs=1)
    assert table.loc[(1, "flipped"), "drift"] == pytest.approx(0.8, abs=0.02)
    assert table.loc[(0, "kept"), "hidden"] == 0 and table.loc[(1, "all"), "instances"] == n
    sensitivity = metrics.sensitivity_table(layers).set_index(["family", "layer"])
    assert (
        sensitivity.loc[("same_question", 0), "ratio"] == 0.5
        and sensitivity.loc[("text_overlay", 1), "ratio_tokens"] == 1.0
    )


def test_a_radius_that_ranks_as_the_attack_does_agrees_with_it():
    draw, n = np.random.default_rng(0), 40
    eps = np.array([0.5, 1, 2, 4])[draw.integers(0, 4, n)]
    rows = []
    for i in range(n):
        for step in (0.5, 1, 2, 4):
            params = json.dumps({"eps": step / 255})
            flip = step >= eps[i] and i  # the first is never flipped
            rows.append({"sample_id": f"s{i}", "family": "pgd_pixel", "params": params, "prediction": int(flip > 0)})
    records = pd.DataFrame(rows).assign(applicable=True, base_prediction=0)
    radius = pd.DataFrame({"sample_id": [f"s{i}" for i in range(n)], "image_id": [f"i{i}" for i in range(n)]})
    eps[0] = 9
    radius = radius.assign(radius=eps * (1 + 0.01 * draw.random(n)), margin=draw.random(n))
    smallest = metrics.flipping_eps(records).set_index("sample_id")["eps"]
    assert np.isinf(smallest["s0"]) and all(smallest[f"s{i}"] == pytest.approx(eps[i]) for i in range(1, n))
    table = metrics.radius_table(radius, records).set_index("of")
    assert table.loc["radius", "rank_agreement"] > 0.9 and abs(table.loc["margin", "rank_agreement"]) < 0.5
    assert table["never"].tolist() == [1, 1] and table["samples"].tolist() == [n, n]


def test_attention_goes_with_nothing_it_was_not_given():
    draw, n, rows = np.random.default_rng(1), 60, []
    records = _records(n, draw.integers(0, 2, n))
    records["answer"] = np.repeat(draw.integers(0, 2, n), 2)
    for i in range(n):
        for name in ("base", "text_overlay_B"):
            share = draw.random()
            row = {
                "sample_id": f"s{i}",
                "image_id": f"i{i}",
                "family": name.removesuffix("_B"),
                "instance": name,
                "layer": 0,
            }
            row |= {
                "on_image": share,
                "on_region": 0.1,
                "on_region_base": 0.05,
                "on_question": 1 - share,
                "on_first": 0.0,
            }
            rows.append(row | {"entropy": 1.0})
    attention = pd.DataFrame(rows)
    outcomes = metrics.attention_outcomes(attention, records).iloc[0]
    assert outcomes["correct_low"] < 0 < outcomes["correct_high"] and outcomes["flip_low"] < 0 < outcomes["flip_high"]
    table = metrics.attention_table(attention, records)
    own = table[(table["family"] == "text_overlay") & (table["answer"] == "all")].iloc[0]
    assert own["on_region"] == pytest.approx(0.1) and own["instances"] == n


def test_figures_are_drawn_from_the_tables_and_from_none():
    edits = _edits(n=6)
    for frame in (edits, edits.iloc[:0]):
        assert figures.plot_patching(metrics.patch_table(frame)).axes
        assert figures.plot_knockout(metrics.knockout_table(frame)).axes


def _planted(vlm, *measures: str, n: int = 16) -> tuple[int, pd.DataFrame]:
    """How many overlays a model was shown, and the edits of those after which its margin fell by a nat."""
    samples = vfkit.load_dataset("easy_vqa", n=n, seed=0)
    images = [open_images(sample) for sample in samples]
    suite, rows, shown = vfkit.natural_suite(["text_overlay"]), [], 0
    for sample, own, base in zip(samples, images, vlm.read_many(list(zip(samples, images, strict=True))), strict=True):
        instances = suite.instances(sample, base.prediction(), own)
        asked = Asked("paper", measures, layers=(0,), window=9)
        found = attribute(vlm, sample, own, base.prediction(), instances, [], asked)["edits"]
        rows += [{"sample_id": sample.id, "image_id": sample.id} | row for row in found]
        shown += len(instances)
    return shown, pd.DataFrame(rows)


def test_planted_cards_act_through_their_tokens_and_the_clean_model_knows_none(vlm):
    shown, edits = _planted(vlm, "patching", "knockout")
    hidden = metrics.knockout_table(edits).set_index(["into", "place"])
    region, chance = (hidden.loc[("perturbed", place)] for place in ("region", "random tokens"))
    assert region["flipped"] >= 4 and region["undone_rate"] >= 0.9 and chance["undone_rate"] <= 0.5
    patches = metrics.patch_table(edits).set_index(["into", "place", "donor"])
    assert patches.loc[("perturbed", "image", "base"), "restoration"] == pytest.approx(1, abs=1e-4)
    assert patches.loc[("perturbed", "region", "base"), "restoration"] > 0.7
    assert abs(patches.loc[("perturbed", "region", "random tokens"), "restoration"]) < 0.2
    assert abs(patches.loc[("perturbed", "answer", "base"), "restoration"]) < 1e-4  # the same token, before layer 0
    clean_shown, clean = _planted(vfkit.load_model("mini_qwen3vl_clean", device="cpu"), "patching")
    assert clean_shown == shown and (clean["margin_perturbed"] > 0).all()
    assert set(clean.loc[clean["kind"] == "patch", "reason"]) == {"its margin fell by less than 1 nat"}


def test_a_study_records_what_is_inside(tmp_path, capsys, monkeypatch):
    config = vfkit.StudyConfig(
        model="mini_qwen3vl", dataset="easy_vqa", n=2, chunk=1, out=tmp_path, device="cpu", controls=1,
        families=["identity", "text_overlay"], inside=["states", "lens", "knockout"], inside_layers=[0, 6],
    )  # fmt: skip
    run = vfkit.run_study(config)
    printed = "".join(capsys.readouterr())
    assert "Inside: up to" in printed and "against the oracle" in printed
    assert set(run.inside("layers")["layer"]) == {0, 6} and set(run.inside("lens")["layer"]) == set(range(7))
    assert set(run.inside("layers")["family"]) == {"identity", "text_overlay", "same_question"}
    last = run.inside("lens").query("layer == 6").set_index(["sample_id", "instance"])["base_margin"]
    margins = run.records().set_index(["sample_id", "instance"])["base_margin"]
    assert last.to_numpy() == pytest.approx(margins[last.index].to_numpy(), abs=1e-4)
    assert len(run.table("knockout")) and run.inside("radius").empty and run.errors().empty
    assert len(metrics.layer_drift_table(run.inside("layers"), run.records())) and run.controls().empty
    with pytest.raises(ValueError, match="did you mean 'layers'|layers"):
        run.inside("layer")

    monkeypatch.setattr("vfkit.models.load_model", lambda *a, **k: pytest.fail("a finished run reads nothing"))
    assert vfkit.run_study(config).folder == run.folder
    with pytest.raises(ValueError, match="layers 0 to 5"):
        vfkit.run_study(config.model_copy(update={"inside_layers": (40,)}))
    plain = vfkit.study.key.settings(config.model_copy(update={"inside": ()}), config.suite())
    assert not {"inside", "inside_layers", "inside_window", "controls"} & plain.keys()
