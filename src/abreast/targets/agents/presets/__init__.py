"""Presets: the command line of each known agent, and the reader of its output.

>>> PRESETS["codex"].words[:2]
('exec', '--json')
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from pathlib import Path

from abreast.targets.agents.presets import aider, claude, codex, custom, gemini, opencode
from abreast.targets.agents.presets.agent_output import AgentOutput, Reader
from abreast.targets.agents.presets.custom import JsonPaths

__all__ = ["PRESETS", "AgentOutput", "JsonPaths", "Preset", "Reader", "custom"]


@dataclass(frozen=True, slots=True)
class Preset:
    """A known agent. It changes files in the workspace without asking.

    The command line is `program`, `words`, `model`, the variant's `args`, `last`. The prompt is standard input unless a
    word has a placeholder for it.
    """

    program: str
    words: tuple[str, ...]
    reads: Reader
    install: str
    login: str
    start_cpu_s: float  # CPU time for starting
    model: tuple[str, ...] = ("--model", "{model}")
    last: tuple[str, ...] = ()
    environment: Mapping[str, str] = field(default_factory=dict)
    settings: tuple[str, ...] = ()  # its settings, in the home folder
    login_file: str = ""  # the file of its login among the settings, which it may renew
    settings_variable: str = ""  # the environment variable with another folder of settings
    in_sandbox: Mapping[str, str] = field(default_factory=dict)  # replacements of words in a sandbox
    endpoint_variable: str = ""  # the environment variable with the address of its provider
    has_stream: bool = False  # its output is a `Stream`, which is followed live

    def settings_in(self, environment: Mapping[str, str]) -> tuple[tuple[Path, ...], tuple[Path, ...]]:
        """Return the paths of its settings and of its login."""
        home = Path(environment.get("HOME") or Path.home())
        if custom_folder := environment.get(self.settings_variable):
            folder = Path(custom_folder).absolute()
            return (folder,), (folder / Path(self.login_file).name,) if self.login_file else ()
        return tuple(home / name for name in self.settings), (home / self.login_file,) if self.login_file else ()


PRESETS: Mapping[str, Preset] = {
    "claude-code": Preset(
        program="claude",
        words=(
            *("-p", "--output-format", "stream-json", "--verbose", claude.PARTIAL, "--strict-mcp-config"),
            *("--no-session-persistence", "--permission-mode", "acceptEdits"),
            *("--allowedTools", "Bash,Edit,Write,MultiEdit,NotebookEdit,Read,Glob,Grep,LS,TodoWrite,Task"),
        ),
        reads=claude.read,
        install=claude.INSTALL,
        login=claude.LOGIN,
        start_cpu_s=0.8,
        environment=claude.QUIET,
        settings=(".claude", ".claude.json"),
        login_file=".claude/.credentials.json",
        settings_variable="CLAUDE_CONFIG_DIR",
        has_stream=True,
        endpoint_variable="ANTHROPIC_BASE_URL",
    ),
    "codex": Preset(
        program="codex",
        words=(
            *("exec", "--json", "--skip-git-repo-check", "--ephemeral", "--sandbox", "workspace-write"),
            *("-c", "sandbox_workspace_write.exclude_slash_tmp=true"),  # otherwise it makes a temporary /tmp/.git
        ),
        reads=codex.read,
        install="npm install -g @openai/codex, or name the program: command: /path/to/codex",
        login=codex.LOGIN,
        start_cpu_s=0.5,
        last=("-",),
        settings=(".codex",),
        login_file=".codex/auth.json",
        settings_variable="CODEX_HOME",
        in_sandbox={"workspace-write": "danger-full-access"},  # its own sandbox does not work inside of another one
    ),
    "gemini": Preset(
        program="gemini",
        words=("--output-format", "json", "--skip-trust", "--approval-mode", "yolo"),
        reads=gemini.read,
        install="npm install -g @google/gemini-cli, or name the program: command: /path/to/gemini",
        login=gemini.LOGIN,
        start_cpu_s=3.2,
        settings=(".gemini",),
        login_file=".gemini/oauth_creds.json",
        endpoint_variable="GOOGLE_GEMINI_BASE_URL",
    ),
    "qwen": Preset(
        program="qwen",
        words=("--output-format", "stream-json", "--approval-mode", "yolo", "--chat-recording", "false"),
        reads=claude.read_qwen,
        install="npm install -g @qwen-code/qwen-code, or name the program: command: /path/to/qwen",
        login=claude.QWEN_LOGIN,
        start_cpu_s=3.3,
        settings=(".qwen",),
        login_file=".qwen/oauth_creds.json",
        endpoint_variable="OPENAI_BASE_URL",
    ),
    "opencode": Preset(
        program="opencode",
        words=("run", "--format", "json", "--pure", "--auto"),
        reads=opencode.read,
        install="npm install -g opencode-ai, or name the program: command: /path/to/opencode",
        login=opencode.LOGIN,
        start_cpu_s=6.3,
        environment={"OPENCODE_DISABLE_AUTOUPDATE": "1"},
        settings=(".config/opencode", ".local/share/opencode"),
        login_file=".local/share/opencode/auth.json",
    ),
    "auggie": Preset(
        program="auggie",
        words=(
            *("--print", "--quiet", "--output-format", "json", "--dont-save-session"),
            *("--workspace-root", "{workspace}", "--instruction-file", "{prompt_file}"),
        ),
        reads=custom.read_auggie,
        install="npm install -g @augmentcode/auggie, or name the program: command: /path/to/auggie",
        login=custom.AUGGIE_LOGIN,
        start_cpu_s=2.3,
        settings=(".augment",),
        login_file=".augment/session.json",
    ),
    "aider": Preset(
        program="aider",
        words=(
            *("--message-file", "{prompt_file}", "--yes-always", "--no-git", "--no-pretty", "--no-stream"),
            *("--no-check-update", "--no-show-release-notes", "--analytics-disable", "--no-show-model-warnings"),
            *("--chat-history-file", "/dev/null", "--input-history-file", "/dev/null"),
        ),
        reads=aider.read,
        install="python -m pip install aider-chat, or name the program: command: /path/to/aider",
        login=aider.LOGIN,
        start_cpu_s=4.7,
        settings=(".aider", ".aider.conf.yml"),
        endpoint_variable="OPENAI_API_BASE",
    ),
    "cursor-agent": Preset(
        program="cursor-agent",
        words=("-p", "--force", "--output-format", "json"),
        reads=custom.read_cursor,
        install="see the documentation of Cursor's CLI, or name the program: command: /path/to/cursor-agent",
        login=custom.CURSOR_LOGIN,
        start_cpu_s=1.0,
        last=("{prompt}",),
        settings=(".cursor", ".config/cursor"),
    ),
}
