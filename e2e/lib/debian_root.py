"""A fresh Debian 12 in a folder, and one that runs there: systemd as the first process of namespaces of its own."""
import contextlib
import os
import pathlib
import shutil
import signal
import subprocess
import tempfile
import time
import unittest

import kit

CGROUPS = [pathlib.Path("/sys/fs/cgroup/unified"), pathlib.Path("/sys/fs/cgroup")]
BOOT = r"""
set -e
root=$1
mount --bind "$root" "$root"
mount -t proc proc "$root/proc"
mount -t sysfs sysfs "$root/sys"
mount -t cgroup2 cgroup2 "$root/sys/fs/cgroup"
for folder in run dev; do mount -t tmpfs -o mode=755 tmpfs "$root/$folder"; done
mount -t tmpfs tmpfs "$root/tmp"
for name in null zero full random urandom tty; do touch "$root/dev/$name"; mount --bind "/dev/$name" "$root/dev/$name"; done
mkdir "$root/dev/pts" "$root/dev/shm"
mount -t devpts -o newinstance,ptmxmode=0666 devpts "$root/dev/pts"
ln -s pts/ptmx "$root/dev/ptmx"
mount -t tmpfs tmpfs "$root/dev/shm"
cd "$root"
pivot_root . mnt
umount -l /mnt
exec env -i container=kintsugi-test PATH=/usr/sbin:/usr/bin:/sbin:/bin /lib/systemd/systemd --log-target=console --show-status=no
"""


def mirror():
    """The suite bookworm of what apt uses here; "" for none."""
    said = subprocess.run(["apt-get", "indextargets", "--format", "$(RELEASE) $(COMPONENT) $(REPO_URI)", "Created-By: Packages"],
                          capture_output=True, text=True, check=False).stdout
    return next((line.split()[2] for line in said.splitlines() if line.split()[:2] == ["bookworm", "main"]), "")


def make_root(folder):
    """By debootstrap; KINTSUGI_DEBIAN_ROOT names a root that is copied instead, which takes a second."""
    if os.geteuid() != 0:
        raise unittest.SkipTest("only root can make a root")
    if ready := os.environ.get("KINTSUGI_DEBIAN_ROOT"):
        subprocess.run(["cp", "-a", "--reflink=auto", ready, folder], check=True)
    else:
        if shutil.which("debootstrap") is None or not mirror():
            raise unittest.SkipTest("needs debootstrap and a mirror of Debian 12")
        made = subprocess.run(["debootstrap", "--variant=minbase", "--include=systemd,systemd-sysv,dbus,ca-certificates", "bookworm", folder, mirror()],
                              capture_output=True, text=True, check=False)
        if made.returncode != 0:
            raise unittest.SkipTest("debootstrap makes no root here: " + made.stdout[-300:])
    with contextlib.suppress(OSError):
        shutil.copy("/etc/resolv.conf", folder / "etc/resolv.conf")
    lines = subprocess.run(["apt-config", "dump"], capture_output=True, text=True, check=False).stdout.splitlines()
    outside = [line for line in lines if line.lower().startswith(("acquire::http::proxy", "acquire::https::proxy", "acquire::https::cainfo"))]
    (folder / "etc/apt/apt.conf.d/90outside").write_text("\n".join(outside) + "\n")


class Machine:
    """The root, running. It shares the network with who made it. Ends by end(), also when it could not begin."""

    def __init__(self):
        self.dir = pathlib.Path(tempfile.mkdtemp(prefix="kintsugi-machine-"))
        self.root, self.init, self.outer, self.group = self.dir / "root", 0, None, None
        try:
            make_root(self.root)
            self.boot()
        except BaseException:
            self.end()
            raise

    def boot(self):
        hierarchy = next((path for path in CGROUPS if (path / "cgroup.controllers").exists()), None)
        if hierarchy is None:
            raise unittest.SkipTest("there is no cgroup2")
        self.group = hierarchy / f"kintsugi-test-{os.getpid()}"
        try:
            self.group.mkdir()
        except OSError as fault:
            self.group = None
            raise unittest.SkipTest(f"no cgroup can be made: {fault}") from None
        with (self.dir / "log").open("wb") as log:
            self.outer = subprocess.Popen(
                ["sh", "-c", 'echo $$ > "$0/cgroup.procs" && exec "$@"', self.group, "unshare", "--mount", "--pid", "--uts", "--ipc", "--cgroup",
                 "--fork", "--kill-child", "--propagation", "private", "bash", "-c", BOOT, "bash", self.root],
                stdin=subprocess.DEVNULL, stdout=log, stderr=log, start_new_session=True)

        def runs():
            if self.outer.poll() is not None:
                raise unittest.SkipTest("systemd does not run in namespaces here: " + (self.dir / "log").read_text(errors="replace")[-300:])
            self.init = int(pathlib.Path(f"/proc/{self.outer.pid}/task/{self.outer.pid}/children").read_text().split()[0])
            return self.run("systemctl", "is-system-running", check=False).stdout.strip() in ("running", "degraded")

        kit.eventually(runs, 30, "a system that runs")

    def run(self, *command, check=True, timeout=300, environment=None):
        """A command in there, as root."""
        done = subprocess.run(
            ["nsenter", f"--target={self.init}", "--mount", "--pid", "--uts", "--ipc", "--cgroup", "--root", "--wd", "env", "-i",
             "PATH=/usr/sbin:/usr/bin:/sbin:/bin", "HOME=/root", "LANG=C.UTF-8", "DEBIAN_FRONTEND=noninteractive",
             *[f"{name}={value}" for name, value in (environment or {}).items()], *[str(word) for word in command]],
            stdin=subprocess.DEVNULL, capture_output=True, text=True, timeout=timeout, check=False)
        if check and done.returncode != 0:
            raise AssertionError(f"{' '.join(map(str, command))}: exit {done.returncode}\n{done.stdout[-3000:]}{done.stderr[-3000:]}")
        return done

    def put(self, path, text):
        """Into a file that is there, or not: its owner and mode stay."""
        with (self.root / str(path).lstrip("/")).open("w") as file:
            file.write(text)

    def unit(self, name):
        """What systemd knows of it."""
        text = self.run("systemctl", "show", name).stdout
        return dict(line.split("=", 1) for line in text.splitlines() if "=" in line)

    def journal(self, unit):
        return self.run("journalctl", "--no-pager", "-u", unit, "-n", "60", check=False).stdout

    def end(self):
        if self.outer is not None and self.outer.poll() is None:
            if self.init:
                with contextlib.suppress(OSError):
                    os.kill(self.init, signal.SIGRTMIN + 4)  # poweroff (systemd(1))
            try:
                self.outer.wait(120)
            except subprocess.TimeoutExpired:
                os.killpg(self.outer.pid, signal.SIGKILL)  # with it goes the first process, and with that all others
                self.outer.wait()
        if self.group is not None:
            for folder in [*sorted((path for path in self.group.rglob("*") if path.is_dir()), reverse=True), self.group]:
                for _ in range(50):
                    with contextlib.suppress(OSError):
                        folder.rmdir()
                        break
                    time.sleep(0.1)
        shutil.rmtree(self.dir, ignore_errors=True)
