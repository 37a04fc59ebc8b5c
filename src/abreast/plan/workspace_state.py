"""What a trial begins with that goes on with what another left: it is in the store, with the row of that one."""

from __future__ import annotations

from typing import TYPE_CHECKING

from abreast.model import STATE, Trial
from abreast.plan.plan import Plan
from abreast.store import Store

if TYPE_CHECKING:
    from abreast.targets.workspace import Carried, State

_LEFT = (
    "SELECT t.status, t.error_kind, json_extract(p.data, '$.not_carried'), json_extract(p.data, '$.state_after'), "
    "a.content FROM trials t LEFT JOIN payloads p ON p.run_id = t.run_id AND p.position = t.position "
    f"LEFT JOIN artifacts a ON a.run_id = t.run_id AND a.position = t.position AND a.name = '{STATE}' "
    "WHERE t.run_id = ? AND t.position = ?"
)


class Carrying:
    """Handed to targets before there is a run; asked by them, from any thread, while it goes on."""

    def __init__(self) -> None:
        self._place: tuple[Plan, Store, int] | None = None

    def begin(self, plan: Plan, store: Store, run_id: int) -> None:
        self._place = plan, store, run_id

    def __call__(self, trial: Trial) -> Carried:
        """What the trial before left; if that was skipped, what it would have begun with. Raises NotCarried."""
        from abreast.targets.workspace import Carried  # late: only agents have workspaces

        assert self._place is not None
        plan, store, run_id = self._place
        position = plan.before(trial.position)
        while position is not None:
            case = plan.cases.ids[plan.parts(position)[0]]
            found = list(store.each(_LEFT, (run_id, position)))
            status, kind, problem, commit, content = found[0] if found else ("missing", None, None, None, None)
            if status != "skipped":
                return Carried(case, _state(case, f"{status} ({kind})" if kind else status, problem, commit, content))
            position = plan.before(position)
        return Carried()


def _state(case: str, ended: str, problem: str | None, commit: str | None, content: str | None) -> State:
    from abreast.targets.workspace import NotCarried, State

    what = f"what {case} left cannot be carried on"
    if problem is not None:
        raise NotCarried(f"{what}: {problem}", fix="see what it left: abreast show RUN CASE --artifact diff")
    if commit is None or content is None:
        raise NotCarried(f"{what}: nothing is known of it, it ended with {ended}")
    state = State.of_text(content)
    if state.commit != commit:
        raise NotCarried(f"{what}: its state is of another attempt")
    return state
