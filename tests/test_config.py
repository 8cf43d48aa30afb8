"""Configuration: who has the last word, and what is said about input that cannot be used."""

from __future__ import annotations

from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st
from msgspec.structs import fields

from cases import each_case
from weft.config import (
    DEFAULT_LIMITS,
    Config,
    Stated,
    Tuning,
    is_settable,
    load,
    parse,
    variable,
)
from weft.errors import InputError

LIMITS = sorted(DEFAULT_LIMITS)


def test_without_any_configuration_the_built_in_numbers_hold() -> None:
    config = parse("", {})
    assert config == Config(limits=dict(DEFAULT_LIMITS))
    assert (config.store, config.slots, dict(config.stated)) == (None, None, {})
    assert dict(config.limits) == {
        "llm": 12,
        "requests": 24,
        "runs": 4,
        "run/agents": 4,
        "run/teams": 2,
        "team/members": 4,
        "stage/test": 4,
        "stage/implement": 4,
        "stage/review": 1,
        "stage/judge": 1,
    }
    assert (config.worker_slots, config.api_slots) == (4, 1)


def test_the_numbers_behind_leases_are_those_of_the_design() -> None:
    tuning = Tuning()
    assert (tuning.lease, tuning.heartbeat, tuning.gone_after) == (60, 15, 120)
    assert (tuning.drift, tuning.kill_grace, tuning.silence) == (5, 10, 135)
    assert (tuning.bypasses, tuning.in_a_row, tuning.queue, tuning.pattern) == (20, 2, 1000, 3)
    assert (tuning.class_age, tuning.priority_age) == (20, 60)
    assert (tuning.penalty_max, tuning.penalty_decay, tuning.penalty_successes) == (4, 60, 5)


@each_case("limit", LIMITS)
def test_the_file_beats_the_built_in_and_the_environment_beats_the_file(limit: str) -> None:
    text = f'[limits]\n"{limit}" = 101\n'
    from_file = parse(text, {})
    work = ("stage/test", "stage/implement") if limit == "run/agents" else ()
    assert from_file.limits == {**DEFAULT_LIMITS, **dict.fromkeys(work, 101), limit: 101}
    assert from_file.stated == {limit: Stated(value=101, source="weft.toml")}
    from_both = parse(text, {variable(limit): "102"})
    assert from_both.limits == {**DEFAULT_LIMITS, **dict.fromkeys(work, 102), limit: 102}
    assert from_both.stated == {limit: Stated(value=102, source=variable(limit))}
    from_environment = parse("", {variable(limit): "0"})
    assert from_environment.limits == {**DEFAULT_LIMITS, limit: 0}


def test_variables_are_spelt_like_their_limits() -> None:
    assert variable("llm") == "WEFT_LIMIT_LLM"
    assert variable("stage/test") == "WEFT_LIMIT_STAGE_TEST"
    assert variable("provider:open-ai") == "WEFT_LIMIT_PROVIDER_OPEN_AI"
    assert len({variable(limit) for limit in DEFAULT_LIMITS}) == len(DEFAULT_LIMITS)


def test_a_provider_is_limited_by_name() -> None:
    assert parse('[limits]\n"provider:acme" = 3', {}).limits["provider:acme"] == 3
    assert parse("", {"WEFT_LIMIT_PROVIDER_ACME": "2"}).limits["provider:acme"] == 2
    text = '[limits]\n"provider:open-ai" = 3'
    config = parse(text, {"WEFT_LIMIT_PROVIDER_OPEN_AI": "5"})
    assert config.stated == {
        "provider:open-ai": Stated(value=5, source="WEFT_LIMIT_PROVIDER_OPEN_AI")
    }


@each_case("odd", [r"a\nb", r"a\u001b[31m", r"a\u007f"])
def test_a_provider_has_a_name_that_can_be_printed(odd: str) -> None:
    with pytest.raises(InputError, match="unknown limit") as refused:
        parse(f'[limits]\n"provider:{odd}" = 3', {})
    assert str(refused.value).isprintable()
    with pytest.raises(InputError) as refused:
        parse("", {f"WEFT_LIMIT_PROVIDER_{odd.encode().decode('unicode_escape')}": "3"})
    assert str(refused.value).isprintable()


def test_a_provider_has_a_name() -> None:
    assert not is_settable("provider:")
    with pytest.raises(InputError):
        parse('[limits]\n"provider:" = 3', {})
    with pytest.raises(InputError):
        parse("", {"WEFT_LIMIT_PROVIDER_": "3"})


@each_case(
    ("text", "environment", "message"),
    [
        ("[limits]\nlmm = 3", {}, "sets an unknown limit 'lmm'. Did you mean llm?"),
        ("[limits]\nzzzzzz = 3", {}, "Known: llm, requests"),
        ('[limits]\n"worker:w" = 3', {}, "sets an unknown limit 'worker:w'."),
        ("[limit]\nllm = 3", {}, "has an unknown entry 'limit'. Did you mean limits?"),
        ("llm = 3", {}, "weft.toml has an unknown entry 'llm'."),
        ("[store]\nulr = 'x'", {}, "[store] in weft.toml has an unknown entry 'ulr'. Did you mean"),
        ("[server]\nport = 1", {}, "[server] in weft.toml has an unknown entry 'port'."),
        ("[server]\nurl = 'host:7337'", {}, "A server is named by a URL like http"),
        ("[tuning]\nleese = 3", {}, "unknown entry 'leese'. Did you mean lease?"),
        ("[tuning]\nsilence = 3", {}, "[tuning] in weft.toml has an unknown entry 'silence'."),
        ("", {"WEFT_LIMIT_LMM": "3"}, "WEFT_LIMIT_LMM names no limit. Did you mean WEFT_LIMIT_LLM"),
    ],
)
def test_an_unknown_name_is_refused_with_the_nearest_known(
    text: str, environment: dict[str, str], message: str
) -> None:
    with pytest.raises(InputError) as refused:
        parse(text, environment)
    assert message in str(refused.value)
    assert "\n" not in str(refused.value)


@each_case("value", ["-1", "1.5", "true", '"3x"', "[]", "{}", str(2**62)])
def test_a_limit_is_a_whole_number_of_reasonable_size(value: str) -> None:
    with pytest.raises(InputError, match=r"the limit 'llm' in weft\.toml must be a whole"):
        parse(f"[limits]\nllm = {value}", {})


@each_case("value", ["", "-1", "1.5", "many", "9" * 5000])
def test_a_limit_in_the_environment_is_one_too(value: str) -> None:
    with pytest.raises(InputError, match="WEFT_LIMIT_LLM must be a whole number"):
        parse("", {"WEFT_LIMIT_LLM": value})


@each_case(
    "text",
    [
        "= 3",
        "[limits",
        "limits = 3",
        "[store]\nurl = 3",
        "store = 'x'",
        "tuning = []",
        "[tuning]\nlease = 0",
        "[tuning]\nlease = -1.5",
        "[tuning]\nlease = true",
        "[tuning]\nlease = 'long'",
        "[tuning]\nbypasses = 2.5",
        "[tuning]\nqueue = 0",
        "a = 1\na = 2",
        "\ufeffa = 1",
        "a = \0",
    ],
)
def test_what_cannot_be_used_is_refused_in_one_line_that_names_the_file(text: str) -> None:
    with pytest.raises(InputError, match=r"weft\.toml"):
        parse(text, {})


@pytest.mark.parametrize(
    "text",
    [
        pytest.param("a = " + "9" * 5000, id="number-too-long-for-python"),
        pytest.param("a = " + "[" * 5000, id="nested-too-deep-for-python"),
    ],
)
def test_what_breaks_the_parser_itself_is_refused_as_well(text: str) -> None:
    with pytest.raises(InputError, match=r"weft\.toml"):
        parse(text, {})


@each_case("value", ["nan", "inf", "1e999"])
def test_a_time_is_a_finite_number(value: str) -> None:
    with pytest.raises(InputError, match="lease in"):
        parse(f"[tuning]\nlease = {value}", {})


@each_case("name", [setting.name for setting in fields(Tuning) if setting.type is not bool])
def test_every_number_of_tuning_is_read_from_the_file(name: str) -> None:
    tuning = parse(f"[tuning]\n{name} = 7", {}).tuning
    assert getattr(tuning, name) == 7
    rest = [setting.name for setting in fields(Tuning) if setting.name != name]
    assert all(getattr(tuning, setting) == getattr(Tuning(), setting) for setting in rest)
    assert parse("[tuning]\n", {f"WEFT_TUNING_{name.upper()}": "7"}).tuning == tuning


@each_case(
    ("name", "value", "reason"),
    [
        ("WORK_STEALING", "never", "WEFT_TUNING_WORK_STEALING must be true or false"),
        ("CAPACITY_POLL", "0", "WEFT_TUNING_CAPACITY_POLL must be above 0"),
        ("CAPACITY_WAIT", "soon", "WEFT_TUNING_CAPACITY_WAIT must be a number"),
        ("CAPACITY_POL", "1", "Did you mean"),
    ],
)
def test_a_variable_of_tuning_is_refused_like_the_file(name: str, value: str, reason: str) -> None:
    with pytest.raises(InputError, match=reason):
        parse("", {f"WEFT_TUNING_{name}": value})


def test_work_stealing_is_on_and_can_be_turned_off() -> None:
    assert parse("", {}).tuning.preference == Tuning().prefer
    for config in (
        parse("[tuning]\nwork_stealing = false", {}),
        parse("", {"WEFT_TUNING_WORK_STEALING": "0"}),
    ):
        assert config.tuning.preference > 1e8


def test_times_may_be_fractions_of_a_second() -> None:
    assert parse("[tuning]\nlease = 0.5", {}).tuning.lease == 0.5


def test_the_environment_names_the_store_over_the_file() -> None:
    text = "[store]\nurl = 'sqlite:///of-the-file'"
    assert parse(text, {}).store == "sqlite:///of-the-file"
    assert parse(text, {"WEFT_STORE": "postgresql://h/d"}).store == "postgresql://h/d"
    assert parse(text, {"WEFT_STORE": ""}).store == "sqlite:///of-the-file"
    assert parse("", {"WEFT_STORE": "sqlite:///x"}).store == "sqlite:///x"


def test_slots_come_from_the_environment_alone() -> None:
    config = parse("", {"MAX_CONCURRENT_TASKS": "3"})
    assert (config.slots, config.worker_slots, config.api_slots) == (3, 3, 3)
    for bad in ("0", "-1", "", "three", "2.5"):
        with pytest.raises(InputError, match="MAX_CONCURRENT_TASKS must be"):
            parse("", {"MAX_CONCURRENT_TASKS": bad})


def test_a_directory_without_a_file_is_configured_by_the_environment(tmp_path: Path) -> None:
    assert load(tmp_path, {}) == parse("", {})
    (tmp_path / "weft.toml").write_text("[limits]\nllm = 3\n", encoding="utf-8")
    assert load(tmp_path, {"WEFT_LIMIT_RUNS": "2"}).limits["llm"] == 3
    assert load(tmp_path, {"WEFT_LIMIT_RUNS": "2"}).limits["runs"] == 2


def test_a_file_that_cannot_be_read_is_named(tmp_path: Path) -> None:
    (tmp_path / "weft.toml").write_bytes(b"[limits]\nllm = \xff\xfe\n")
    with pytest.raises(InputError, match=r"Cannot read .*weft\.toml"):
        load(tmp_path, {})
    (tmp_path / "weft.toml").unlink()
    (tmp_path / "weft.toml").mkdir()
    with pytest.raises(InputError, match=r"Cannot read .*weft\.toml"):
        load(tmp_path, {})


toml_values = st.recursive(
    st.one_of(
        st.integers(-5, 99).map(str),
        st.sampled_from(["true", "nan", "inf", "'x'", '"\\u0000"', "1979-05-27", "12:30:00"]),
        st.floats(allow_nan=False).map(repr),
    ),
    lambda inner: st.lists(inner, max_size=2).map(lambda items: f"[{', '.join(items)}]"),
    max_leaves=3,
)
keys = st.sampled_from(
    ["llm", '"run/agents"', '"provider:x"', "url", "lease", "queue", "store", "limits", '""']
)
lines = st.one_of(
    st.sampled_from(["[limits]", "[tuning]", "[store]", "[gate]", "[[limits]]", "# note", ""]),
    st.tuples(keys, toml_values).map(" = ".join),
    st.text(max_size=8),
)
environments = st.dictionaries(
    st.one_of(
        st.sampled_from(["WEFT_STORE", "MAX_CONCURRENT_TASKS", *map(variable, LIMITS)]),
        st.text(max_size=5).map(lambda text: f"WEFT_LIMIT_{text}"),
        st.text(max_size=5).map(lambda text: f"WEFT_LIMIT_PROVIDER_{text}"),
    ),
    st.one_of(st.text(max_size=4), st.integers(-2, 9).map(str)),
    max_size=3,
)


@given(st.one_of(st.text(), st.lists(lines, max_size=6).map("\n".join)), environments)
def test_any_input_at_all_gives_a_configuration_or_one_sentence(
    text: str, environment: dict[str, str]
) -> None:
    try:
        config = parse(text, environment)
    except InputError:
        return
    assert all(0 <= value < 2**62 for value in config.limits.values())
    assert all(is_settable(name) for name in config.limits)
    stated = {name: limit.value for name, limit in config.stated.items()}
    assert config.limits.items() >= stated.items()
    rest = config.limits.keys() - {*stated, "stage/test", "stage/implement"}
    assert all(config.limits[name] == DEFAULT_LIMITS[name] for name in rest)
    may_be_nought = ("capacity_wait", "work_stealing")
    assert all(
        getattr(config.tuning, setting.name) > 0
        for setting in fields(Tuning)
        if setting.name not in may_be_nought
    )


def test_prediction_of_files_is_on_and_can_be_turned_off() -> None:
    assert parse("", {}).plan.predict
    assert not parse("[plan]\npredict = false\n", {}).plan.predict
    with pytest.raises(InputError, match="must be true or false"):
        parse('[plan]\npredict = "no"\n', {})
