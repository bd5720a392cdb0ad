"""The units of docs/scaling.md at the size for which it speaks: 1,000 shards, 1,000,000 logical clusters and watches (GR-801, GR-802)."""
import json
import pathlib
import re
import resource
import subprocess
import unittest

import kit

ONLY_WITH_ALL = "makes an index of a million logical clusters"
DOCUMENT = pathlib.Path(__file__).resolve().parents[2] / "docs" / "scaling.md"
SAME_EVERYWHERE = ("B", "digits", "of 1", "watches")
MEMORY = 4 << 30


def tool():
    folders = (kit.BINARY.parent, DOCUMENT.parents[1] / "build" / "release" / "bin")
    found = [folder / "bench_scale" for folder in folders if (folder / "bench_scale").exists()]
    if not found:
        raise unittest.SkipTest("bench_scale is not built (ninja bench_scale)")
    return found[0]


class Scale(unittest.TestCase):
    def test_GR_801_units_are_those_of_the_document(self):
        run = subprocess.run([str(tool())], capture_output=True, text=True, timeout=600, check=True, stdin=subprocess.DEVNULL,
                             preexec_fn=lambda: resource.setrlimit(resource.RLIMIT_AS, (MEMORY, MEMORY)))
        figures = {one["name"]: one for one in map(json.loads, run.stdout.splitlines())}
        rows = re.findall(r"^\| (.+?) \| ([0-9.]+) \| (.+?) \|$", DOCUMENT.read_text(), re.MULTILINE)
        rows = [(name, float(value), unit) for name, value, unit in rows if unit in SAME_EVERYWHERE]
        self.assertGreater(len(rows), 10)
        for name, value, unit in rows:
            with self.subTest(name=name):
                self.assertEqual(figures[name]["unit"], unit)
                self.assertLessEqual(abs(figures[name]["value"] - value), value / 4, figures[name])
        for name in ("all of it", "all of it: most memory"):
            print(f"{name}: {figures[name]['value']} {figures[name]['unit']}")
