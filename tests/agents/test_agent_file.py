from __future__ import annotations

from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from cases import each_case
from weft import maintenance
from weft.agents.agent import (
    PROGRAMS,
    RECORDED,
    SCRIPTED,
    Agent,
    AgentBudget,
    Prices,
)
from weft.agents.agent_file import parse_agent
from weft.config import BoxKind
from weft.errors import InputError

TEMPLATES = Path(maintenance.__file__).parent / "agents"

FULL = """---
description: "Everything: at once"
runs: codex
model: gpt-5.5-codex
args: [--search, "-c", 'model_reasoning_effort="high"']
max_concurrency: 3
stage: implement
capabilities: [python, sql]
needs_labels: gpu, arm64
provider: openai
prices: {input: 1.25, output: 10, cache_read: $0.125}
timeout: 1h 30m
idle_timeout: 90s
budget: {usd: $2.50, tokens: 2M}
sandbox:
  kind: bwrap
  network: no
  write: [~/.config/some, /srv/cache]
  read: ~/.aws
env:
  - OPENAI_API_KEY
  - RUST_LOG: debug
---
Do {{ task.text }}
"""


def read(text: str) -> Agent:
    return parse_agent(text, name="some", file="agents/some.md")


def read_settings(settings: str) -> Agent:
    return read(f"---\nruns: claude\n{settings}\n---\n")


def test_every_setting_is_understood() -> None:
    agent = read(FULL)
    assert agent == Agent(
        name="some",
        file="agents/some.md",
        template="Do {{ task.text }}\n",
        template_line=24,
        runs="codex",
        description="Everything: at once",
        model="gpt-5.5-codex",
        args=("--search", "-c", 'model_reasoning_effort="high"'),
        max_concurrency=3,
        stage="implement",
        capabilities=("python", "sql"),
        needs_labels=("gpu", "arm64"),
        provider="openai",
        # Cached input without a price of its own costs as much as any input.
        prices=Prices(
            input=1_250_000, output=10_000_000, cache_read=125_000, cache_write=1_250_000
        ),
        timeout=5400.0,
        idle_timeout=90.0,
        budget=AgentBudget(micro_usd=2_500_000, tokens=2_000_000),
        sandbox=BoxKind.BWRAP,
        network=False,
        write=("~/.config/some", "/srv/cache"),
        read=("~/.aws",),
        env_passed=("OPENAI_API_KEY",),
        env_set={"RUST_LOG": "debug"},
    )


@each_case("file", sorted(TEMPLATES.glob("*.md")))
def test_what_init_writes_is_a_valid_agent(file: Path) -> None:
    agent = parse_agent(file.read_text(), name=file.stem, file=file.name)
    if file.stem == "try":  # needs no model
        assert (agent.stage, agent.runs, agent.provider) == (None, "scripted", None)
    else:
        assert (agent.stage, agent.runs, agent.provider) == (file.stem, "claude", "anthropic")


@each_case(
    ("settings", "provider"),
    [
        ("runs: claude", "anthropic"),
        ("runs: codex", "openai"),
        ("runs: gemini", "google"),
        ("runs: opencode", "opencode"),
        ("runs: opencode\nmodel: openrouter/some/model", "openrouter"),
        ("runs: opencode\nmodel: a b/some", "opencode"),
        ("runs: claude\nmodel: arn:aws:bedrock:profile/some", "anthropic"),
        ("runs: claude\nprovider: bedrock", "bedrock"),
        ("runs: [/opt/bin/claude, -p]", "anthropic"),
        ("runs: aider --yes", None),
        ("runs: aider --yes\nprovider: acme", "acme"),
        ("runs: scripted", None),
    ],
)
def test_an_agent_has_the_provider_of_its_program(settings: str, provider: str | None) -> None:
    """An agent with a provider counts towards `llm`."""
    assert read(f"---\n{settings}\n---\n").provider == provider


@each_case(
    ("runs", "adapter", "command"),
    [
        ("claude", "claude", ()),
        (
            "aider --message-file {prompt_file} --yes",
            "command",
            ("aider", "--message-file", "{prompt_file}", "--yes"),
        ),
        ("[claude]", "command", ("claude",)),
        ("['my agent', 'a b']", "command", ("my agent", "a b")),
        ("\"sh -c 'echo $HOME; true'\"", "command", ("sh", "-c", "echo $HOME; true")),
    ],
)
def test_runs_is_an_adapter_or_a_command_line_without_a_shell(
    runs: str, adapter: str, command: tuple[str, ...]
) -> None:
    agent = read(f"---\nruns: {runs}\n---\n")
    assert (agent.runs, agent.command) == (adapter, command)


def test_scalars_stay_the_text_that_was_written() -> None:
    agent = read_settings("model: 1_000\ndescription: 2026-11-16\nstage: on")
    assert (agent.model, agent.description, agent.stage) == ("1_000", "2026-11-16", "on")


@each_case("start", ["\ufeff---\n", "---\r\n", "--- \n"])
def test_a_byte_order_mark_and_windows_line_ends_are_read(start: str) -> None:
    end = "\r\n" if "\r" in start else "\n"
    agent = read(start + f"runs: claude{end}---{end}one{end}two{end}")
    assert (agent.runs, agent.template, agent.template_line) == ("claude", "one\ntwo\n", 4)


@each_case(
    ("text", "line", "words"),
    [
        ("", 1, "starts with its settings"),
        ("Just a prompt.\n", 1, "starts with its settings"),
        ("---\nruns: claude\n", 1, "not closed"),
        ("---\n---\n", 1, "`runs` is missing"),
        ("---\n- a\n- b\n---\n", 2, "`key: value`"),
        ("---\nruns: claude\n  bad: : x\n---\n", 3, "not valid YAML"),
        ("---\nruns: claude\nmodel: 'a\n---\n", 3, "not valid YAML"),
        ("---\nruns: claude\nmodel: a\x07b\n---\n", 3, "not allowed"),
        ("---\nruns: claude\nruns: codex\n---\n", 3, "given before, on line 2"),
        ("---\nruns: claude\nmodle: x\n---\n", 3, "Did you mean model?"),
        ("---\nruns: claude\nzzz: x\n---\n", 3, "Known: args"),
        ("---\nruns: claude\n<<: {model: x}\n---\n", 3, "unknown setting"),
        ("---\nruns: claude\nmodel:\n---\n", 3, "has no value"),
        ("---\nruns: claude\nmodel: [a]\n---\n", 3, "must be text"),
        ("---\nruns: codx\n---\n", 2, "must be codex"),
        ("---\nruns: {a: b}\n---\n", 2, "list of arguments"),
        ("---\nruns: []\n---\n", 2, "must be a program"),
        ("---\nruns: agent | tee log\n---\n", 2, "no shell"),
        ("---\nruns: agent 'open\n---\n", 2, "quotes are closed"),
        ("---\nruns: claude\ntimeout: 60\n---\n", 3, "with its unit"),
        ("---\nruns: claude\ntimeout: 0s\n---\n", 3, "above 0"),
        ("---\nruns: claude\ntimeout: -5m\n---\n", 3, "with its unit"),
        ("---\nruns: claude\nmax_concurrency: many\n---\n", 3, "whole number"),
        ("---\nruns: claude\nmax_concurrency: 1.5\n---\n", 3, "whole number"),
        ("---\nruns: claude\nneeds_labels: [gpu, Big]\n---\n", 3, "lower-case letters"),
        ("---\nruns: claude\nneeds_labels: {a: b}\n---\n", 3, "must be"),
        ("---\nruns: claude\nbudget: lots\n---\n", 3, "amount of dollars"),
        ("---\nruns: claude\nbudget: 1e9\n---\n", 3, "amount of dollars"),
        ("---\nruns: claude\nbudget: .nan\n---\n", 3, "amount of dollars"),
        ("---\nruns: claude\nprices:\n  input: 1\n  output: x\n---\n", 5, "amount of dollars"),
        ("---\nruns: claude\nprices:\n  input: 1\n---\n", 3, "at least input and output"),
        ("---\nruns: claude\nprices:\n  input: 1\n  outptu: 2\n---\n", 5, "made of input, output"),
        ("---\nruns: claude\nsandbox: jail\n---\n", 3, "container, landlock, off"),
        ("---\nruns: claude\nsandbox:\n  kind: bwrap\n  network: maybe\n---\n", 5, "yes or no"),
        ("---\nruns: claude\nsandbox:\n  kind: bwrap\n  write: [x/y]\n---\n", 5, "/ or ~/"),
        ("---\nruns: claude\nsandbox:\n  kind: bwrap\n  write: {a: b}\n---\n", 5, "/ or ~/"),
        ("---\nruns: claude\nenv: [A B]\n---\n", 3, "environment variable"),
        ("---\nruns: claude\nenv:\n  WEFT_TASK: x\n---\n", 4, "set by weft"),
        ("---\nruns: claude\nenv: GH_TOKEN\n---\n", 3, "no token of a forge"),
        ("---\nruns: claude\nstage: a b\n---\n", 3, "without spaces"),
        ("---\nruns: codex\ntools: [Read]\n---\n", 3, "only be limited for claude and gemini"),
        ("---\nruns: claude\nmodel: &a x\nstage: *a\n---\n", 3, "anchors and aliases"),
        ("---\nruns: claude\nmodel: !!python/name:os.system x\n---\n", 3, "tag"),
        ("---\nruns: claude\nargs: [[[[[[a]]]]]]\n---\n", 3, "nested too deeply"),
        ("---\nruns: claude\n? [a]\n: b\n---\n", 3, "plain word"),
        ("---\nruns: claude\n---\nfine\n{{ task.txt }}\n", 5, "Did you mean task.text?"),
        ("---\nruns: claude\n---\n{{ nonsense }}\n", 4, "unknown variable 'nonsense'"),
        ("---\nruns: claude\n---\n\n{% if task.text %}\n", 5, "not valid"),
        ("---\nruns: claude\n---\n\n\n{{ plan | shout }}\n", 6, "shout"),
        ("---\nruns: claude\n---\n{{ task }}\n", 4, "unknown variable 'task'"),
    ],
)
def test_every_mistake_is_told_with_its_line(text: str, line: int, words: str) -> None:
    with pytest.raises(InputError) as caught:
        read(text)
    assert str(caught.value).startswith(f"agents/some.md, line {line}: ")
    assert words in str(caught.value)


def test_bombs_are_refused_before_they_go_off() -> None:
    aliases = "a0: &a0 [x, x]\n" + "".join(
        f"a{i}: &a{i} [{', '.join([f'*a{i - 1}'] * 9)}]\n" for i in range(1, 30)
    )
    for header in (aliases, "args: " + "[" * 20_000, "x" * 100_000, "args: [" + "{a: " * 5000):
        with pytest.raises(InputError, match=r"agents/some\.md, line \d+: "):
            read_settings(header)
    with pytest.raises(InputError, match="larger than"):
        read("---\nruns: claude\n---\n" + "x" * 1_000_000)


@each_case("name", ["", "a b", "../x", "-x", "human", "x" * 100])
def test_a_name_must_be_usable(name: str) -> None:
    with pytest.raises(InputError):
        parse_agent("---\nruns: claude\n---\n", name=name, file="agents/some.md")


def refusal(text: str) -> str:
    """Return the reason of a refusal, or the file's name; any other exception is a defect."""
    try:
        return f"{read(text).file}, line "
    except InputError as error:
        return str(error)


@given(
    st.text(alphabet=st.sampled_from(list("runs: claude\n-[]{}&*!|>'\"%@`#\t\0,é")), max_size=80)
)
def test_no_settings_break_the_reader(settings: str) -> None:
    assert "agents/some.md, line " in refusal(f"---\nruns: claude\n{settings}\n---\n")


@given(st.text(max_size=200))
def test_no_text_breaks_the_reader(text: str) -> None:
    assert "agents/some.md" in refusal(f"---\nruns: claude\n---\n{text}")


@each_case("program", PROGRAMS)
def test_a_program_that_a_model_steers_is_sandboxed_unless_its_file_says_off(program: str) -> None:
    runs = f"runs: {program}" + "\nfrom: recorded" * (program == RECORDED)
    silent = read(f"---\n{runs}\n---\n")
    assert (silent.sandbox is BoxKind.ON) == (program not in (SCRIPTED, RECORDED))
    assert read(f"---\n{runs}\nsandbox: off\n---\n").sandbox is BoxKind.OFF
