"""An attempt whose agent has ended: its failure, its answer and its summary."""

from __future__ import annotations

from typing import Final

from msgspec import Struct

from weft.agents import review_answer
from weft.agents.adapters import ADAPTERS
from weft.agents.classify import Ending, Failure, Stop, classify
from weft.agents.comment_answers import remove_answers
from weft.agents.proposal import split_block
from weft.attempt.output_reader import OutputReader
from weft.attempt.start_record import Order
from weft.errors import InputError
from weft.model import ErrorClass
from weft.process.agent_process import Exit, StopReason
from weft.project.site import Site
from weft.workspace import Workspace

TOO_MUCH: Final = "The agent printed more than it may, and was ended."

SUMMARY_LENGTH: Final = 4_000  # characters of an agent's summary in a commit message


class Ended(Struct, frozen=True, kw_only=True):
    """An attempt whose agent has ended."""

    site: Site
    fence: int
    order: Order
    workspace: Workspace
    follower: OutputReader
    exit: Exit
    stopped: Stop | None
    fault: str  # weft's own reason to break it off
    adopted: bool  # the weft that started it is gone


def find_failure(ended: Ended) -> Failure | None:
    if ended.fault:
        return other_failure(ended.fault)
    facts = ADAPTERS[ended.order.adapter].FACTS
    failure = _broken_off(ended) or classify(
        Ending(
            program=ended.order.program,
            says_result=facts.says_result,
            exits=facts.exits,
            status=_status(ended.exit),
            seen=ended.follower.seen,
            stopped=ended.stopped,
            errors=ended.exit.unstarted or ended.follower.errors(),
        )
    )
    died_with_weft = ended.exit.why is StopReason.LOST and ended.adopted
    if failure is not None and failure.kind is ErrorClass.CRASH and died_with_weft:
        return _no_failure("It was killed together with the weft that watched over it.")
    return failure


def _status(exit_: Exit) -> int | None:
    if exit_.unstarted:
        return 127
    return -exit_.signal if exit_.signal is not None else exit_.code


def _broken_off(ended: Ended) -> Failure | None:
    """Return the failure for an end that neither the agent nor its limits caused."""
    match ended.exit.why:
        case StopReason.FORSAKEN:
            return _no_failure("weft was gone for too long, and the agent was ended beside it.")
        case StopReason.ASKED if ended.stopped is None:
            return _no_failure("A person or program other than weft ended the agent.")
        case StopReason.OUTPUT:
            return other_failure(TOO_MUCH)
    return None


def _no_failure(reason: str) -> Failure:
    return Failure(kind=ErrorClass.STOPPED, reason=reason, signature="")


def other_failure(reason: str) -> Failure:
    return Failure(kind=ErrorClass.OTHER, reason=reason, signature=f"other: {reason}")


def read_answer(ended: Ended) -> str:
    try:
        template = ended.site.read_agent(ended.order.agent).template
    except InputError:  # the agent file has been deleted since
        template = ""
    return review_answer.remove_prompt(ended.follower.answer, template)


def read_summary(ended: Ended) -> str:
    """Return the agent's last words without the blocks that weft reads."""
    follower = ended.follower
    before, block = split_block(follower.answer)
    if block is None:
        return remove_answers(follower.said)
    # The last text of a program that prints plain lines is its last line.
    return remove_answers(before if follower.answer == follower.said else before.split("\n")[-1])
