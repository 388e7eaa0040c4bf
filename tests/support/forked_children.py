"""Python started by a forked script (`forked.py`) is forked too, from the same server, and saves as much.

In such a script `subprocess.Popen` is [`Popen`]: a command of this interpreter becomes a process of the server, every
other one, and one with options that are not named here, is started as ever.
"""

import os
import signal
import subprocess
import sys
from multiprocessing import forkserver
from pathlib import Path
from tempfile import mkstemp

Real = subprocess.Popen
OPTIONS = {"env", "cwd", "stdin", "stdout", "stderr", "text", "start_new_session"}


def fork_children(start):
    """From here on let `start(words, folder, environment, streams)` start this process's commands of Python."""
    forkserver._forkserver.ensure_running = lambda: None  # it does: this process comes from it
    Popen.start = staticmethod(start)
    subprocess.Popen = Popen


class Popen(Real):
    """A process of the server, as `subprocess` describes one."""

    start = None

    def __new__(cls, words, **options):
        ours = isinstance(words, list) and words[0] == sys.executable and "-c" not in words[:2]
        has_pipe = options.get("stdin") == subprocess.PIPE  # a forked process has no input
        return object.__new__(cls) if ours and not has_pipe and options.keys() <= OPTIONS else Real(words, **options)

    def __init__(self, words, *, env=None, cwd=None, stdin=None, stdout=None, stderr=None, text=None, **_):
        self.args, self.returncode, self.stdin, self.stdout, self.stderr = words, None, None, None, None
        self._text, self._files = text, {}
        paths = [self._path(1, stdout)]
        paths.append(paths[0] if stderr == subprocess.STDOUT else self._path(2, stderr))
        environment = dict(os.environ if env is None else env)
        self._process = self.start([str(word) for word in words[1:]], cwd or os.getcwd(), environment, paths)
        self.pid = self._process.pid

    def _path(self, number, stream):
        """The file to which the process writes: this one's own, the file given, or for a pipe a new one."""
        if stream is None:
            return os.readlink(f"/proc/self/fd/{number}")
        if stream == subprocess.DEVNULL:
            return os.devnull
        if stream != subprocess.PIPE:
            return stream.name
        handle, self._files[number] = mkstemp()
        os.close(handle)
        return self._files[number]

    def poll(self):
        return self.wait(0) if self.returncode is None and not self._process.is_alive() else self.returncode

    def wait(self, timeout=None):
        self._process.join(timeout)
        if self._process.exitcode is None:
            raise subprocess.TimeoutExpired(self.args, timeout)
        self.returncode = self._process.exitcode
        return self.returncode

    def communicate(self, input=None, timeout=None):
        self.wait(timeout)
        contents = {number: Path(path).read_bytes() for number, path in self._files.items()}
        for path in self._files.values():
            os.unlink(path)
        if self._text:
            contents = {number: content.decode() for number, content in contents.items()}
        return contents.get(1), contents.get(2)

    def send_signal(self, number):
        if self.poll() is None:
            os.kill(self.pid, number)

    def terminate(self):
        self.send_signal(signal.SIGTERM)

    def kill(self):
        self.send_signal(signal.SIGKILL)

    def __enter__(self):
        return self

    def __exit__(self, *_):
        self.wait()

    def __del__(self, *_):
        """Nothing: the server's process is waited for by its `Process`."""
