"""The words around a text: prompts that ask for it in one word, demonstrations, and prompts that say it twice.

The one-word prompts are those of PromptEOL (arXiv 2307.16645), of Pretended CoT and Knowledge Enhancement (arXiv
2404.03921), and eight in the manner of MetaEOL (arXiv 2402.18458) in words of our own. It knows no tokenizer.
"""

from __future__ import annotations

from dataclasses import dataclass


@dataclass(frozen=True, slots=True)
class Template:
    """A one-word prompt: ``{before} "{text}"{after}``, the last quote of `after` left open.

    Examples
    --------
    >>> PROMPTS["eol"][0].fill("It rains.")
    'This sentence : "It rains." means in one word:"'
    """

    before: str
    after: str = ' means in one word:"'

    def fill(self, text: str) -> str:
        """The whole prompt around `text`."""
        return f'{self.before} "{text}"{self.after}'

    def demonstrated(self, text: str, word: str) -> Template:
        """The same prompt after one that is answered: `text` means `word`.

        Examples
        --------
        >>> PROMPTS["eol"][0].demonstrated("It rains.", "Weather").fill("It snows.")
        'This sentence : "It rains." means in one word:"Weather". This sentence : "It snows." means in one word:"'
        """
        return Template(f'{self.fill(text)}{word}". {self.before}', self.after)


@dataclass(frozen=True, slots=True)
class EchoTemplate:
    """A prompt that says a text twice: ``{before} {text}{between} {text}``."""

    before: str
    between: str

    def fill(self, text: str) -> str:
        """The whole prompt around `text`."""
        return f"{self.before} {text}{self.between} {text}"


def _task(description: str, text: str = "sentence") -> Template:
    return Template(f"{description} In this task , this {text} :")


PROMPTS: dict[str, tuple[Template, ...]] = {
    "eol": (Template("This sentence :"),),
    "cot": (Template("After thinking step by step , this sentence :"),),
    "knowledge": (
        Template(
            "The essence of a sentence is often captured by its main subjects and actions, while descriptive terms "
            "provide additional but less central details. With this in mind , this sentence :"
        ),
    ),
    "metaeol": (
        _task("You are given a text and sort it by its topic, such as sports, health, science, business or politics."),
        _task("You are given a text and decide whether it states a fact or the opinion of somebody."),
        _task("You are given a review and say how good the reviewer finds the thing, from terrible to excellent."),
        _task("You are given a text and name the emotion in it, such as joy, anger, sadness, fear or surprise."),
        _task("You are given a text and look for another sentence that would say the same thing in other words."),
        _task("You are given a text and find a synonym for its most important word that fits the context."),
        _task("You are given a text and pick out the one key fact that somebody should remember of it."),
        _task("You are given a text and find the main entity in it, or the relation between the entities."),
    ),
}
"""One-word prompts by name; the vectors of several are averaged."""

DEMONSTRATIONS: dict[str, tuple[str, str]] = {
    "orchard": ("Farm workers are picking ripe apples from the trees.", "Harvest"),
    "turbine": ("The turbine was shut down after one of its bearings overheated.", "Failure"),
    "moons": ("How many moons does the planet Jupiter have?", "Astronomy"),
    "puppy": ("A small dog runs across the grass after a ball.", "Playing"),
    "korean": ("눈이 많이 와서 기차가 두 시간 늦게 도착했다.", "지연"),
}
"""A text and the word that it means, by name."""

ECHO_PROMPTS: dict[str, EchoTemplate] = {
    "rewrite": EchoTemplate("Rewrite the sentence:", ", rewritten sentence:"),
    "repeat": EchoTemplate("Repeat the following text.\nText:", "\nThe same text again:"),
    "plain": EchoTemplate("Sentence:", "\nSentence:"),
}
"""Prompts that say a text twice, by name; ``rewrite`` is that of the paper."""
