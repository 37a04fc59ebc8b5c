"""What a trial begins with that goes on with what another left: it is in the store, with the row of that one."""

from __future__ import annotations

from typing import TYPE_CHECKING

from abreast.model import Trial
from abreast.plan.plan import Plan
from abreast.store import Store
from abreast.store.queries.artifacts import ChainLink

if TYPE_CHECKING:
    from abreast.targets.workspace import PreviousState, WorkspaceState


class Carrying:
    """The state that trials of a chain begin with. Built before the run; called from any thread during it."""

    def __init__(self) -> None:
        self._place: tuple[Plan, Store, int] | None = None

    def begin(self, plan: Plan, store: Store, run_id: int) -> None:
        self._place = plan, store, run_id

    def __call__(self, trial: Trial) -> PreviousState:
        """What the trial before left; if it was skipped, what it would have begun with. Raises NotCarried."""
        from abreast.targets.workspace import PreviousState  # late: only agents have workspaces

        assert self._place is not None
        plan, store, run_id = self._place
        position = plan.before(trial.position)
        while position is not None:
            case = plan.cases.ids[plan.parts(position)[0]]
            link = dict(store.queries.chain_links(run_id, position)).get(position)
            if link is None or link.status != "skipped":
                return PreviousState(case, _state(case, link))
            position = plan.before(position)
        return PreviousState()


def _state(case: str, link: ChainLink | None) -> WorkspaceState:
    from abreast.targets.workspace import NotCarried, WorkspaceState

    what = f"what {case} left cannot be carried on"
    if link is not None and link.problem is not None:
        raise NotCarried(f"{what}: {link.problem}", fix="see what it left: abreast show RUN CASE --artifact diff")
    if link is None or link.after is None or link.state is None:
        ended = "missing" if link is None else f"{link.status} ({link.error_kind})" if link.error_kind else link.status
        raise NotCarried(f"{what}: nothing is known of it, it ended with {ended}")
    state = WorkspaceState.of_text(link.state)
    if state.commit != link.after:
        raise NotCarried(f"{what}: its state is of another attempt")
    return state
