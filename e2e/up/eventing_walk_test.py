"""From an empty folder to records that no kill takes away: the commands of docs/workers/eventing.md, typed as they stand into a shell. Kafka are
the brokers of librdkafka's mock cluster."""
import pathlib
import re
import shutil
import unittest

import eventing
import kit
import rdkafka
import typed
from dispatchers import MockKafka

ROOT = pathlib.Path(__file__).resolve().parents[2]


class Walk(unittest.TestCase):
    def test_the_walk_of_the_document_works_as_it_stands(self):
        kit.needs_kubectl()
        kafka, sink = MockKafka("orders:12:3").start_for(self), kit.free_port()
        installation = eventing.Installed().start_for(self)
        kubelet = eventing.Kubelet(installation).start_for(self)
        producer = rdkafka.Producer(kafka.bootstrap)
        self.addCleanup(producer.close)
        folder = installation.dir / "walk"
        shutil.copytree(eventing.CONFIGS, folder)
        given = {":6443": f":{installation.port}", ":8000": f":{sink}", "127.0.0.1:9092": kafka.bootstrap, "sink.py &": f"sink.py {sink} &",
                 ".kintsugi/": f"{installation.state}/"}  # fmt: skip

        def here(text):
            for name, value in given.items():
                text = text.replace(name, value)
            return text

        (folder / "group.yaml").write_text(here((folder / "group.yaml").read_text()))
        shell = typed.Shell(folder)
        self.addCleanup(shell.close)
        shell.run(f"export KUBECONFIG={installation.kubeconfig}")
        text = here(typed.section((ROOT / "docs/workers/eventing.md").read_text(), "A walk"))
        blocks = [self.commands(block) for block in re.findall(r"```\n(.*?)```", text, re.S)]
        self.assertEqual(len(blocks), 3)  # the first is that of the kubelet
        made = 0
        for command, printed in [*blocks[1], *blocks[2]]:
            with self.subTest(command):
                self.check(shell, command, printed)
            if " get consumers" in command or made:  # records, from when the group is there
                for number in range(made, made + 300):
                    producer.send("orders", b"%d" % number, partition=number % 12)
                producer.flush()
                made += 300

        def all_there():
            _, lines = shell.run(f"curl -s 127.0.0.1:{sink}")
            assert f"{made} different ones" in lines[0], (lines, made)
            return True

        kit.eventually(all_there, 120, "every record is at the sink")
        self.assertEqual(len([kubelet.status(number) for number in range(3)]), 3)

    @staticmethod
    def commands(text):
        """(command, printed lines)"""
        found = []
        for line in text.splitlines():
            if line.startswith("$ "):
                found.append((line[2:], []))
            elif found:
                found[-1][1].append(line)
        return found

    def check(self, shell, command, printed):
        def works():
            status, lines = shell.run(command)
            assert status == 0, "\n".join(lines)
            if printed:
                assert typed.comparable(lines) == typed.comparable(printed), "\n".join(lines)
            return True

        if " get " in command:  # what a change brings about is seen a moment later
            kit.eventually(works, 90, command)
        elif " apply " in command:  # a workspace that was just made, kinds that were just bound
            kit.eventually(works, 60, command)
        else:
            works()
