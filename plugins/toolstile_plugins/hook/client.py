"""The client of a hook: it sends the event of an agent to the helper, and prints the answer.

Each event starts it by `python -I -S`, so it imports no package, and little of the library. An
answer ends with a mark, without which the agent must not believe it.
"""

from __future__ import annotations

# Because `socket` takes 10 ms of CPU to import, as long as Python itself.
import _socket
import fcntl
import os
import sys
import time

END = b"toolstile:end"
LIMIT = 25.0
"""Seconds for an answer, including the start of a helper."""
PASSED = ("CLAUDE_PROJECT_DIR", "GEMINI_PROJECT_DIR", "CLAUDE_CODE_ENTRYPOINT", "CLAUDE_PID")
"""The variables that the helper reads; the first are the workspace."""
OWN = "TOOLSTILE_"
_LONGEST = 200
_PAUSE = 0.03
_OTHERS = 0o077


def state_folder() -> str:
    """Return the folder of all helpers, outside of every workspace."""
    # Because the client imports nothing of ours, this is `cli_support.state_folder` again.
    state = os.environ.get("XDG_STATE_HOME") or os.path.expanduser("~/.local/state")  # noqa: PTH111
    return f"{state}/toolstile/hook"


def folder_of(workspace: str) -> str:
    """Return the folder with the socket of a workspace's helper."""
    name = os.path.realpath(workspace).replace("%", "%25").replace("/", "%2F")
    if len(name) > _LONGEST:
        from hashlib import sha256

        name = sha256(name.encode(errors="surrogateescape")).hexdigest()
    return f"{state_folder()}/{name}"


def private(folder: str) -> None:
    """Make a folder, and raise `OSError` if others can reach it."""
    for each in (state_folder(), folder):  # one by one, because the mode is that of the last
        os.makedirs(each, 0o700, exist_ok=True)  # noqa: PTH103
    found = os.stat(folder)  # noqa: PTH116
    if found.st_uid != os.getuid() or found.st_mode & _OTHERS:
        msg = f"{folder} can be reached by others; run `chmod 700` on it"
        raise PermissionError(msg)


def ask(message: bytes) -> bytes:
    """Return the answer of the helper in the working directory; empty without one."""
    answer = b""
    helper = _socket.socket(_socket.AF_UNIX, _socket.SOCK_STREAM)
    helper.settimeout(LIMIT)
    try:
        # Relative, because the path of a socket may have about 100 bytes.
        helper.connect("socket")
        helper.sendall(message)
        helper.shutdown(_socket.SHUT_WR)
        while part := helper.recv(65536):
            answer += part
    except OSError:
        return b""
    finally:
        helper.close()
    return answer if answer.endswith(END) else b""


def start(workspace: str) -> int:
    """Start a helper; it ends by itself if there is another, or when it is idle."""
    if child := os.fork():
        return child
    try:
        os.setsid()
        log = os.open("log", os.O_WRONLY | os.O_CREAT | os.O_APPEND | os.O_NOFOLLOW, 0o600)
        os.dup2(os.open(os.devnull, os.O_RDONLY), 0)
        os.dup2(log, 1)
        os.dup2(log, 2)
        os.closerange(3, 256)
        os.chdir(workspace)
        serve = [sys.executable, "-I", "-m", "toolstile", "hook", "serve"]
        # Because an agent may start a client, its variables do not configure the helper.
        kept = {key: text for key, text in os.environ.items() if not key.startswith(OWN)}
        os.execve(serve[0], serve, kept)  # noqa: S606 - no shell
    finally:
        os._exit(1)


def is_served() -> bool:
    """Tell whether a helper is in the working directory."""
    with open("lock", "a") as lock:  # noqa: PTH123 - quick
        try:
            fcntl.flock(lock, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except BlockingIOError:
            return True
    return False


def main(agent: str) -> int:
    """Answer the event on standard input; return the exit status."""
    event = sys.stdin.buffer.read()
    environment = [os.environ.get(name, "").replace("\n", "") for name in PASSED]
    workspace = environment[0] or environment[1] or os.getcwd()  # noqa: PTH109 - quick
    folder = folder_of(workspace)
    private(folder)
    os.chdir(folder)
    head = "\0".join([agent, *environment]).encode(errors="surrogateescape")
    child, failed, until = 0, 0, time.monotonic() + LIMIT
    while time.monotonic() < until:
        if answer := ask(head + b"\n" + event):
            sys.stdout.buffer.write(answer)
            sys.stdout.buffer.flush()
            return 0
        if not child:
            child = start(workspace)
        else:
            ended, status = os.waitpid(child, os.WNOHANG)
            # Beside another helper, which may have ended since, none can start.
            failed += bool(ended and status and not is_served())
            if failed > 1:
                return 1  # its log says why
            child = 0 if ended else child
        time.sleep(_PAUSE)
    return 1


if __name__ == "__main__":
    sys.exit(main(sys.argv[1]))
