"""A loop that takes no turn (SE-183): its stack after 10 s, the end after 60 s. A preloaded epoll_wait holds it up."""
import os
import shutil
import signal
import subprocess
import unittest

import kit

ONLY_WITH_ALL = "waits for more than a minute"
STALL = r"""
#define _GNU_SOURCE
#include <dlfcn.h>
#include <stdlib.h>
#include <sys/epoll.h>
#include <time.h>
#include <unistd.h>
int epoll_wait(int epoll, struct epoll_event* events, int most, int timeout) {
  static int (*real)(int, struct epoll_event*, int, int);
  const struct timespec pause = {0, 20000000};
  while (access(getenv("STALL_FILE"), F_OK) == 0) nanosleep(&pause, NULL);
  if (!real) real = (int (*)(int, struct epoll_event*, int, int))dlsym(RTLD_NEXT, "epoll_wait");
  return real(epoll, events, most, timeout);
}
"""


def setUpModule():
    global installation
    installation = kit.Installation(shards=1).start_for()


@unittest.skipUnless(shutil.which("cc"), "needs a C compiler")
class SilentLoop(unittest.TestCase):
    def setUp(self):
        self.stall = installation.dir / "stall"
        library = installation.dir / "stall.so"
        subprocess.run(["cc", "-shared", "-fPIC", "-O1", "-x", "c", "-o", str(library), "-", "-ldl"], input=STALL.encode(), check=True)
        more = {"LD_PRELOAD": str(library), "STALL_FILE": str(self.stall)}
        os.environ.update(more)
        try:
            self.proxy = kit.Proxy(installation, {})
            self.proxy.__enter__()
        finally:
            for key in more:
                del os.environ[key]
        self.addCleanup(self.proxy.__exit__)

    def test_SE_183_stack_then_end(self):
        self.stall.touch()
        kit.eventually(lambda: "a loop is silent" in self.proxy.text(), 30, "a line about the loop")
        self.stall.unlink()
        kit.eventually(lambda: "a loop takes turns again" in self.proxy.text(), 10, "it goes on")
        line = next(line for line in self.proxy.text().split("\n") if "a loop is silent" in line)
        self.assertRegex(line, r"stall\.so\+0x[0-9a-f]+ .*" + kit.BINARY.name + r"\+0x[0-9a-f]+")
        self.assertGreaterEqual(self.proxy.metric("kintsugi_silent_loops_total"), 1)
        self.assertIsNone(self.proxy.process.poll())
        # A process that was stopped is not silent.
        told = self.proxy.text().count("a loop is silent")
        self.proxy.process.send_signal(signal.SIGSTOP)
        kit.stays(lambda: self.proxy.process.poll(), 12)
        self.proxy.process.send_signal(signal.SIGCONT)
        kit.eventually(lambda: self.proxy.client("").get("/livez").status == 200, 10, "it goes on")
        self.assertEqual(self.proxy.text().count("a loop is silent"), told)
        self.stall.touch()
        self.addCleanup(self.stall.unlink)
        self.assertEqual(self.proxy.process.wait(120), -signal.SIGABRT)
        self.assertIn("a loop stays silent: the process ends", self.proxy.text())


if __name__ == "__main__":
    unittest.main()
