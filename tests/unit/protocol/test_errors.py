"""jiyi.errors: one sentence per wrong field, and codes that do not change."""

from __future__ import annotations

from typing import Literal

import pytest
from pydantic import BaseModel, Field, ValidationError, field_validator, model_validator

from jiyi import errors
from jiyi.errors import BY_CODE, InvalidEvent, InvalidRequest, JiyiError, join_problems, problems_of


class Inner(BaseModel):
    number: int = Field(ge=1)


class Model(BaseModel):
    model_config = {"extra": "forbid"}

    name: str
    colour: Literal["red", "green"] = "red"
    inner: list[Inner] = []

    @field_validator("name")
    @classmethod
    def _no_dots(cls, value: str) -> str:
        if "." in value:
            raise ValueError("leave out the dots")
        return value


def problems(**fields: object) -> list[str]:
    with pytest.raises(ValidationError) as caught:
        Model(**fields)
    return problems_of(caught.value)


def test_each_wrong_field_is_a_sentence_with_its_path_what_is_wrong_and_what_was_given() -> None:
    assert problems() == ["name: required, but missing"]
    assert problems(name=7) == ["name: Input should be a valid string (got 7)"]
    assert problems(name="a.b") == ["name: leave out the dots"]
    assert problems(name="a", colour="blue") == ["colour: Input should be 'red' or 'green' (got 'blue')"]
    assert problems(name=["long"]) == ["name: Input should be a valid string"]
    assert problems(name="a", inner=[{"number": 1}, {"number": 0}], mood=1) == [
        "inner.1.number: Input should be greater than or equal to 1 (got 0)",
        "mood: Extra inputs are not permitted (got 1)",
    ]


def test_a_long_value_is_cut_and_a_model_as_a_whole_is_called_value() -> None:
    (problem,) = problems(name="a", colour="x" * 1_000_000)
    assert len(problem) < 200
    assert "1,000,000 characters" in problem
    with pytest.raises(ValidationError) as caught:
        Model.model_validate(7)
    (problem,) = problems_of(caught.value)
    assert problem.startswith("value: ")


@pytest.mark.parametrize("cls", [InvalidEvent, InvalidRequest])
def test_refusals_keep_every_problem_and_show_ten(cls: type[InvalidEvent | InvalidRequest]) -> None:
    error = cls([f"f{i}: wrong" for i in range(12)])
    assert len(error.problems) == 12
    assert str(error).endswith("f9: wrong; and 2 more")
    assert isinstance(error, ValueError)
    assert (join_problems([]), join_problems(["a: x", "b: y"])) == ("", "a: x; b: y")


def test_every_error_has_a_code_of_its_own_and_is_also_the_builtin_one_a_caller_expects() -> None:
    classes = {cls for cls in vars(errors).values() if isinstance(cls, type) and issubclass(cls, JiyiError)}
    assert set(BY_CODE.values()) == classes
    assert all(BY_CODE[cls.code] is cls for cls in classes)
    expected = {
        "BrokerUnavailable": ConnectionError,
        "NoAnswer": TimeoutError,
        "NotFound": LookupError,
        "SettingsError": ValueError,
    }
    for name, builtin in (expected | {"ModelMismatch": ValueError}).items():
        assert issubclass(getattr(errors, name), builtin), name


class Hours(BaseModel):
    start: str = Field(pattern="^..:..$")

    @model_validator(mode="after")
    def _some(self) -> Hours:
        return self


class Night(BaseModel):
    quiet: Hours | Literal["off"] | None = None


def test_the_members_of_a_union_are_no_part_of_the_path() -> None:
    with pytest.raises(ValidationError) as caught:
        Night.model_validate({"quiet": {"start": "late"}})
    assert [problem.partition(":")[0] for problem in problems_of(caught.value)] == ["quiet.start", "quiet"]
