"""The boards of configs/monitoring, read by Grafana's own types (OP-602): what these do not know of, Grafana would leave out. The library comes
from the package index into a temporary environment; without it the test is skipped."""
import json
import pathlib
import subprocess
import sys
import tempfile
import unittest

import monitoring

ONLY_WITH_ALL = "fetches Grafana's types from the package index"
VERSION = "1769699998!10.1.0"
READ = """
import json, sys
from grafana_foundation_sdk.cog import encoder, plugins
from grafana_foundation_sdk.models import dashboard
plugins.register_default_plugins()
read = dashboard.Dashboard.from_json(json.load(sys.stdin))
print(encoder.JSONEncoder(sort_keys=True).encode(read))
"""


def lost(told, read, path=""):
    """What of a document is not, or is otherwise, in what was read of it."""
    if isinstance(told, dict):
        for name, one in told.items():
            yield from lost(one, read[name], f"{path}.{name}") if isinstance(read, dict) and name in read else [f"{path}.{name}"]
    elif isinstance(told, list):
        for index, one in enumerate(told):
            yield from lost(one, read[index], f"{path}[{index}]") if len(read) > index else [f"{path}[{index}]"]
    elif told != read:
        yield f"{path}: {told!r} became {read!r}"


class Sdk(unittest.TestCase):
    @classmethod
    def setUpClass(cls):
        folder = tempfile.TemporaryDirectory(prefix="kintsugi-e2e-venv-")
        cls.addClassCleanup(folder.cleanup)
        cls.python = pathlib.Path(folder.name, "bin", "python")
        subprocess.run([sys.executable, "-m", "venv", folder.name], check=True, capture_output=True)
        run = subprocess.run([cls.python, "-m", "pip", "install", "--quiet", "--retries=1", "--timeout=10", f"grafana-foundation-sdk=={VERSION}"],
                             capture_output=True, text=True, timeout=300, check=False)  # fmt: skip
        if run.returncode:
            raise unittest.SkipTest(f"grafana-foundation-sdk {VERSION} can not be installed: {run.stderr.strip()[-200:]}")

    def read(self, board):
        run = subprocess.run([self.python, "-c", READ], input=json.dumps(board), capture_output=True, text=True, timeout=60, check=True)
        return json.loads(run.stdout)

    def test_OP_602_nothing_of_a_board_is_left_out(self):
        for board in monitoring.boards():
            self.assertEqual(list(lost(board, self.read(board))), [], board["uid"])

    def test_OP_602_what_grafana_does_not_know_is_found(self):
        board = {**monitoring.boards()[0], "shcemaVersion": 39}
        self.assertEqual(list(lost(board, self.read(board))), [".shcemaVersion"])


if __name__ == "__main__":
    unittest.main()
