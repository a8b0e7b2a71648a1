"""jiyi.once: what is made once for all threads, or once for each argument, and forgotten on request."""

import time
from concurrent.futures import ThreadPoolExecutor

import pytest

from jiyi.once import once, once_each


def test_threads_that_ask_at_once_get_the_same_one():
    made = []

    @once
    def pool() -> object:
        time.sleep(0.01)  # long enough for all the threads to ask
        made.append(object())
        return made[-1]

    with ThreadPoolExecutor(8) as threads:
        got = list(threads.map(lambda _: pool(), range(8)))
    assert len(made) == 1
    assert set(got) == set(made) == set(pool.made())


def test_a_failure_is_not_kept():
    answers = iter([OSError("not yet"), "there"])

    @once
    def connection() -> str:
        answer = next(answers)
        if isinstance(answer, OSError):
            raise answer
        return answer

    with pytest.raises(OSError, match="not yet"):
        connection()
    assert connection() == connection() == "there"


def test_each_keeps_a_bounded_number_and_forgets_all_on_request():
    made = []

    @once_each(2)
    def model(name: str) -> str:
        made.append(name)
        return name

    for name in ("a", "b", "a", "c", "b", "a"):
        assert model(name) == name
    assert made == ["a", "b", "c", "a"]
    assert list(model.made()) == ["c", "a"]
    model.cache_clear()
    assert not list(model.made())
