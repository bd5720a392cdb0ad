"""GETs over HTTP/2 from a process of its own, as many a second as it is told: whatever else the test does costs it no time."""
import json
import pathlib
import select
import subprocess
import sys
import threading
import time

if __name__ == "__main__":
    sys.path.insert(0, str(pathlib.Path(__file__).parent))

import kit
import raw_h2

REFUSED_STREAM = 7
PATIENCE = 60  # [s] that it waits for an answer
BATCH = 25  # requests at once


class Asker:
    """What the server says it has not begun (RFC 9113, 6.8) is asked again on another connection, as all clients do."""

    def __init__(self, client, path, rate):
        self.client, self.path, self.rate = client, path, rate
        self.counts = {"answered": 0, "connections": 0, "cut": 0, "refused": [], "failed": []}

    def run(self):
        while not self.ends():
            try:
                connection = raw_h2.Connection(self.client, PATIENCE)
            except OSError as fault:
                self.counts["refused"].append(repr(fault))
                continue
            self.counts["connections"] += 1
            while not self.ends() and self.batch(connection):
                pass
            connection.close()
        self.tell()

    @staticmethod
    def ends():
        """Who has started it closes its standard input."""
        return bool(select.select([sys.stdin], [], [], 0)[0])

    def tell(self):
        print(json.dumps(self.counts), flush=True)

    def batch(self, connection):
        """Whether the connection takes more."""
        due, streams = time.monotonic() + BATCH / self.rate, []
        try:
            with connection.at_once():
                streams += [connection.open("GET", self.path) for _ in range(BATCH)]
        except OSError:
            pass  # what came before is read all the same

        def is_begun(stream):
            return connection.goaway is None or stream.number <= connection.goaway

        connection.until(lambda: all(one.over or not is_begun(one) for one in streams), PATIENCE)
        for one in streams:
            if one.ended and one.status == 200:
                self.counts["answered"] += 1
            elif one.ended:
                self.counts["failed"].append(one.status)
            elif is_begun(one) and one.reset != REFUSED_STREAM:
                self.counts["cut"] += 1
            del connection.streams[one.number]
        self.tell()
        time.sleep(max(due - time.monotonic(), 0))
        return connection.goaway is None and not connection.closed


class Load:
    """The process, and what it has counted."""

    def __init__(self, base, pki, path, rate):
        """@param base  URL of the server. @param pki  folder with the certificate of the administrator"""
        command = [sys.executable, __file__, base, str(pki), path, str(rate)]
        self.process = subprocess.Popen(command, stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True)
        self.answered, self.connections, self.cut, self.refused, self.failed = 0, 0, 0, [], []
        self.reader = threading.Thread(target=self.read, daemon=True)
        self.reader.start()

    def read(self):
        for line in self.process.stdout:
            for name, value in json.loads(line).items():
                setattr(self, name, value)

    def end(self):
        """After it all that it has asked is answered, and counted."""
        if not self.process.stdin.closed:
            self.process.stdin.close()
        try:
            self.process.wait(PATIENCE + 30)
        finally:
            self.process.kill()
            self.process.wait()
        self.reader.join(30)
        self.process.stdout.close()
        assert self.process.returncode == 0, self.process.returncode


def main():
    base, pki, path, rate = sys.argv[1:]
    folder = pathlib.Path(pki)
    client = kit.Client(base, folder / "serving-ca.crt", folder / "admin.crt", folder / "admin.key")
    Asker(client, path, float(rate)).run()


if __name__ == "__main__":
    main()
