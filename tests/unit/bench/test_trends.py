"""bench.support.trends: a slope is found where there is one, and noise is not taken for one."""

from __future__ import annotations

from random import Random

import pytest

from bench.support.trends import HOUR, fit, plot


def test_a_line_is_found_exactly_and_too_few_points_say_nothing() -> None:
    line = fit([(float(second), 5.0 + 0.01 * second) for second in range(100)])
    assert line.slope == pytest.approx(0.01 * HOUR)
    assert line.error == pytest.approx(0.0, abs=1e-6)
    assert line.level == pytest.approx(5.0 + 0.01 * 49.5)
    assert fit([]).slope == fit([(0.0, 1.0), (1.0, 2.0)]).slope == 0.0


def test_steps_are_no_trend_and_a_leak_beneath_them_is() -> None:
    random, level, steps = Random(7), 0.0, []
    for second in range(0, 1200, 5):
        level = 0.9 * level + random.gauss(0, 1)
        steps.append((float(second), 200 + level))
    still = fit(steps)
    assert abs(still.slope) < 3 * still.error
    leaking = fit([(at, value + at * 0.02) for at, value in steps])
    assert leaking.slope > 4 * leaking.error
    assert leaking.told()["errors"] > 4


def test_a_plot_names_its_series_and_escapes_them() -> None:
    drawn = plot({"MB of <web>": [(0.0, 1.0), (5.0, 2.0)], "nothing": []})
    assert "MB of &lt;web&gt;: 2.0" in drawn
    assert drawn.count("<polyline") == 2
