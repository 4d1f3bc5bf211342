"""``slotrag doctor``: whether the library is whole and the installation complete."""

from __future__ import annotations

from dataclasses import asdict
from importlib.util import find_spec
from typing import TYPE_CHECKING, Annotated

import typer

from .. import failures
from ..invocation import Invocation
from ..output import clean, say, say_json
from ..retrieval_options import AsJson

if TYPE_CHECKING:
    from ...rag.doctor import Finding

app = typer.Typer(add_completion=False, rich_markup_mode=None)


@app.command()
def doctor(
    context: typer.Context,
    fix: Annotated[bool, typer.Option("--fix", help="Put right what can be put right.")] = False,
    as_json: AsJson = False,
) -> None:
    """Check the library and this installation."""
    invocation: Invocation = context.obj
    settings = invocation.settings()
    findings = _installation()
    if not any(finding.severity == "error" for finding in findings):
        with invocation.library(settings) as library:
            findings += library.doctor(fix)
    if as_json:
        say_json({"schema": 1, "findings": [asdict(finding) for finding in findings]})
    else:
        for finding in findings:
            say(_line(finding))
    if any(finding.severity == "error" and not finding.fixed for finding in findings):
        raise typer.Exit(failures.ERROR)


def _installation() -> list[Finding]:
    """What is missing of the packages that searching and answering need, found without importing them."""
    from ...rag.doctor import Finding

    found = []
    needed = {
        "faiss": 'pip install "slotrag[cpu]"',
        "torch": "pip install torch",
        "transformers": "pip install slotrag",
    }
    for name, command in needed.items():
        if find_spec(name) is None:
            found.append(Finding("installation", "error", f"The package {name} is missing.", command=command))
    return found or [Finding("installation", "ok", "The packages that slotrag needs are installed.")]


def _line(finding: Finding) -> str:
    mark = "fixed" if finding.fixed else finding.severity
    advice = f" To do: {finding.command}" if finding.command and not finding.fixed else ""
    return clean(f"{mark:<8} {finding.check}: {finding.message}{advice}")
