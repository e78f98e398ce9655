"""CommandKind: a command of headway.toml as a kind, whose jobs run its program."""

from __future__ import annotations

import errno
import os
import signal
import sys
from collections.abc import Mapping
from typing import Any

import msgspec

from headway import secrets
from headway.commands.argument import BUILT_IN
from headway.commands.command import SAFE_ENV, Command, Secret, read_commands
from headway.commands.live_output import LiveOutput, margin, tail
from headway.commands.param import schema_of
from headway.commands.process import REAP_S, Ended, NotStarted, Order, Process, StreamName, SupervisorLost
from headway.define.configured_kind import ConfiguredKind
from headway.define.context import Context, Program
from headway.define.enqueuer import Binding
from headway.errors import CommandFailed, ConfigError, InvalidJob, InvalidPayload, SecretMissing
from headway.logs import get_logger
from headway.model.codec import encode
from headway.model.job import Claim
from headway.secrets import Vault

log = get_logger("headway.worker")

_SPARE_S = 3.0  # how much longer the worker waits than the program's own grace period
_RESULT_LIMIT = 65_536
_LINE_LIMIT = 200


def load(values: Mapping[str, Any], path: str, *, binding: Binding | None = None) -> list[CommandKind]:
    """The kinds of the section `commands` of headway.toml, as `config.read()` gave it; raises `ConfigError`."""
    return [CommandKind(command, binding=binding) for command in read_commands(values, path)]


class CommandKind(ConfiguredKind):
    """Runs its command's program. The payload fills the placeholders; it is checked at enqueue and before each run."""

    is_command = True

    def __init__(self, command: Command, *, binding: Binding | None = None) -> None:
        self.command = command
        self.description = command.description
        run = self._run

        async def program(_ctx: Context, **fields: Any) -> Any:
            return await run(_ctx, fields)

        program.__qualname__ = f"commands.{command.name}"
        program.__module__ = command.where
        options = {**command.options, "name": command.name, "schema": schema_of(command.params)}
        try:
            super().__init__(program, options, binding=binding)  # type: ignore[arg-type]
        except InvalidJob as error:
            raise ConfigError(f"{command.where}: [commands.{command.name}] {error}") from error
        self._pinned = _resolved(command.program)

    def context(
        self, claim: Claim, *, tenant: str | None, worker_id: str | None, vault: Vault | None = None
    ) -> Context:
        ctx = super().context(claim, tenant=tenant, worker_id=worker_id, vault=vault)
        ctx.patience_s = self.command.kill_grace_ms / 1_000 + REAP_S + _SPARE_S
        return ctx

    def _check_fields(self, fields: dict[str, Any]) -> None:
        command = self.command
        for name, value in fields.items():
            if secrets.is_reference(value) != command.params[name].secret:
                wants = (
                    "only takes a reference"
                    if command.params[name].secret
                    else "is not a secret and takes no reference"
                )
                raise InvalidPayload(f'{self.name}({name}=…): {wants}, {{"$secret": "NAME"}}')
        for argument in command.arguments:
            name = argument.field or ""
            if name in fields and not command.params[name].secret:
                param = command.params[name]
                try:
                    argument.filled(param.text(fields[name]), allow_dash=param.allow_dash)
                except InvalidPayload as error:
                    raise InvalidPayload(f"{self.name}: {error}") from None

    # running it

    async def _run(self, ctx: Context, fields: dict[str, Any]) -> Any:
        if not self.is_for(ctx):
            raise CommandFailed(self.refusal(ctx), retry=False)
        try:
            order = self._order(ctx, fields)
        except InvalidPayload as error:
            raise CommandFailed(f"{self.name}: {error}", retry=False) from None
        except SecretMissing as error:
            raise CommandFailed(str(error)) from None
        if os.name != "posix":
            raise CommandFailed("commands need Linux, macOS or another POSIX system", retry=False)
        live = {name: LiveOutput(ctx, name) for name in ("stdout", "stderr")}
        program = ctx.program = Program()

        def started(pid: int) -> None:
            program.pid = pid

        def wrote(stream: StreamName, skipped: int, data: bytes) -> None:
            live[stream].write(skipped, data)

        process = Process(order, on_start=started, on_output=wrote)
        try:
            ended = await process.run()
        except NotStarted as error:
            raise self._not_started(error) from None
        except SupervisorLost:
            raise CommandFailed("its supervisor was killed, and the program with it") from None
        finally:
            # also when it is canceled, timed out or given back
            for each in live.values():
                each.close()
            if process.ended is not None:
                self._remember(ctx, process.ended)
        return self._judged(ctx, program, ended)

    def _order(self, ctx: Context, fields: dict[str, Any]) -> Order:
        command = self.command
        given = {name: param.default for name, param in command.params.items() if param.default is not None}
        given |= ctx.keyring.resolve(fields)
        env = self._env(ctx)
        argv = (command.program, *self._arguments_of(ctx, given))
        overlap = 4 * margin(ctx.known())  # a character may have this many bytes
        return Order(
            program=self._checked_program(),
            argv=argv,
            opened=self._opened(given),
            env=env,
            cwd=command.cwd or "/",
            stdin=encode(given, limit=1 << 30).encode() if command.stdin == "payload" else None,
            limits=command.limits.given(),
            keep_out=command.stdout_tail + overlap,
            keep_err=command.stderr_tail + overlap,
            grace_s=command.kill_grace_ms / 1_000,
            max_output=command.max_output,
        )

    def _arguments_of(self, ctx: Context, given: dict[str, Any]) -> list[str]:
        built_in = {
            "tenant": ctx.tenant,
            "tenant_id": ctx.claim.tenant_id,
            "job_id": ctx.job_id,
            "kind": ctx.kind,
            "attempt": str(ctx.fence),
        }
        assert built_in.keys() == set(BUILT_IN)
        filled: list[str] = []
        for argument in self.command.arguments:
            if argument.field is None:
                filled.append(argument.before)
            elif argument.field in built_in:
                filled.append(argument.filled(built_in[argument.field], allow_dash=False))
            else:
                param = self.command.params[argument.field]
                text = param.text(given[argument.field])
                param.check_on_host(text)
                filled.append(argument.filled(text, allow_dash=param.allow_dash))
        return filled

    def _opened(self, given: dict[str, Any]) -> tuple[tuple[int, str, str, str, str], ...]:
        """The paths that the program gets as descriptors."""
        found = []
        for place, argument in enumerate(self.command.arguments, start=1):
            param = self.command.params.get(argument.field or "")
            if param is not None and param.descriptor and param.under is not None:
                if not sys.platform.startswith("linux"):
                    raise CommandFailed(f"{param.name}: descriptor = true needs Linux", retry=False)
                found.append((place, argument.before, param.text(given[param.name]), argument.after, param.under))
        return tuple(found)

    def _env(self, ctx: Context) -> dict[str, str]:
        env = dict(SAFE_ENV)
        for name in self.command.env:
            if name in os.environ:
                env[name] = os.environ[name]
                if any(secrets.guess(name, env[name])):
                    ctx.keyring.hide(name)
        for name, value in self.command.set_env.items():
            env[name] = ctx.keyring.take(value.name) if isinstance(value, Secret) else value
        # these also identify the processes of an execution that lost its supervisor
        own = {"HEADWAY_JOB_ID": ctx.job_id, "HEADWAY_ATTEMPT": str(ctx.fence)}
        own |= {"HEADWAY_TRACE_ID": ctx.trace_id, "TRACEPARENT": ctx.traceparent}
        return env | own | ({} if ctx.tracestate is None else {"TRACESTATE": ctx.tracestate})

    def _checked_program(self) -> str:
        """The file to run: the same as when this process read the command."""
        program = self.command.program
        now = _resolved(program)
        if now is None:
            raise CommandFailed(f"the program {program} is missing on this host: install it, or correct argv")
        if self._pinned is None:
            self._pinned = now
        if now != self._pinned:
            raise CommandFailed(
                f"the program {program} was {self._pinned} when this worker started, and now leads to {now}: "
                "restart the worker if that is right",
                retry=False,
            )
        if not os.access(now, os.X_OK) or os.path.isdir(now):
            raise CommandFailed(f"the program {program} is not executable by this worker: chmod +x {now}")
        return now

    def _not_started(self, error: NotStarted) -> CommandFailed:
        reason = os.strerror(error.code)
        match error.stage:
            case "cwd":
                return CommandFailed(f"its working directory {self.command.cwd or '/'} cannot be entered: {reason}")
            case "under" if error.code == errno.EXDEV:
                return CommandFailed("a path leads out of the folder that it must be in", retry=False)
            case "under":
                return CommandFailed(f"a path cannot be opened: {reason}")
            case "exec" if error.code == errno.ENOENT:
                return CommandFailed(
                    f"the program {self.command.program} is missing, or the interpreter in its first line is"
                )
            case "exec" if error.code == errno.ENOEXEC:
                return CommandFailed(
                    f"the program {self.command.program} is not an executable file, or lacks its #! line"
                )
            case "exec" if error.code == errno.E2BIG:
                return CommandFailed("its arguments and environment are longer than the system allows", retry=False)
            case stage:
                return CommandFailed(f"the program {self.command.program} could not be started ({stage}): {reason}")

    def _remember(self, ctx: Context, ended: Ended) -> None:
        program = ctx.program
        assert program is not None
        program.exit_code = ended.exit_code
        program.stdout_tail = tail(ended.stdout, ended.stdout_size, self.command.stdout_tail, ctx.known())
        program.stderr_tail = tail(ended.stderr, ended.stderr_size, self.command.stderr_tail, ctx.known())

    def _judged(self, ctx: Context, program: Program, ended: Ended) -> Any:
        command, code = self.command, ended.exit_code
        log.debug(
            "program ended", exit_code=code, cpu=f"{ended.user_s + ended.system_s:.2f}s", memory=f"{ended.max_rss:,}"
        )
        if ended.left:
            ctx.log(f"{ended.left} of its processes could not be killed")
        if code in command.success_codes and not ended.flooded:
            return {"exit_code": code} | self._value(ended)
        if ended.flooded:
            reason = f"killed: it wrote more than max_output, {command.max_output:,} bytes"
        elif code < 0:
            reason = f"killed by {_signal_name(-code)}"
        else:
            reason = f"exited with code {code}"
        last = _last_line(program.stderr_tail) or _last_line(program.stdout_tail)
        retry = command.retry_codes is None or code in command.retry_codes
        raise CommandFailed(f"{reason}: {last}" if last else reason, exit_code=code, retry=retry)

    def _value(self, ended: Ended) -> dict[str, Any]:
        """Its output, if the command declares it as one JSON value; raises `CommandFailed` if it is not one."""
        if self.command.result != "json":
            return {}
        limit = min(_RESULT_LIMIT, self.command.stdout_tail)
        try:
            if ended.stdout_size > limit:
                raise InvalidPayload(f"it has {ended.stdout_size:,} bytes, and the limit is {limit:,}")
            value = msgspec.json.decode(ended.stdout)  # the output itself, not its redacted tail
            encode(value, limit=_RESULT_LIMIT, what="result")
        except (msgspec.MsgspecError, InvalidPayload, RecursionError) as error:
            raise CommandFailed(
                f'its output is not a JSON value, as result = "json" requires: {error}',
                exit_code=ended.exit_code,
                retry=self.command.retry_codes is None,
            ) from None
        return {"value": value}


def _resolved(program: str) -> str | None:
    real = os.path.realpath(program)
    return real if os.path.exists(real) else None


def _signal_name(number: int) -> str:
    try:
        return signal.Signals(number).name
    except ValueError:
        return f"signal {number}"


def _last_line(text: str | None) -> str:
    lines = (text or "").rstrip().rsplit("\n", 1)
    return lines[-1].strip()[-_LINE_LIMIT:]
