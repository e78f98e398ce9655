"""A program under its supervisor: what it is given, what is heard of it, and that nothing is left of it."""

from __future__ import annotations

import asyncio
import errno
import json
import os
import resource
import signal
import subprocess
import sys
import time
from pathlib import Path
from typing import IO, Any

import pytest

from headway.commands import process as process_module
from headway.commands.process import NotStarted, SupervisorLost
from tests import sizes_and_seeds
from tests.commands.supervised_programs import DAEMON, DEAF, READY, SLEEP, Bench, marked, python, rss_of, supervisors_of

pytestmark = pytest.mark.skipif(not sys.platform.startswith("linux"), reason="a subreaper and /proc")


def test_a_program_ends_with_its_code_its_output_and_its_pid(bench: Bench) -> None:
    ended = bench.script("import sys, os; print(os.getpid()); print('bad', file=sys.stderr); sys.exit(3)")
    assert (ended.exit_code, ended.stderr, ended.flooded, ended.left) == (3, b"bad\n", False, 0)
    assert bench.pids == [int(ended.stdout)]
    assert bench.heard("stdout") == ended.stdout
    assert bench.heard("stderr") == b"bad\n"
    assert (ended.stdout_size, ended.stderr_size) == (len(ended.stdout), 4)


def test_uvloop_closes_no_descriptor_twice(bench: Bench, monkeypatch: pytest.MonkeyPatch) -> None:
    # it closes a pipe itself and then by its file object: in between, another thread may have got the number
    uvloop = pytest.importorskip("uvloop")
    twice: list[int] = []

    class Watched:
        def __init__(self, file: IO[bytes]) -> None:
            self.fd = os.dup(file.fileno())
            file.close()

        def fileno(self) -> int:
            return self.fd

        def close(self) -> None:
            try:
                os.close(self.fd)
            except OSError:
                twice.append(self.fd)

    class Popen(subprocess.Popen[bytes]):
        def __init__(self, *args: Any, **keywords: Any) -> None:
            super().__init__(*args, **keywords)
            for name in ("stdin", "stdout"):
                if (file := getattr(self, name)) is not None:
                    setattr(self, name, Watched(file))

    monkeypatch.setattr(subprocess, "Popen", Popen)
    with asyncio.Runner(loop_factory=uvloop.new_event_loop) as runner:
        assert runner.run(bench.process("/bin/echo", "done").run()).stdout == b"done\n"
    assert twice == []


def test_arguments_environment_and_folder_are_exactly_what_was_ordered(bench: Bench) -> None:
    hostile = ["", "two words", "$(id)", "`id`", "'\"", "a\nb", "*", "-rf", "ünï→漢", "\\", ";ls", "{x}", "%s"]
    script = "import json, os, sys; print(json.dumps([sys.argv[1:], dict(os.environ), os.getcwd()]))"
    ended = bench.script(script, *hostile, env={"ONE": "1", "Ä": "ö"}, cwd="/usr")
    argv, env, cwd = json.loads(ended.stdout)
    assert (argv, cwd) == (hostile, "/usr")
    env.pop("LC_CTYPE", None)  # Python's own doing
    assert env == {"ONE": "1", "Ä": "ö"}


def test_a_program_has_its_own_session_no_other_files_and_default_signals(bench: Bench) -> None:
    script = """
import os
own = os.getsid(0) == os.getpid() == os.getpgid(0)
fds = sorted(int(fd) for fd in os.listdir("/proc/self/fd"))[:-1]
print(own, fds, os.read(0, 10))
"""
    # what Python itself ignores at its start: SIGPIPE and SIGXFSZ; so the kernel's word is asked before
    cat = bench.run("/bin/cat", "/proc/self/status")
    masks = dict(line.split(b":") for line in cat.stdout.splitlines() if line.startswith(b"Sig"))
    reserved = 0b11 << 31  # by the C library, which lets nobody change them: whoever ran this may ignore them
    assert (int(masks[b"SigBlk"], 16), int(masks[b"SigIgn"], 16) & ~reserved) == (0, 0)
    assert bench.script(script).stdout == b"True [0, 1, 2] b''\n"


def test_what_it_is_to_read_comes_whole_and_ends(bench: Bench) -> None:
    sent = os.urandom(700_000)
    script = "import hashlib, sys; print(hashlib.sha256(sys.stdin.buffer.read()).hexdigest())"
    import hashlib

    assert bench.script(script, stdin=sent).stdout.decode().strip() == hashlib.sha256(sent).hexdigest()
    # and a program that does not read it is not held up by it
    assert bench.script("print('done')", stdin=sent).stdout == b"done\n"
    assert bench.script("import sys; sys.stdin.close(); print('done')", stdin=sent).exit_code == 0
    assert bench.script("import sys; print(repr(sys.stdin.read()))", stdin=b"").stdout == b"''\n"


@pytest.mark.parametrize("number", [signal.SIGKILL, signal.SIGSEGV, signal.SIGTERM])
def test_an_end_by_a_signal_is_a_negative_code(bench: Bench, number: int) -> None:
    assert bench.script(f"import os; os.kill(os.getpid(), {int(number)})").exit_code == -number


def test_a_program_that_cannot_be_started_says_where_it_failed(bench: Bench, tmp_path: Path) -> None:
    def stage_of(*argv: str, **changes: object) -> tuple[str, int]:
        with pytest.raises(NotStarted) as caught:
            bench.run(*argv, **changes)
        return caught.value.stage, caught.value.code

    script = tmp_path / "script"
    script.write_text("#!/no/such/interpreter\n")
    assert stage_of(str(script)) == ("exec", errno.EACCES)
    script.chmod(0o755)
    assert stage_of(str(script)) == ("exec", errno.ENOENT)
    script.write_text("no first line\n")
    assert stage_of(str(script)) == ("exec", errno.ENOEXEC)
    assert stage_of("/no/such/program") == ("exec", errno.ENOENT)
    assert stage_of("/bin/true", cwd="/no/such/folder") == ("cwd", errno.ENOENT)
    assert stage_of("/bin/echo", "x" * 3_000_000) == ("exec", errno.E2BIG)
    assert bench.pids == []


def test_a_flood_of_output_costs_no_memory_and_leaves_its_tail(bench: Bench) -> None:
    megabytes = 1_024 if sizes_and_seeds.full else 256
    script = f"""
import os, sys
block = b"x" * 1_048_576
for number in range({megabytes}):
    os.write(1, block)
os.write(1, b"the end")
"""
    peaks: list[int] = []
    before = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss

    async def story() -> tuple[bytes, int]:
        task = asyncio.ensure_future(bench.process(*python(script)).run())
        while not task.done():
            peaks.extend(rss_of(pid) for pid in supervisors_of(os.getpid()))
            await asyncio.sleep(0.05)
        ended = task.result()
        return ended.stdout, ended.stdout_size

    tail, size = asyncio.run(story())
    assert size == (megabytes << 20) + 7
    assert tail == b"x" * (65_536 - 7) + b"the end"
    assert max(peaks) < 40 << 20
    assert (resource.getrusage(resource.RUSAGE_SELF).ru_maxrss - before) * 1_024 < 16 << 20
    assert all(len(data) <= 32_768 for _, _, data in bench.output)
    assert sum(skipped + len(data) for _, skipped, data in bench.output) == size


def test_output_is_heard_while_it_runs(bench: Bench) -> None:
    script = "import sys; print('ready', flush=True); sys.stdin.read()"
    bench.cancel(*python(script + "; import time; time.sleep(600)"))


def test_more_output_than_it_may_write_is_its_end(bench: Bench) -> None:
    script = "import os\nwhile True: os.write(2, b'y' * 10_000)"
    ended = bench.script(script, max_output=1_000_000, keep_err=100)
    assert (ended.flooded, ended.exit_code, ended.stderr) == (True, -signal.SIGKILL, b"y" * 100)
    assert 1_000_000 < ended.stderr_size < 100_000_000


def test_a_cancelled_program_gets_sigterm_first(bench: Bench) -> None:
    script = "import signal, sys; signal.signal(signal.SIGTERM, lambda *_: sys.exit('bye')); " + SLEEP
    process, _ = bench.cancel(*python(script), grace_s=600)
    assert process.ended is not None
    assert (process.ended.exit_code, process.ended.stderr) == (1, b"bye\n")


def test_a_program_that_ignores_sigterm_is_killed_after_the_grace(bench: Bench) -> None:
    process, took = bench.cancel(*python(DEAF), grace_s=0.7)
    assert process.ended is not None
    assert process.ended.exit_code == -signal.SIGKILL
    assert took >= 0.7


def test_a_stopped_program_is_ended_too(bench: Bench) -> None:
    def stopped() -> bool:
        os.kill(bench.pids[0], signal.SIGSTOP)
        return True

    process, _ = bench.cancel(*python(SLEEP), when=stopped, grace_s=600)
    assert process.ended is not None
    assert process.ended.exit_code == -signal.SIGTERM


@pytest.mark.parametrize("rest", ["", "time.sleep(600)"], ids=["the program ends", "it is cancelled"])
def test_a_daemon_by_double_fork_and_setsid_does_not_stay(bench: Bench, rest: str) -> None:
    if rest:
        process, _ = bench.cancel(*python(DAEMON + rest))
        assert process.ended is not None
        ended = process.ended
    else:
        ended = bench.script(DAEMON)
        assert ended.exit_code == 0
    assert ended.left == 0
    assert marked(bench.mark) == []


def test_a_crowd_that_forks_on_and_on_does_not_stay(bench: Bench) -> None:
    script = """
import os, signal, time
signal.signal(signal.SIGTERM, signal.SIG_IGN)
signal.signal(signal.SIGCHLD, signal.SIG_IGN)
print("ready", flush=True)
end = time.monotonic() + 20
for _ in range(4):
    os.fork()
while time.monotonic() < end:  # each goes on in its child
    if os.fork():
        os._exit(0)
    os.setsid()
    time.sleep(0.002)
"""
    bench.cancel(*python(script), grace_s=0.2)
    assert marked(bench.mark) == []


def test_cancels_at_every_moment_leave_no_process(bench: Bench) -> None:
    async def one(number: int, slots: asyncio.Semaphore) -> None:
        async with slots:
            task = asyncio.ensure_future(bench.process(*python(SLEEP), grace_s=0.3).run())
            await asyncio.sleep(number % 20 * 0.004)  # anywhere: before its start, in it, after it
            task.cancel()
            await asyncio.wait({task})

    async def story() -> None:
        slots = asyncio.Semaphore(8)
        await asyncio.gather(*(one(number, slots) for number in range(200 if sizes_and_seeds.full else 40)))

    before = len(os.listdir("/proc/self/fd"))
    asyncio.run(story())
    assert bench.alive() == []
    assert len(os.listdir("/proc/self/fd")) <= before


def test_one_cancel_more_shortens_the_grace_and_ends_nothing_early(bench: Bench) -> None:
    async def story() -> float:
        process = bench.process(*python(DEAF), grace_s=60)
        task = asyncio.ensure_future(process.run())
        await bench.ready.wait()
        began = time.monotonic()
        task.cancel()
        await asyncio.sleep(0.1)
        task.cancel()
        await asyncio.wait({task}, timeout=50)
        assert task.cancelled()
        assert process.ended is not None
        assert process.ended.exit_code == -signal.SIGKILL
        return time.monotonic() - began

    assert asyncio.run(story()) >= 2


def test_a_killed_supervisor_takes_the_program_and_its_daemons_along(bench: Bench) -> None:
    async def story() -> None:
        task = asyncio.ensure_future(bench.process(*python(DAEMON + "time.sleep(600)")).run())
        await bench.ready.wait()
        assert len(marked(bench.mark)) == 2
        (supervisor,) = supervisors_of(os.getpid())
        for harmless in (signal.SIGTERM, signal.SIGINT, signal.SIGHUP):
            os.kill(supervisor, harmless)
        await asyncio.sleep(0.1)
        assert not task.done()
        os.kill(supervisor, signal.SIGKILL)
        with pytest.raises(SupervisorLost):
            await asyncio.wait_for(task, 60)

    asyncio.run(story())
    assert marked(bench.mark) == []


def test_a_supervisor_that_does_not_answer_is_killed(bench: Bench, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(process_module, "REAP_S", 0.3)

    def frozen() -> bool:
        (supervisor,) = supervisors_of(os.getpid())
        os.kill(supervisor, signal.SIGSTOP)
        return True

    process, _ = bench.cancel(*python(SLEEP), when=frozen, grace_s=0.1)
    assert process.ended is None


def test_without_a_subreaper_the_process_group_is_ended(bench: Bench, monkeypatch: pytest.MonkeyPatch) -> None:
    script = Path(process_module._SCRIPT).read_text()
    copy = bench.folder / "supervisor.py"
    copy.write_text(script.replace("return prctl(_PR_SET_CHILD_SUBREAPER, 1) == 0", "return False"))
    assert copy.read_text() != script
    monkeypatch.setattr(process_module, "_SCRIPT", str(copy))
    assert bench.script("print('hi')").stdout == b"hi\n"
    ignore = "import os, signal; signal.signal(signal.SIGTERM, signal.SIG_IGN); "
    children = ignore + "[os.fork() for _ in range(2)]; " + SLEEP
    process, _ = bench.cancel(*python(children), grace_s=0.2)
    assert process.ended is not None
    assert process.ended.exit_code == -signal.SIGKILL
    assert marked(bench.mark) == []
    assert bench.script("import os, time; os.fork() or time.sleep(600)").exit_code == 0
    with pytest.raises(NotStarted):
        bench.run("/no/such/program")


def test_limits_hold_the_program(bench: Bench) -> None:
    burn = bench.script("while True: pass", limits={"cpu": 1})
    assert burn.exit_code == -signal.SIGXCPU
    eat = bench.script("x = bytearray(300_000_000)", limits={"memory": 200_000_000})
    assert (eat.exit_code, b"MemoryError" in eat.stderr) == (1, True)
    opened = bench.script("f = [open('/dev/null') for _ in range(50)]", limits={"files": 20})
    assert (opened.exit_code, b"Too many open files" in opened.stderr) == (1, True)
    path = str(bench.folder / "big")
    write = "import sys; f = open(sys.argv[1], 'wb', 0); f.write(b'x' * 5000); f.write(b'x')"
    big = bench.script(write, path, limits={"file_size": 1000})
    assert (big.exit_code, b"File too large" in big.stderr) == (1, True)  # Python ignores SIGXFSZ
    assert os.path.getsize(path) == 1000
    plain = bench.script("import resource; print(resource.getrlimit(resource.RLIMIT_CORE)[0])")
    assert plain.stdout == b"0\n"


def test_a_worker_that_does_not_listen_holds_nobody_up(bench: Bench) -> None:
    # it waits until it was heard to be ready: in a flood that line may be among what is skipped
    script = READY + (
        "import os, time\nwhile not os.path.exists(sys.argv[2]): time.sleep(0.01)\n"
        "for _ in range(200): os.write(1, b'z' * 1_048_576)\nopen(sys.argv[1], 'w').close()"
    )
    done, go = bench.folder / "done", bench.folder / "go"

    async def story() -> None:
        task = asyncio.ensure_future(bench.process(*python(script, str(done), str(go))).run())
        await bench.ready.wait()
        go.touch()
        until = time.monotonic() + 120
        while not done.exists() and time.monotonic() < until:
            time.sleep(0.05)  # the whole event loop stands still
        assert done.exists()
        assert (await task).stdout_size == 6 + 200 * 1_048_576

    asyncio.run(story())
