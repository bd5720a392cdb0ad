"""A collector of traces: the OTLP receiver of the OpenTelemetry Collector (e2e/peers/collector), which prints what it gets."""
import json
import pathlib
import subprocess
import tempfile

import etcds
import kit

SOURCE = pathlib.Path(__file__).resolve().parents[1] / "peers" / "collector"


class Span:
    """One, with its attributes as a dictionary."""

    def __init__(self, service, instance, said):
        self.service, self.instance, self.name = service, instance, said["name"]
        self.trace, self.id, self.parent, self.kind = said["traceId"], said["spanId"], said.get("parentSpanId", ""), said["kind"]
        self.begin, self.end = int(said["startTimeUnixNano"]), int(said["endTimeUnixNano"])
        self.events = [one["name"] for one in said.get("events", [])]
        self.fault = said.get("status", {}).get("message", "")
        self.attributes = {one["key"]: next(iter(one["value"].values())) for one in said.get("attributes", [])}

    def __repr__(self):
        return f"{self.service}/{self.instance} {self.name} {self.id}<{self.parent} {self.fault} {self.attributes}"


class Collector:
    """Runs until the end of the `with` statement, or of stop()."""

    def __init__(self):
        program = etcds.built(SOURCE, "collector") / "collector"
        self.port = kit.free_port()
        self.endpoint = f"http://127.0.0.1:{self.port}"
        self.output = tempfile.NamedTemporaryFile(prefix="kintsugi-e2e-traces-")  # pylint: disable=consider-using-with
        self.process = subprocess.Popen([str(program), "-endpoint", f"127.0.0.1:{self.port}"], stdin=subprocess.DEVNULL,  # pylint: disable=consider-using-with
                                        stdout=self.output, stderr=subprocess.DEVNULL)
        kit.eventually(lambda: kit.listening(self.port), 20, "a collector")

    def stop(self):
        self.process.terminate()
        self.process.wait(120)

    def spans(self, trace=None):
        """All that have come, or those of a trace."""
        found = []
        for line in pathlib.Path(self.output.name).read_text().split("\n")[:-1]:
            for of_resource in json.loads(line)["resourceSpans"]:
                resource = {one["key"]: one["value"]["stringValue"] for one in of_resource["resource"]["attributes"]}
                for scope in of_resource["scopeSpans"]:
                    found += [Span(resource["service.name"], resource.get("service.instance.id", ""), one) for one in scope["spans"]]
        return [one for one in found if trace in (None, one.trace)]
