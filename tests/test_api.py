"""Hosted models against a real local server: retries, clear failures, no key anywhere, nothing asked for twice."""

import base64
import io
import json
import logging
import os
import signal
import subprocess
import sys
import threading
import time
from pathlib import Path
from types import SimpleNamespace

import numpy as np
import pytest
from chat_server import KEY, ChatServer, completion, failing, text_of
from PIL import Image

import vfkit
from vfkit.chat import GIVE_UP, Chat, ChatError, Endpoint
from vfkit.datasets import LOADERS, Rows
from vfkit.models import registry
from vfkit.models.api import load_hosted
from vfkit.sample import Sample

SOON = {"Retry-After": "0.01"}
BUSY = (429, SOON, b'{"error": {"message": "slow down"}}')
DOWN = (500, SOON, b'{"error": {"message": "oops"}}')
HOSTED = ("gpt_5_1", "seed_1_6", "gemini_3_flash", "claude_haiku_4_5")


def words(text):
    return [{"role": "user", "content": text}]


@pytest.fixture
def server():
    with ChatServer() as server:
        yield server


@pytest.fixture
def chat(server, tmp_path, monkeypatch):
    monkeypatch.setenv("TOY_KEY", KEY)

    def make(**fields):
        fields = {"timeout": 10.0, "retries": 2, "concurrency": 2} | fields
        return Chat(Endpoint("toy", server.url, "TOY_KEY", **fields), tmp_path / "replies.jsonl")

    return make


# --- asking -----------------------------------------------------------------------------------------------------------


def test_a_request_is_asked_at_temperature_0_once_however_often_it_is_wanted(server, chat):
    first = chat()
    assert [reply.text for reply in first.ask_many([words("a"), words("b"), words("a")])] == ["A"] * 3
    assert len(server.requests) == 2 and first.counters == {"calls": 2, "stored": 0}
    assert all(body["temperature"] == 0 and body["model"] == "toy" for body in server.requests)
    assert set(server.keys) == {f"Bearer {KEY}"} and server.requests[0]["path"] == "/v1/chat/completions"
    again = chat()
    assert again.ask(words("b")).usage["total_tokens"] == 6 and len(server.requests) == 2
    assert again.counters == {"calls": 0, "stored": 1} or again.counters == {"stored": 1}
    chat(request={"temperature": 0, "max_tokens": 9}).ask(words("a"))  # another request
    assert len(server.requests) == 3


@pytest.mark.parametrize("failures", [[BUSY, BUSY], [DOWN, BUSY], [(200, {}, b"<html>"), (200, {}, b"{}")]])
def test_what_may_pass_is_asked_again(server, chat, failures):
    server.answer = failing(failures, "fine")
    assert chat().ask(words("a")).text == "fine" and len(server.requests) == 3


@pytest.mark.parametrize(
    "failure, says",
    [
        (BUSY, "RateLimitError"),
        (DOWN, "InternalServerError"),
        ((200, {}, b"not json"), "toy at 127.0.0.1"),
        ((200, {"Content-Type": "text/html"}, b"<html>hello</html>"), "toy at 127.0.0.1"),
        ((200, {}, b'{"choices": []}'), "IndexError"),
        ((200, {}, b'{"choices": null}'), "TypeError"),
        ((200, {}, b'{"choices": [{"message": {"content": 3}}]}'), "toy at"),
        ((400, {}, b'{"error": {"message": "temperature is not supported"}}'), "temperature is not supported"),
    ],
)
def test_what_does_not_pass_is_an_error_that_says_why_and_the_rest_is_answered(server, chat, failure, says):
    server.answer = lambda body: failure if text_of(body) == "bad" else "fine"
    good, bad, other = chat(retries=1).ask_many([words("good"), words("bad"), words("other")])
    assert good.text == other.text == "fine"
    assert isinstance(bad, ChatError) and says in str(bad)
    server.answer = lambda body: "now"
    assert chat().ask(words("bad")).text == "now"  # a failure is not kept


def test_a_server_that_keeps_silent_is_given_up_on(server, chat):
    silent = threading.Event()
    server.answer = lambda body: silent.wait(20) or "late"
    try:
        with pytest.raises(ChatError, match="APITimeoutError"):
            chat(timeout=0.2, retries=0).ask(words("a"))
    finally:
        silent.set()


def test_an_endpoint_that_is_down_ends_the_run(server, chat):
    server.answer = lambda body: DOWN
    with pytest.raises(vfkit.ModelUnavailable, match=f"{GIVE_UP} requests in a row.*run again"):
        chat(retries=0, concurrency=1).ask_many([words(str(i)) for i in range(40)])
    assert GIVE_UP <= len(server.requests) < 40


@pytest.mark.parametrize("status", [401, 403, 404])
def test_a_refused_key_or_model_ends_the_run_at_once(server, chat, status):
    server.answer = lambda body: (status, {}, json.dumps({"error": {"message": f"no: {KEY}"}}).encode())
    with pytest.raises(vfkit.ModelUnavailable, match=r"no: \*\*\*"):
        chat(concurrency=1).ask_many([words(str(i)) for i in range(40)])
    assert len(server.requests) < 40


def test_requests_are_limited_in_number_and_in_pace(server, chat, monkeypatch):
    running, most, lock, three = 0, 0, threading.Lock(), threading.Barrier(3)

    def answer(body):
        nonlocal running, most
        with lock:
            running += 1
            most = max(most, running)
        three.wait(30)  # goes on only where three run at once
        with lock:
            running -= 1
        return "A"

    server.answer = answer
    chat(concurrency=3).ask_many([words(str(i)) for i in range(9)])
    assert most == 3
    slept, server.answer = [], lambda body: "A"
    monkeypatch.setattr("vfkit.chat.time", SimpleNamespace(monotonic=lambda: 0.0, sleep=slept.append))
    chat(per_minute=1, concurrency=1).ask_many([words(f"slow {i}") for i in range(3)])
    assert slept == [0, 60, 120]


def test_the_cost_is_estimated_without_a_call(server, chat):
    ours = chat(prices=(1.0, 10.0), request={"temperature": 0, "max_tokens": 100})
    ours.ask(words("known"))
    image = [{"role": "user", "content": [{"type": "image_url", "image_url": {"url": "data:"}}]}]
    cost = ours.estimate([words("known"), words("x" * 400), words("x" * 400), image])
    assert cost["requests"] == 4 and cost["stored"] == 1 and cost["calls"] == 2 and len(server.requests) == 1
    assert cost["tokens_read"] == pytest.approx(1104) and cost["tokens_written"] == 200
    assert cost["dollars"] == pytest.approx((1104 * 1 + 200 * 10) / 1e6, abs=1e-4)
    assert np.isnan(chat().estimate([words("x")])["dollars"])


def test_the_key_is_in_no_file_log_or_error(server, chat, tmp_path, caplog, monkeypatch):
    caplog.set_level(logging.DEBUG)
    echo = json.dumps({"error": {"message": f"bad key {KEY}"}}).encode()
    server.answer = failing([(400, {}, echo)], f"your key is {KEY}")
    failed, _ = chat(concurrency=1).ask_many([words("a"), words("b")])
    seen, errors = set(), [failed]
    while errors and (error := errors.pop()) is not None and id(error) not in seen:
        seen.add(id(error))
        assert KEY not in str(error) + repr(vars(error))
        errors += [error.__cause__, error.__context__]
    assert "***" in str(failed)
    assert KEY not in (tmp_path / "replies.jsonl").read_text() and KEY not in caplog.text
    assert KEY not in repr(chat()) + repr(chat().endpoint)


def test_a_missing_key_is_asked_for_by_name(server, chat, monkeypatch):
    monkeypatch.delenv("TOY_KEY")
    with pytest.raises(vfkit.ModelUnavailable, match="environment variable TOY_KEY"):
        chat()


def test_a_line_cut_off_by_a_kill_is_passed_over_and_the_file_goes_on(server, chat, tmp_path):
    chat().ask(words("a"))
    file = tmp_path / "replies.jsonl"
    whole = file.read_bytes()
    file.write_bytes(whole + whole[: len(whole) // 2])
    with pytest.warns(UserWarning, match="1 broken lines"):
        torn = chat()
    torn.ask(words("b"))
    with pytest.warns(UserWarning, match="1 broken lines"):
        after = chat()
    assert after.ask(words("a")).text == after.ask(words("b")).text == "A" and len(server.requests) == 2


# --- hosted models ----------------------------------------------------------------------------------------------------


def png(seed):
    file = io.BytesIO()
    Image.fromarray(np.random.default_rng(seed).integers(0, 256, (24, 24, 3), np.uint8)).save(file, "PNG")
    return file.getvalue()


def toy(path=None, size=8):
    options = ("a red ball", "a blue ball")
    return Rows([
        Sample(f"{i}", (png(i),), f"what is {i}?", options, 0, prompt="open" if i % 4 == 3 else "mcq", hint="Look.")
        for i in range(size)
    ])  # fmt: skip


def register(server_url, spec=registry.Spec, setitem=dict.__setitem__):
    """A hosted model of the registry, its address taken from the environment."""
    api = {"base_url": "http://nowhere.invalid/v1", "base_url_env": "TOY_URL", "key_env": "TOY_KEY", "model": "toy"}
    api |= {"request": {"temperature": 0, "max_tokens": 8}, "timeout": 10.0, "retries": 1, "concurrency": 2}
    setitem(registry.specs(), "toy_hosted", spec("toy_hosted", api=api))
    setitem(LOADERS, "toy", toy)
    os.environ.update(TOY_URL=server_url, TOY_KEY=KEY)


@pytest.fixture
def hosted(server, monkeypatch):
    monkeypatch.setenv("TOY_URL", "")
    monkeypatch.setenv("TOY_KEY", "")
    register(server.url, setitem=monkeypatch.setitem)
    return "toy_hosted"


def study(out, **fields):
    fields = dict(model="toy_hosted", dataset="toy", n=None, families=(), out=str(out), chunk=4) | fields
    return vfkit.StudyConfig(**fields)


def test_the_hosted_models_of_the_paper_are_registered_and_say_what_they_need(monkeypatch):
    for name in HOSTED:
        spec = registry.find(name)
        assert vfkit.models.is_hosted(name) and spec.api["request"]["temperature"] == 0
        monkeypatch.delenv(spec.api["key_env"], raising=False)
        with pytest.raises(vfkit.ModelUnavailable, match=spec.api["key_env"]):
            load_hosted(name)
    with pytest.raises(vfkit.ModelUnavailable, match="OPENAI_API_KEY"):
        vfkit.load_model("gpt_5_1")
    assert not vfkit.models.is_hosted("mini_qwen3vl")
    with pytest.raises(vfkit.ModelUnavailable, match="is not hosted"):
        load_hosted("mini_qwen3vl")
    assert len({registry.fingerprint(name) for name in HOSTED}) == 4


def test_a_hosted_model_sees_prompt_and_pixels_as_they_are(server, hosted, tmp_path):
    server.answer = lambda body: "B. a blue ball"
    model = load_hosted(hosted, tmp_path)
    sample = toy().samples[0]
    readout = vfkit.read(model, sample)
    assert (
        readout.prediction() == readout.named == 1 and not readout.scored and readout.texts == {"mcq": "B. a blue ball"}
    )
    assert np.isnan(readout.options.logp_text).all() and not readout.probes
    image, text = server.requests[0]["messages"][0]["content"]
    sent = Image.open(io.BytesIO(base64.b64decode(image["image_url"]["url"].split(",")[1])))
    assert np.array_equal(np.asarray(sent), np.asarray(vfkit.load_image(sample.images[0])))
    assert text["text"] == vfkit.prompts.text(sample, "mcq")


def test_reasoning_stands_before_the_answer_and_names_nothing(server, hosted, tmp_path):
    server.answer = lambda body: (200, {}, completion("A", reasoning_content="It may be B."))
    readout = vfkit.read(load_hosted(hosted, tmp_path), toy().samples[0])
    assert readout.texts["mcq"] == "<think>It may be B.</think>A" and readout.named == 0


def test_a_study_of_a_hosted_model_records_answers_and_no_scores(server, hosted, tmp_path):
    says = {"0": "A", "1": "B", "2": "I cannot tell", "3": "red", "4": (400, {}, b'{"error": {"message": "unsafe"}}')}
    server.answer = lambda body: says.get(text_of(body).split("what is ")[1][0], "A")
    run = vfkit.run_study(study(tmp_path), progress=False)
    records = run.records().set_index("sample_id")
    assert list(records.index) == list("0123567") and len(server.requests) == 8
    assert records.prediction.isna().tolist() == [False, False, True, True, False, False, True]
    assert (
        records.loc["1", "prediction"] == 1 and records.loc["3", "text_open"] == records.loc["3", "text_mcq"] == "red"
    )
    assert records.margin.isna().all() and records.logp_text.isna().all() and records.text_mcq["2"] == "I cannot tell"
    (error,) = run.errors().itertuples()
    assert error.sample_id == "4" and "unsafe" in error.message
    assert run.manifest["counters"]["calls"] == 7
    with pytest.raises(ValueError, match="scores are missing"):
        vfkit.metrics.rescore(run.records(), "text")
    for file in filter(Path.is_file, tmp_path.rglob("*")):
        assert KEY.encode() not in file.read_bytes()


def test_perturbed_images_are_asked_where_the_base_names_an_option(server, hosted, tmp_path):
    server.answer = lambda body: "A" if "what is 0" in text_of(body) else "perhaps"
    run = vfkit.run_study(
        study(tmp_path, families=("identity", "rotation"), n=None, dataset_options={"size": 2}), False
    )
    records = run.records()
    assert len(records) == 5 and run.errors().message.str.contains("names no option").tolist() == [True]
    identity = records[records.family == "identity"].iloc[0]
    assert not identity.applicable and "hosted" in identity.reason
    assert len(server.requests) == 4


def test_studies_that_need_states_refuse_a_hosted_model_by_name(server, hosted, tmp_path):
    with pytest.raises(ValueError, match="'toy_hosted' is hosted.*states"):
        vfkit.run_study(study(tmp_path, probes=True), progress=False)
    assert not server.requests and not list(tmp_path.iterdir())


KILLED = """
import sys; sys.path.insert(0, {tests!r})
import test_api, vfkit
test_api.register({url!r})
vfkit.run_study(test_api.study({out!r}), progress=False)
"""


def test_a_run_killed_half_way_goes_on_and_repeats_no_paid_call(server, hosted, tmp_path):
    """The kill comes when 5 replies are on disk, amid the second chunk, with two requests that the server holds."""
    hold, kept = threading.Event(), tmp_path / "answers" / "toy_hosted.jsonl"
    lock, replied = threading.Lock(), []

    def answer(body):
        with lock:
            held = len(replied) >= 5
            if not held:
                replied.append(text_of(body))
        if held:
            hold.wait(60)
            return 503, {}, b"{}"
        return "A"

    server.answer = answer
    here = Path(__file__)
    code = KILLED.format(tests=str(here.parent), url=server.url, out=str(tmp_path))
    process = subprocess.Popen([sys.executable, "-c", code], env=os.environ | {"PYTHONPATH": str(here.parents[1])})
    try:
        while not kept.exists() or kept.read_bytes().count(b"\n") < 5:
            assert process.poll() is None, "the run ended before it was killed"
            time.sleep(0.02)
    finally:
        process.send_signal(signal.SIGKILL)
        process.wait()
        hold.set()
    paid = set(replied)
    assert len(paid) == 5
    server.requests.clear()
    server.answer = lambda body: "A"
    run = vfkit.run_study(study(tmp_path), progress=False)
    asked = [text_of(body) for body in server.requests]
    assert len(asked) == 3 and not paid & set(asked)
    assert len(run.records()) == 8 and run.errors().empty
    server.requests.clear()
    vfkit.run_study(study(tmp_path / "elsewhere"), progress=False)
    assert len(server.requests) == 8  # another folder has answers of its own
    vfkit.run_study(study(tmp_path, n=3), progress=False)
    assert len(server.requests) == 8  # another study of the same folder has not
