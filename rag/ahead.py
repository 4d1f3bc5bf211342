"""Work done by another thread ahead of the one that needs it, within bounds. It knows not what the work is."""

from __future__ import annotations

import threading
from collections import deque
from collections.abc import Callable, Generator, Iterable, Iterator
from typing import Generic, TypeVar

In = TypeVar("In")
Out = TypeVar("Out")


def ahead(
    function: Callable[[In], Out],
    items: Iterable[In],
    *,
    weigh: Callable[[Out], int] = lambda result: 1,
    budget: int,
) -> Generator[Out, None, None]:
    """`function` of each item, in order, computed by another thread ahead of the caller.

    The thread pauses while the results that wait weigh more than `budget` (one result may always wait). An error
    reaches the caller in its place and ends the work; so does closing the iterator, after the item in hand.

    Examples
    --------
    >>> list(ahead(str.upper, ["a", "b"], budget=1))
    ['A', 'B']
    """
    work = _Ahead(function, items, weigh, budget)
    work.start()
    try:
        yield from work.results()
    finally:
        work.stop()


class _Ahead(threading.Thread, Generic[In, Out]):
    """The thread and what it has ready."""

    def __init__(
        self, function: Callable[[In], Out], items: Iterable[In], weigh: Callable[[Out], int], budget: int
    ) -> None:
        super().__init__(name="slotrag-ahead", daemon=True)
        self._function, self._items, self._weigh, self._budget = function, items, weigh, budget
        self._ready: deque[tuple[Out, int]] = deque()
        self._weight = 0
        self._changed = threading.Condition()
        self._stopped = self._finished = False
        self._error: BaseException | None = None

    def run(self) -> None:
        try:
            for item in self._items:
                result = self._function(item)
                if not self._put(result, self._weigh(result)):
                    return
        except BaseException as error:  # handed to the caller's thread
            self._error = error
        finally:
            with self._changed:
                self._finished = True
                self._changed.notify_all()

    def _put(self, result: Out, weight: int) -> bool:
        """Offer a result; whether to go on."""
        with self._changed:
            self._ready.append((result, weight))
            self._weight += weight
            self._changed.notify_all()
            self._changed.wait_for(lambda: self._stopped or not self._ready or self._weight <= self._budget)
            return not self._stopped

    def results(self) -> Iterator[Out]:
        """The results as they come."""
        while True:
            with self._changed:
                self._changed.wait_for(lambda: self._ready or self._finished)
                if not self._ready:
                    break
                result, weight = self._ready.popleft()
                self._weight -= weight
                self._changed.notify_all()
            yield result
        if self._error is not None:
            raise self._error

    def stop(self) -> None:
        """End the work and wait for the item in hand."""
        with self._changed:
            self._stopped = True
            self._changed.notify_all()
        self.join()
