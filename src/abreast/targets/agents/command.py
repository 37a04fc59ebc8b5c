"""`target: command`: run a program, given as a command line or a preset, in one process per trial."""

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
from abreast.targets.processes.process_usage import KILL_CODES, is_out_of_memory, memory_kills
from abreast.targets.processes.programs import content_digest, file_in_argument, version_of
from abreast.targets.processes.scratch import write_prompt
from abreast.targets.request import digest_of_params
from abreast.targets.sandbox import Needs

LONGEST_WORD = 131_071  # most bytes of one argument on Linux
ADDRESSES = ("ANTHROPIC_BASE_URL", "OPENAI_BASE_URL", "OPENAI_API_BASE")
SYSTEM = ("/bin", "/usr/bin", "/sbin", "/usr/sbin")
NOT_STARTED = (126, 127)  # exit codes of a shell that cannot start a program
REVISION = 1
_CANNOT_START = re.compile(r"not found|no such file|permission denied|cannot execute", re.I)
_WITHOUT_ARGUMENT = "pass it on standard input, or as {prompt_file} instead of {prompt}"
_LESS_MEMORY = "reduce --parallel, or set limits: memory_per_trial"


class OutOfMemory(TrialError):
    """The system killed a process because memory was short. This is not the variant's fault."""

    kind = "resources"
    blame: Blame = "infrastructure"


class Command(Agent):
    def __init__(self, where: str, params: Mapping[str, Any], shared: dict[str, Any]) -> None:
        super().__init__(where, params, shared)
        environment = self.environment()
        self._addresses = {name: environment[name] for name in ADDRESSES if environment.get(name)}
        self.simulated = any(is_fake(address) for address in set(self._addresses.values()))
        self.endpoint = environment.get(self._preset.endpoint_variable) if self._preset else None

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

    def _read_parameters(self, settings: Settings) -> None:
        name = settings.take("preset", None, lambda value: value in PRESETS, f"one of {', '.join(PRESETS)}")
        self._preset: Preset | None = PRESETS[name] if name else None
        self.name, self.needs_network = name or "command", bool(name)
        self.start_cpu_s = self._preset.start_cpu_s if self._preset else 0.0
        self.default_model = settings.take("model", None, is_text, "the name of a model")
        self._shell = settings.take("shell", False, is_flag, "true or false")
        command = settings.take("command", None, lambda value: is_text(value) or is_texts(value), "a list of words")
        further = settings.take("args", [], lambda value: value == [] or is_texts(value), "a list of further words")
        self._words = self._make_words(command, list(further))
        used_placeholders = {name for word in self._words for name in placeholders(self._where, word)}
        if "model" in used_placeholders and self.default_model is None:
            raise BadInput(f"{self._where}: the command has {{model}}, but there is no model", "set model: NAME")
        reads_file = self._shell and variable_name("prompt_file") in self._words[2]
        by_default = "none" if reads_file or used_placeholders & {"prompt", "prompt_file"} else "prompt"
        self._stdin = settings.take("stdin", by_default, ("prompt", "none").__contains__, "prompt or none")
        silence = settings.take("on_silence", "fail", ("fail", "continue").__contains__, "fail or continue")
        self._allows_silence = silence == "continue"
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
        formats, most = ("text", "json", "jsonl", *PRESETS), self._shared.get("answer_size", ANSWER_SIZE)
        output = settings.take("output", None, lambda value: value in formats, f"one of {', '.join(formats)}")
        expects = "a path in the output such as result.text"
        paths = {name: settings.take(name, None, is_text, expects) for name in ("answer", "usage", "cost")}
        if output in ("json", "jsonl"):
            if paths["answer"] is None:
                raise BadInput(f"{settings.where}: output: {output} needs answer:", f"set answer: to {expects}")
            by_path = JsonPaths(**paths, most=most)
            return by_path.of_document if output == "json" else by_path.of_lines
        for name, path in paths.items():
            if path is not None:
                raise BadInput(f"{settings.where}: {name} is for output: json or jsonl", "set output:, or remove it")
        preset = PRESETS.get(output, self._preset) if output != "text" else None
        return custom.WholeText(most).read if preset is None else preset.reads

    # -- the program -----------------------------------------------------------------------------------------------

    @property
    def _program_name(self) -> str | None:
        """The name or path of the program; None if it is in the workspace."""
        word = self._words[0]
        if "workspace" in placeholders(self._where, word):
            return None
        return fill(word, {"model": self.default_model or "", "folder": str(self._base)})

    @cached_property
    def _file(self) -> str | None:
        """The file of the program: found on PATH, else next to the spec."""
        name = self._program_name
        if name is None:
            return None
        on_path = None if os.sep in name else shutil.which(name, path=self.environment().get("PATH"))
        file = on_path or shutil.which(str(self._base / name))
        return None if file is None else str(Path(file).absolute())

    def _file_of(self, word: str) -> Path | None:
        """Return the file of a word: the program, or a file that an argument names by its absolute path."""
        if word is self._words[0]:
            return Path(self._file) if self._file else None
        if placeholders(self._where, word) - {"folder"}:
            return None
        return file_in_argument(fill(word, {"folder": str(self._base)}))

    @cached_attribute
    def cli_versions(self) -> Mapping[str, str]:
        """Versions by program. Only known programs are run to ask for theirs; others are identified by a hash."""
        if self._shell:
            return {name: self._version_in_shell(name) for name in command_line.programs_of(self._words[2])}
        if self._preset is not None:
            return {self._preset.program: version_of(self._file, self._shared) if self._file else "missing"}
        return {Path(self._file).name: self._content_of(self._file)} if self._file else {}

    def _version_in_shell(self, name: str) -> str:
        """Return the version of a program that a shell command uses."""
        file = shutil.which(name, path=self.environment().get("PATH"))
        if file is None:
            return "missing"
        if any(preset.program == name for preset in PRESETS.values()):
            return version_of(file, self._shared)
        return "of the system" if str(Path(file).parent) in SYSTEM else self._content_of(file)

    def _content_of(self, path: str) -> str:
        return f"content {content_digest(Path(path), self._shared)[:12]}"

    def problems(self) -> list[Problem]:
        missing = self._missing_program()
        return [missing] if missing else super().problems()

    def _missing_program(self) -> Problem | None:
        name = self._program_name
        if self._file is not None or name is None:
            return None
        file = self._base / name
        if file.is_file():
            return Problem(f"{self.name}: {name} is not executable", f"chmod +x {shlex.quote(str(file))}")
        fix = self._preset.install if self._preset else "name a program that is on the path, or next to the spec"
        return Problem(f"{self.name}: program {name} not found", fix)

    def notes(self) -> list[str]:
        words = () if self._shell else self._words[1:]
        return super().notes() + [
            f"command: {word} is a file next to the spec, but programs start in their workspace: "
            f"write {{folder}}/{word} to pass that file"
            for word in words
            if command_line.is_plain_name(word) and (self._base / word).is_file()
        ]

    # -- attempts --------------------------------------------------------------------------------------------------

    def _new_stream(self) -> Stream | None:
        return Stream() if self._preset is not None and self._preset.has_stream else None

    def _needs(self) -> Needs:
        files = tuple(file for word in self._words[1:] if (file := self._file_of(word)) is not None)
        programs = (Path(self._file),) if self._file else ()
        settings, logins = self._preset.settings_in(self.environment()) if self._preset else ((), ())
        return Needs(programs, files, logins, settings)

    def _program(self, attempt: Attempt) -> process.Program:
        missing = self._missing_program()
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
                raise errors.Rejected("the prompt contains a NUL, which arguments cannot have", fix=_WITHOUT_ARGUMENT)
        quiet = self._preset.environment if self._preset else {}
        hidden = ("prompt", "folder") if self._preset else ("prompt",)  # the folder may contain expected answers
        environment = {
            **self.attempt_environment(attempt),
            **{name: value for name, value in quiet.items() if name not in self._environment},
            **{variable_name(name): value for name, value in values.items() if name not in hidden},
        }
        stdin = file if self._stdin == "prompt" else b""
        return process.Program(argv, attempt.workspace.path, environment, stdin)

    def _start_error(self, error: OSError, program: str) -> Exception:
        if error.errno == errno.E2BIG:
            return errors.Rejected("the prompt is too long for the arguments of a program", fix=_WITHOUT_ARGUMENT)
        if error.errno == errno.ENOEXEC:
            return errors.Rejected(f"{program} is not a program", fix="begin the script with #! and its interpreter")
        if error.errno in (errno.ENOENT, errno.EACCES, errno.ENOTDIR, errno.EPERM):
            fix = "check that it exists, is executable, and that the interpreter in its #! line exists"
            return errors.Rejected(f"{program} cannot be started: {error.strerror}", fix=fix)
        return error

    def _read(self, out: Path, err: Path) -> AgentOutput:
        output = self._reader(out, err)
        if output.tools is not None:
            output.tools = Counter({name[:100]: number for name, number in output.tools.most_common(100)})
        return output

    def _outcome(self, attempt: Attempt, ended: process.ProcessResult) -> tuple[AgentOutput, TrialError | None]:
        output = self._read(ended.out, ended.err)
        return output, self._failure(output, ended, attempt.memory_kills)

    def _failure(self, output: AgentOutput, ended: process.ProcessResult, kills: int | None) -> TrialError | None:
        if not ended.code and output.error is None and (output.text or "").strip():
            return None
        last = last_line(ended.err) or last_line(ended.out) or "no output"
        if ended.code in KILL_CODES and is_out_of_memory(ended.code, kills, memory_kills()):
            return OutOfMemory(f"killed by the system because memory was short ({ended.description})", fix=_LESS_MEMORY)
        if ended.code < 0:
            return errors.Crashed(f"{ended.description}: {last}"[:500])
        if output.error is not None:
            return output.error
        if ended.code:
            return self._exit_error(ended, last)
        if self._allows_silence and output.missing_reason == EMPTY:
            return None
        return errors.NoAnswer(output.missing_reason)

    def _exit_error(self, ended: process.ProcessResult, last: str) -> TrialError:
        """Return the error of a program that failed without reporting one."""
        message = f"{ended.description}: {last}"[:500]
        if self._shell and ended.code in NOT_STARTED and _CANNOT_START.search(last):
            return errors.Rejected(message, fix="check that the program in the command is on the path")
        if self._preset is None or last_line(ended.out):
            return errors.Crashed(message)
        cause = error_from_message(process.tail(ended.err, 1_000), self._preset.login)
        if type(cause) is not errors.Crashed:
            return type(cause)(message, fix=cause.fix)
        command = " ".join(shlex.quote(word) for word in self._words[:4])
        return errors.Rejected(message, fix=f"run it in a terminal: {command} ...")
