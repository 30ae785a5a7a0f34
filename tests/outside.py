"""vfkit as others meet it: `python tests/outside.py wheel` uses it elsewhere, `python tests/outside.py lab [n]` in
JupyterLab.

`wheel` builds the package, unpacks it in a folder of its own and works from another one, without the repository: names
of models, a model of one's own, one question, notebook 01 by papermill and by `vfkit notebook`. `lab` opens notebook 01
in JupyterLab in a headless Chromium, runs it on n samples and looks for its finding, tables, figures, page of samples
and links; screenshots stay in outputs/lab.
"""

import os
import re
import shutil
import socket
import subprocess
import sys
import tempfile
import time
import urllib.request
from pathlib import Path

import nbformat
from PIL import Image

ROOT = Path(__file__).parents[1]
SMALL = ["-p", "n", "2", "-p", "probes", "False", "-p", "families", "[identity, rotation]"]


def wheel() -> None:
    """Build the wheel, install it without its dependencies, and use it from an empty folder."""
    with tempfile.TemporaryDirectory() as place:
        built, site, work = (Path(place, name) for name in ("built", "site", "work"))
        work.mkdir()
        pip = [sys.executable, "-m", "pip", "--disable-pip-version-check", "--quiet"]
        subprocess.run([*pip, "wheel", "--no-deps", "--wheel-dir", built, ROOT], check=True)
        subprocess.run([*pip, "install", "--no-deps", "--target", site, *built.glob("*.whl")], check=True)
        environment = {name: value for name, value in os.environ.items() if name != "PYTHONPATH"}
        environment |= {"PYTHONPATH": str(site), "HF_HUB_OFFLINE": "1"}

        def use(*arguments: str) -> str:
            command = [sys.executable, "-m", *arguments]
            done = subprocess.run(command, cwd=work, env=environment, capture_output=True, text=True, timeout=300)
            assert done.returncode == 0, f"{' '.join(arguments)}\n{done.stdout[-2000:]}{done.stderr[-2000:]}"
            return done.stdout

        where = subprocess.run(
            [sys.executable, "-c", "import vfkit; print(vfkit.__file__)"],
            cwd=work, env=environment, capture_output=True, text=True, check=True,
        )  # fmt: skip
        assert where.stdout.startswith(str(site)), where.stdout
        Image.new("RGB", (96, 96), (200, 30, 30)).save(work / "red.png")
        assert "qwen3vl_4b" in use("vfkit.models") and "easy_vqa" in use("vfkit")
        assert "01_perturbation.ipynb" in use("vfkit.notebook", "--copy", ".")
        shutil.copytree(site / "vfkit" / "mini" / "checkpoints" / "mini_qwen3vl", work / "weights")
        with open(work / "params" / "models.yaml", "a", encoding="utf-8") as own:
            own.write("\nmine: {path: weights, type: qwen3_vl}\n")
        assert "Answer: " in use("vfkit.ask", "red.png", "Is there a circle?", "--model", "mine")
        use("papermill", "--no-progress-bar", "01_perturbation.ipynb", "by_hand.ipynb", *SMALL)
        assert "Page: " in use("vfkit.notebook", "--run", "01_perturbation", *SMALL)
        page = (work / "outputs" / "notebooks" / "01_perturbation.html").read_text(encoding="utf-8")
        for address in re.findall(r'<a data-path="[^"]*" href="([^"]*)"', page):
            assert (work / "outputs" / "notebooks" / address).is_file(), address
    print("The wheel works in another folder.")


def lab(n: int = 4) -> None:
    """Run notebook 01 on n samples in JupyterLab and look at what it shows."""
    from playwright.sync_api import sync_playwright

    with socket.socket() as free:
        free.bind(("127.0.0.1", 0))
        port = free.getsockname()[1]
    shots = ROOT / "outputs" / "lab"
    shots.mkdir(parents=True, exist_ok=True)
    trial = ROOT / "notebooks" / "lab_trial.ipynb"
    content = nbformat.read(ROOT / "notebooks" / "01_perturbation.ipynb", as_version=4)
    (own,) = [cell for cell in content.cells if "parameters" in cell.metadata.get("tags", [])]
    own.source = re.sub(r"^n = \d+", f"n = {n}", own.source, flags=re.M)
    server = [sys.executable, "-m", "jupyterlab", "--no-browser", "--allow-root", f"--port={port}"]
    server += ["--IdentityProvider.token=trial", f"--ServerApp.root_dir={ROOT}"]
    log = open(shots / "server.log", "w")
    process = subprocess.Popen(server, cwd=ROOT, stdout=log, stderr=subprocess.STDOUT)
    try:
        nbformat.write(content, trial)
        _wait(f"http://127.0.0.1:{port}/api?token=trial")
        with sync_playwright() as p:
            browser = p.chromium.launch(executable_path=shutil.which("chromium"), args=["--no-sandbox"])
            tab = browser.new_page(viewport={"width": 1300, "height": 1000})
            tab.set_default_timeout(120_000)
            faults: list[str] = []
            tab.on("pageerror", lambda error: faults.append(str(error)))
            tab.goto(f"http://127.0.0.1:{port}/lab/tree/notebooks/{trial.name}?token=trial")
            tab.wait_for_selector(".jp-Notebook .jp-Cell")
            tab.wait_for_selector("text=Python 3 (ipykernel) | Idle")
            tab.click("text=Run >> nth=0")
            tab.click("text=Run All Cells")
            panel = "document.querySelector('.jp-WindowedPanel-outer')"
            until = time.monotonic() + 300
            while not tab.locator(r"text=/Saved \d+ files/").count():
                assert time.monotonic() < until, "notebook 01 did not come to its end in five minutes"
                tab.evaluate(f"{panel}.scrollTo(0, 1e9)")
                tab.wait_for_timeout(1000)
            seen: dict[str, int] = dict.fromkeys(SHOWN, 0)
            for shot, y in enumerate(range(0, int(tab.evaluate(f"{panel}.scrollHeight")), 800)):
                tab.evaluate(f"{panel}.scrollTo(0, {y})")
                tab.wait_for_timeout(300)
                tab.screenshot(path=shots / f"{shot:02d}.png")
                for what, selector in SHOWN.items():
                    seen[what] = max(seen[what], tab.locator(selector).count())
            browser.close()
        assert all(seen.values()) and not faults, f"seen: {seen}; errors of the browser: {faults[:3]}"
    finally:
        process.terminate()
        process.wait()
        log.close()
        trial.unlink(missing_ok=True)
    print(f"Notebook 01 ran in JupyterLab: {seen}; screenshots in {shots.relative_to(ROOT)}")


SHOWN = {
    "finding": ".jp-RenderedMarkdown.jp-OutputArea-output li",
    "table": ".jp-OutputArea table.vfkit",
    "figure": ".jp-OutputArea img",
    "page of samples": ".jp-OutputArea iframe",
    "link to a saved file": ".jp-OutputArea a[href*='/files/outputs/']",
}
"""What notebook 01 shows in JupyterLab, by CSS selector."""


def _wait(address: str) -> None:
    for _ in range(120):
        try:
            urllib.request.urlopen(address, timeout=2).close()
            return
        except OSError:
            time.sleep(0.5)
    raise TimeoutError(f"{address} does not answer")


if __name__ == "__main__":
    if sys.argv[1:2] not in (["wheel"], ["lab"]):
        sys.exit(__doc__)
    wheel() if sys.argv[1] == "wheel" else lab(*map(int, sys.argv[2:]))
