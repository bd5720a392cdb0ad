"""What the kernel says about CPU and memory, and what a result needs to be told with."""
import datetime
import os
import pathlib
import platform
import re
import subprocess
import time


def cpu_ns(pid: int) -> int:
    """On-CPU time of all live threads (/proc/<pid>/schedstat alone covers only the main thread)."""
    total = 0
    for task in pathlib.Path(f"/proc/{pid}/task").iterdir():
        try:
            total += int((task / "schedstat").read_text().split()[0])
        except FileNotFoundError:
            pass
    return total


def rss_kb(pid: int) -> int:
    text = pathlib.Path(f"/proc/{pid}/status").read_text()
    return int(re.search(r"VmRSS:\s+(\d+)", text).group(1))


def peak_kb(pid: int) -> int:
    """Most that was resident since the start, or since 5 was written to clear_refs."""
    text = pathlib.Path(f"/proc/{pid}/status").read_text()
    return int(re.search(r"VmHWM:\s+(\d+)", text).group(1))


def threads(pid: int) -> int:
    return len(list(pathlib.Path(f"/proc/{pid}/task").iterdir()))


def idle_ns() -> int:
    """Idle time over all CPUs. Exact up to 10 ms a CPU, while user and system time are sampled in ticks."""
    fields = pathlib.Path("/proc/stat").read_text().split("\n", 1)[0].split()
    return (int(fields[4]) + int(fields[5])) * 1_000_000_000 // os.sysconf("SC_CLK_TCK")


def steal_ns() -> int:
    fields = pathlib.Path("/proc/stat").read_text().split("\n", 1)[0].split()
    return int(fields[8]) * 1_000_000_000 // os.sysconf("SC_CLK_TCK")


class Window:
    """Foreign CPU between start and end: busy time minus that of the pids of the run, in cores."""

    def __init__(self, pids):
        self.pids = pids
        self.own = self.children = 0
        self.begin()

    def begin(self):
        self.time, self.idle, self.steal = time.monotonic_ns(), idle_ns(), steal_ns()
        self.cpu = {pid: cpu_ns(pid) for pid in self.pids}
        self.own, self.children = self._own()

    @staticmethod
    def _own():
        used = os.times()
        return int((used.user + used.system) * 1e9), int((used.children_user + used.children_system) * 1e9)

    def end(self):
        """(CPU of each pid [ns], foreign cores, stolen cores)"""
        spent = time.monotonic_ns() - self.time
        cpu = {pid: cpu_ns(pid) - before for pid, before in self.cpu.items()}
        own, children = self._own()
        ours = sum(cpu.values()) + own - self.own + children - self.children
        idle, stolen = idle_ns() - self.idle, steal_ns() - self.steal
        foreign = os.cpu_count() - (idle + stolen + ours) / spent
        return cpu, max(0.0, foreign), stolen / spent


def version(*command) -> str:
    run = subprocess.run(command, capture_output=True, text=True, check=False)
    return (run.stdout or run.stderr).strip().split("\n")[0]


def facts(binary: str) -> dict:
    model = re.search(r"model name\s*:\s*(.*)", pathlib.Path("/proc/cpuinfo").read_text())
    return {
        "date": datetime.datetime.now(datetime.timezone.utc).strftime("%Y-%m-%d"),
        "cpus": os.cpu_count(),
        "cpu": model.group(1) if model else platform.machine(),
        "kernel": ".".join(platform.release().split("-")[0].split(".")[:2]),
        "versions": {
            "kintsugi": version(binary, "--version"),
            "haproxy": version("haproxy", "-v").split(" ")[2],
            "nghttpx": version("nghttpx", "--version").replace("nghttpx ", ""),
            "openssl": version("openssl", "version").split(" ")[1],
        },
    }
