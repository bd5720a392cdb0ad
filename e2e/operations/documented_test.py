"""docs/cli.md has every flag, and tables of docs/ every key of a configuration (OP-101, OP-108)."""
import pathlib
import subprocess
import sys
import tempfile
import unittest

import kit

ROOT = pathlib.Path(__file__).resolve().parents[2]
TOOL = ROOT / "tools" / "check_configuration.py"


def check(tool):
    run = subprocess.run([sys.executable, tool, kit.BINARY], capture_output=True, text=True, timeout=120, check=False)
    return run.returncode, run.stdout + run.stderr


class Documented(unittest.TestCase):
    def test_OP_101_OP_108_every_flag_and_key_is_told(self):
        status, said = check(TOOL)
        self.assertEqual(status, 0, said)

    def test_OP_101_OP_108_what_is_not_told_is_found(self):
        with tempfile.TemporaryDirectory(prefix="kintsugi-e2e-") as name:
            folder = pathlib.Path(name)
            for part in ("tools", "docs"):
                (folder / part).mkdir()
            (folder / "configs").symlink_to(ROOT / "configs")
            tool = folder / "tools" / TOOL.name
            tool.write_bytes(TOOL.read_bytes())
            for document, told in (("configuration.md", "`listener.max_streams`"), ("kcp.md", ""), ("cli.md", "`--admin-port=PORT`")):
                text = (ROOT / "docs" / document).read_text(encoding="utf-8")
                self.assertIn(told, text)
                (folder / "docs" / document).write_text(text.replace(told, "`gone`") if told else text, encoding="utf-8")
            status, said = check(tool)
            self.assertEqual(status, 1, said)
            self.assertIn("listener.max_streams: no table of", said)
            self.assertIn("+| `--admin-port=PORT` |", said)


if __name__ == "__main__":
    unittest.main()
