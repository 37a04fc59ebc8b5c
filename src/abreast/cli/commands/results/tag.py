"""`abreast tag`: give a run a label, such as the version of what was measured."""

from __future__ import annotations

import argparse
import json
from pathlib import Path

from abreast.cli import store_argument
from abreast.errors import BadInput
from abreast.output import echo
from abreast.store.run_names import check_label_in


def arguments(parser: argparse.ArgumentParser) -> None:
    parser.add_argument("run", metavar="RUN", help="its name, its present label, a unique prefix, latest or previous")
    parser.add_argument("label", metavar="LABEL", nargs="?", help="such as e1.2.0; without one, show the present label")
    parser.add_argument("--remove", action="store_true", help="take the label away")
    parser.add_argument("--git", action="store_true", help="tag the run's commit in git with the label too")
    store_argument.add_shared(parser, "--store")


def main(args: argparse.Namespace) -> int:
    if args.remove and args.label is not None:
        raise BadInput("tag: --remove takes no label", f"abreast tag {args.run} --remove")
    if args.git and not args.label:
        raise BadInput("tag: --git needs a label", f"abreast tag {args.run} e1.2.0 --git")
    with store_argument.find_store(args.store) as store:
        run = store.run(args.run)
        if args.label is not None or args.remove:
            if args.label is not None:
                check_label_in(store, args.label, run["run"])
            if args.git:
                _tag_commit(run, args.label)
            store.label(run["run"], args.label)
        label = store.run(run["run"])["label"]
    echo(f"{run['run']}: {label or 'no label'}")
    return 0


def _tag_commit(run: dict[str, object], label: str) -> None:
    from abreast.plan.git import tag as tag_commit

    stored, base = json.loads(str(run["provenance"])), json.loads(str(run["spec"]))["base"]
    commit = stored.get("commit")
    if not commit:
        raise BadInput(f"{run['run']}: its folder was no git repository, so there is no commit to tag")
    if stored.get("dirty"):
        raise BadInput(
            f"{run['run']}: files differed from the commit, so that is not what was measured",
            "commit first, then run again",
        )
    if against := tag_commit(Path(base), commit, label):
        raise BadInput(f"git tag {label}: {against}")
