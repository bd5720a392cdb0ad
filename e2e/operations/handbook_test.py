"""docs/operations.md, typed as it stands from its first command to the last, in an empty folder (OP-902, OP-903); and what it says of alerts
is what there is (OP-901)."""
import pathlib
import re
import tempfile
import unittest

import kit
import monitoring
import typed

HANDBOOK = monitoring.ROOT / "docs" / "operations.md"


class Handbook(unittest.TestCase):
    def test_OP_901_every_alert_has_its_section_in_their_order(self):
        sections = re.split(r"^### ", typed.section(HANDBOOK.read_text(encoding="utf-8"), "Alerts"), flags=re.MULTILINE)[1:]
        told = [(one.split("\n")[0], re.search(r"\*(\w+)\.\*", one)[1].lower()) for one in sections]
        self.assertEqual(told, [(one.name, one.severity) for one in monitoring.module("alerts").ALERTS])

    def test_OP_902_OP_903_OP_T901_every_command_does_what_it_says(self):
        kit.needs_kubectl()
        port = str(kit.free_port())
        commands = typed.steps(HANDBOOK.read_text(encoding="utf-8"))
        self.assertGreater(len(commands), 50)
        with tempfile.TemporaryDirectory(prefix="kintsugi-e2e-") as name:
            folder = pathlib.Path(name)
            shell = typed.Shell(folder)
            try:
                shell.run(f"export HOME={folder} PATH={folder}/bin:$PATH; mkdir bin; ln -s {kit.BINARY} bin/kintsugi")
                for command, printed in commands:
                    with self.subTest(command=command):
                        typed.check(shell, command.replace("6443", port), printed)
            finally:
                shell.close()


if __name__ == "__main__":
    unittest.main()
