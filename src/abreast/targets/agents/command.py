"""`target: command`: any program, one process a trial, by the words of its command line or by a preset."""

from __future__ import annotations

import errno
import os
import re
import shlex
import shutil
from collections import Counter
from collections.abc import Mapping
from functools import cached_property
from pathlib import Path
from typing import Any

from abreast import errors
from abreast.digest import compose, digest
from abreast.errors import BadInput, TrialError
from abreast.model import Blame
from abreast.settings import Settings, is_flag, is_text, is_texts
from abreast.sizes import ANSWER_SIZE
from abreast.targets.agents import command_line
from abreast.targets.agents.agent import Agent, Attempt, cached_attribute
from abreast.targets.agents.command_line import fill, placeholders, variable_name
from abreast.targets.agents.presets import PRESETS, AgentOutput, JsonPaths, Preset, Reader, custom
from abreast.targets.agents.presets.agent_output import EMPTY, error_from_message, last_line
from abreast.targets.agents.presets.claude import Stream
from abreast.targets.api.http_target import is_fake
from abreast.targets.base import Problem
from abreast.targets.processes import process
from abreast.targets.processes.process_usage import KILLED, is_out_of_memory, memory_kills
from abreast.targets.processes.programs import content_digest, named_file, version_of
from abreast.targets.processes.scratch import write_prompt
from abreast.targets.request import digest_of_params
from abreast.targets.sandbox import Needs

LONGEST_WORD = 131_071  # bytes of one argument that Linux takes
ADDRESSES = ("ANTHROPIC_BASE_URL", "OPENAI_BASE_URL", "OPENAI_API_BASE")
SYSTEM = ("/bin", "/usr/bin", "/sbin", "/usr/sbin")
NOT_STARTED = (126, 127)  # exit codes of a shell that cannot start a program
REVISION = 1
_NOT_THERE = re.compile(r"not found|no such file|permission denied|cannot execute", re.I)
_WITHOUT_ARGUMENT = "give it on standard input, or as {prompt_file} instead of {prompt}"
_LESS_MEMORY = "reduce --parallel, or set limits: memory_per_trial"


class OutOfMemory(TrialError):
    """The system ended a process because memory was short. No variant's fault."""

    kind = "resources"
    blame: Blame = "infrastructure"


class Command(Agent):
    """A program of one's own, or one of the presets."""

    def __init__(self, where: str, params: Mapping[str, Any], shared: dict[str, Any]) -> None:
        super().__init__(where, params, shared)
        around = self.environment()
        self._addresses = {name: around[name] for name in ADDRESSES if around.get(name)}
        self.simulated = any(is_fake(address) for address in set(self._addresses.values()))
        self.endpoint = around.get(self._preset.endpoint_variable) if self._preset else None

    @cached_attribute
    def version(self) -> str:
        files = [file for word in self._words if (file := self._file_of(word)) is not None]
        return compose(
            "command",
            self.name,
            digest(sorted(self.cli_versions.items())),
            digest(sorted(self._addresses.items())),
            digest(self.keyed_variables(self.environment())),
            digest([content_digest(file, self._shared) for file in files]),
            digest(self._words),
            digest_of_params(self._params),
            self._renderer.version,
            self._workspaces.version,
            digest(REVISION),
            *self.checks.version,
        )

    def _take(self, settings: Settings) -> None:
        name = settings.take("preset", None, lambda value: value in PRESETS, f"one of {', '.join(PRESETS)}")
        self._preset: Preset | None = PRESETS[name] if name else None
        self.name, self.needs_network = name or "command", bool(name)
        self.start_cpu_s = self._preset.start_cpu_s if self._preset else 0.0
        self.default_model = settings.take("model", None, is_text, "the name of a model")
        self._shell = settings.take("shell", False, is_flag, "true or false")
        command = settings.take("command", None, lambda value: is_text(value) or is_texts(value), "a list of words")
        further = settings.take("args", [], lambda value: value == [] or is_texts(value), "a list of further words")
        self._words = self._make_words(command, list(further))
        used = {name for word in self._words for name in placeholders(self._where, word)}
        if "model" in used and self.default_model is None:
            message = f"{self._where}: {{model}} stands in the command, and there is no model"
            raise BadInput(message, "write model: NAME")
        reads_file = self._shell and variable_name("prompt_file") in self._words[2]
        by_default = "none" if reads_file or used & {"prompt", "prompt_file"} else "prompt"
        self._stdin = settings.take("stdin", by_default, ("prompt", "none").__contains__, "prompt or none")
        silence = settings.take("on_silence", "fail", ("fail", "go_on").__contains__, "fail or go_on")
        self._may_be_silent = silence == "go_on"
        self._reader = self._choose_reader(settings)

    def _make_words(self, command: Any, further: list[str]) -> list[str]:
        if self._shell:
            return [*command_line.words_of_shell(self._where, command, self._preset), *further]
        if self._preset is None:
            return [*command_line.words_of_list(self._where, command), *further]
        has_model = bool(self.default_model)
        words = command_line.words_of_preset(self._where, command, self._preset, has_model, further)
        return words if self.sandbox is None else [self._preset.in_sandbox.get(word, word) for word in words]

    def _choose_reader(self, settings: Settings) -> Reader:
        known, most = ("text", "json", "jsonl", *PRESETS), self._shared.get("answer_size", ANSWER_SIZE)
        output = settings.take("output", None, lambda value: value in known, f"one of {', '.join(known)}")
        expects = "a path in the output such as result.text"
        paths = {name: settings.take(name, None, is_text, expects) for name in ("answer", "usage", "cost")}
        if output in ("json", "jsonl"):
            if paths["answer"] is None:
                raise BadInput(f"{settings.where}: output: {output} needs answer:", f"write answer: with {expects}")
            by_path = JsonPaths(**paths, most=most)
            return by_path.of_document if output == "json" else by_path.of_lines
        for name, path in paths.items():
            if path is not None:
                raise BadInput(f"{settings.where}: {name} is for output: json or jsonl", "add that, or remove it")
        preset = PRESETS.get(output, self._preset) if output != "text" else None
        return custom.WholeText(most).read if preset is None else preset.reads

    # -- which program ---------------------------------------------------------------------------------------------

    @property
    def _program_name(self) -> str | None:
        """The name or path of the program; None if it is in the workspace."""
        word = self._words[0]
        if "workspace" in placeholders(self._where, word):
            return None
        return fill(word, {"model": self.default_model or "", "folder": str(self._base)})

    @cached_property
    def _file(self) -> str | None:
        """The file of the program: on the path, else beside the spec."""
        name = self._program_name
        if name is None:
            return None
        on_path = None if os.sep in name else shutil.which(name, path=self.environment().get("PATH"))
        found = on_path or shutil.which(str(self._base / name))
        return None if found is None else str(Path(found).absolute())

    def _file_of(self, word: str) -> Path | None:
        """The file that a word names by its whole path, the program's own included."""
        if word is self._words[0]:
            return Path(self._file) if self._file else None
        if placeholders(self._where, word) - {"folder"}:
            return None
        return named_file(fill(word, {"folder": str(self._base)}))

    @cached_attribute
    def cli_versions(self) -> Mapping[str, str]:
        """What the program prints as its version. One's own programs are not asked: they might just begin to work."""
        if self._shell:
            return {name: self._version_in_shell(name) for name in command_line.programs_of(self._words[2])}
        if self._preset is not None:
            return {self._preset.program: version_of(self._file, self._shared) if self._file else "missing"}
        return {Path(self._file).name: self._content_of(self._file)} if self._file else {}

    def _version_in_shell(self, name: str) -> str:
        """The version of a program that the text of a shell names; those of the system are what they are."""
        found = shutil.which(name, path=self.environment().get("PATH"))
        if found is None:
            return "missing"
        if any(preset.program == name for preset in PRESETS.values()):
            return version_of(found, self._shared)
        return "of the system" if str(Path(found).parent) in SYSTEM else self._content_of(found)

    def _content_of(self, path: str) -> str:
        return f"content {content_digest(Path(path), self._shared)[:12]}"

    def problems(self) -> list[Problem]:
        missing = self._missing()
        return [missing] if missing else super().problems()

    def _missing(self) -> Problem | None:
        name = self._program_name
        if self._file is not None or name is None:
            return None
        beside = self._base / name
        if beside.is_file():
            return Problem(f"{self.name}: {name} may not be executed", f"chmod +x {shlex.quote(str(beside))}")
        fix = self._preset.install if self._preset else "write a program that is on the path, or beside the spec"
        return Problem(f"{self.name}: the program {name} is not found", fix)

    def notes(self) -> list[str]:
        words = () if self._shell else self._words[1:]
        return super().notes() + [
            f"command: {word} is a file beside the spec, and programs start in their workspace: "
            f"write {{folder}}/{word} if that file is meant"
            for word in words
            if command_line.is_plain_name(word) and (self._base / word).is_file()
        ]

    # -- one attempt -----------------------------------------------------------------------------------------------

    def _new_stream(self) -> Stream | None:
        return Stream() if self._preset is not None and self._preset.has_stream else None

    def _needs(self) -> Needs:
        files = tuple(file for word in self._words[1:] if (file := self._file_of(word)) is not None)
        programs = (Path(self._file),) if self._file else ()
        settings, logins = self._preset.settings_in(self.environment()) if self._preset else ((), ())
        return Needs(programs, files, logins, settings)

    def _program(self, attempt: Attempt) -> process.Program:
        missing = self._missing()
        if missing is not None:
            raise errors.Rejected(missing.message, fix=missing.fix)
        prompt = attempt.request.prompt.encode("utf-8", "replace")
        file = write_prompt(attempt.scratch, prompt)
        values = {
            "prompt": prompt.decode(),
            "prompt_file": str(file),
            "workspace": str(attempt.workspace.path),
            "model": self.default_model or "",
            "folder": str(self._base),
        }
        argv = [fill(word, values) for word in self._words]
        argv[0] = self._file or argv[0]
        for word in argv:
            if len(os.fsencode(word)) > LONGEST_WORD:
                message = f"the prompt is too long for an argument ({len(prompt):,} bytes)"
                raise errors.Rejected(message, fix=_WITHOUT_ARGUMENT)
            if "\0" in word:
                raise errors.Rejected("no argument can have a NUL in it, as this prompt has", fix=_WITHOUT_ARGUMENT)
        quiet = self._preset.environment if self._preset else {}
        hidden = ("prompt", "folder") if self._preset else ("prompt",)  # what says what is right may lie in the folder
        environment = {
            **self.around(attempt),
            **{name: value for name, value in quiet.items() if name not in self._environment},
            **{variable_name(name): value for name, value in values.items() if name not in hidden},
        }
        stdin = file if self._stdin == "prompt" else b""
        return process.Program(argv, attempt.workspace.path, environment, stdin)

    def _start_error(self, error: OSError, program: str) -> Exception:
        if error.errno == errno.E2BIG:
            return errors.Rejected("the prompt is too long for the arguments of a program", fix=_WITHOUT_ARGUMENT)
        if error.errno == errno.ENOEXEC:
            return errors.Rejected(f"{program} is no program", fix="begin the script with #! and its interpreter")
        if error.errno in (errno.ENOENT, errno.EACCES, errno.ENOTDIR, errno.EPERM):
            fix = "is it there, may it be executed, and is the interpreter in its #! line?"
            return errors.Rejected(f"{program} cannot be started: {error.strerror}", fix=fix)
        return error

    def _read(self, out: Path, err: Path) -> AgentOutput:
        said = self._reader(out, err)
        if said.tools is not None:
            said.tools = Counter({name[:100]: number for name, number in said.tools.most_common(100)})
        return said

    def _outcome(self, attempt: Attempt, ended: process.Ended) -> tuple[AgentOutput, TrialError | None]:
        said = self._read(ended.out, ended.err)
        return said, self._trouble(said, ended, attempt.memory_kills)

    def _trouble(self, said: AgentOutput, ended: process.Ended, kills: int | None) -> TrialError | None:
        if not ended.code and said.error is None and (said.text or "").strip():
            return None
        last = last_line(ended.err) or last_line(ended.out) or "without a word"
        if ended.code in KILLED and is_out_of_memory(ended.code, kills, memory_kills()):
            return OutOfMemory(f"the system ended it because memory was short ({ended.description})", fix=_LESS_MEMORY)
        if ended.code < 0:
            return errors.Crashed(f"{ended.description}: {last}"[:500])
        if said.error is not None:
            return said.error
        if ended.code:
            return self._failed(ended, last)
        if self._may_be_silent and said.missing_reason == EMPTY:
            return None
        return errors.NoAnswer(said.missing_reason)

    def _failed(self, ended: process.Ended, last: str) -> TrialError:
        """It ended with an error and printed no object that explains it."""
        message = f"{ended.description}: {last}"[:500]
        if self._shell and ended.code in NOT_STARTED and _NOT_THERE.search(last):
            return errors.Rejected(message, fix="is the program that the command names on the path?")
        if self._preset is None or last_line(ended.out):
            return errors.Crashed(message)
        cause = error_from_message(process.tail(ended.err, 1_000), self._preset.login)
        if type(cause) is not errors.Crashed:
            return type(cause)(message, fix=cause.fix)
        by_hand = " ".join(shlex.quote(word) for word in self._words[:4])
        return errors.Rejected(message, fix=f"try it by hand: {by_hand} ...")
