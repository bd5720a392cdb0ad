"""Logs of an installation's processes: levels, forms, files that are moved away (OP-301 to OP-304, OP-307)."""
import json
import os
import signal
import subprocess
import unittest

import kit


def setUpModule():
    global installation
    installation = kit.Installation("--log-level=debug", shards=2).start_for()


def level(*words, admin=None):
    return subprocess.run([str(kit.BINARY), "log-level", *words, "--admin", str(admin or installation.state / "run/admin.sock")],
                          capture_output=True, text=True, timeout=60, check=False)


def lines_of(path):
    return [json.loads(line) for line in path.read_text().split("\n")[:-1]]


class Logs(unittest.TestCase):
    def test_OP_301_OP_302_lines_are_json_and_have_the_level_that_up_was_told(self):
        for name in ("root", "shard-1", "proxy"):
            lines = lines_of(installation.state / "logs" / f"{name}.log")
            self.assertTrue(lines, name)
            for line in lines:
                self.assertIn(line["level"], ("error", "warn", "info", "debug"))
                self.assertRegex(line["ts"], r"^\d{4}-\d\d-\d\dT\d\d:\d\d:\d\d\.\d{6}Z$")
        self.assertIsInstance(next(line["port"] for line in lines_of(installation.state / "logs/proxy.log") if "port" in line), int)
        self.assertEqual(level().stdout, "debug\n")

    def test_OP_307_SIGHUP_to_up_has_all_open_their_files_again(self):
        logs = installation.state / "logs"
        names = ("root", "shard-1", "proxy")
        for name in names:
            (logs / f"{name}.log").rename(logs / f"{name}.log.1")
        os.kill(installation.process.pid, signal.SIGHUP)
        kit.eventually(lambda: all((logs / f"{name}.log").exists() for name in names), what="files that are made again")
        old = {name: (logs / f"{name}.log.1").read_bytes() for name in names}
        self.assertEqual(level("info").stdout, "info\n")  # is a line of the proxy's
        kit.eventually(lambda: any(line["msg"] == "the log's level was changed" for line in lines_of(logs / "proxy.log")))
        self.assertEqual(level("debug").returncode, 0)
        self.assertEqual(old, {name: (logs / f"{name}.log.1").read_bytes() for name in names})
        for name in names:  # whole lines, before and after
            lines_of(logs / f"{name}.log.1")
            lines_of(logs / f"{name}.log")
        self.assertEqual(installation.client("/clusters/root").get("/api/v1/namespaces").status, 200)

    def test_OP_303_the_level_of_a_running_proxy(self):
        with kit.Proxy(installation, {}) as proxy:
            admin = proxy.dir / "admin.sock"
            self.assertEqual(level(admin=admin).stdout, "info\n")
            self.assertRegex(level("debug", "--for", "10m", admin=admin).stdout, r"^debug, in (600|59\d) s info again\n$")
            self.assertRegex(level("warn", "--for", "1s", admin=admin).stdout, r"^warn, in [01] s info again\n$")
            kit.eventually(lambda: level(admin=admin).stdout == "info\n", what="the level before")
            self.assertEqual(level("error", admin=admin).stdout, "error\n")

    def test_OP_303_the_level_of_shards_and_of_all(self):
        self.assertEqual(level("info", "--process", "shard-1").stdout, "info\n")
        log = installation.state / "logs/shard-1.log"
        self.assertIn("the log's level was changed", log.read_text())
        self.assertEqual(level("--process", "all").stdout, "proxy: debug\nroot: debug\nshard-1: info\nup: debug\n")
        self.assertRegex(level("debug", "--for", "1s", "--process", "shard-1").stdout, r"^debug, in [01] s info again\n$")
        kit.eventually(lambda: level("--process", "shard-1").stdout == "info\n", what="the level before")
        pid = installation.pid("shard-1")
        installation.kill("shard-1")  # its socket is left behind
        kit.eventually(lambda: installation.pid("shard-1") != pid and level("--process", "shard-1").stdout == "debug\n", what="another process")
        nobody = level("--process", "shard-7")
        self.assertEqual((nobody.returncode, nobody.stdout), (1, ""))
        self.assertIn("no process shard-7 has a socket in ", nobody.stderr)
        socket = installation.state / "run/admin-shard-1.sock"
        self.assertEqual(socket.stat().st_mode & 0o777, 0o600)
        for method, path, wanted in (("POST", "/debug/log?level=info", 405), ("PUT", "/debug/log?level=loud", 400), ("GET", "/metrics", 404), ("PUT", "/x", 405)):
            answer = subprocess.run(["curl", "-sS", "-o", "/dev/null", "-w", "%{http_code}", "-X", method, "--unix-socket", str(socket), f"http://admin{path}"],
                                    capture_output=True, text=True, timeout=60, check=True)
            self.assertEqual(answer.stdout, str(wanted), (method, path))

    def test_OP_303_what_is_no_level_and_no_time(self):
        wrong = level("loud")
        self.assertEqual((wrong.returncode, wrong.stderr), (2, 'kintsugi log-level: "loud" is none of error, warn, info, debug; '
                                                               "`kintsugi log-level --help` lists the options\n"))
        for period in ("10", "0s", "25h", "-1m", "m", "99999999999h", "10m&level=error"):
            wrong = level("debug", "--for", period)
            self.assertEqual(wrong.returncode, 1, period)
            self.assertIn(f'for: "{period}" is no time from 1s to 24h, such as 10m', wrong.stderr)
        self.assertEqual(level().stdout, "debug\n")
        answer = subprocess.run(["curl", "-sS", "-o", "-", "-w", "%{http_code}", "-X", "POST", "--unix-socket", str(installation.state / "run/admin.sock"),
                                 "http://admin/debug/log?level=info"], capture_output=True, text=True, timeout=60, check=True)
        self.assertEqual(answer.stdout, "only GET and PUT are served here\n405")

    def test_OP_304_nobody_reads_the_log(self):
        """A proxy whose stderr is a full pipe serves on."""
        fifo = installation.dir / "full"
        os.mkfifo(fifo)
        with kit.Proxy(installation, {}, under=["bash", "-c", f'exec 2<>{fifo}; exec "$@"', "bash"]) as proxy:
            subprocess.run(["curl", "-sS", "-o", "/dev/null", "-X", "PUT", "--unix-socket", str(proxy.dir / "admin.sock"),
                            "http://admin/debug/log?level=info&for=1h&n=[1-2000]"], timeout=60, check=True)  # a line each
            self.assertGreater(proxy.metric("kintsugi_log_dropped_total"), 500)
            self.assertEqual(proxy.client("/clusters/root").get("/api/v1/namespaces").status, 200)

    def test_OP_307_a_file_that_cannot_be_made(self):
        for command in (["up", "--dir", str(installation.dir / "other"), "--port", str(kit.free_port())],
                        ["shard", "--join", str(installation.state), "--name", "x"],
                        ["proxy", "--config", str(installation.state / "proxy/proxy.yaml")],
                        ["worker", "--config", "/proc/nowhere"]):
            run = subprocess.run([str(kit.BINARY), *command, "--log-file=/proc/nowhere/a.log"], capture_output=True, text=True, timeout=60, check=False)
            self.assertEqual((run.returncode, run.stderr), (1, f"kintsugi {command[0]}: --log-file: /proc/nowhere/a.log: No such file or directory\n"))


if __name__ == "__main__":
    unittest.main()
