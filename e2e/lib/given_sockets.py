"""Programs that are given sockets which listen, as the service manager gives them (LISTEN_FDS)."""
import signal
import socket
import subprocess
import sys

import kit

# What systemd does between fork and exec: python -c GIVE <count> <descriptor>… <program> <argument>…
GIVE = """
import os, sys
count = int(sys.argv[1])
for place in range(count):
    os.dup2(int(sys.argv[2 + place]), 100 + place)
for place in range(count):
    os.dup2(100 + place, 3 + place)
    os.close(100 + place)
os.environ.update(LISTEN_PID=str(os.getpid()), LISTEN_FDS=str(count), LISTEN_FDNAMES="https")
os.execv(sys.argv[2 + count], sys.argv[2 + count:])
"""


class Given(kit.Proxy):
    """Listens at sockets that are given to it."""

    def __init__(self, installation, *sockets, **more):
        super().__init__(installation, **more)
        self.sockets = sockets

    def start(self):
        with self.log.open("ab") as log:
            numbers = [one.fileno() for one in self.sockets]
            self.process = subprocess.Popen([sys.executable, "-c", GIVE, str(len(numbers)), *map(str, numbers), self.program, "proxy", "--config",
                                             str(self.dir / "proxy.yaml")], stdout=log, stderr=log, stdin=subprocess.DEVNULL, pass_fds=numbers)

    def stop(self):
        self.process.send_signal(signal.SIGTERM)
        return self.process.wait(60)


def listening(family=socket.AF_INET, address="127.0.0.1"):
    made = socket.socket(family)
    made.bind((address, 0))
    made.listen(4096)
    return made
