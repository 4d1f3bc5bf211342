"""The ways in which GenEOL rewrites a text: instruction, demonstrations, and what stands before text and rewriting.

It knows no model and no template. The demonstrations are slotrag's own; a file may bring further transformations.
"""

from __future__ import annotations

import tomllib
from collections.abc import Sequence
from dataclasses import astuple, dataclass
from pathlib import Path

from .. import UsageError
from .fingerprint import fingerprint

DEMONSTRATIONS = 5
"""Demonstrations of each of our own transformations."""


@dataclass(frozen=True, slots=True)
class Transformation:
    """One way to rewrite a text.

    Attributes
    ----------
    name : str
        ``T1``, ``T2`` ...
    instruction : str
        What the generator is told.
    label : str
        What stands before the rewriting in the plain form.
    demonstrations : tuple of (text, rewriting)
    """

    name: str
    instruction: str
    label: str
    demonstrations: tuple[tuple[str, str], ...]


TRANSFORMATIONS = (
    Transformation(
        "T1",
        "Paraphrase the text. Keep its meaning.",
        "Paraphrase",
        (
            ("The shop on the corner closes at six on weekdays.", "On weekdays the corner shop shuts at six o'clock."),
            (
                "Heavy rain delayed the start of the tennis final by two hours.",
                "The tennis final began two hours late because of heavy rain.",
            ),
            ("A girl is feeding ducks at the pond.", "A young girl gives food to the ducks by the pond."),
            (
                "The valve must be replaced once a year; otherwise the pump loses pressure.",
                "Change the valve every year, or else the pressure in the pump will drop.",
            ),
            (
                "Nobody on the committee had read the report before the vote.",
                "Before voting, not one committee member had gone through the report.",
            ),
        ),
    ),
    Transformation(
        "T2",
        "Say the same with another sentence structure and other words.",
        "Reworded",
        (
            ("The new bridge was opened by the mayor on Friday.", "On Friday the mayor inaugurated the new crossing."),
            (
                "Because the battery was empty, the car would not start.",
                "The vehicle failed to start; its battery had run down.",
            ),
            ("Two men are carrying a sofa up the stairs.", "A couch is being brought upstairs by two people."),
            (
                "Bread keeps longer when it is stored in a linen bag.",
                "Storing loaves in a cloth sack makes them last for more days.",
            ),
            (
                "Scientists have found water beneath the surface of the moon.",
                "Researchers discovered that there is water under the lunar ground.",
            ),
        ),
    ),
    Transformation(
        "T3",
        "Write a sentence that follows from the text.",
        "It follows that",
        (
            (
                "Anna bought three red apples and a loaf of bread at the market this morning.",
                "Anna went shopping at the market.",
            ),
            ("A brown dog is chasing a ball across the park.", "An animal is running outside."),
            (
                "The company cut 400 jobs after its profit fell for the third year in a row.",
                "The company has let workers go.",
            ),
            ("The library lends books for four weeks, films for one.", "One can borrow films from the library."),
            ("An old man plays the violin in the subway station every evening.", "A man makes music in public."),
        ),
    ),
    Transformation(
        "T4",
        "Say the text in fewer words, without details that are not needed.",
        "In short",
        (
            (
                "The extremely popular band will, as was announced yesterday, play two more shows in the city.",
                "The band will play two more shows.",
            ),
            ("A tall man in a blue shirt is slicing a ripe tomato.", "A man is slicing a tomato."),
            (
                "After a long and careful search lasting several days, the police finally found the missing boat.",
                "The police found the missing boat.",
            ),
            (
                "Our freshly painted office on the second floor will be closed on Monday.",
                "The office is closed on Monday.",
            ),
            ("The tiny white kitten is sleeping peacefully on the soft rug.", "The kitten is sleeping on the rug."),
        ),
    ),
)
"""T1 paraphrase, T2 other structure and words, T3 entailed sentence, T4 concise (arXiv 2410.14635)."""

SUMMARY = Transformation(
    "S",
    "Summarise the text in one sentence.",
    "Summary",
    (
        (
            "The museum reopened on Sunday. It had been closed for two years while the roof was repaired. More than "
            "3,000 visitors came on the first day.",
            "The museum reopened to many visitors after two years of roof repairs.",
        ),
        (
            "Check the oil before a long drive. If the level is low, add oil of the kind named in the manual. Never "
            "open the cap while the engine is hot.",
            "Check and top up the oil before long drives, with the engine cool.",
        ),
        (
            "Lena applied for the grant in March. The foundation asked for more documents in May, and in July it "
            "declined because the budget was spent.",
            "The foundation declined Lena's grant application for lack of budget.",
        ),
        (
            "Owls hunt at night. Their feathers make almost no sound, and their ears tell them exactly where a mouse "
            "is moving under the leaves.",
            "Owls hunt at night with silent feathers and sharp hearing.",
        ),
        (
            "The town council discussed the car park for an hour. Some wanted trees there, others a market. No "
            "decision was made.",
            "The town council could not decide what to do with the car park.",
        ),
    ),
)
"""For composition, and for the strategy that summarises a long text first."""

VERSION = 1
"""Counted up when the words around texts and demonstrations change."""


def prompt_version(transformations: Sequence[Transformation], form: str) -> str:
    """Hash of every word that a generator is given around a text."""
    words = [list(map(_plain, astuple(transformation))) for transformation in (*transformations, SUMMARY)]
    return fingerprint({"version": VERSION, "form": form, "words": words})


def _plain(value: object) -> object:
    return [list(pair) for pair in value] if isinstance(value, tuple) else value


def chosen(names: str, file: str | None) -> tuple[Transformation, ...]:
    """The transformations to use, in the order in which variants are spread over them.

    Parameters
    ----------
    names : str
        ``+``-joined, such as ``T1+T4+T5``; empty for all.
    file : str, optional
        Where further ones are read from.

    Raises
    ------
    slotrag.UsageError
        An unknown name, or a file that cannot be read.
    """
    known = {one.name: one for one in (*TRANSFORMATIONS, *(read_transformations(Path(file)) if file else ()))}
    wanted = [name.strip() for name in names.split("+")] if names else list(known)
    for name in wanted:
        if name not in known:
            raise UsageError(f"there is no transformation {name!r}; choose from {', '.join(known)}")
    return tuple(known[name] for name in wanted)


def read_transformations(path: Path) -> tuple[Transformation, ...]:
    """Transformations T5, T6 ... of a TOML file, in its order.

    Each is a table ``[[transformation]]`` with ``instruction``, ``label`` (optional) and ``demonstrations``, a list of
    ``[text, rewriting]``, at least one.

    Raises
    ------
    slotrag.UsageError
        The file is not there or not of that form.
    """
    try:
        content = tomllib.loads(path.expanduser().read_text(encoding="utf-8"))
    except OSError as error:
        raise UsageError(f"the transformations in {path} cannot be read: {error.strerror}") from error
    except (tomllib.TOMLDecodeError, UnicodeDecodeError) as error:
        raise UsageError(f"the transformations in {path} are not TOML: {error}") from error
    tables = content.get("transformation")
    if not isinstance(tables, list) or not tables or set(content) != {"transformation"}:
        raise UsageError(f"{path} must hold tables [[transformation]] and nothing else")
    first = len(TRANSFORMATIONS) + 1
    return tuple(_read(f"T{first + place}", table, path) for place, table in enumerate(tables))


def _read(name: str, table: object, path: Path) -> Transformation:
    if not isinstance(table, dict) or not set(table) <= {"instruction", "label", "demonstrations"}:
        raise UsageError(f"a transformation of {path} has instruction, label and demonstrations, nothing else")
    instruction, label = table.get("instruction"), table.get("label", "Rewritten")
    demonstrations = table.get("demonstrations")
    if not _is_line(instruction) or not _is_line(label):
        raise UsageError(f"the instruction and the label of a transformation of {path} are one line of text each")
    if not isinstance(demonstrations, list) or not demonstrations:
        raise UsageError(f"a transformation of {path} has no demonstrations: give it pairs [text, rewriting]")
    for pair in demonstrations:
        if not isinstance(pair, list) or len(pair) != 2 or not all(map(_is_line, pair)):
            raise UsageError(f"a demonstration of {path} is a pair [text, rewriting] of one line each, not {pair!r}")
    return Transformation(
        name, str(instruction), str(label), tuple((text, written) for text, written in demonstrations)
    )


def _is_line(value: object) -> bool:
    return isinstance(value, str) and bool(value.strip()) and len(value.splitlines()) == 1
