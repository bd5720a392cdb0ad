"""The walk through in README.md, typed as it stands into a shell: every command works and prints what the README says.
Ages and ports differ from run to run and are not compared."""
import pathlib
import unittest

import kit
import typed

README = pathlib.Path(__file__).resolve().parents[2] / "README.md"


class Readme(unittest.TestCase):
    def test_walk_through(self):
        commands = typed.steps(typed.section(README.read_text(encoding="utf-8"), "A walk through"))
        self.assertGreater(len(commands), 10)
        with kit.Installation() as installation:
            folder = installation.dir
            (folder / ".kintsugi").symlink_to(installation.state)
            binary = folder / "build/release/bin"
            binary.mkdir(parents=True)
            (binary / "kintsugi").symlink_to(kit.BINARY)
            shell = typed.Shell(folder)
            try:
                for command, printed in commands:
                    with self.subTest(command=command):
                        typed.check(shell, command.replace("6443", str(installation.port)), printed)
            finally:
                shell.close()


if __name__ == "__main__":
    unittest.main()
