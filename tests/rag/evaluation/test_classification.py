"""Logistic regression on vectors: against scikit-learn by hand, the three protocols, and files that are wrong."""

from __future__ import annotations

import json
import sys
from pathlib import Path

import numpy as np
import pytest
from slotrag import SlotragError, UsageError
from slotrag.encoders.registry import create
from slotrag.rag.evaluation.classification import evaluate_classification
from slotrag.rag.evaluation.errors import DatasetError
from slotrag.rag.evaluation.labelled import read_labelled
from slotrag.rag.events import Cancelled, CancelToken, Progress

TOPICS = {
    "heating": ["boiler", "radiator", "warm", "heat", "service"],
    "travel": ["tram", "train", "ticket", "station", "leave"],
    "fruit": ["apple", "pear", "plum", "ripe", "tree"],
}
OTHERS = ["the", "a", "is", "my", "when", "please", "today", "new"]


def write(path: Path, count: int, seed: int) -> Path:
    """Texts of few words of their topic among others, so that some are told wrongly."""
    generator = np.random.default_rng(seed)
    lines = ["text,category"]
    for number in range(count):
        topic = list(TOPICS)[number % 3]
        words = [*generator.choice(TOPICS[topic], 1), *generator.choice(OTHERS, 4)]
        if number % 5 == 0:
            words[0] = str(generator.choice(TOPICS["fruit"]))
        lines.append(f"{' '.join(words)},{topic}")
    path.write_text("\n".join(lines) + "\n")
    return path


@pytest.fixture
def files(tmp_path: Path) -> tuple[Path, Path]:
    return write(tmp_path / "train.csv", 90, 0), write(tmp_path / "test.csv", 60, 1)


def vectors(path: Path, encoder: str) -> tuple[np.ndarray, np.ndarray]:
    data = read_labelled(path)
    return create(encoder).encode_documents(data.texts), np.asarray(data.labels)


def test_full_equals_scikit_learn_by_hand(files: tuple[Path, Path], hashing_encoder: str) -> None:
    from sklearn.linear_model import LogisticRegression
    from sklearn.metrics import f1_score

    found = evaluate_classification(*files, encoder=hashing_encoder, protocol="full")
    (known, labels), (asked, wanted) = (vectors(path, hashing_encoder) for path in files)
    predicted = LogisticRegression(C=1.0, max_iter=100).fit(known, labels).predict(asked)
    assert found.scores["accuracy"].value == pytest.approx((predicted == wanted).mean())
    assert found.scores["macro_f1"].value == pytest.approx(f1_score(wanted, predicted, average="macro"))
    assert found.scores["accuracy"].low < found.scores["accuracy"].value < found.scores["accuracy"].high
    assert (found.labels, found.train_texts, found.test_texts, found.c, found.converged) == (3, 90, 60, 1.0, True)


def test_mteb_trains_on_a_few_of_each_label(files: tuple[Path, Path], hashing_encoder: str) -> None:
    from sklearn.linear_model import LogisticRegression

    found = evaluate_classification(*files, encoder=hashing_encoder, per_label=4, draws=3)
    (known, labels), (asked, wanted) = (vectors(path, hashing_encoder) for path in files)
    order, accuracies = list(range(90)), []
    for _ in range(3):
        np.random.RandomState(42).shuffle(order)
        taken = {place for label in TOPICS for place in [p for p in order if labels[p] == label][:4]}
        chosen = [place for place in order if place in taken]
        predicted = LogisticRegression(max_iter=100).fit(known[chosen], labels[chosen]).predict(asked)
        accuracies.append((predicted == wanted).mean())
    assert found.scores["accuracy"].value == pytest.approx(np.mean(accuracies))
    assert (found.scores["accuracy"].low, found.scores["accuracy"].high) == (min(accuracies), max(accuracies))
    assert not found.notices
    assert (found.draws, found.per_label) == (3, 4)
    whole = evaluate_classification(*files, encoder=hashing_encoder, protocol="full")
    assert whole.scores["accuracy"].value > found.scores["accuracy"].value
    every = evaluate_classification(*files, encoder=hashing_encoder, per_label=1000, draws=1)
    assert every.scores["accuracy"].value == pytest.approx(whole.scores["accuracy"].value)


def test_senteval_chooses_c_on_the_training_texts(files: tuple[Path, Path], hashing_encoder: str) -> None:
    from sklearn.linear_model import LogisticRegression
    from sklearn.model_selection import StratifiedKFold, cross_val_score

    found = evaluate_classification(*files, encoder=hashing_encoder, protocol="senteval")
    known, labels = vectors(files[0], hashing_encoder)
    folds = StratifiedKFold(10, shuffle=True, random_state=1111)
    choices = [0.5, 1.0, 2.0, 4.0, 8.0, 16.0, 32.0]
    means = [round(cross_val_score(LogisticRegression(C=c), known, labels, cv=folds).mean(), 4) for c in choices]
    assert found.c == choices[int(np.argmax(means))]


def test_senteval_may_choose_the_greatest_c(tmp_path: Path, hashing_encoder: str) -> None:
    """A few texts tell their label by one word, which a stronger regularisation overrules."""
    rows = [("apple pear tree", "fruit")] * 90 + [("apple pear tree boiler", "heating")] * 3
    (tmp_path / "rare.csv").write_text("text,label\n" + "".join(f"{text},{label}\n" for text, label in rows))
    found = evaluate_classification(
        tmp_path / "rare.csv", tmp_path / "rare.csv", encoder=hashing_encoder, protocol="senteval"
    )
    assert found.c == 32 and found.scores["accuracy"].value == 1.0


def test_a_rare_label_does_not_lessen_the_folds(
    files: tuple[Path, Path], hashing_encoder: str, recwarn: pytest.WarningsRecorder, monkeypatch: pytest.MonkeyPatch
) -> None:
    from sklearn import model_selection

    folds = []
    real = model_selection.StratifiedKFold
    monkeypatch.setattr(
        model_selection,
        "StratifiedKFold",
        lambda n_splits, **options: (folds.append(n_splits), real(n_splits, **options))[1],
    )
    files[0].write_text(files[0].read_text() + "cloud today,weather\nrain today,weather\n")
    evaluate_classification(*files, encoder=hashing_encoder, protocol="senteval")
    assert folds == [10] and not [str(warning.message) for warning in recwarn if "populated" in str(warning.message)]


def test_forms_of_files(tmp_path: Path, files: tuple[Path, Path]) -> None:
    wanted = read_labelled(files[0])
    rows = list(zip(wanted.texts, wanted.labels, strict=True))
    (tmp_path / "a.tsv").write_text("Intent\tUtterance\n" + "".join(f"{label}\t{text}\n" for text, label in rows))
    (tmp_path / "b.jsonl").write_text("".join(json.dumps({"text": t, "label": label}) + "\n" for t, label in rows))
    (tmp_path / "c.csv").write_text("frage,art\n" + "".join(f"{text},{label}\n" for text, label in rows))
    for found in (
        read_labelled(tmp_path / "a.tsv"),
        read_labelled(tmp_path / "b.jsonl"),
        read_labelled(tmp_path / "c.csv", columns=["frage", "art"]),
    ):
        assert (found.texts, found.labels) == (wanted.texts, wanted.labels)


def test_labels_that_training_does_not_have(tmp_path: Path, files: tuple[Path, Path], hashing_encoder) -> None:
    (tmp_path / "other.csv").write_text("text,label\na,nowhere\n")
    with pytest.raises(DatasetError, match="none of its labels, such as 'nowhere', occurs in the training file"):
        evaluate_classification(files[0], tmp_path / "other.csv", encoder=hashing_encoder)


def test_labels_and_numbers_of_texts_worth_knowing_are_noticed(
    tmp_path: Path, files: tuple[Path, Path], hashing_encoder: str
) -> None:
    from sklearn.metrics import f1_score

    (tmp_path / "more.csv").write_text(files[1].read_text() + "rain today,weather\nsnow today,weather\n")
    before = evaluate_classification(*files, encoder=hashing_encoder, protocol="full")
    found = evaluate_classification(files[0], tmp_path / "more.csv", encoder=hashing_encoder, protocol="full")
    assert found.notices == [
        "2 of 62 test texts have a label that no training text has, such as 'weather'; they count as wrong"
    ]
    assert found.scores["accuracy"].value == pytest.approx(before.scores["accuracy"].value * 60 / 62)
    from sklearn.linear_model import LogisticRegression

    (known, labels), (asked, wanted) = (
        vectors(files[0], hashing_encoder),
        vectors(tmp_path / "more.csv", hashing_encoder),
    )
    predicted = LogisticRegression().fit(known, labels).predict(asked)
    wanted_f1 = f1_score(wanted, predicted, average="macro", zero_division=0)
    assert found.scores["macro_f1"].value == pytest.approx(wanted_f1)
    few = evaluate_classification(*files, encoder=hashing_encoder, per_label=31, draws=2)
    assert few.notices == [
        "3 of 3 labels, such as 'heating', have fewer than 31 training texts; all of theirs are in every draw"
    ]


def test_numbers_are_labels(tmp_path: Path) -> None:
    (tmp_path / "n.jsonl").write_text('{"text":"a","label":0}\n{"text":"b","label":1}\n')
    assert read_labelled(tmp_path / "n.jsonl").labels == ["0", "1"]


@pytest.mark.parametrize(
    ("name", "content", "message"),
    [
        ("t.csv", "text,label\n", "it holds no text"),
        ("t.csv", "words,label\na,b\n", "line 1: there is no column 'text'; there are words, label"),
        ("t.csv", "text,kind\na,b\n", "line 1: there is no column 'label'"),
        ("t.csv", "text,label\na,b\n ,c\n", "line 3: there is no text"),
        ("t.csv", "text,label\na,b\nc,\n", "line 3: there is no label"),
        ("t.jsonl", '{"text":"a","label":"b"}\n{"text":"a"}\n', "line 2: there is no label"),
        ("t.jsonl", '{"text":"a","label":true}\n', "line 1: there is no label"),
    ],
)
def test_what_is_wrong_is_said_with_its_line(name: str, content: str, message: str, tmp_path: Path) -> None:
    (tmp_path / name).write_text(content)
    with pytest.raises(DatasetError) as caught:
        read_labelled(tmp_path / name)
    assert message in str(caught.value)


def test_wrong_calls(files: tuple[Path, Path], hashing_encoder: str, tmp_path: Path) -> None:
    for options in ({"protocol": "sent"}, {"per_label": 0}, {"draws": 0}, {"columns": ["text"]}):
        with pytest.raises(UsageError):
            evaluate_classification(*files, encoder=hashing_encoder, **options)
    one = tmp_path / "one.csv"
    one.write_text("text,label\na,x\nb,x\n")
    with pytest.raises(DatasetError, match="two labels are needed"):
        evaluate_classification(one, files[1], encoder=hashing_encoder)
    few = tmp_path / "few.csv"
    few.write_text("text,label\na,x\nb,y\nc,y\n")
    for encoder in (hashing_encoder, "not-even-loaded"):
        with pytest.raises(DatasetError, match=r"'x' has one text; .* at least two training texts .* --protocol full"):
            evaluate_classification(few, few, encoder=encoder, protocol="senteval")


def test_without_scikit_learn_the_extra_is_named(
    files: tuple[Path, Path], hashing_encoder: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setitem(sys.modules, "sklearn", None)
    with pytest.raises(SlotragError, match=r"pip install 'slotrag\[eval\]'"):
        evaluate_classification(*files, encoder=hashing_encoder)


@pytest.mark.parametrize("protocol", ["mteb", "senteval", "full"])
def test_cancellation(files: tuple[Path, Path], hashing_encoder: str, protocol: str) -> None:
    token = CancelToken()

    def listen(report: Progress) -> None:
        if report.stage == "evaluate":
            token.cancel()

    with pytest.raises(Cancelled):
        evaluate_classification(*files, encoder=hashing_encoder, protocol=protocol, progress=listen, cancel=token)
