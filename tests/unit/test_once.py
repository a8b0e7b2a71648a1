"""jiyi.once: what is made once for all threads, or once for each argument, and forgotten on request."""

import time
from concurrent.futures import ThreadPoolExecutor
from threading import Event

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


def test_what_a_thread_was_still_making_when_all_was_forgotten_is_not_kept() -> None:
    making, go_on = Event(), Event()
    values = iter(["old", "new"])

    @once
    def value() -> str:
        made = next(values)
        if made == "old":
            making.set()
            assert go_on.wait(10)
        return made

    with ThreadPoolExecutor(2) as threads:
        late = threads.submit(value)
        assert making.wait(10)
        forgetting = threads.submit(value.cache_clear)
        with pytest.raises(TimeoutError):
            forgetting.result(0.05)
        go_on.set()
        assert late.result(10) == "old"
        forgetting.result(10)
    assert value() == "new"


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
