"""The prompts that rows are trained and measured with, and the tokens that are to follow. It knows no compressor.

What stands in place of a passage is the caller's choice: its slots, its own tokens, or nothing.
"""

from __future__ import annotations

import hashlib
from collections.abc import Callable, Sequence
from typing import TYPE_CHECKING, Any

from ....encoders.backbones.chat_template import ChatTemplate
from ...prompting import SHORT_FORM, SMALL_FORM, PromptForm
from ..reading import AuthorsForm, Beside, ChatForm, ReadingForm, reading_form
from .drawing import AUTOENCODE, CONTINUE, Row
from .token_store import REPLY

if TYPE_CHECKING:
    import torch

BRIEF_FORM = PromptForm(SHORT_FORM.instruction, SHORT_FORM.reply_prefix)
"""The short-answer prompt without its examples, which would take most of a step."""

UNSCORED = 8
"""The first tokens of a continuation, which nothing tells, carry no loss (getao/icae)."""

_WITH_EXAMPLES = 4
"""Of so many short answers one is asked for with the examples, as they are when answers are measured."""


class Wording:
    """Puts rows into words for one decoder.

    Parameters
    ----------
    name : str
        The configuration's ``prompt``.
    template : ChatTemplate
    eos : int or None
    special_row : callable
        The compressor's table row of a name; for the authors' prompt.
    """

    def __init__(
        self, name: str, template: ChatTemplate, eos: int | None, special_row: Callable[[str], torch.Tensor]
    ) -> None:
        self._form: ReadingForm = reading_form(name, template, eos, special_row)
        self._tokens = template.tokens
        self._line = template.tokens.plain("\n")
        self._questions: dict[PromptForm, ReadingForm] = {
            form: ChatForm(template, eos, form) for form in (SMALL_FORM, BRIEF_FORM, SHORT_FORM)
        }
        self._is_authors = isinstance(self._form, AuthorsForm)

    def prompt(self, row: Row, contexts: Sequence[Any]) -> list[Any]:
        """The parts of the prompt, with one part for each of the row's contexts."""
        if row.objective == AUTOENCODE:
            return self._form.autoencoding(contexts[0])
        if row.objective == CONTINUE:
            return self._form.continuation(contexts[0])
        form = self._form if self._is_authors else self._questions[_form_of(row)]
        return form.instruction(self.beside(contexts), row.question)

    def beside(self, contexts: Sequence[Any]) -> list[Any]:
        """Several passages of one prompt, each ended by a line break; one stands alone."""
        if len(contexts) == 1:
            return [contexts[0]]
        return [Beside([[context, self._line] for context in contexts])]

    def target(self, row: Row) -> tuple[list[int], int]:
        """What is to follow the prompt, and how many of its first tokens carry no loss."""
        if row.objective == CONTINUE:
            return list(row.target), min(UNSCORED, len(row.target) - 1)
        if row.objective == AUTOENCODE:
            return [*row.target, *self._form.ending], 0
        answer = row.answers[0].strip()
        opened = "" if self._is_authors or not _form_of(row).reply_prefix else " "
        return [*self._tokens.plain(opened + answer), *self._form.ending], 0


def _form_of(row: Row) -> PromptForm:
    if row.kind == REPLY:
        return SMALL_FORM
    chosen = hashlib.sha256(row.question.encode("utf-8", "surrogateescape")).digest()[0] % _WITH_EXAMPLES
    return SHORT_FORM if chosen == 0 else BRIEF_FORM
