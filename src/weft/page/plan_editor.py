"""The view of a plan that is being written: its text, and what weft makes of it."""

from __future__ import annotations

from msgspec import Struct

from weft.formats import dollars, duration
from weft.page import plan_page, plan_words
from weft.page.markup import Html, article, joined, tag
from weft.plan.plan_records import Problem
from weft.runs.plan_check import CheckedPlan

_LONGEST = 300_000  # characters of a plan in the editor


class PlanEditor(Struct, frozen=True, kw_only=True):
    text: str  # a plan to begin with
    name: str  # of its file
    checked: CheckedPlan | None  # None: nothing is compiled yet
    typical_cost: int | None  # micro-dollars of an attempt so far; None: none is known
    may_act: bool


def render_editor(view: PlanEditor) -> Html:
    compiled = None if view.checked is None else render_checked(view.checked, view.typical_cost)
    return article(
        "Plan",
        tag(
            "div",
            tag(
                "form",
                tag("label", "Plan", for_="plan-text"),
                tag(
                    "textarea",
                    view.text,
                    name="plan",
                    id="plan-text",
                    rows=34,
                    maxlength=_LONGEST,
                    spellcheck="false",
                    data_draft="plan",
                ),
                _options() if view.may_act else None,
                tag(
                    "button",
                    tag("span", "Run this plan"),
                    tag("code", f"weft run {view.name}", class_="cli"),
                    type="submit",
                )
                if view.may_act
                else None,
                data_act="page/act/run-plan",
                data_post="plan/check",
                data_into="compiled",
                data_go="#/now",
                id="plan-form",
            ),
            tag("section", compiled, id="compiled", aria_label="The compiled plan"),
            class_="editor",
        ),
    )


def _options() -> Html:
    return tag(
        "label",
        tag("input", type="checkbox", name="review", value="yes", id="plan-review"),
        "I accept each candidate before it lands (--review)",
    )


def render_checked(checked: CheckedPlan, typical_cost: int | None) -> Html:
    """Show a compiled plan: problems with their lines first."""
    if not checked.compiled.plan.tasks and not checked.problems:
        return tag("p", "The plan has no task yet: write - [ ] before each.", class_="dim")
    return joined(
        [_problem(problem) for problem in checked.problems],
        None if checked.failed else tag("p", _describe_cost(checked, typical_cost), class_="lead"),
        *(tag("p", note, class_="dim") for note in plan_words.list_notes(checked)),
        None if checked.failed else Html("".join(plan_page.render_compiled(checked))),
    )


def _problem(problem: Problem) -> Html:
    kind = "bad" if problem.severity == "error" else "back"
    return tag(
        "p",
        tag("span", f"line {problem.line}", class_=f"tag {kind}"),
        f" {problem.severity}: {problem.message} ",
        tag("span", problem.suggestion, class_="dim"),
        class_="problem",
    )


def _describe_cost(checked: CheckedPlan, typical_cost: int | None) -> str:
    runs = len(checked.forecast.schedule)
    about = f"About {duration(checked.forecast.seconds)}"
    if typical_cost is None:
        return f"{about}; no attempt has reported a cost yet."
    return f"{about} and {dollars(runs * typical_cost)} at the usual cost of an attempt."
