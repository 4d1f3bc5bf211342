"""Runs commands of slotrag in forked processes in which a chosen system call fails. Started by `fault_injection`.

Everything is imported once, so that a run takes a fraction of a second. One line of JSON in, one out; see
`fault_injection.Server.run`.
"""

import ctypes
import errno
import json
import os
import resource
import sys
import tempfile
from pathlib import Path

KINDS = {"kill": -1, "torn": -2}
"""What happens at the call, besides failing with an error of that name."""

LASTING = {"ENOSPC", "EACCES"}
"""A full disk stays full; a read error may pass."""


def arm(library, fault):
    preloaded = ctypes.CDLL(None)
    kind, after = fault
    number = KINDS.get(kind) or getattr(errno, kind, 0)
    preloaded.fault_arm(os.fsencode(library), ctypes.c_long(after), number, int(kind in LASTING))


def picture(library):
    """Everything that a library shows, as JSON can hold it."""
    from libraries import documents, open_library, passages, results

    with open_library(Path(library)) as opened:
        catalog = opened._catalog
        if not catalog.collections():
            return {"integrity": catalog.integrity_check(full=True), "documents": [], "passages": [], "results": []}
        return {
            "integrity": catalog.integrity_check(full=True),
            "documents": documents(opened),
            "passages": [[*row[:-1], row[-1].hex()] for row in passages(opened)],
            "results": [
                [mode, *row] for mode in ("dense", "lexical") for row in results(opened, "copper bridge", mode)
            ],
            "pending": opened.collections()[0].pending,
        }


def run(request):
    """What the forked process does; its exit status."""
    from slotrag.tui import cli

    if request["limit"]:
        resource.setrlimit(resource.RLIMIT_FSIZE, (request["limit"],) * 2)
    if request["uid"]:
        os.setgroups([])
        os.setgid(request["uid"])
        os.setuid(request["uid"])
    if request["arguments"] == ["picture"]:
        print(json.dumps(picture(request["library"])))
        return 0
    if request["arguments"][0] == "verify":
        left = picture(request["library"])
        code = cli.run([*request["arguments"][1:], "--library", request["library"]])
        print("\n" + json.dumps({"left": left, "code": code, "after": picture(request["library"])}))
        return 0
    if request["fault"]:
        arm(request["library"], request["fault"])
    if request["arguments"][0] == "python":
        try:
            exec(request["arguments"][1], {"library": Path(request["library"])})
        except Exception as error:
            from slotrag.tui import failures

            return failures.report(error, debug=False)
        return 0
    return cli.run([*request["arguments"], "--library", request["library"]])


def forked(request):
    """Run in a process of its own; its exit code, its output, and how many calls were counted."""
    with tempfile.TemporaryFile() as out, tempfile.TemporaryFile() as err:
        child = os.fork()
        if not child:
            os.dup2(out.fileno(), 1)
            os.dup2(err.fileno(), 2)
            code = 99
            try:
                code = run(request)
                sys.stdout.flush()
                sys.stderr.flush()
            except BaseException:
                import traceback

                traceback.print_exc()
                sys.stderr.flush()
            finally:
                os._exit(code)
        _, status = os.waitpid(child, 0)
        texts = [os.pread(file.fileno(), 1 << 24, 0).decode() for file in (out, err)]
    count = ctypes.CDLL(None).fault_count()
    return {"code": os.waitstatus_to_exitcode(status), "out": texts[0], "err": texts[1], "count": count}


def warm_up():
    """Import all that a run imports, by doing one."""
    from slotrag.tui import cli

    with tempfile.TemporaryDirectory() as folder:
        docs = Path(folder) / "docs"
        docs.mkdir()
        (docs / "a.md").write_text("# One\n\nCopper bridge.\n")
        (docs / "a.txt").write_text("Copper bridge.\n")
        library = f"{folder}/library"
        saved = os.dup(1)
        os.dup2(2, 1)
        for arguments in (["index", str(docs)], ["search", "copper"], ["rebuild"], ["remove", str(docs)], ["doctor"]):
            cli.run([*arguments, "--library", library, "--quiet"])
        sys.stdout.flush()
        os.dup2(saved, 1)
        picture(library)


def main():
    arm("/none", ("kill", 0))
    warm_up()
    print("ready", flush=True)
    for line in sys.stdin:
        print(json.dumps(forked(json.loads(line))), flush=True)


if __name__ == "__main__":
    main()
