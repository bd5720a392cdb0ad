"""Peers of the messaging worker: a stand-in for AMQP routers (e2e/peers/messaging/router.mjs), a real Apache Artemis broker, and an
AMQP client (client.mjs). What they are made of is fetched once into a cache, by npm and by Maven; where the tools or the network are
missing the tests that ask for them are skipped with the reason."""
import contextlib
import fcntl
import functools
import hashlib
import json
import os
import pathlib
import queue
import re
import shutil
import signal
import subprocess
import tempfile
import threading
import unittest

import kit

PEERS = pathlib.Path(__file__).resolve().parents[1] / "peers" / "messaging"
CACHE = pathlib.Path(os.environ.get("XDG_CACHE_HOME") or pathlib.Path.home() / ".cache") / "kintsugi-e2e"
ARTEMIS = "2.44.0"
DISPATCH = "org.apache.qpid.dispatch."
LONGEST_FETCH = 300  # seconds


def _needs(*programs):
    for program in programs:
        if shutil.which(program) is None:
            raise unittest.SkipTest(f"no {program} on this machine")


def _cached(name, fetch):
    """The folder of that name in the cache; fetch(folder) fills it once, or raises SkipTest."""
    whole = CACHE / name
    if whole.exists():
        return whole
    CACHE.mkdir(parents=True, exist_ok=True)
    with (CACHE / (name + ".lock")).open("w") as lock:
        fcntl.flock(lock, fcntl.LOCK_EX)
        if not whole.exists():
            with tempfile.TemporaryDirectory(dir=CACHE, prefix=name + ".") as folder:
                made = pathlib.Path(folder) / "made"
                made.mkdir()
                fetch(made)
                made.rename(whole)
    return whole


def _run(command, what):
    try:
        run = subprocess.run(command, capture_output=True, text=True, check=False, timeout=LONGEST_FETCH, stdin=subprocess.DEVNULL)
    except subprocess.TimeoutExpired:
        raise unittest.SkipTest(f"{what} did not come within {LONGEST_FETCH} s") from None
    if run.returncode:
        raise unittest.SkipTest(f"{command[0]} can not get {what}: {(run.stdout + run.stderr).strip()[-300:]}")


def node_modules():
    """A folder with the packages of the peers' lock file."""
    _needs("node", "npm")

    def fetch(folder):
        for name in ("package.json", "package-lock.json"):
            shutil.copy(PEERS / name, folder)
        _run(["npm", "ci", f"--prefix={folder}", "--ignore-scripts", "--no-audit", "--no-fund"], "the packages of the AMQP peers")

    lock = hashlib.sha256((PEERS / "package-lock.json").read_bytes()).hexdigest()[:16]
    return _cached(f"messaging-peers-{lock}", fetch) / "node_modules"


def artemis_home():
    """Artemis, unpacked."""
    _needs("java", "mvn")

    def fetch(folder):
        repository, archive = folder / "repository", folder / "archive"
        _run(["mvn", "--batch-mode", "--quiet", "org.apache.maven.plugins:maven-dependency-plugin:3.8.1:copy", f"-Dmaven.repo.local={repository}",
              f"-Dartifact=org.apache.activemq:apache-artemis:{ARTEMIS}:tar.gz:bin", f"-DoutputDirectory={archive}"], "Apache Artemis")
        shutil.unpack_archive(next(archive.glob("*.tar.gz")), folder)
        for one in (repository, archive):
            shutil.rmtree(one)

    return _cached(f"artemis-{ARTEMIS}", fetch) / f"apache-artemis-{ARTEMIS}"


IN_INSTANCE = {"folder": "/the-folder-of-the-instance", "name": "the-name-of-the-broker", "port": "61619"}


def artemis_instance():
    """What `artemis create` makes of a broker, with IN_INSTANCE in place of what differs. It takes a JVM, so it is kept."""
    options = ["--silent", "--user", "admin", "--password", "admin", "--allow-anonymous", "--name", IN_INSTANCE["name"], "--host", "127.0.0.1",
               "--default-port", IN_INSTANCE["port"], "--no-amqp-acceptor", "--no-mqtt-acceptor", "--no-stomp-acceptor", "--no-hornetq-acceptor",
               "--no-web", "--no-autotune", "--nio", "--no-fsync", "--disable-persistence", "--no-autocreate"]

    def fetch(folder):
        instance = folder / "instance"
        # No command line of it bounds the first size of the heap: JAVA_ARGS does, here and in start().
        run = subprocess.run([artemis_home() / "bin" / "artemis", "create", instance, *options], capture_output=True, text=True, check=False,
                             timeout=60, env={**os.environ, "JAVA_ARGS": " ".join([*JAVA[1:], "-Xmx128M"])})
        assert run.returncode == 0, run.stdout[-1000:] + run.stderr[-1000:]
        for path in [instance / "bin" / "artemis", *(instance / "etc").iterdir()]:
            path.write_text(path.read_text().replace(str(instance), IN_INSTANCE["folder"]))

    made_by = hashlib.sha256(json.dumps([options, str(artemis_home())]).encode()).hexdigest()[:16]
    return _cached(f"artemis-instance-{made_by}", fetch) / "instance"


JAVA = ["java", "-XX:TieredStopAtLevel=1", "-XX:+UseSerialGC"]  # what starts soon and runs for seconds


def artemis_run(instance, heap, *options):
    """The command line of a broker: as that of its bin/artemis, without a class loader of its own, which no class archive holds."""
    home, etc = artemis_home(), instance / "etc"
    jars = sorted(str(one) for one in (home / "lib").glob("*.jar"))
    settings = {"java.security.auth.login.config": etc / "login.config", "log4j2.configurationFile": f"file:{etc / 'log4j2.properties'}",
                "log4j2.disableJmx": "true", "artemis.home": home, "artemis.instance": instance, "artemis.instance.etc": etc,
                "data.dir": instance / "data", "java.io.tmpdir": instance / "tmp", "java.library.path": home / "bin" / "lib" / "linux-x86_64"}
    return [*JAVA, "-Xms64M", f"-Xmx{heap}M", "--add-opens", "java.base/jdk.internal.misc=ALL-UNNAMED", *options, "-classpath", ":".join(jars),
            *(f"-D{name}={value}" for name, value in settings.items()), "org.apache.activemq.artemis.cli.Artemis", "run"]


@functools.cache
def artemis_classes():
    """An archive of the classes of a broker that runs: others begin in half the time of a processor. Java checks whether it fits."""
    def fetch(folder):
        broker = Artemis(classes=f"-XX:ArchiveClassesAtExit={folder / 'classes.jsa'}")
        broker.start()
        try:
            broker.process.terminate()
            broker.process.wait(120)
        finally:
            broker.close()
        assert (folder / "classes.jsa").exists(), "Java made no archive"

    java = subprocess.run([*JAVA, "-version"], capture_output=True, check=True, timeout=60).stderr
    made_for = hashlib.sha256(java + str(artemis_home()).encode()).hexdigest()[:16]
    return _cached(f"artemis-classes-{made_for}", fetch) / "classes.jsa"


class Peer:
    """A process of this module, in a folder of its own. Use as a context manager, or start_for(a test or a class of tests)."""

    def __init__(self, prefix):
        self.dir = pathlib.Path(tempfile.mkdtemp(prefix=f"kintsugi-e2e-{prefix}-"))
        self.log, self.process = self.dir / "log", None

    def start(self):
        raise NotImplementedError

    def start_for(self, case=None):
        register = unittest.addModuleCleanup if case is None else case.addClassCleanup if isinstance(case, type) else case.addCleanup
        register(self.close)
        return self.start()

    def _spawn(self, command, **more):
        with self.log.open("ab") as log:
            self.process = subprocess.Popen(command, stderr=log, start_new_session=True, **more)

    def stop(self, number=signal.SIGTERM, deadline=20):
        """Ends it, by default orderly; start() begins it again."""
        process = self.process
        if process is None or process.poll() is not None:
            return
        process.send_signal(number)
        try:
            process.wait(deadline)
        except subprocess.TimeoutExpired:
            process.kill()
            process.wait()

    def kill(self):
        self.stop(signal.SIGKILL)

    def close(self):
        try:
            self.stop()
        finally:
            shutil.rmtree(self.dir, ignore_errors=True)

    def __enter__(self):
        try:
            return self.start()
        except BaseException:
            self.close()
            raise

    def __exit__(self, *_):
        self.close()


class _Node(Peer):
    """A script of node that answers lines of JSON; each command may be begun while others run."""

    script = ""

    def __init__(self, *flags):
        super().__init__(pathlib.Path(self.script).stem)
        self.flags, self.sequence, self.waiting, self.lock = list(flags), 0, {}, threading.Lock()

    def start(self):
        modules = node_modules()
        self.hello = hello = queue.Queue()
        self._spawn(["node", str(PEERS / self.script), *self.flags], stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True,
                    env={**os.environ, "NODE_PATH": str(modules)})
        threading.Thread(target=self._read, args=(self.process, hello), daemon=True).start()
        return self

    def _read(self, process, hello):
        for line in process.stdout:
            answer = json.loads(line)
            if answer.get("ready"):
                hello.put(answer)
            else:
                with self.lock:
                    wait = self.waiting.pop(answer.pop("seq"), None)
                if wait is not None:
                    wait.put(answer)
        with self.lock:
            left, self.waiting = self.waiting, {}
        for wait in [*left.values(), hello]:
            wait.put({"fault": "the process has ended: " + self.log.read_text(errors="replace")[-1000:] if self.log.exists() else ""})

    def begin(self, **command):
        """Sends a command; what comes back gives its answer, once, within `seconds`."""
        wait = queue.Queue()
        with self.lock:
            self.sequence += 1
            self.waiting[self.sequence] = wait
            self.process.stdin.write(json.dumps({"seq": self.sequence, **command}) + "\n")
            self.process.stdin.flush()

        def answer(seconds=60):
            try:
                said = wait.get(timeout=seconds)
            except queue.Empty:
                raise kit.Timeout(f"no answer to {command} in {seconds} s") from None
            assert "fault" not in said, said["fault"]
            return said

        return answer

    def stop(self, number=signal.SIGTERM, deadline=20):
        super().stop(number, deadline)
        if self.process is not None:
            with contextlib.suppress(OSError):
                self.process.stdin.close()


class _Commanded(_Node):
    """A server that does what it is told: its commands stand at its script."""

    def start(self):
        super().start()
        said = self.hello.get(timeout=30)
        assert "fault" not in said, said["fault"]
        return self

    def command(self, command, **more):
        said = self.begin(command=command, **more)()
        assert said["ok"], said
        return said


class Router(_Commanded):
    """A stand-in for qpid-dispatch 1.19.0: its port for management, and one for clients of all tenants. Its ports stay the same when
    it is started again; what management made is lost then. Its commands: drop-next-reply, duplicate, codeless, garble (how: types,
    deep) {count, operation, type, name}; reverse {count}; delay {ms}; hang, resume, cut, restart-empty; create {type, name, attributes},
    delete {type, name} by hand; dump {log}; forget (the counts)."""

    script = "router.mjs"

    def __init__(self, name="R1", hazards=True, scale=0.01, tls=None, version="1.19.0", place=None):
        """@param place  (address, port) of its management, else a free port of 127.0.0.1"""
        self.host, self.port = place or ("127.0.0.1", kit.free_port())
        self.tenants_port = kit.free_port()
        super().__init__(f"--id={name}", f"--hazards={'all' if hazards else 'none'}", f"--scale={scale}", f"--port={self.port}", f"--host={self.host}",
                         f"--tenants-port={self.tenants_port}", f"--version={version}", *([f"--tls={tls}"] if tls else []))
        self.name = name

    def dump(self, **more):
        """rows=False: without rows of tables and links, of which there may be thousands."""
        return self.command("dump", **more)

    def sizes(self):
        """How many entities of each kind there are."""
        return self.dump(rows=False)["sizes"]

    def rows(self, kind):
        """Entities of "address", "autoLink", "linkRoute", "connector", "listener", "sslProfile" or "vhost", by name."""
        return {one["name"]: one for one in self.dump()["tables"][kind]}

    def requests(self):
        """How many requests came so far (since `forget`), by (operation, type); the types of dispatch without their prefix."""
        return {(operation, (kind or "").removeprefix(DISPATCH)): count for operation, kinds in self.dump(rows=False)["requests"].items()
                for kind, count in kinds.items()}


class Artemis(Peer):
    """A broker whose queues are in memory. All its protocols, AMQP among them, are on one port, which stays the same."""

    def __init__(self, name="b0", memory=256, global_max_size=None, classes=None, **settings):
        """@param memory    MiB of the heap; @param global_max_size  in bytes, else half of that
        @param classes  an option of Java in place of that to use artemis_classes()
        @param settings  of the match `#`, as in broker.xml with `_` for `-`"""
        super().__init__("artemis")
        self.global_max_size, self.classes = global_max_size, classes
        self.name, self.memory, self.settings, self.port = name, memory, settings, kit.free_port()
        self.instance = self.dir / "instance"

    def create(self):
        shutil.copytree(artemis_instance(), self.instance)
        for path in [self.instance / "bin" / "artemis", *(self.instance / "etc").iterdir()]:
            text = path.read_text().replace(IN_INSTANCE["folder"], str(self.instance))
            path.write_text(text.replace(IN_INSTANCE["name"], self.name).replace(IN_INSTANCE["port"], str(self.port)))
        path = self.instance / "etc" / "broker.xml"
        if self.global_max_size is not None:
            path.write_text(path.read_text().replace("<acceptors>", f"<global-max-size>{self.global_max_size}</global-max-size><acceptors>", 1))
        if self.settings:
            head, match, tail = path.read_text().partition('<address-setting match="#">')
            assert match
            for key, value in self.settings.items():
                key = key.replace("_", "-")
                line = f"<{key}>{value}</{key}>"
                tail, count = re.subn(rf"<{key}>[^<]*</{key}>", line, tail, count=1)
                if not count:
                    tail = line + tail
            path.write_text(head + match + tail)

    def start(self):
        if not self.instance.exists():
            self.create()
        before = self.log.stat().st_size if self.log.exists() else 0
        classes = self.classes or f"-XX:SharedArchiveFile={artemis_classes()}"
        with self.log.open("ab") as log:
            self._spawn(artemis_run(self.instance, self.memory, classes), stdin=subprocess.DEVNULL, stdout=log)

        def ready():
            said = self.log.read_bytes()[before:]
            if self.process.poll() is not None:
                raise RuntimeError("Artemis has ended: " + said.decode(errors="replace")[-1500:])
            return b"AMQ221001" in said

        kit.eventually(ready, 60, "Artemis is up")
        return self

    def stop(self, number=signal.SIGKILL, deadline=20):
        """It has nothing to keep."""
        super().stop(number, deadline)


class Tamper(_Commanded):
    """Stands in front of a broker's management, on a port of its own, and changes answers on command. Nothing but management goes through."""

    script = "tamper.mjs"

    def __init__(self, broker):
        self.port, self.name = kit.free_port(), broker.name
        super().__init__(f"--to={broker.port}", f"--port={self.port}")

    def garble(self, operation, how, count=1):
        """The next answers to that operation or attribute: text (no JSON), two (values), number (as a text), types (of AMQP), deep."""
        self.command("garble", operation=operation, how=how, count=count)

    def dump(self):
        """{opened: connections so far by container, requests: {operation: count}, left: orders to garble that nothing came for}"""
        return self.command("dump")


class Client(_Node):
    """A client that speaks AMQP. What it can do, and what comes back, stands at the actions of client.mjs; each takes `ms`, its
    deadline in milliseconds."""

    script = "client.mjs"

    def do(self, action, **more):
        return self.begin(do=action, **more)(more.get("ms", 5000) / 1000 + 30)

    def open(self, port, hostname="", name="default", **more):
        return self.do("open", port=port, hostname=hostname, **{"as": name}, **more)

    def manage(self, requests, **more):
        """Answers in the order of the requests, None for those that had none. A request: (properties, body)."""
        said = self.do("manage", requests=[{"properties": properties, "body": body} for properties, body in requests], **more)
        assert not said["error"], said["error"]
        return said["answers"]

    def router(self, operation, kind, name=None, body=None, **more):
        """One request to a router: (status code, description, body), or None without an answer. `kind` is a full type, or without
        the prefix of dispatch's."""
        properties = {"operation": operation, "type": kind if kind.startswith("org.") else DISPATCH + kind, **({"name": name} if name is not None else {})}
        [answer] = self.manage([(properties, body or {})], **more)
        return answer and (answer["properties"]["statusCode"], answer["properties"]["statusDescription"], answer["body"])

    def query(self, kind, columns=(), **more):
        """Rows as {column: value}."""
        paging = {key: more.pop(key) for key in ("offset", "count") if key in more}
        [answer] = self.manage([({"operation": "QUERY", "type": "org.amqp.management", "entityType": DISPATCH + kind, **paging},
                                 {"attributeNames": list(columns)})], **more)
        assert answer["properties"]["statusCode"] == 200, answer
        return [dict(zip(answer["body"]["attributeNames"], row)) for row in answer["body"]["results"]]

    def broker(self, resource, operation, parameters=(), **more):
        """One operation of a broker: (whether it succeeded, its value or the exception's text)."""
        [answer] = self.manage([({"_AMQ_ResourceName": resource, "_AMQ_OperationName": operation}, json.dumps(list(parameters)))],
                               address="activemq.management", **more)
        return self.value(answer)

    def attribute(self, resource, attribute, **more):
        [answer] = self.manage([({"_AMQ_ResourceName": resource, "_AMQ_Attribute": attribute}, "[]")], address="activemq.management", **more)
        return self.value(answer)

    @staticmethod
    def value(answer):
        if answer is None:
            return None
        body = json.loads(answer["body"]) if answer["body"] else None
        return answer["properties"]["_AMQ_OperationSucceeded"], body[0] if body else None
