"""Processes that have torch from the start. Importing it takes seconds; forking a process that has it takes none.

The server is this file, run as a script. It has imported torch, and no backend. For each request it forks a process that
goes on where ``import torch`` would: in the environment that is asked for, it loads the backends or leaves them alone.
The fork server of multiprocessing would not do: its processes skip what Python does at their end, which tests look at.
"""

from __future__ import annotations

import gc
import json
import os
import signal
import subprocess
import sys
from contextlib import suppress
from pathlib import Path
from tempfile import TemporaryDirectory
from types import ModuleType


class ForkServer:
    """Runs scripts in processes that have torch."""

    def __init__(self) -> None:
        env = os.environ | {"TORCH_DEVICE_BACKEND_AUTOLOAD": "0"}
        command = [sys.executable, __file__]
        self._server = subprocess.Popen(command, stdin=subprocess.PIPE, stdout=subprocess.PIPE, env=env, text=True)

    def close(self) -> None:
        self._server.communicate()

    def run(self, code: str, cwd: Path, env: dict[str, str], limit: int) -> subprocess.CompletedProcess[str]:
        """Return what subprocess.run would for ``python -c code``, or raise TimeoutExpired after `limit` seconds."""
        assert self._server.stdin is not None and self._server.stdout is not None
        with TemporaryDirectory() as folder:
            streams = [Path(folder) / name for name in ("stdout", "stderr")]
            request = {"code": code, "cwd": str(cwd), "env": env, "streams": list(map(str, streams)), "limit": limit}
            with suppress(BrokenPipeError):  # then there is no answer
                self._server.stdin.write(json.dumps(request) + "\n")
                self._server.stdin.flush()
            answer = self._server.stdout.readline()
            if not answer:
                raise RuntimeError(f"the server of test processes ended with {self._server.wait()}")
            out, err = (path.read_text(encoding="utf-8", errors="replace") for path in streams)
        command = [sys.executable, "-c", code]
        if int(answer) == -signal.SIGALRM:
            raise subprocess.TimeoutExpired(command, limit, out, err)
        return subprocess.CompletedProcess(command, int(answer), out, err)


def serve() -> None:
    """Answer each request, a line of standard input, with an exit code, which is negative for a signal."""
    import torch

    assert torch._C._get_privateuse1_backend_name() == "privateuseone"
    gc.freeze()  # what was there before is not looked through when a process ends, half of the time that it would take
    for line in iter(sys.stdin.readline, ""):
        child = os.fork()
        if child == 0:
            become(**json.loads(line))
            return  # to the end of Python, with all that a process does then
        print(os.waitstatus_to_exitcode(os.waitpid(child, 0)[1]), flush=True)


def become(code: str, cwd: str, env: dict[str, str], streams: list[str], limit: int) -> None:
    """Go on as ``python -c code`` does once it has imported torch."""
    import torch

    for descriptor, path in enumerate([os.devnull, *streams]):
        opened = os.open(path, os.O_RDWR | os.O_CREAT)
        os.dup2(opened, descriptor)
        os.close(opened)
    os.chdir(cwd)
    os.environ.clear()
    os.environ.update(env)
    signal.alarm(limit)
    sys.argv, sys.path[0] = ["-c"], ""
    main = sys.modules["__main__"] = ModuleType("__main__")
    if torch._is_device_backend_autoload_enabled():
        torch._import_device_backends()
    exec(code, vars(main))


if __name__ == "__main__":
    serve()
