"""`kintsugi dispatcher` with what it stands between: Kafka, a mock cluster or a real one, and sinks."""
import http.client
import http.server
import itertools
import json
import pathlib
import shutil
import subprocess
import sys
import threading
import time

import amqp
import kit
import rdkafka

KAFKA, SLF4J = "4.1.0", "1.7.36"
POM = f"""<project xmlns="http://maven.apache.org/POM/4.0.0"><modelVersion>4.0.0</modelVersion><groupId>kintsugi</groupId>
<artifactId>kafka-peer</artifactId><version>1</version><dependencies>
<dependency><groupId>org.apache.kafka</groupId><artifactId>kafka_2.13</artifactId><version>{KAFKA}</version></dependency>
<dependency><groupId>org.slf4j</groupId><artifactId>slf4j-nop</artifactId><version>{SLF4J}</version></dependency>
</dependencies></project>
"""


class MockKafka(amqp.Peer):
    """librdkafka's mock brokers in a process of their own (e2e/peers/kafka/mock_kafka.py)."""

    def __init__(self, *topics, brokers=3):
        super().__init__("mock-kafka")
        self.topics, self.brokers = topics, brokers

    def start(self):
        rdkafka.library()  # skips where there is none
        script = pathlib.Path(__file__).resolve().parents[1] / "peers" / "kafka" / "mock_kafka.py"
        self._spawn([sys.executable, str(script), "--brokers", str(self.brokers), *(f"--topic={topic}" for topic in self.topics)],
                    stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True)  # fmt: skip
        self.bootstrap = self.process.stdout.readline().strip().partition("=")[2]
        return self

    def tell(self, *words):
        self.process.stdin.write(" ".join(map(str, words)) + "\n")
        self.process.stdin.flush()
        answer = self.process.stdout.readline().strip()
        assert answer == "ok", f"{words}: {answer}"

    def close(self):
        if self.process is not None:
            self.process.stdin.close()  # its end
            self.process.stdout.close()
        super().close()


def kafka_jars():
    """The class path of Apache Kafka, fetched once by Maven."""
    amqp._needs("java", "mvn")  # pylint: disable=protected-access

    def fetch(folder):
        (folder / "pom.xml").write_text(POM)
        amqp._run(["mvn", "--batch-mode", "--quiet", "-f", str(folder / "pom.xml"), f"-Dmaven.repo.local={folder / 'repository'}",  # pylint: disable=protected-access
                   "org.apache.maven.plugins:maven-dependency-plugin:3.8.1:copy-dependencies", f"-DoutputDirectory={folder / 'jars'}"], "Apache Kafka")
        shutil.rmtree(folder / "repository")

    return f"{amqp._cached(f'kafka-{KAFKA}', fetch) / 'jars'}/*"  # pylint: disable=protected-access


class RealKafka(amqp.Peer):
    """Apache Kafka in KRaft mode, broker and controller in one process; its data stay over kill() and start()."""

    def __init__(self, partitions=12):
        super().__init__("kafka")
        self.partitions, self.port, self.bootstrap = partitions, kit.free_port(), None
        self.properties = self.dir / "server.properties"

    def _java(self, heap, *more):
        return ["java", f"-Xmx{heap}", "-XX:+UseSerialGC", "-XX:TieredStopAtLevel=1", "-cp", kafka_jars(), *more]

    def start(self):
        kafka_jars()
        if self.bootstrap is None:
            controller = kit.free_port()
            self.properties.write_text("\n".join([
                "process.roles=broker,controller", "node.id=1", f"controller.quorum.voters=1@127.0.0.1:{controller}",
                f"listeners=PLAINTEXT://127.0.0.1:{self.port},CONTROLLER://127.0.0.1:{controller}",
                f"advertised.listeners=PLAINTEXT://127.0.0.1:{self.port}", "controller.listener.names=CONTROLLER",
                "listener.security.protocol.map=CONTROLLER:PLAINTEXT,PLAINTEXT:PLAINTEXT", f"log.dirs={self.dir / 'data'}",
                "offsets.topic.replication.factor=1", "offsets.topic.num.partitions=4", "transaction.state.log.replication.factor=1",
                "transaction.state.log.min.isr=1", "group.initial.rebalance.delay.ms=0", f"num.partitions={self.partitions}",
                "message.max.bytes=20971520", "replica.fetch.max.bytes=20971520", "socket.request.max.bytes=104857600"]))  # fmt: skip
            made = subprocess.run(self._java("128m", "kafka.tools.StorageTool", "format", "-t", "bWFkZS1mb3ItdGVzdHMtMQ", "-c", str(self.properties)),
                                  capture_output=True, text=True, check=False, timeout=300)  # fmt: skip
            assert made.returncode == 0, made.stdout[-500:] + made.stderr[-500:]
            self.bootstrap = f"127.0.0.1:{self.port}"
        self._spawn(self._java("384m", "kafka.Kafka", str(self.properties)), stdout=subprocess.DEVNULL)
        kit.eventually(lambda: kit.listening(self.port), 180, "Kafka listens")
        return self

    def kill(self):
        super().kill()
        kit.eventually(lambda: not kit.listening(self.port), 10, "its port is free")


class Sink:
    """Takes events and answers by a script. `answers(event)` says (status, headers, body), which may take its time."""

    def __init__(self, answers=None, pki=None):
        self.events, self.lock, self.answers = [], threading.Lock(), answers or (lambda event: (200, {}, b""))
        sink = self

        class Handler(http.server.BaseHTTPRequestHandler):
            protocol_version = "HTTP/1.1"
            disable_nagle_algorithm = True

            def do_POST(self):
                length = self.headers.get("Content-Length")
                event = {"path": self.path, "at": time.monotonic(), "body": self.rfile.read(int(length or 0)), "length": length,
                         "headers": {name.lower(): value for name, value in self.headers.items()}}  # fmt: skip
                with sink.lock:
                    sink.events.append(event)
                status, headers, body = sink.answers(event)
                self.send_response(status)
                for name, value in headers.items():
                    self.send_header(name, value)
                self.send_header("Content-Length", str(len(body)))
                self.end_headers()
                self.wfile.write(body)

        class Many(kit.Server):
            request_queue_size = 128

        self.server = Many(Handler, pki)
        self.url = self.server.url

    def at(self, path):
        with self.lock:
            return [event for event in self.events if event["path"] == path]

    def bodies(self, path="/"):
        return [event["body"] for event in self.at(path)]

    def close(self):
        self.server.close()


EGRESSES = itertools.count(1)


def egress(uid, destination, *, group=None, replicas=1, **more):
    return {"uid": uid, "consumerGroup": group or f"group-{uid}", "destination": destination, "vReplicas": replicas,
            "discardReply": {}, **more}  # fmt: skip


def resource(bootstrap, topics, *egresses, **more):
    return {"uid": f"r-{next(EGRESSES)}", "topics": list(topics), "bootstrapServers": bootstrap, "egresses": list(egresses),
            "reference": {"namespace": "ns", "name": "source", "uuid": "u"}, **more}  # fmt: skip


class Dispatcher(amqp.Peer):
    """`kintsugi dispatcher` and its contract, a file that is replaced as a whole."""

    def __init__(self, name="dispatcher-0", flags=()):
        super().__init__(name)
        self.name, self.flags, self.port = name, list(flags), kit.free_port()
        self.contract, self.generation, self.epoch, self.resources = self.dir / "contract", 0, 0, []

    def start(self):
        self._spawn([str(kit.BINARY), "dispatcher", "--pod", self.name, "--contract", str(self.contract), "--status-address",
                     f"127.0.0.1:{self.port}", *self.flags])  # fmt: skip
        kit.eventually(lambda: self.get("/healthz"), 20, "it answers")
        return self

    def get(self, path):
        connection = http.client.HTTPConnection("127.0.0.1", self.port, timeout=20)
        try:
            connection.request("GET", path)
            return connection.getresponse().read().decode()
        finally:
            connection.close()

    def status(self):
        return json.loads(self.get("/status"))

    def egress(self, uid):
        return self.status()["egresses"].get(uid, {})

    def metric(self, name):
        return sum(float(line.rpartition(" ")[2]) for line in self.get("/metrics").splitlines() if line.startswith(name) and line[len(name)] in " {")

    def write(self, data):
        beside = self.contract.with_suffix(".new")
        beside.write_bytes(data if isinstance(data, bytes) else json.dumps(data).encode())
        beside.rename(self.contract)

    def give(self, *resources, **more):
        """A contract with these resources, of the next generation, and until it is applied."""
        self.generation, self.resources = self.generation + 1, list(resources)
        self.write({"generation": str(self.generation), "epoch": str(self.epoch), "resources": self.resources, **more})
        if self.process is not None:
            kit.eventually(lambda: self.status()["generation"] == self.generation, 20, "the contract is applied")

    def until_joined(self, uid, partitions, members=1):
        kit.eventually(lambda: self.egress(uid)["members"] == members and len(self.egress(uid)["partitions"]) == partitions, 40,
                       f"{uid} has its partitions")  # fmt: skip


def until_spread(dispatchers, uid, partitions, each=None):
    """Until every partition is one's alone, and each of them has so many, where that is said: members get theirs in several steps."""

    def spread():
        held = [one.egress(uid).get("partitions", []) for one in dispatchers]
        everything = list(itertools.chain(*held))
        return (len(everything) == len(set(everything)) == partitions and all(held)) and (each is None or all(len(one) == each for one in held))

    kit.eventually(spread, 60, "each has partitions, and no two the same")

