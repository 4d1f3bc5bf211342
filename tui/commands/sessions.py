"""``slotrag sessions``: the conversations kept in the library."""

from __future__ import annotations

import time
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from .. import passages
from ..invocation import Invocation
from ..output import bold, clean, say, say_json, say_table
from ..paths import given_path

if TYPE_CHECKING:
    from ...rag.library import Library
    from ...rag.sessions import MessageRecord

app = typer.Typer(add_completion=False, rich_markup_mode=None, help="List, show, export and delete conversations.")

SessionId = Annotated[str, typer.Argument(metavar="ID", help="Id of the conversation, or its beginning.")]


@app.callback(invoke_without_command=True)
def default(context: typer.Context) -> None:
    if context.invoked_subcommand is None:
        _list(context.obj, query=None, as_json=False)


@app.command("list")
def list_sessions(
    context: typer.Context,
    query: Annotated[str | None, typer.Argument(help="Only those that hold these words.")] = None,
    as_json: Annotated[bool, typer.Option("--json", help="Write JSON.")] = False,
) -> None:
    """List the conversations, the latest first."""
    _list(context.obj, query=query, as_json=as_json)


@app.command()
def show(
    context: typer.Context,
    session_id: SessionId,
    as_json: Annotated[bool, typer.Option("--json", help="Write JSON.")] = False,
) -> None:
    """Show a conversation with the excerpts it cited."""
    from ...rag.sessions import as_value, title_of

    invocation: Invocation = context.obj
    with invocation.library(invocation.settings()) as library:
        session = library.session(_full_id(library, session_id))
    if as_json:
        say_json(as_value(session))
        return
    # The title is the first question, unless it was changed.
    first = next((message.text for message in session.messages if message.role == "user"), "")
    blocks = [] if session.title == title_of(first) else [[bold(clean(session.title))]]
    blocks += [_message_lines(message) for message in session.messages]
    say("\n\n".join("\n".join(lines) for lines in blocks))


def _message_lines(message: MessageRecord) -> list[str]:
    """A question, or an answer with the excerpts it cited."""
    if message.role == "user":
        return [f"{bold('>')} {clean(message.text)}"]
    lines = [clean(message.text)]
    for citation in message.citations:
        first, last = citation.get("lines") or (1, 1)
        where = passages.place(str(citation.get("path", "")), (first, last), citation.get("page"))
        lines.append(f"[{citation.get('number')}] {where}")
        lines += [f"    {line}".rstrip() for line in clean(str(citation.get("excerpt", ""))).splitlines()]
    return lines


@app.command()
def export(
    context: typer.Context,
    session_id: SessionId,
    form: Annotated[str, typer.Option("--format", metavar="markdown|json", help="Form of the text.")] = "markdown",
    output: Annotated[
        Path | None,
        typer.Option("--output", "-o", parser=given_path, metavar="FILE", help="Write to FILE instead of stdout."),
    ] = None,
) -> None:
    """Write a conversation as Markdown or JSON."""
    invocation: Invocation = context.obj
    with invocation.library(invocation.settings()) as library:
        text = library.export_session(_full_id(library, session_id), form)
    if output is None:
        say(text.rstrip("\n"))
        return
    output.write_text(text, encoding="utf-8")
    invocation.notice(f"written to {output}")


@app.command()
def delete(
    context: typer.Context,
    session_ids: Annotated[
        list[str], typer.Argument(metavar="ID...", help="Ids of the conversations, or their beginnings.")
    ],
) -> None:
    """Delete conversations."""
    invocation: Invocation = context.obj
    with invocation.library(invocation.settings()) as library:
        for session_id in [_full_id(library, given) for given in session_ids]:
            library.delete_session(session_id)
            invocation.notice(f"{session_id} is deleted")


def _full_id(library: Library, given: str) -> str:
    from ...rag.sessions import full_id

    return full_id(library.sessions(), given)


def _list(invocation: Invocation, *, query: str | None, as_json: bool) -> None:
    with invocation.library(invocation.settings()) as library:
        sessions = library.sessions(query)
    if as_json:
        rows = [
            {
                "id": session.id,
                "title": session.title,
                "messages": session.message_count,
                "created_at": session.created_at,
                "updated_at": session.updated_at,
            }
            for session in sessions
        ]
        say_json({"schema": 1, "sessions": rows})
        return
    when = [time.strftime("%Y-%m-%d %H:%M", time.localtime(session.updated_at)) for session in sessions]
    say_table(
        ("id", "last", "messages", "title"),
        [(session.id, at, session.message_count, session.title) for session, at in zip(sessions, when, strict=True)],
    )
    if not sessions:
        invocation.notice("no conversations")
