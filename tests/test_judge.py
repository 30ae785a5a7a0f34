"""Judges: what an answer says is read strictly, reasoning is taken off and counted, verdicts are paid for once."""

import csv
import subprocess
import sys
from pathlib import Path

import pytest
from chat_server import KEY, ChatServer, text_of

import vfkit
from vfkit.judge import Case, JudgeError, LLMJudge, match, parse_choice, strip_reasoning

OPTIONS = ("a dog", "a cat", "red", "dark red")


@pytest.mark.parametrize(
    "text, named",
    [
        *[(text, 1) for text in ("B", "b.", "(B)", "**B**", "Option B", "B)", "B. a cat", "(B) a cat", "B: A cat.")],
        *[(text, 1) for text in ("a cat", " 'A cat.' ", "Answer: B", "The correct answer is (B) a cat.", "B\n\n")],
        *[(text, 1) for text in (r"so it is \boxed{B}", "<|begin_of_box|>B<|end_of_box|>", "B, because of its fur.")],
        ("The picture shows fur.\nB", 1),
        ("Both a dog and a cat could be meant, but one sleeps.\nAnswer: A", 0),
        ("dark red", 3),  # not `red`
        ("The coat is dark red.\nD", 3),
        # two
        *[(text, None) for text in ("A or B", "A B", "A, B", "Answer: B or C", "Answer: B\nAnswer: C", "B. red")],
        *[(text, None) for text in ("B\nActually it is A.", "B. a cat, or a dog", "(A) a dog\n(B) a cat\n(C) red")],
        # none
        *[(text, None) for text in ("", "E", "Neither.", "Not B", "The answer is not B", "It is red", "cat", "???")],
        *[(text, None) for text in ("None of the above", "Option B is the one to rule out", "I cannot tell.")],
    ],
)
def test_an_answer_names_one_option_or_none(text, named):
    assert parse_choice(text, "ABCD", OPTIONS) == named


def phrasings(*kinds):
    with open(Path(__file__).parent / "data" / "phrasings.csv", encoding="utf-8", newline="") as file:
        return [row for row in csv.DictReader(file) if row["kind"] in kinds]


def read(row):
    index = parse_choice(row["answer"], "ABCD", row["options"].split("|"))
    return "" if index is None else "ABCD"[index]


def test_what_names_an_option_is_read_in_every_phrasing():
    rows = phrasings("named")
    assert len(rows) >= 150
    assert not [row for row in rows if read(row) != row["option"]]


def test_ambiguous_and_negated_phrasings_name_nothing():
    rows = phrasings("ambiguous", "negated", "nothing")
    assert len(rows) >= 100 and all(row["option"] == "" for row in rows)
    assert not [row for row in rows if read(row)]


@pytest.mark.parametrize("text, named", [("2", 0), ("two", 0), ("The answer is two.", 0), ("three", 1), ("12", None)])
def test_numbers_are_read_as_words_and_digits(text, named):
    assert parse_choice(text, "ABC", ("2", "three", "20")) == named


def test_spellings_are_one_word():
    assert (
        parse_choice("gray", "AB", ("grey", "white")) == 0 == parse_choice("The answer is grey.", "AB", ("gray", "red"))
    )
    assert parse_choice("2", "AB", ("2", "two")) is None  # two options that are one
    assert match("It is gray", "grey", "white") == "vision" and match("two birds", "3 birds", "2 birds") == "bias"


@pytest.mark.parametrize(
    "text, named",
    [
        ("Yes there is one.", 0),
        ("No it is not there", 1),
        ("No idea", None),
        ("The answer is no.", 1),
        ("Not yes", None),
    ],
)
def test_words_as_labels_are_read_where_a_sentence_goes_on(text, named):
    assert parse_choice(text, ("Yes", "No"), ("Yes", "No")) == named


@pytest.mark.parametrize("text, named", [("Yes", 0), ("no.", 1), ("No, there is none.", 1), ("Yes and no", None)])
def test_options_without_letters_are_named_by_their_texts(text, named):
    assert parse_choice(text, ("Yes", "No"), ("Yes", "No")) == named


def test_a_name_that_two_options_share_names_neither():
    assert parse_choice("B", "AB", ("B", "A")) is None
    assert parse_choice("grey", "ABC", ("grey", "grey", "blue")) is None
    assert parse_choice("A", "ABC", ("grey", "grey", "blue")) == 0


def test_texts_with_their_own_punctuation_are_still_texts():
    options = ("St. Paul, at 10:30", "St. John", "3.5")
    assert parse_choice("St. Paul, at 10:30.", "ABC", options) == 0
    assert parse_choice("A. St. Paul, at 10:30", "ABC", options) == 0
    assert parse_choice("3.5", "ABC", options) == 2
    assert parse_choice("3", "ABC", options) is None


@pytest.mark.parametrize(
    "text, answer",
    [
        ("B", "B"),
        ("<think>It may be A.</think>\nB", "B"),
        ("It may be A.\n</think>\n\nB", "B"),  # the opening tag stood in the prompt
        ("<think>It may be A, or", ""),  # stopped before it answered
        ("<thinking>a</thinking>B<think>and", "B"),
        ("<THINK>a <think>b</think> c</THINK> B", "B"),
        ("I think B", "I think B"),
    ],
)
def test_reasoning_is_removed_and_its_length_counted(text, answer):
    kept, removed = strip_reasoning(text)
    assert kept == answer
    assert (removed > 0) == ("think" in text.lower() and text != "I think B")


def test_the_length_of_removed_reasoning_is_exact():
    assert strip_reasoning("<think>abc</think>B") == ("B", len("<think>abc</think>"))
    assert strip_reasoning("B") == ("B", 0)


TRUTH, TRAP = "The banana is blue.", "The banana is yellow."


@pytest.mark.parametrize(
    "answer, outcome",
    [
        ("The banana is blue", "vision"),
        ("banana is BLUE!", "vision"),
        ("blue", "vision"),
        ("It is a sky-blue one.", "vision"),
        ("It's yellow.", "bias"),
        ("yellow", "bias"),
        ("It is not yellow", "other"),
        ("It isn't yellow", "other"),
        ("yellow rather than blue", "other"),
        ("green", "other"),
        ("bluebells", "other"),
        ("", "other"),
    ],
)
def test_match_finds_whole_phrases_of_one_side_alone(answer, outcome):
    assert match(answer, TRUTH, TRAP, ["blue"], ["yellow"]) == outcome


def test_match_takes_the_longest_phrase_and_knows_its_own_negations():
    assert match("There are no clouds here", "no clouds", "clouds") == "vision"
    assert match("clouds", "no clouds", "clouds") == "bias"
    assert match("The sky has clouds", "no clouds", "clouds") == "bias"
    assert match("same", "same", "Same!") == "other"
    assert match("3.5 m", "3.5", "3") == "vision"


def test_answers_are_read_without_torch():
    code = "import sys, vfkit.judge; print({'torch', 'transformers', 'openai', 'pandas'} & set(sys.modules))"
    assert subprocess.run([sys.executable, "-c", code], capture_output=True, text=True).stdout.strip() == "set()"


# --- a language model as the judge ------------------------------------------------------------------------------------


def says(body):
    """A judge that goes by the answer alone."""
    answer = text_of(body).rsplit("Answer: ", 1)[1]
    if answer == "broken":
        return 400, {}, f'{{"error": {{"message": "no {KEY}"}}}}'.encode()
    replies = {"sky": "FIRST", "sun": "<think>hm</think> **Second.**", "mud": "neither", "fog": "FIRST or SECOND"}
    return replies[answer]


@pytest.fixture
def judge(tmp_path, monkeypatch):
    monkeypatch.setenv("TOY_KEY", KEY)
    with ChatServer(says) as server:

        def make(**fields):
            return LLMJudge(
                "toy", server.url, "TOY_KEY", tmp_path / "verdicts.jsonl", timeout=10.0, retries=0, **fields
            )

        yield server, make


def case(answer, truth=TRUTH):
    return Case("What colour is it?", answer, truth, TRAP, ("blue",))


def test_a_judge_gives_verdicts_and_guesses_none(judge):
    server, make = judge
    verdicts = make().many([case(answer) for answer in ("sky", "sun", "mud", "", "fog", "broken")])
    assert verdicts[:4] == ["vision", "bias", "other", "other"]
    assert isinstance(verdicts[4], JudgeError) and "FIRST or SECOND" in str(verdicts[4])
    assert isinstance(verdicts[5], JudgeError) and "no ***" in str(verdicts[5])
    assert len(server.requests) == 5  # an empty answer needs no judge
    asked = text_of(server.requests[0])
    assert "What colour is it?" in asked and f"{TRUTH}; or: blue" in asked and TRAP in asked
    assert make()("sky", TRUTH, TRAP) == "vision"
    with pytest.raises(JudgeError):
        make()("fog", TRUTH, TRAP)


def test_verdicts_are_kept_by_content_and_their_cost_is_known_before(judge):
    server, make = judge
    cases = [case("sky"), case("sky"), case("sun")]
    cost = make(prices=(1.0, 2.0)).estimate(cases)
    assert cost["calls"] == 2 and cost["stored"] == 0 and cost["dollars"] > 0 and not server.requests
    make().many(cases)
    assert len(server.requests) == 2 and make().estimate(cases)["calls"] == 0
    make().many(cases)
    assert len(server.requests) == 2
    make().many([case("sky", truth="The banana is navy.")])  # another question for the judge
    assert len(server.requests) == 3


def test_a_judge_without_a_key_says_which(judge, monkeypatch):
    monkeypatch.delenv("TOY_KEY")
    with pytest.raises(vfkit.ModelUnavailable, match="TOY_KEY"):
        judge[1]()
