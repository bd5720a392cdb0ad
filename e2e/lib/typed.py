"""Commands of a document, typed as they stand into a shell: they work and print what the document says. Ages and ports differ from run to
run and are not compared."""
import re
import subprocess

import kit

MARK = "--- end of a command, exit "


def steps(text):
    """(command, printed lines) of the indented blocks; a command may go on in the lines of a here-document."""
    found = []
    document = None
    for line in text.splitlines():
        if not line.startswith("    "):
            continue
        line = line[4:]
        if document:
            found[-1][0].append(line)
            document = None if line == document else document
        elif line.startswith("$ "):
            found.append(([line[2:]], []))
            here = re.search(r"<<'(\w+)'", line)
            document = here.group(1) if here else None
        elif found:
            found[-1][1].append(line)
    return [("\n".join(command), printed) for command, printed in found]


def comparable(lines):
    text = "\n".join(" ".join(line.split()) for line in lines if line.strip())
    text = re.sub(r"127\.0\.0\.1:\d+", "127.0.0.1:PORT", text)
    return re.sub(r"(?m) \d+[smh](\d+s)?$", " AGE", text)


class Shell:
    """A bash that gets one command after another, as a person types them."""

    def __init__(self, folder):
        self.process = subprocess.Popen(["bash"], cwd=folder, stdin=subprocess.PIPE, stdout=subprocess.PIPE,
                                        stderr=subprocess.STDOUT, text=True, start_new_session=True)  # fmt: skip
        self.run("shopt -s expand_aliases")

    def run(self, command):
        """(exit status, lines)"""
        self.process.stdin.write(f"{command}\ntyped_status=$?; echo; echo '{MARK}'$typed_status\n")
        self.process.stdin.flush()
        lines = []
        for line in self.process.stdout:
            if line.startswith(MARK):
                return int(line[len(MARK):]), lines
            lines.append(line.rstrip("\n"))
        raise AssertionError(f"the shell ended in: {command}")

    def close(self):
        self.run("kill $(jobs -p) 2>/dev/null; wait")
        self.process.stdin.close()
        self.process.wait(60)
        self.process.stdout.close()


def section(text, title):
    """Of a document: from that heading to the next one of its kind or a larger one."""
    return re.split(r"\n##? ", text.split(f"## {title}\n")[1])[0]


def check(shell, command, printed):
    def works():
        status, lines = shell.run(command)
        assert status == 0, "\n".join(lines)
        if printed:
            assert comparable(lines) == comparable(printed), "\n".join(lines)
        return True

    if re.match(r"(kubectl|kd|kall|kintsugi)( --\S+)* get|curl", command):  # what a change brings about is seen a moment later
        kit.eventually(works, 20, command)
    else:
        works()
