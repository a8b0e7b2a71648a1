"""jiyi.client.caller: so many calls at a time, the others in their order, and the right words when the time
is up.
"""

from __future__ import annotations

import asyncio
import threading

import pytest

from jiyi.client.caller import AsyncCallSlots, CallSlots
from jiyi.errors import NoAnswer
from jiyi.polling import poll

PATIENCE_SECONDS = 60.0


def waiting(turns: CallSlots) -> int:
    return len(turns.waiting)


def test_threads_get_their_turns_in_the_order_in_which_they_came() -> None:
    turns, order, threads = CallSlots(1), list[int](), list[threading.Thread]()

    def work(number: int) -> None:
        with turns.one("t", PATIENCE_SECONDS):
            order.append(number)

    with turns.one("t", 1):
        for number in range(20):
            threads.append(threading.Thread(target=work, args=(number,)))
            threads[-1].start()
            assert (
                poll(lambda: waiting(turns), lambda count, most=number + 1: count == most, PATIENCE_SECONDS)
                == number + 1
            )
        assert order == []
    for thread in threads:
        thread.join(PATIENCE_SECONDS)
    assert order == list(range(20))
    with turns.one("t", 1):
        assert waiting(turns) == 0


def test_a_thread_without_a_turn_hears_that_nothing_was_sent_and_waits_no_longer() -> None:
    turns = CallSlots(1)
    with (
        turns.one("first", 1),
        pytest.raises(NoAnswer, match=r"second was not sent: .* 1 concurrent calls"),
        turns.one("second", 0.01),
    ):
        pass
    assert waiting(turns) == 0
    with turns.one("third", 0.01) as left:
        assert 0 <= left <= 0.01


def test_tasks_get_theirs_in_order_and_a_cancelled_one_takes_none() -> None:
    async def run() -> list[int]:
        turns, order = AsyncCallSlots(1), list[int]()

        async def work(number: int) -> None:
            async with turns.one("t", PATIENCE_SECONDS):
                order.append(number)

        async with turns.one("t", 1):
            tasks = [asyncio.create_task(work(number)) for number in range(10)]
            await asyncio.sleep(0)
            tasks[3].cancel()
            with pytest.raises(NoAnswer, match="was not sent"):
                async with turns.one("late", 0.01):
                    pass
        await asyncio.gather(*tasks, return_exceptions=True)
        return order

    assert asyncio.run(run()) == [0, 1, 2, 4, 5, 6, 7, 8, 9]
