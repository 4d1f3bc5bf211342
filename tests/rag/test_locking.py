import subprocess
import sys
import threading
import time

import pytest
from slotrag.rag.events import Cancelled, CancelToken
from slotrag.rag.locking import LibraryLocked, LibraryNotWritable, WriterLock

HOLDER = """
import sys, time
from pathlib import Path
from slotrag.rag.locking import WriterLock
with WriterLock(Path(sys.argv[1])):
    print("held", flush=True)
    time.sleep(60)
"""


@pytest.fixture
def holder(tmp_path):
    """Another process that holds the lock."""
    process = subprocess.Popen([sys.executable, "-c", HOLDER, str(tmp_path)], stdout=subprocess.PIPE, text=True)
    assert process.stdout.readline() == "held\n"
    yield process
    process.kill()
    process.wait()


def test_a_second_writer_declines(tmp_path, holder):
    with pytest.raises(LibraryLocked, match="--no-wait"), WriterLock(tmp_path, wait=False):
        pass


def test_a_killed_holders_lock_is_taken_over(tmp_path, holder):
    holder.kill()
    holder.wait()
    with WriterLock(tmp_path, wait=False):
        pass


def test_waiting_is_reported_and_ends_when_the_other_does(tmp_path, holder):
    events = []
    threading.Timer(0.5, holder.kill).start()
    with WriterLock(tmp_path, listener=events.append):
        pass
    assert events[0].stage == "wait" and "another slotrag process" in events[0].message


def test_waiting_can_be_cancelled(tmp_path, holder):
    cancel = CancelToken()
    threading.Timer(0.3, cancel.cancel).start()
    started = time.monotonic()
    with pytest.raises(Cancelled), WriterLock(tmp_path, cancel=cancel):
        pass
    assert time.monotonic() - started < 5


def test_threads_of_one_process_exclude_each_other(tmp_path):
    inside = []

    def work():
        for _ in range(20):
            with WriterLock(tmp_path):
                inside.append(1)
                assert len(inside) == 1
                inside.pop()

    threads = [threading.Thread(target=work) for _ in range(2)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join(60)
    with WriterLock(tmp_path, wait=False), pytest.raises(LibraryLocked), WriterLock(tmp_path, wait=False):
        pass


def test_released_after_an_error(tmp_path):
    with pytest.raises(ZeroDivisionError), WriterLock(tmp_path):
        raise ZeroDivisionError
    with WriterLock(tmp_path, wait=False):
        pass


def test_a_folder_that_cannot_be_written(tmp_path, monkeypatch):
    import errno

    def refuse(*args, **kwargs):
        raise OSError(errno.EROFS, "Read-only file system")

    monkeypatch.setattr("filelock.FileLock.acquire", refuse)
    with pytest.raises(LibraryNotWritable, match="searching works"), WriterLock(tmp_path):
        pass
