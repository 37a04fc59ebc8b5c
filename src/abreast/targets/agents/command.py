"""`target: command`: any program, one process a trial, by the words of its command line or by a preset."""

from __future__ import annotations

import errno
import os
import re
import shlex
import shutil
import signal
import time
from collections import Counter
from collections.abc import Mapping, Sequence
from functools import partial
from pathlib import Path
from typing import Any

from abreast import errors
from abreast.digest import compose, digest
from abreast.errors import BadInput, TrialError, suggestion
from abreast.model import Answer, Blame, CostBasis, Usage
from abreast.settings import Settings, is_flag, is_text, is_texts
from abreast.sizes import ANSWER_SIZE
from abreast.targets.agents.agent import Agent, Attempt, GiveTime, Invocation, Remains, version_of
from abreast.targets.agents.claude_code import KEYS
from abreast.targets.agents.file_digest import content_digest, named_file
from abreast.targets.agents.presets import PRESETS, Paths, Preset, Reader, Said, custom
from abreast.targets.agents.presets.agent_output import EMPTY, last_line, trouble
from abreast.targets.api.http_target import is_fake
from abreast.targets.api.prices import Prices
from abreast.targets.base import Problem
from abreast.targets.processes import process
from abreast.targets.processes.scratch import write_prompt
from abreast.targets.request import digest_of_params
from abreast.targets.sandbox import Needs
from abreast.targets.untrusted_json import count, dollars

PLACEHOLDERS = ("prompt", "prompt_file", "workspace", "model", "folder")
OF_PROMPT = ("prompt", "prompt_file")
LONGEST_WORD = 131_071  # bytes of one argument that Linux takes
ADDRESSES = ("ANTHROPIC_BASE_URL", "OPENAI_BASE_URL", "OPENAI_API_BASE")
MEMORY_KILLS = Path("/proc/vmstat")
SYSTEM = ("/bin", "/usr/bin", "/sbin", "/usr/sbin")
KILLED = (-signal.SIGKILL, 128 + signal.SIGKILL)
NOT_STARTED = (126, 127)  # exit codes of a shell that cannot start a program
REVISION = 1
_NOT_THERE = re.compile(r"not found|no such file|permission denied|cannot execute", re.I)
_BRACE = re.compile(r"\{\{|\}\}|\{([^{}]*)\}|[{}]")


class OutOfMemory(TrialError):
    """The system ended a process because memory was short. No variant's fault."""

    kind = "resources"
    blame: Blame = "infrastructure"


class Command(Agent):
    """A program of one's own, or one of the presets."""

    def __init__(self, where: str, params: Mapping[str, Any], shared: dict[str, Any]) -> None:
        super().__init__(where, params, shared)
        around = self.environment()
        self._file = self._found(around)
        self.cli_versions = self._versions()
        addresses = {name: around[name] for name in ADDRESSES if around.get(name)}
        self.simulated = any(is_fake(address) for address in set(addresses.values()))
        self.endpoint = around.get(self._preset.endpoint_variable) if self._preset else None
        self._prices = Prices(shared.get("prices"))
        self._pays = any(around.get(name) for name in KEYS)
        files = [file for word in self._words if (file := self._file_of(word)) is not None]
        self.version = compose(
            "command",
            self.name,
            digest(sorted(self.cli_versions.items())),
            digest(sorted(addresses.items())),
            digest(self.told(around)),
            digest([content_digest(file, shared) for file in files]),
            digest(self._words),
            digest_of_params(params),
            self._renderer.version,
            self._workspaces.version,
            digest(REVISION),
            *self.checks.version,
        )

    def _take(self, settings: Settings) -> None:
        where = settings.where
        name = settings.take("preset", None, lambda value: value in PRESETS, f"one of {', '.join(PRESETS)}")
        self._preset: Preset | None = PRESETS[name] if name else None
        self.name, self.needs_network = name or "command", bool(name)
        self.start_cpu_s = self._preset.start_cpu_s if self._preset else 0.0
        self._model = settings.take("model", None, is_text, "the name of a model")
        self._shell = settings.take("shell", False, is_flag, "true or false")
        given = settings.take("command", None, lambda value: is_text(value) or is_texts(value), "a list of words")
        further = settings.take("args", [], lambda value: value == [] or is_texts(value), "a list of further words")
        self._words = self._checked_words(where, given, list(further))
        self._stdin = settings.take("stdin", self._stdin_by_default(), _is_stdin, "prompt or none")
        silence = settings.take("on_silence", "fail", ("fail", "go_on").__contains__, "fail or go_on")
        self._may_be_silent = silence == "go_on"
        self._read = self._reader(settings)

    def _checked_words(self, where: str, given: Any, further: list[str]) -> list[str]:
        """The program and its arguments, as templates."""
        if self._shell:
            words = [*_of_shell(where, given, self._preset), *further]
        elif self._preset is not None:
            words = _of_preset(where, given, self._preset, bool(self._model), further)
            if self.sandbox is not None:
                words = [self._preset.in_sandbox.get(word, word) for word in words]
        else:
            words = [*_of_list(where, given), *further]
        used = {name for word in words for name in _placeholders(where, word)}
        if "model" in used and self._model is None:
            raise BadInput(f"{where}: {{model}} stands in the command, and there is no model", "write model: NAME")
        return words

    def _stdin_by_default(self) -> str:
        used = {name for word in self._words for name in _placeholders(self._where, word)}
        in_text = self._shell and _variable("prompt_file") in self._words[2]
        return "none" if in_text or used & set(OF_PROMPT) else "prompt"

    def _reader(self, settings: Settings) -> Reader:
        """How its output is read."""
        known, most = ("text", "json", "jsonl", *PRESETS), self._shared.get("answer_size", ANSWER_SIZE)
        output = settings.take("output", None, lambda value: value in known, f"one of {', '.join(known)}")
        expects = "a path in the output such as result.text"
        paths = {name: settings.take(name, None, is_text, expects) for name in ("answer", "usage", "cost")}
        if output in ("json", "jsonl"):
            if paths["answer"] is None:
                raise BadInput(f"{settings.where}: output: {output} needs answer:", f"write answer: with {expects}")
            by_path = Paths(**paths, most=most)
            return by_path.of_document if output == "json" else by_path.of_lines
        for name, path in paths.items():
            if path is not None:
                raise BadInput(f"{settings.where}: {name} is for output: json or jsonl", "add that, or remove it")
        if output == "text" or (output is None and self._preset is None):
            return custom.WholeText(most).read
        preset = PRESETS[output] if output else self._preset
        assert preset is not None
        return preset.reads

    # -- which program ---------------------------------------------------------------------------------------------

    def _found(self, around: Mapping[str, str]) -> str | None:
        """The file of the program: on the path, else beside the spec. One with a placeholder in it is found later."""
        word = self._words[0]
        if "workspace" in _placeholders(self._where, word):
            return None
        name = self._filled(word, {"model": self._model or "", "folder": str(self._base)})
        beside = shutil.which(str(self._base / name))
        found = beside if os.sep in name else shutil.which(name, path=around.get("PATH")) or beside
        return None if found is None else str(Path(found).absolute())

    def _file_of(self, word: str) -> Path | None:
        """The file that a word names by its whole path, the program's own included."""
        if word is self._words[0]:
            return Path(self._file) if self._file else None
        if set(_placeholders(self._where, word)) - {"folder"}:
            return None
        return named_file(self._filled(word, {"folder": str(self._base)}))

    def _versions(self) -> dict[str, str]:
        """What the program says of its version. One's own programs are not asked: they might just begin to work."""
        if self._shell:
            return {name: self._version_in_shell(name) for name in programs_of(self._words[2])}
        if self._file is None:
            return {self._preset.program: "missing"} if self._preset else {}
        if self._preset is not None:
            return {self._preset.program: version_of(self._file, self._shared, self._preset.version)}
        return {Path(self._file).name: self._content_of(self._file)}

    def _version_in_shell(self, name: str) -> str:
        """Of a program that the text of a shell names plainly; those of the system are what they are."""
        found = shutil.which(name, path=self.environment().get("PATH"))
        if found is None:
            return "missing"
        preset = next((preset for preset in PRESETS.values() if preset.program == name), None)
        if preset is not None:
            return version_of(found, self._shared, preset.version)
        return "of the system" if str(Path(found).parent) in SYSTEM else self._content_of(found)

    def _content_of(self, path: str) -> str:
        return f"content {content_digest(Path(path), self._shared)[:12]}"

    def problems(self) -> list[Problem]:
        missing = self._missing()
        return [Problem(*missing)] if missing else super().problems()

    def _missing(self) -> tuple[str, str] | None:
        if self._file is not None or "workspace" in _placeholders(self._where, self._words[0]):
            return None
        name = self._filled(self._words[0], {"model": self._model or "", "folder": str(self._base)})
        beside = self._base / name
        if beside.is_file():
            return f"{self.name}: {name} may not be executed", f"chmod +x {shlex.quote(str(beside))}"
        fix = self._preset.install if self._preset else "write a program that is on the path, or beside the spec"
        return f"{self.name}: the program {name} is not found", fix

    def notes(self) -> list[str]:
        found = super().notes()
        if self._shell:
            return found
        for word in self._words[1:]:
            if _is_plain_name(word) and (self._base / word).is_file():
                found.append(
                    f"command: {word} is a file beside the spec, and programs start in their workspace: "
                    f"write {{folder}}/{word} if that file is meant"
                )
        return found

    # -- one attempt -----------------------------------------------------------------------------------------------

    def _invoke(self, attempt: Attempt, give_time: GiveTime) -> Invocation:
        read = partial(self._read_answer, attempt, _recent_memory_kills())
        program = self._program(attempt)
        if self._preset is None or self._preset.listens is None:
            return Invocation(program, read)
        listener = self._preset.listens()

        def heard(line: bytes) -> bool:
            give_time(listener.hear(line))  # the time that it waited for retries
            return False

        return Invocation(program, read, heard, listener.silent_request, self._preset.dropped)

    def _read_answer(self, attempt: Attempt, kills: int | None, ended: process.Ended) -> Answer:
        said = self._read(ended.out, ended.err)
        answer, problem = self._answer(said, attempt, ended), self._trouble(said, ended, kills)
        if problem is not None:
            problem.answer = answer
            raise problem
        return answer

    def _needs(self) -> Needs:
        files = [file for word in self._words[1:] if (file := self._file_of(word)) is not None]
        programs = (Path(self._file),) if self._file else ()
        if self._preset is None:
            return Needs(programs, tuple(files))
        settings, logins = self._preset.settings_in(self.environment())
        return Needs(programs, tuple(files), logins, settings)

    def _program(self, attempt: Attempt) -> process.Program:
        """The program of one attempt."""
        missing = self._missing()
        if missing is not None:
            raise errors.Rejected(missing[0], fix=missing[1])
        prompt = attempt.request.prompt.encode("utf-8", "replace")
        file = write_prompt(attempt.scratch, prompt)
        values = {
            "prompt": prompt.decode(),
            "prompt_file": str(file),
            "workspace": str(attempt.workspace.path),
            "model": self._model or "",
            "folder": str(self._base),
        }
        argv = [self._filled(word, values) for word in self._words]
        argv[0] = self._file or argv[0]
        for word in argv:
            if len(os.fsencode(word)) > LONGEST_WORD:
                raise errors.Rejected(
                    f"the prompt is too long for an argument ({len(prompt):,} bytes)", fix=_WITHOUT_ARGUMENT
                )
            if "\0" in word:
                raise errors.Rejected("no argument can have a NUL in it, as this prompt has", fix=_WITHOUT_ARGUMENT)
        quiet = self._preset.environment if self._preset else {}
        hidden = ("prompt", "folder") if self._preset else ("prompt",)  # what says what is right may lie in the folder
        environment = {
            **self.around(attempt),
            **{name: value for name, value in quiet.items() if name not in self._environment},
            **{_variable(name): value for name, value in values.items() if name not in hidden},
        }
        return process.Program(
            argv, attempt.workspace.path, environment, stdin=file if self._stdin == "prompt" else b""
        )

    @staticmethod
    def _filled(word: str, values: Mapping[str, str]) -> str:
        return _BRACE.sub(lambda brace: values.get(brace[1], "") if brace[1] is not None else brace[0][0], word)

    def _start_error(self, error: OSError, program: str) -> Exception:
        if error.errno == errno.E2BIG:
            return errors.Rejected("the prompt is too long for the arguments of a program", fix=_WITHOUT_ARGUMENT)
        if error.errno == errno.ENOEXEC:
            return errors.Rejected(f"{program} is no program", fix="begin the script with #! and its interpreter")
        if error.errno in (errno.ENOENT, errno.EACCES, errno.ENOTDIR, errno.EPERM):
            told = f"{program} cannot be started: {error.strerror}"
            return errors.Rejected(told, fix="is it there, may it be executed, and is the interpreter in its #! line?")
        return error

    def _remains(self, attempt: Attempt) -> Remains:
        said = self._read(attempt.scratch / "stdout", attempt.scratch / "stderr")
        return Remains(self._answer(said, attempt, None), said.unanswered)

    def _answer(self, said: Said, attempt: Attempt, ended: process.Ended | None) -> Answer:
        usage = Usage(*map(count, _tokens(said.usage)))
        cost, basis = self._cost(said, usage)
        if said.tools is not None:
            said.tools = Counter({name[:100]: number for name, number in said.tools.most_common(100)})
        return Answer(
            said.text or "",
            value=said.value,
            data={**said.columns(), **({} if ended is None else ended.columns())},
            usage=usage,
            cost_usd=cost,
            cost_basis=basis,
            model=said.model[:200] if said.model else self._model,
            raw_response=(process.content(attempt.scratch / "stdout") if said.raw is None else said.raw) or None,
            waited_s=said.retry_wait_s or 0.0,
        )

    def _cost(self, said: Said, usage: Usage) -> tuple[float | None, CostBasis]:
        """What the program says; else by its tokens, if its model is known."""
        cost = dollars(said.cost_usd)
        if cost is not None:
            return cost, "included" if said.is_included and not self._pays else "reported"
        price = self._prices.of(said.model, self._model)
        cost = None if price is None else dollars(price.of(usage))
        return cost, "unknown" if cost is None else "included" if said.is_included and not self._pays else "estimated"

    def _trouble(self, said: Said, ended: process.Ended, kills: int | None) -> TrialError | None:
        """Why the answer is none; None if it is one."""
        if not ended.code and said.trouble is None and (said.text or "").strip():
            return None
        told = last_line(ended.err) or last_line(ended.out) or "without a word"
        if ended.code in KILLED and is_out_of_memory(ended.code, kills, memory_kills()):
            return OutOfMemory(f"the system ended it because memory was short ({ended.description})", fix=_LESS_MEMORY)
        if ended.code < 0:
            return errors.Crashed(f"{ended.description}: {told}"[:500])
        if said.trouble is not None:
            return said.trouble
        if ended.code:
            return self._failed(ended, told)
        if self._may_be_silent and said.missing == EMPTY:
            return None
        return errors.NoAnswer(said.missing)

    def _failed(self, ended: process.Ended, told: str) -> TrialError:
        """It ended with an error and without an object that tells of it."""
        message = f"{ended.description}: {told}"[:500]
        if self._shell and ended.code in NOT_STARTED and _NOT_THERE.search(told):
            return errors.Rejected(message, fix="is the program that the command names on the path?")
        if self._preset is None or last_line(ended.out):
            return errors.Crashed(message)
        found = trouble(process.tail(ended.err, 1_000), self._preset.login)
        if type(found) is not errors.Crashed:
            return type(found)(message, fix=found.fix)
        by_hand = " ".join(shlex.quote(word) for word in self._words[:4])
        return errors.Rejected(message, fix=f"try it by hand: {by_hand} ...")


_WITHOUT_ARGUMENT = "give it on standard input, or as {prompt_file} instead of {prompt}"
_LESS_MEMORY = "reduce --parallel, or set limits: memory_per_trial"


def programs_of(text: str) -> list[str]:
    """The programs that a text for the shell names plainly, as far as one can tell without running it.

    >>> programs_of('cat "$X" | LANG=C claude -p && if true; then exit 1; fi; ./own "$Y"')
    ['cat', 'claude']
    """
    try:
        words = list(shlex.shlex(text, posix=True, punctuation_chars=True))
    except ValueError:
        return []
    found: dict[str, None] = {}
    begins = True
    for word in words:
        if set(word) <= set("|&;()"):
            begins = True
        elif begins and not _ASSIGNMENT.match(word):
            begins = word in _KEYWORDS
            if re.fullmatch(r"[A-Za-z][\w.+-]*", word) and word not in (*_KEYWORDS, *_BUILT_IN):
                found[word] = None
    return list(found)


_ASSIGNMENT = re.compile(r"[A-Za-z_]\w*=")
_KEYWORDS = ("if", "then", "else", "elif", "while", "until", "do", "!", "{")
_BUILT_IN = (
    *("fi", "done", "esac", "case", "for", "cd", "exit", "export", "set", "unset", "test", "true", "false", "echo"),
    *("printf", "read", "return", "shift", "trap", "ulimit", "umask", "wait", "exec", "eval", "command", "local"),
)


def memory_kills(path: Path = MEMORY_KILLS) -> int | None:
    """How many processes the system has ended because memory was short; None where it does not say."""
    try:
        found = re.search(rb"^oom_kill (\d+)$", path.read_bytes(), re.M)
    except OSError:
        return None
    return int(found[1]) if found else None


_recent_kills: tuple[float, int | None] = float("-inf"), None


def _recent_memory_kills() -> int | None:
    """The same as of a moment ago: to count them takes a while."""
    global _recent_kills
    now = time.monotonic()
    if now - _recent_kills[0] > 1.0:
        _recent_kills = now, memory_kills()
    return _recent_kills[1]


def is_out_of_memory(code: int, before: int | None, after: int | None) -> bool:
    """Whether a program was probably ended because memory was short: it was killed, or what it had started was, and
    the system counts one more such end than before.

    >>> is_out_of_memory(-9, 3, 4), is_out_of_memory(137, 3, 4)
    (True, True)
    >>> is_out_of_memory(-9, 3, 3), is_out_of_memory(1, 3, 4), is_out_of_memory(-9, None, None)
    (False, False, False)
    """
    return code in KILLED and before is not None and after is not None and after > before


def _of_list(where: str, given: Any) -> Sequence[str]:
    if given is None:
        fix = f"write command: with a list of words, or preset: {' | '.join(PRESETS)}"
        raise BadInput(f"{where}: no command", fix)
    if isinstance(given, str):
        fix = f"write command: {_as_list(given)}, or shell: true beside it"
        raise BadInput(f"{where}: command must be a list of words, got {given!r}", fix)
    words: Sequence[str] = given
    return words


def _of_preset(where: str, given: Any, preset: Preset, has_model: bool, further: list[str]) -> list[str]:
    if given is not None and not isinstance(given, str):
        told = f"{where}: command must be one text with preset: the program's name or path, got {given!r}"
        raise BadInput(told, "write further words as args:")
    program = _literal(given) if given else preset.program
    return [program, *preset.words, *(preset.model if has_model else ()), *further, *preset.last]


def _of_shell(where: str, given: Any, preset: Preset | None) -> list[str]:
    """The text of a shell; what varies reaches it by variables, and further words as its arguments."""
    if preset is not None or not isinstance(given, str):
        fix = 'write command: "my-agent < $ABREAST_PROMPT_FILE | tail -1", or remove shell:'
        raise BadInput(f"{where}: shell: true is for a command that is one text", fix)
    for name in PLACEHOLDERS:
        if f"{{{name}}}" in given:
            instead = _variable("prompt_file" if name == "prompt" else name)
            told = f"{where}: command: {{{name}}} is not put into the text of a shell"
            raise BadInput(told, f"the variable {instead} is there: write ${instead}")
    return ["/bin/sh", "-c", _literal(given), "sh"]


def _placeholders(where: str, word: str) -> list[str]:
    """The names in a word; doubled braces are braces."""
    found = []
    for brace in _BRACE.finditer(word):
        if brace[0] in ("{{", "}}"):
            continue
        if brace[1] not in PLACEHOLDERS:
            near = suggestion(brace[1], PLACEHOLDERS) if brace[1] else ""
            known = ", ".join(f"{{{name}}}" for name in PLACEHOLDERS)
            raise BadInput(
                f"{where}: command: unknown placeholder {brace[0]}{near if 'mean' in near else ''} in {word!r:.80}",
                f"known: {known}; for braces themselves write {{{{ and }}}}",
            )
        found.append(brace[1])
    return found


def _literal(text: str) -> str:
    return text.replace("{", "{{").replace("}", "}}")


def _variable(name: str) -> str:
    return f"ABREAST_{name.upper()}"


def _as_list(text: str) -> str:
    try:
        words = shlex.split(text)
    except ValueError:
        words = text.split()
    return f"[{', '.join(words)}]"


def _is_plain_name(word: str) -> bool:
    return not word.startswith(("-", "{", os.sep)) and "\0" not in word and len(word) < 200 and "{" not in word


def _is_stdin(value: Any) -> bool:
    return value in ("prompt", "none")


def _tokens(usage: Usage) -> tuple[int | None, ...]:
    return (
        usage.input_tokens,
        usage.output_tokens,
        usage.cache_read_tokens,
        usage.cache_write_tokens,
        usage.reasoning_tokens,
    )
