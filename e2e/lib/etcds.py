"""The etcds that the store on etcd is tested with: that of PATH, and those of e2e/peers/etcd, which a recent Go builds once into a cache."""
import hashlib
import os
import pathlib
import shutil
import subprocess
import tempfile
import unittest

import kit

PEERS = pathlib.Path(__file__).resolve().parents[1] / "peers" / "etcd"
CACHE = pathlib.Path(os.environ.get("XDG_CACHE_HOME") or pathlib.Path.home() / ".cache") / "kintsugi-e2e"
LONGEST_BUILD = 600  # seconds


def go_program():
    """That of PATH, else where Go's own packages put it."""
    return shutil.which("go") or shutil.which("go", path="/usr/local/go/bin")


def built(source, program):
    """A folder with the program of that name, which Go makes of a module here once. Raises SkipTest where it cannot be built here."""
    go = go_program()
    if go is None:
        raise unittest.SkipTest("no Go tool chain on this machine")
    lock = hashlib.sha256((source / "go.sum").read_bytes() + (source / "main.go").read_bytes()).hexdigest()[:16]
    folder = CACHE / f"{source.parent.name}-{source.name}-{lock}"
    if not (folder / program).exists():
        folder.mkdir(parents=True, exist_ok=True)
        made = folder / f"{program}.{os.getpid()}"
        try:
            run = subprocess.run([go, "build", "-p", "2", "-o", str(made), "."], cwd=source, capture_output=True, text=True, check=False,
                                 timeout=LONGEST_BUILD, stdin=subprocess.DEVNULL)
        except subprocess.TimeoutExpired:
            raise unittest.SkipTest(f"{source.name} was not built within {LONGEST_BUILD} s") from None
        if run.returncode:
            raise unittest.SkipTest(f"this Go cannot build {source.name} here: {(run.stdout + run.stderr).strip()[-300:]}")
        made.rename(folder / program)
    return folder


def folder_of(version):
    """A folder with the program `etcd` of that version ("3.6"), as of PATH. Raises SkipTest where it cannot be built here."""
    return built(PEERS / version, "etcd")


class Member:
    """An etcd of one member on 127.0.0.1."""

    def __init__(self):
        self.folder = pathlib.Path(tempfile.mkdtemp(prefix="kintsugi-e2e-etcd-"))
        self.data = self.folder / "data"
        self.url, self.peer = (f"http://127.0.0.1:{kit.free_port()}" for _ in range(2))
        self.process = None
        self.start()

    def start(self):
        with (self.folder / "log").open("ab") as log:
            self.process = subprocess.Popen(
                ["etcd", "--name=one", f"--data-dir={self.data}", f"--listen-client-urls={self.url}", f"--advertise-client-urls={self.url}",
                 f"--listen-peer-urls={self.peer}", f"--initial-advertise-peer-urls={self.peer}", f"--initial-cluster=one={self.peer}"],
                stdin=subprocess.DEVNULL, stdout=log, stderr=log)
        kit.eventually(lambda: kit.listening(int(self.url.rsplit(":", 1)[1])), 30, "etcd")

    def kill(self):
        self.process.kill()
        self.process.wait()

    def end(self):
        self.kill()
        shutil.rmtree(self.folder, ignore_errors=True)
