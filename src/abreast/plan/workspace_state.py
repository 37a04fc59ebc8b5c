"""The workspace that a trial continues from, stored with the row of the preceding trial."""

from __future__ import annotations

from typing import TYPE_CHECKING

from abreast.model import Trial
from abreast.plan.plan import Plan
from abreast.store import Store
from abreast.store.queries.artifacts import ChainLink

if TYPE_CHECKING:
    from abreast.targets.workspace import PreviousState, WorkspaceState


class WorkspaceStates:
    """The workspaces that trials of a chain continue from. Built before the run; called from any thread during it."""

    def __init__(self) -> None:
        self._run: tuple[Plan, Store, int] | None = None

    def begin(self, plan: Plan, store: Store, run_id: int) -> None:
        self._run = plan, store, run_id

    def __call__(self, trial: Trial) -> PreviousState:
        """Return the final workspace of the preceding trial; if it was skipped, its initial one. Raises NotCarried."""
        from abreast.targets.workspace import PreviousState  # late: only agents have workspaces

        assert self._run is not None
        plan, store, run_id = self._run
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

    message = f"cannot continue from {case}"
    if link is not None and link.problem is not None:
        raise NotCarried(
            f"{message}: {link.problem}", fix="run `abreast show RUN CASE --artifact diff` to see its changes"
        )
    if link is None or link.after is None or link.state is None:
        status = "missing" if link is None else f"{link.status} ({link.error_kind})" if link.error_kind else link.status
        raise NotCarried(f"{message}: its workspace is unknown (status: {status})")
    state = WorkspaceState.of_text(link.state)
    if state.commit != link.after:
        raise NotCarried(f"{message}: its workspace is from another attempt")
    return state
