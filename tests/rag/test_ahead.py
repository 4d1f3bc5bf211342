import threading
import time

import pytest
from hypothesis import given
from hypothesis import strategies as st
from slotrag.rag.ahead import ahead


@given(st.lists(st.integers(0, 9)), st.integers(0, 20))
def test_order_is_kept_under_any_budget(items, budget):
    assert list(ahead(lambda n: n * 2, items, weigh=lambda n: n, budget=budget)) == [n * 2 for n in items]


def test_it_goes_ahead_within_its_budget():
    done = []
    results = ahead(lambda n: done.append(n) or n, range(100), budget=5)
    assert next(results) == 0
    time.sleep(0.2)
    assert 5 <= len(done) <= 8
    assert list(results) == list(range(1, 100))


def test_a_heavy_result_does_not_stop_it():
    assert list(ahead(lambda n: n, range(5), weigh=lambda n: 1000, budget=1)) == list(range(5))


def test_an_error_comes_in_its_place():
    seen = []
    with pytest.raises(ZeroDivisionError):
        for result in ahead(lambda n: 1 // (3 - n), range(9), budget=100):
            seen.append(result)
    assert seen == [0, 0, 1]


def test_closing_ends_the_thread():
    before = threading.active_count()
    results = ahead(lambda n: n, iter(int, 1), budget=3)
    next(results)
    results.close()
    assert threading.active_count() == before


def test_the_work_is_done_by_another_thread():
    (name,) = set(ahead(lambda n: threading.current_thread().name, range(3), budget=9))
    assert name != threading.current_thread().name
