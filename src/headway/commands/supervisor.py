"""Runs one program and ends every process that it starts: a script that imports nothing of Headway.

`process.py` starts it as `python -I -S supervisor.py`, in a session of its own. Standard input is the control socket:
first the order (a length and a marshalled dict), then `T` to end the program, `H` to do so sooner; if it closes, the
worker died. Standard output carries frames to the worker: a letter, a length, a body.

On Linux it is the child subreaper: whatever the program starts, double forks and new sessions included, stays below
this process and is found in /proc. Elsewhere only the program's process group is ended.
"""

from __future__ import annotations

import ctypes
import errno
import marshal
import os
import resource
import select
import signal
import struct
import sys
import time

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Iterator
    from typing import Any, NoReturn

EVERY_S = 0.3  # how often new output is shown
LIVE_LIMIT = 32_768  # and how many bytes of each stream
HURRY_S = 2.0  # the longest grace period of a program whose worker is gone, or ends at once
DAEMONS_S = 1.0  # and of the processes that a program leaves behind
GIVE_UP_S = 4.0  # a process that survives SIGKILL for this long cannot be ended from here
CHUNK = 262_144
_PR_SET_PDEATHSIG, _PR_SET_CHILD_SUBREAPER = 1, 36
_LIMITS = {
    "cpu": resource.RLIMIT_CPU,
    "memory": resource.RLIMIT_AS,
    "files": resource.RLIMIT_NOFILE,
    "file_size": resource.RLIMIT_FSIZE,
}


class Stream:
    """One output of the program: its last bytes, and those not sent to the worker yet."""

    def __init__(self, fd: int, letter: bytes, keep: int) -> None:
        self.fd = fd
        self.letter = letter
        self.keep = keep
        self.total = 0
        self.tail = bytearray()
        self.fresh = bytearray()
        self.skipped = 0

    def read(self) -> int | None:
        """Read once; gives the number of bytes, 0 at the end, None if there is nothing now."""
        try:
            data = os.read(self.fd, CHUNK)
        except BlockingIOError:
            return None
        except OSError:
            data = b""
        if not data:
            os.close(self.fd)
            self.fd = -1
            return 0
        self.total += len(data)
        self.tail += data
        # trimmed rarely: moving the tail for each chunk would cost more than reading it
        if len(self.tail) > 2 * self.keep + CHUNK:
            del self.tail[: len(self.tail) - self.keep]
        self.fresh += data
        if len(self.fresh) > LIVE_LIMIT:
            over = len(self.fresh) - LIVE_LIMIT
            self.skipped += over
            del self.fresh[:over]
        return len(data)

    def take(self) -> bytes:
        """The new output as a frame, with the number of bytes left out before it."""
        if not self.fresh and not self.skipped:
            return b""
        body = struct.pack("!Q", self.skipped) + bytes(self.fresh)
        self.fresh.clear()
        self.skipped = 0
        return frame(self.letter, body)


class Supervisor:
    """The program, from its start to the end of its last descendant."""

    def __init__(self, order: dict[str, Any]) -> None:
        self.order = order
        self.worker = os.getppid()
        self.subreaper = False
        self.main = 0
        self.status: int | None = None  # the program's own, once it ended
        self.asked_at: float | None = None  # when everything was asked to end
        self.patience_s = 0.0
        self.killing_at: float | None = None
        self.flooded = False
        self.deaf = False  # the worker no longer reads
        self.outgoing = bytearray()
        self.shown_at = 0.0
        self.streams: list[Stream] = []
        self.stdin = -1
        self.input = memoryview(order["stdin"] or b"")
        self.awake, wake = os.pipe()
        for fd in (self.awake, wake):
            os.set_blocking(fd, False)
        signal.signal(signal.SIGCHLD, lambda *_: None)
        signal.set_wakeup_fd(wake, warn_on_full_buffer=False)

    def run(self) -> None:
        self.subreaper = adopt_orphans()
        failure = self.start()
        if failure is not None:
            self.send(frame(b"F", failure))
            self.flush(wait=True)
            return
        self.send(frame(b"S", struct.pack("!i", self.main)))
        while not self.over():
            self.wait()
            self.reap()
            self.judge()
            self.show()
        for stream in self.streams:
            while stream.fd >= 0 and stream.read():
                pass
        self.finish()

    def start(self) -> bytes | None:
        """Fork and exec; gives the stage and the error number if that failed."""
        order = self.order
        try:
            argv = list(order["argv"])
            for place, before, path, after, folder in order["opened"]:
                argv[place] = before + opened(path, folder) + after
            order["argv"] = argv
        except OSError as error:
            return struct.pack("!i", error.errno or errno.EIO) + b"under"
        out, out_end = os.pipe()
        err, err_end = os.pipe()
        told, tell = os.pipe()
        stdin = os.open(os.devnull, os.O_RDONLY)
        if order["stdin"] is not None:
            os.close(stdin)
            stdin, self.stdin = os.pipe()
            os.set_blocking(self.stdin, False)
        parent = os.getpid()
        try:
            self.main = os.fork()
        except OSError as error:
            return struct.pack("!i", error.errno) + b"fork"
        if self.main == 0:
            become(order, parent, (stdin, out_end, err_end), tell)
        for fd in (out_end, err_end, tell, stdin):
            os.close(fd)
        with os.fdopen(told, "rb") as answer:
            failure = answer.read()
        if failure:
            os.waitpid(self.main, 0)
            return failure
        for fd, letter, keep in ((out, b"O", order["keep_out"]), (err, b"E", order["keep_err"])):
            os.set_blocking(fd, False)
            self.streams.append(Stream(fd, letter, keep))
        os.set_blocking(1, False)
        os.set_blocking(0, False)
        return None

    def over(self) -> bool:
        """Whether the program and its descendants are gone, or cannot be ended."""
        return self.given_up() or (self.status is not None and not self.has_children())

    def given_up(self) -> bool:
        return self.killing_at is not None and time.monotonic() - self.killing_at > GIVE_UP_S

    def has_children(self) -> bool:
        if not self.subreaper:
            return group_lives(self.main)
        # every living descendant has an ancestor that is a child of this process
        try:
            os.waitid(os.P_ALL, 0, os.WEXITED | os.WNOHANG | os.WNOWAIT)
        except ChildProcessError:
            return False
        return True

    def wait(self) -> None:
        """Wait for an event, or until something is due."""
        now = time.monotonic()
        poll = select.poll()
        poll.register(self.awake, select.POLLIN)
        if not self.deaf:
            poll.register(0, select.POLLIN)
            if self.outgoing:
                poll.register(1, select.POLLOUT)
        if self.stdin >= 0:
            poll.register(self.stdin, select.POLLOUT)
        for stream in self.streams:
            if stream.fd >= 0:
                poll.register(stream.fd, select.POLLIN)
        until = now + 1.0  # check that the worker lives: a fork of it may hold the control socket open
        if self.killing_at is not None:
            until = now + 0.01
        elif self.asked_at is not None:
            until = min(until, self.asked_at + self.patience_s)
        if self.unshown() and not self.outgoing:
            until = min(until, self.shown_at + EVERY_S)
        for fd, _ in poll.poll(max(0.0, until - now) * 1_000 + 1):
            if fd == self.awake:
                os.read(self.awake, 4_096)
            elif fd == 0:
                self.listen()
            elif fd == 1:
                self.flush(wait=False)
            elif fd == self.stdin:
                self.feed()
            else:
                for stream in self.streams:
                    if stream.fd == fd:
                        stream.read()
        if os.getppid() != self.worker:
            self.lose_worker()

    def listen(self) -> None:
        try:
            word = os.read(0, 64)
        except OSError:
            return
        if not word:
            self.lose_worker()
        elif b"T" in word:
            self.end(self.order["grace_s"])
        if b"H" in word:
            self.end(min(self.order["grace_s"], HURRY_S))

    def lose_worker(self) -> None:
        if not self.deaf:
            self.deaf = True
            self.outgoing.clear()
            self.end(min(self.order["grace_s"], HURRY_S))

    def feed(self) -> None:
        try:
            self.input = self.input[os.write(self.stdin, self.input[:65_536]) :]
        except BlockingIOError:
            return
        except OSError:
            self.input = self.input[:0]  # it does not read its input, which is allowed
        if not self.input:
            os.close(self.stdin)
            self.stdin = -1

    def reap(self) -> None:
        while True:
            try:
                pid, status = os.waitpid(-1, os.WNOHANG)
            except ChildProcessError:
                return
            if pid == 0:
                return
            if pid == self.main:
                self.status = status

    def judge(self) -> None:
        """Ask for the end, or enforce it, when it is time."""
        limit = self.order["max_output"]
        if limit and not self.flooded and sum(stream.total for stream in self.streams) > limit:
            self.flooded = True
            self.end(0.0)
        if self.status is not None and self.asked_at is None and self.has_children():
            self.end(min(self.order["grace_s"], DAEMONS_S))
        if self.asked_at is not None and time.monotonic() - self.asked_at >= self.patience_s:
            self.killing_at = self.killing_at or time.monotonic()
            self.kill()

    def end(self, patience_s: float) -> None:
        """Ask every process to end within this time; of several requests the shortest holds."""
        now = time.monotonic()
        if self.asked_at is not None:
            self.patience_s = min(self.patience_s, now - self.asked_at + patience_s)
            return
        self.asked_at = now
        self.patience_s = patience_s
        if patience_s > 0:
            for number in (signal.SIGTERM, signal.SIGCONT):  # a stopped process must continue to receive the signal
                self.signal(self.descendants(), number)

    def kill(self) -> None:
        """Stop them all first, so that none can start another, then kill them."""
        stopped: set[int] = set()
        for _ in range(100):
            found = self.descendants() - stopped
            if not found:
                break
            self.signal(found, signal.SIGSTOP)
            stopped |= found
        self.signal(stopped, signal.SIGKILL)

    def signal(self, pids: set[int], number: int) -> None:
        for pid in pids:
            try:
                (os.kill if self.subreaper else os.killpg)(pid, number)
            except OSError:
                continue  # it just ended, or is another user's

    def descendants(self) -> set[int]:
        return living_below(os.getpid()) if self.subreaper else {self.main}

    def unshown(self) -> bool:
        return not self.deaf and any(stream.fresh for stream in self.streams)

    def show(self) -> None:
        now = time.monotonic()
        if not self.outgoing and self.unshown() and now - self.shown_at >= EVERY_S:
            self.shown_at = now
            self.send(b"".join(stream.take() for stream in self.streams))

    def finish(self) -> None:
        if self.deaf:
            return
        left = self.descendants() if self.given_up() else set()
        used = resource.getrusage(resource.RUSAGE_CHILDREN)
        out, err = self.streams
        tails = [bytes(stream.tail[-stream.keep :]) for stream in self.streams]
        numbers = struct.pack(
            "!i?iddQQQI",
            -signal.SIGKILL if self.status is None else os.waitstatus_to_exitcode(self.status),
            self.flooded,
            len(left),
            used.ru_utime,
            used.ru_stime,
            used.ru_maxrss * (1 if sys.platform == "darwin" else 1_024),
            out.total,
            err.total,
            len(tails[0]),
        )
        self.send(out.take() + err.take() + frame(b"X", numbers + tails[0] + tails[1]))
        self.flush(wait=True)

    def send(self, data: bytes) -> None:
        if not self.deaf:
            self.outgoing += data
            self.flush(wait=False)

    def flush(self, *, wait: bool) -> None:
        """Write what the worker accepts now, or all of it, for as long as the worker lives."""
        while self.outgoing and not self.deaf:
            try:
                del self.outgoing[: os.write(1, self.outgoing[:65_536])]
            except BlockingIOError:
                if not wait:
                    return
                poll = select.poll()
                poll.register(1, select.POLLOUT)
                poll.poll(1_000)
                if os.getppid() != self.worker:
                    self.lose_worker()
            except OSError:
                self.lose_worker()


def frame(letter: bytes, body: bytes) -> bytes:
    return letter + struct.pack("!I", len(body)) + body


def opened(path: str, folder: str) -> str:
    """A name for what is at this path now: by a descriptor of this process, which lives as long as the program and its
    children, and which nobody can exchange. For a file that is not there yet, its folder's. Raises `OSError`: EXDEV if
    that is not in `folder`."""
    name = ""
    try:
        fd = os.open(path, os.O_PATH)
    except FileNotFoundError:
        parent, _, name = path.rstrip("/").rpartition("/")
        fd = os.open(parent or "/", os.O_PATH | os.O_DIRECTORY)
        try:
            os.lstat(name, dir_fd=fd)
        except FileNotFoundError:
            name = f"/{name}"
        else:  # a link to what is not there
            raise OSError(errno.EXDEV, os.strerror(errno.EXDEV)) from None
    real = os.readlink(f"/proc/self/fd/{fd}")
    inside = os.path.realpath(folder)
    if real != inside and not real.startswith(inside.rstrip("/") + "/"):
        raise OSError(errno.EXDEV, os.strerror(errno.EXDEV))
    return f"/proc/{os.getpid()}/fd/{fd}{name}"


def adopt_orphans() -> bool:
    """Become the parent of orphaned descendants; gives whether that worked."""
    if not sys.platform.startswith("linux") or not os.path.isdir("/proc/self/task"):
        return False
    try:
        return prctl(_PR_SET_CHILD_SUBREAPER, 1) == 0
    except (OSError, AttributeError):
        return False


def prctl(option: int, value: int) -> int:
    zero = ctypes.c_ulong(0)
    return int(ctypes.CDLL(None).prctl(option, ctypes.c_ulong(value), zero, zero, zero))


def become(order: dict[str, Any], parent: int, fds: tuple[int, int, int], tell: int) -> NoReturn:
    """In the child: become the program. Reports the stage and the error number if that fails; never returns."""
    stage = b"start"
    try:
        os.setsid()
        if sys.platform.startswith("linux"):
            prctl(_PR_SET_PDEATHSIG, signal.SIGKILL)
            if os.getppid() != parent:
                os._exit(127)
        for number, fd in enumerate(fds):
            os.dup2(fd, number)  # inheritable; all others close on exec
        stage = b"cwd"
        os.chdir(order["cwd"])
        stage = b"start"
        for number in signal.valid_signals():
            if number not in (signal.SIGKILL, signal.SIGSTOP):
                signal.signal(number, signal.SIG_DFL)
        signal.pthread_sigmask(signal.SIG_SETMASK, ())
        stage = b"limits"
        resource.setrlimit(resource.RLIMIT_CORE, (0, resource.getrlimit(resource.RLIMIT_CORE)[1]))
        for name, value in order["limits"].items():
            limit(_LIMITS[name], value)
        stage = b"exec"
        os.execve(order["program"], order["argv"], order["env"])  # noqa: S606 - no shell is the point
    except OSError as error:
        os.write(tell, struct.pack("!i", error.errno or errno.EIO) + stage)
    except BaseException as error:
        os.write(tell, struct.pack("!i", errno.EINVAL) + stage + b" " + type(error).__name__.encode())
    finally:
        os._exit(127)


def limit(which: int, value: int) -> None:
    hard = resource.getrlimit(which)[1]
    if hard != resource.RLIM_INFINITY:
        value = min(value, hard)
    if which == resource.RLIMIT_CPU:
        # SIGXCPU at the soft limit, SIGKILL two seconds later
        most = value + 2 if hard == resource.RLIM_INFINITY else min(value + 2, hard)
        resource.setrlimit(which, (value, most))
    else:
        resource.setrlimit(which, (value, value))


def living_below(root: int) -> set[int]:
    """The descendants of this process that one scan finds; to get all, scan until none is new."""
    try:
        with open(f"/proc/{root}/task/{root}/children", "rb"):
            pass
    except OSError:
        return set(below(root, parents()))
    return set(below(root, None))


def below(root: int, known: dict[int, list[int]] | None) -> Iterator[int]:
    waiting = [root]
    while waiting:
        pid = waiting.pop()
        children = children_of(pid) if known is None else known.get(pid, [])
        yield from children
        waiting += children


def children_of(pid: int) -> list[int]:
    """From the kernel's lists of children, one for each thread."""
    found: list[int] = []
    try:
        for thread in os.listdir(f"/proc/{pid}/task"):
            with open(f"/proc/{pid}/task/{thread}/children", "rb", buffering=0) as children:
                found += map(int, children.read(1_048_576).split())
    except OSError:
        pass  # it ended meanwhile
    return found


def parents() -> dict[int, list[int]]:
    """All processes by their parents, for a kernel without those lists."""
    children: dict[int, list[int]] = {}
    for name in os.listdir("/proc"):
        if name.isdigit():
            try:
                with open(f"/proc/{name}/stat", "rb", buffering=0) as stat:
                    # the program's name is in parentheses and may hold anything
                    parent = int(stat.read(4_096).rpartition(b")")[2].split()[1])
            except OSError:
                continue
            children.setdefault(parent, []).append(int(name))
    return children


def group_lives(group: int) -> bool:
    try:
        os.killpg(group, 0)
    except ProcessLookupError:
        return False
    except OSError:
        return True
    return True


def read_order() -> dict[str, Any]:
    def exactly(count: int) -> bytes:
        data = bytearray()
        while len(data) < count:
            more = os.read(0, min(count - len(data), 65_536))
            if not more:
                sys.exit(0)  # the worker died before it sent the whole order
            data += more
        return bytes(data)

    (size,) = struct.unpack("!I", exactly(4))
    order: dict[str, Any] = marshal.loads(exactly(size))  # noqa: S302 - written by our own worker
    return order


def main() -> None:
    # only the worker may end this process, by the socket: systemd and terminals signal whole groups
    for number in (signal.SIGTERM, signal.SIGINT, signal.SIGHUP, signal.SIGQUIT):
        signal.signal(number, signal.SIG_IGN)
    signal.pthread_sigmask(signal.SIG_SETMASK, ())
    Supervisor(read_order()).run()


if __name__ == "__main__":
    main()
