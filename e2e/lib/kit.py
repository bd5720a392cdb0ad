"""What every end-to-end test uses: a running installation, clients, polling with a deadline. Standard library only."""
import contextlib
import functools
import http.client
import http.server
import itertools
import json
import mmap
import os
import pathlib
import re
import shutil
import signal
import socket
import ssl
import struct
import subprocess
import sys
import tempfile
import threading
import time
import unittest
import urllib.parse

BINARY = pathlib.Path(os.environ.get("KINTSUGI", "build/release/bin/kintsugi")).resolve()


def _has_sanitizer():
    if not BINARY.exists():
        return False
    with BINARY.open("rb") as file, mmap.mmap(file.fileno(), 0, access=mmap.ACCESS_READ) as text:
        return text.find(b"__asan_init") >= 0


# Built with AddressSanitizer, which takes memory of its own, allows no sandbox, and wants to be the first library that is loaded.
SANITIZED = _has_sanitizer()
without_sanitizer = unittest.skipIf(SANITIZED, "AddressSanitizer takes memory of its own, and allows no sandbox")
os.umask(0o077)  # what tests write are keys, tokens and kubeconfigs, which nobody else may read
REGIONS = ["eu-west-1", "us-east-1", "ap-south-1"]


class Timeout(AssertionError):
    pass


MOSTLY = 6  # times as long as a deadline says a busy machine is waited for


def stalled():
    """Seconds so far in which something on this machine waited for a processor, for memory or for a disk
    (docs.kernel.org/accounting/psi.html). Where the kernel does not say, two thirds of all time are."""
    try:
        lines = [(pathlib.Path("/proc/pressure") / what).read_text().splitlines()[0] for what in ("cpu", "io", "memory")]
        return sum(int(line.rsplit("=", 1)[1]) for line in lines) / 1e6
    except (OSError, IndexError, ValueError):
        return time.monotonic() * 2 / 3


class Clock:
    """Measures time without that in which something was waited for: what takes a second on a quiet machine takes about as
    long by it on a busy one."""

    def __init__(self):
        self.begin, self.stalled = time.monotonic(), stalled()

    def spent(self):
        took = time.monotonic() - self.begin
        return max(took - (stalled() - self.stalled), took / MOSTLY)


def eventually(check, deadline=15.0, what=""):
    """Calls check() until it returns something true; returns that value. What it raises is like something false: an assertion,
    a connection that broke, an answer of another form than the one that is waited for. The deadline is in seconds of a Clock."""
    clock = Clock()
    pause = 0.01
    while True:
        fault = "was never true"
        try:
            value = check()
            if value:
                return value
        except (AssertionError, OSError, http.client.HTTPException, subprocess.SubprocessError, LookupError, ValueError,
                StopIteration) as error:
            fault = f"{type(error).__name__}: {error}"
        if clock.spent() > deadline:
            raise Timeout(f"{what or getattr(check, '__name__', 'condition')} not reached in {deadline} s; last: {fault}")
        time.sleep(pause)
        pause = min(pause * 1.5, 0.25)


def stays(read, seconds):
    """What read() gives, if that is the same for so long: for what must not happen there is no event to wait for."""
    value, end = read(), time.monotonic() + seconds
    while time.monotonic() < end:
        time.sleep(min(0.1, seconds / 3))
        now = read()
        assert now == value, f"{value} became {now}"
    return value


def rests(read, seconds, deadline=30.0):
    """What read() gives once that is the same for so long: what is under way comes to its end first."""
    return eventually(lambda: [stays(read, seconds)], deadline, "rest")[0]


def listening(port):
    """Addresses at which somebody on this machine listens on that TCP port."""
    found = set()
    for name, family in (("tcp", socket.AF_INET), ("tcp6", socket.AF_INET6)):
        with contextlib.suppress(OSError):
            for line in pathlib.Path("/proc/net", name).read_text().splitlines()[1:]:
                local, state = line.split()[1], line.split()[3]
                address, number = local.split(":")
                if state == "0A" and int(number, 16) == port:  # words of 32 bits in the byte order of the machine
                    words = struct.unpack(f">{len(address) // 8}I", bytes.fromhex(address))
                    found.add(socket.inet_ntop(family, struct.pack(f"={len(words)}I", *words)))
    return found


LOW_PORTS = range(12_000, 32_000)  # below those that the system gives to outgoing connections and to binds of port 0
given_ports = itertools.count(os.getpid() * 61 % len(LOW_PORTS))
held_ports = []  # names that say to other test processes which ports are given; they go with this process


def free_port():
    """A port of the loopback address for a server that starts later: nobody uses it now, nobody gets it by chance meanwhile,
    and it is given once, by all test processes of this machine together."""
    for number in itertools.islice(given_ports, len(LOW_PORTS)):
        port = LOW_PORTS[number % len(LOW_PORTS)]
        name = socket.socket(socket.AF_UNIX)
        try:
            name.bind(f"\0kintsugi-e2e-port-{port}")
            with socket.socket() as s:
                s.bind(("", port))  # some servers listen on all addresses
        except OSError:
            name.close()
            continue
        held_ports.append(name)
        return port
    raise OSError("no free port")


class Answer:
    def __init__(self, status, headers, body):
        self.status, self.headers, self.body = status, headers, body

    @property
    def json(self):
        return json.loads(self.body)

    def __repr__(self):
        return f"<{self.status} {self.body[:300]!r}>"


class Client:
    """HTTP/1.1 client of one server with optional client certificate."""

    def __init__(self, base, ca, cert=None, key=None):
        self.url = urllib.parse.urlsplit(base)
        self.context = ssl.create_default_context(cafile=str(ca))
        if cert:
            self.context.load_cert_chain(str(cert), str(key))

    def connect(self, timeout=40):
        connection = http.client.HTTPSConnection(self.url.hostname, self.url.port, timeout=timeout, context=self.context)
        if self.url.hostname == "localhost":  # a bare machine has no /etc/hosts (RFC 6761, 6.3)
            connection._create_connection = lambda at, *rest: socket.create_connection(("127.0.0.1", at[1]), *rest)  # pylint: disable=protected-access
        return connection

    def request(self, method, path, body=None, headers=None, timeout=40):
        connection = self.connect(timeout)
        try:
            headers = dict(headers or {})
            if isinstance(body, (dict, list)):
                body = json.dumps(body)
                headers.setdefault("Content-Type", "application/json")
            connection.request(method, self.url.path.rstrip("/") + path, body=body, headers=headers)
            response = connection.getresponse()
            return Answer(response.status, response.headers, response.read())
        finally:
            connection.close()

    def get(self, path, **kwargs):
        return self.request("GET", path, **kwargs)

    def must(self, method, path, body=None, expect=(200, 201), **kwargs):
        answer = self.request(method, path, body, **kwargs)
        assert answer.status in expect, f"{method} {path}: {answer}"
        return answer.json

    def watch(self, path, timeout=60, accepted=None):
        """Yields decoded events until the stream ends or `timeout` seconds pass without one; calls accepted() at its begin."""
        connection = self.connect(timeout)
        connection.request("GET", self.url.path.rstrip("/") + path, headers={"Accept": "application/json"})
        response = connection.getresponse()
        assert response.status == 200, response.read()
        if accepted:
            accepted()
        try:
            for line in response:
                if line.strip():
                    yield json.loads(line)
        finally:
            connection.close()


class Watch(threading.Thread):
    """A watch through HTTP/1.1 on its own thread: its events, and how it ended."""

    def __init__(self, client, path):
        super().__init__(daemon=True)
        self.client, self.path = client, path
        self.events, self.fault, self.ended_at = [], None, None
        self.accepted = threading.Event()  # what happens from then on is told
        self.start()

    def run(self):
        try:
            for event in self.client.watch(self.path, timeout=60, accepted=self.accepted.set):
                self.events.append(event)
        except Exception as fault:  # pylint: disable=broad-except
            self.fault = fault
        self.ended_at = time.monotonic()


class Server(http.server.ThreadingHTTPServer):
    """A server on 127.0.0.1, answering in threads of its own; with `pki` over TLS, with the certificate of an installation's
    proxy. A peer that breaks off, refuses its certificate or says nothing harms no other one and leaves no line."""

    daemon_threads = True

    def __init__(self, handler, pki=None, port=0):
        self.context = None
        if pki is not None:
            self.context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
            self.context.load_cert_chain(pki / "proxy.crt", pki / "proxy.key")
        super().__init__(("127.0.0.1", port), type("Quiet", (handler,), {"log_message": lambda *_: None}))
        self.url = f"http{'s' if pki else ''}://127.0.0.1:{self.server_port}"
        threading.Thread(target=self.serve_forever, daemon=True).start()

    def get_request(self):
        connection, peer = super().get_request()
        if self.context is not None:
            connection = self.context.wrap_socket(connection, server_side=True, do_handshake_on_connect=False)
        return connection, peer

    def handle_error(self, request, client_address):
        if not isinstance(sys.exc_info()[1], OSError):
            super().handle_error(request, client_address)

    def close(self):
        self.shutdown()
        self.server_close()


class JsonServer:
    """Stands in for an HTTPS backend, with the certificate of an installation's proxy. `answer` gets each GET and POST, its
    body in `request.body`, and says what comes back: (status, JSON value)."""

    def __init__(self, pki, answer):
        class Handler(http.server.BaseHTTPRequestHandler):
            protocol_version = "HTTP/1.1"

            def do_GET(self):
                self.body = self.rfile.read(int(self.headers.get("Content-Length", 0)))
                status, value = answer(self)
                text = json.dumps(value).encode()
                self.send_response(status)
                self.send_header("Content-Type", "application/json")
                self.send_header("Content-Length", str(len(text)))
                self.end_headers()
                self.wfile.write(text)

            do_POST = do_GET

        self.server = Server(Handler, pki)
        self.host = f"127.0.0.1:{self.server.server_port}"
        self.url = self.server.url
        self.close = self.server.close


class Installation:
    """`kintsugi up` in a temporary folder. Use as a context manager; nothing is left over."""

    def __init__(self, *options, shards=3):
        self.dir = pathlib.Path(tempfile.mkdtemp(prefix="kintsugi-e2e-"))
        self.state = self.dir / "state"
        self.port = free_port()
        self.options = ["--dir", str(self.state), "--port", str(self.port), "--shards", str(shards),
                        # start() has a deadline by a clock that knows how busy the machine is, and tests hold processes up
                        "--ready-timeout", "0s", *(() if "--hang-timeout" in options else ("--hang-timeout", "0s")), *options,
                        *os.environ.get("KINTSUGI_UP", "").split()]
        self.process = None
        self.log = self.dir / "up.log"
        self.made = []  # see Shared

    def start(self, deadline=30):
        with self.log.open("ab") as log:
            self.process = subprocess.Popen([str(BINARY), "up", *self.options], stdin=subprocess.DEVNULL, stdout=log,
                                            stderr=log, start_new_session=True)

        def ready():
            if self.process.poll() is not None:
                raise RuntimeError("up ended: " + self.log.read_text(errors="replace")[-2000:])
            return (self.state / "ready").exists()

        try:
            eventually(ready, deadline, "kintsugi up ready")
        except BaseException as fault:
            self.__exit__(type(fault), fault, None)
            raise
        return self

    def start_for(self, case=None):
        """start(), and the end of it with that test or class of tests; with the tests of the module if none is named. So it ends
        also when what prepares them fails."""
        self.start()
        register = unittest.addModuleCleanup if case is None else case.addClassCleanup if isinstance(case, type) else case.addCleanup
        register(self.__exit__, None, None, None)
        return self

    def stop(self, deadline=40):
        if self.process and self.process.poll() is None:
            self.process.send_signal(signal.SIGTERM)
            try:
                eventually(lambda: self.process.poll() is not None, deadline, "the end of kintsugi up")
            except Timeout:
                os.killpg(self.process.pid, signal.SIGKILL)
                self.process.wait()
                raise
        return self.process.returncode if self.process else None

    def __enter__(self):
        return self.start()

    def __exit__(self, kind, value, trace):
        try:
            self.stop()
        finally:
            with contextlib.suppress(ProcessLookupError, PermissionError):
                os.killpg(self.process.pid, signal.SIGKILL)
            if kind is not None and os.environ.get("KINTSUGI_KEEP"):
                print(f"kept {self.dir}")
            else:
                if kind is not None:
                    for log in sorted(self.state.glob("logs/*.log")) + [self.log]:
                        if log.exists():
                            print(f"--- end of {log.name}\n" + log.read_text(errors="replace")[-1500:])
                shutil.rmtree(self.dir, ignore_errors=True)

    # paths and clients
    @property
    def pki(self):
        return self.state / "pki"

    @property
    def kubeconfig(self):
        return self.state / "admin.kubeconfig"

    def pid(self, process):
        return int((self.state / "run" / f"{process}.pid").read_text())

    def kill(self, process, number=signal.SIGKILL):
        os.kill(self.pid(process), number)

    def shard_url(self, name):
        """Where this shard is reached past the proxy."""
        text = (self.state / "shards" / name / "admin.kubeconfig").read_text()
        return re.search(r"server: \"?(https://[0-9.:]+)", text).group(1)

    def client(self, path="/clusters/root", cert="admin"):
        """A client of the proxy with the admin's certificate (cert=None: anonymous)."""
        pair = (self.pki / f"{cert}.crt", self.pki / f"{cert}.key") if cert else (None, None)
        return Client(f"https://127.0.0.1:{self.port}{path}", self.pki / "serving-ca.crt", *pair)

    def user_client(self, name, groups=(), path="/clusters/root"):
        """A client with a fresh certificate of the installation's client CA."""
        cert, key = make_user(self.dir, self.pki, name, groups)
        return Client(f"https://127.0.0.1:{self.port}{path}", self.pki / "serving-ca.crt", cert, key)

    def kubectl(self, *args, context=None, server=None, expect=0, input_text=None, timeout=60, program=None,
                environment=None):
        command = [program or needs_kubectl(), f"--kubeconfig={self.kubeconfig}", f"--cache-dir={self.dir / 'kube-cache'}"]
        if context:
            command.append(f"--context={context}")
        if server:
            command.append(f"--server=https://127.0.0.1:{self.port}{server}")
        run = subprocess.run([*command, *args], capture_output=True, text=True, timeout=timeout, check=False, input=input_text,
                             env={**os.environ, "HOME": str(self.dir), **(environment or {})})
        if expect is not None:
            assert run.returncode == expect, f"kubectl {' '.join(args)}: exit {run.returncode}\n{run.stdout}{run.stderr}"
        return run.stdout if expect == 0 else run.stdout + run.stderr

    def make_workspace(self, name, parent="root", selector=None):
        """Creates a workspace, waits until it is Ready and reachable through the proxy; returns its object."""
        client = self.client(f"/clusters/{parent}")
        body = {"apiVersion": "tenancy.kcp.io/v1alpha1", "kind": "Workspace", "metadata": {"name": name}, "spec": {}}
        if selector:
            body["spec"]["location"] = {"selector": {"matchLabels": selector}}
        client.must("POST", "/apis/tenancy.kcp.io/v1alpha1/workspaces", body)

        def ready():
            workspace = client.must("GET", f"/apis/tenancy.kcp.io/v1alpha1/workspaces/{name}")
            assert workspace.get("status", {}).get("phase") == "Ready", workspace
            reachable = self.client(f"/clusters/{parent}:{name}").get("/api/v1/namespaces/default")
            assert reachable.status == 200, reachable
            return workspace

        return eventually(ready, 20, f"workspace {parent}:{name} ready")


class Shared(Installation):
    """An installation that other topics use as well, at the same time. Its own are a folder for files and the workspaces that it
    makes; they go with it."""

    def __init__(self, state, port):  # pylint: disable=super-init-not-called
        self.dir = pathlib.Path(tempfile.mkdtemp(prefix="kintsugi-e2e-"))
        self.state, self.port, self.made = pathlib.Path(state), int(port), []

    def refuse(self, *_, **__):
        raise AssertionError("other topics use this installation, too: one that is to be stopped is a kit.Installation")

    start = stop = kill = pid = refuse

    def make_workspace(self, name, parent="root", selector=None):
        if parent == "root":
            self.made.append(name)
        return super().make_workspace(name, parent, selector)

    def __exit__(self, *_):
        for name in self.made:
            with contextlib.suppress(OSError, http.client.HTTPException):
                self.client().request("DELETE", f"/apis/tenancy.kcp.io/v1alpha1/workspaces/{name}")
        shutil.rmtree(self.dir, ignore_errors=True)


SHARED = "KINTSUGI_SHARED"  # folder and port of the installation that e2e/run.py started for this worker


def shared(case=None):
    """An installation of three shards with the defaults, until the tests of that class (or module) are over. For topics that keep to
    workspaces of their own, whose names nobody else uses: they stop no process, change no Shard and no right in the root workspace,
    and do not count what all workspaces hold. Under e2e/run.py several topics are at it, else it is one's own."""
    if SHARED not in os.environ:
        return Installation().start_for(case)
    installation = Shared(*os.environ[SHARED].rsplit(":", 1))
    register = unittest.addModuleCleanup if case is None else case.addClassCleanup
    register(installation.__exit__, None, None, None)
    return installation


@functools.lru_cache
def kubectl_version(program):
    run = subprocess.run([program, "version", "--client", "-o", "json"], capture_output=True, text=True, check=False)
    found = re.search(r'"gitVersion": *"v(\d+)\.(\d+)', run.stdout)
    return tuple(int(number) for number in found.groups()) if found else (0, 0)


@functools.lru_cache
def kubectls():
    """Every kubectl that there is, one of each version, the oldest first: those that $KUBECTLS names (separated by ':'), or those of
    all folders of the PATH. Debian 12 has 1.20."""
    if given := os.environ.get("KUBECTLS"):
        programs = [found for name in given.split(os.pathsep) if (found := shutil.which(name))]
    else:
        programs = [found for folder in os.get_exec_path() if (found := shutil.which("kubectl", path=folder))]
    by_version = {}
    for program in programs:
        by_version.setdefault(kubectl_version(program), program)
    return {version: by_version[version] for version in sorted(by_version)}


def needs_kubectl(minor=0, what="it"):
    """The kubectl of the PATH, or another one that is at least 1.<minor>; without such a one the test is skipped."""
    first = shutil.which("kubectl")
    if first and kubectl_version(first) >= (1, minor):
        return first
    for version, program in kubectls().items():
        if version >= (1, minor):
            return program
    have = ", ".join(f"{major}.{number}" for major, number in kubectls()) or "none"
    raise unittest.SkipTest(f"{what} needs kubectl 1.{minor} or a newer one; there is {have}" if minor else "no kubectl on this machine")


SELF_REVIEWS = "/apis/authentication.k8s.io/v1/selfsubjectreviews"
SELF_REVIEW = {"apiVersion": "authentication.k8s.io/v1", "kind": "SelfSubjectReview"}


def bearer(token, **more):
    """Headers of a request with a token."""
    return {"Authorization": f"Bearer {token}", **more}


def token_user(proxy, token, path="/clusters/root:beta"):
    """The status of the answer, and who the shard takes the caller for or why it refuses."""
    answer = proxy.client(path, cert=None).request("POST", SELF_REVIEWS, SELF_REVIEW, headers=bearer(token))
    return answer.status, answer.json["status"]["userInfo"] if answer.status == 201 else answer.json


def own_memory(pid):
    """Bytes of RAM that a process has written: without code, which comes and goes from the page cache."""
    return int(re.search(r"^RssAnon:\s+(\d+) kB$", pathlib.Path(f"/proc/{pid}/status").read_text(), re.MULTILINE)[1]) * 1024


def replace_file(target, source):
    """As a careful administrator does: a new file renamed into place."""
    new = pathlib.Path(str(target) + ".new")
    new.write_bytes(pathlib.Path(source).read_bytes() if isinstance(source, pathlib.Path) else source)
    os.replace(new, target)


class Proxy:
    """One more `kintsugi proxy` in front of the shards of an installation, with its own files."""

    def __init__(self, installation, change=(), loops=2, flags=(), under=()):
        """@param under  what runs the program: prlimit and its arguments"""
        self.under, self.program = list(under), str(BINARY)
        self.installation, self.loops, self.flags = installation, loops, [str(flag) for flag in flags]
        self.dir = pathlib.Path(tempfile.mkdtemp(dir=installation.dir, prefix="proxy-"))
        self.port = free_port()
        pki = installation.pki
        for name in ("proxy.crt", "proxy.key", "client-ca.crt", "serving-ca.crt", "proxy-requestheader.crt",
                     "proxy-requestheader.key"):
            (self.dir / name).write_bytes((pki / name).read_bytes())
        shards = installation.state / "shards" / "root" / "proxy.kubeconfig"
        for name in ("root.kubeconfig", "shards.kubeconfig"):
            (self.dir / name).write_bytes(shards.read_bytes())
        self.config = {
            "listener": {"port": self.port, "cert_file": "proxy.crt", "key_file": "proxy.key"},
            "authentication": {"client_ca_file": "client-ca.crt"},
            "topology": {"root_kubeconfig": "root.kubeconfig", "shards_kubeconfig": "shards.kubeconfig"},
            "backend": {"ca_file": "serving-ca.crt", "cert_file": "proxy-requestheader.crt",
                        "key_file": "proxy-requestheader.key"},
            "admin": {"socket": "admin.sock"}, "shutdown": {}, "limits": {}}
        for section, values in dict(change).items():
            if isinstance(values, dict):
                self.config.setdefault(section, {}).update(values)
            else:
                self.config[section] = values
        self.write_config()
        self.log = self.dir / "log"
        self.process = None

    def write_config(self, extra=""):
        text = f"apiVersion: kintsugi.dev/v1alpha1\nkind: ProxyConfiguration\ndata_dir: data\nloops: {self.loops}\n{extra}"
        for section, values in self.config.items():
            if isinstance(values, str):
                text += f"{section}: {values}\n"
            elif values:
                text += f"{section}:\n" + "".join(f"  {key}: {value}\n" for key, value in values.items())
        replace_file(self.dir / "proxy.yaml", text.encode())

    def __enter__(self):
        with self.log.open("ab") as log:
            self.process = subprocess.Popen([*self.under, self.program, "proxy", "--config", str(self.dir / "proxy.yaml"), *self.flags], stdout=log,
                                            stderr=log, stdin=subprocess.DEVNULL)
        try:
            eventually(lambda: self.client("").get("/readyz").status == 200, 20, "proxy ready")
        except BaseException:
            self.__exit__()
            print(self.text())
            raise
        return self

    def __exit__(self, kind=None, *_):
        if self.process.poll() is None:
            self.process.kill()
            self.process.wait()
        if kind is not None:
            print("the end of the proxy's log:\n" + "\n".join(self.text().splitlines()[-30:]), flush=True)

    def client(self, path="/clusters/root", cert="admin"):
        pki = self.installation.pki
        pair = (pki / f"{cert}.crt", pki / f"{cert}.key") if cert else (None, None)
        return Client(f"https://127.0.0.1:{self.port}{path}", pki / "serving-ca.crt", *pair)

    def text(self):
        return self.log.read_text(errors="replace")

    def metric(self, name):
        answer = subprocess.run(["curl", "-sS", "--unix-socket", str(self.dir / "admin.sock"), "http://admin/metrics"],
                                capture_output=True, text=True, timeout=60, check=True).stdout
        for line in answer.splitlines():
            if line.startswith(name + " "):
                return float(line.rsplit(" ", 1)[1])
        return 0

    def metrics(self, name, **labels):
        """The sum of a metric over the rows that have these labels."""
        text = subprocess.run(["curl", "-sS", "--unix-socket", str(self.dir / "admin.sock"), "http://admin/metrics"],
                              capture_output=True, text=True, timeout=60, check=True).stdout
        rows = [line.rpartition(" ") for line in text.splitlines() if line.startswith(name + "{")]
        return sum(float(value) for row, _, value in rows if all(f'{key}="{wanted}"' in row for key, wanted in labels.items()))

    def serial(self):
        """Serial number of the certificate that a new handshake gets."""
        context = ssl.create_default_context(cafile=str(self.installation.pki / "serving-ca.crt"))
        with socket.create_connection(("127.0.0.1", self.port), timeout=60) as plain:
            with context.wrap_socket(plain, server_hostname="127.0.0.1") as tls:
                return int(tls.getpeercert()["serialNumber"], 16)


def certificate(folder, name, names):
    """A certificate that nobody here has issued, and is a CA's too: its files by their kind."""
    files = {kind: pathlib.Path(folder) / f"{name}.{kind}" for kind in ("crt", "key")}
    subprocess.run(["openssl", "req", "-x509", "-newkey", "ec", "-pkeyopt", "ec_paramgen_curve:P-256", "-nodes", "-keyout", files["key"], "-out",
                    files["crt"], "-days", "2", "-subj", "/CN=another", "-addext", f"subjectAltName={names}"], check=True, capture_output=True)
    return files


def make_user(folder, pki, name, groups):
    """A client certificate signed by the installation's client CA, made with openssl."""
    base = pathlib.Path(folder) / ("user-" + urllib.parse.quote(name, safe=""))
    cert, key, request = base.with_suffix(".crt"), base.with_suffix(".key"), base.with_suffix(".csr")
    if not cert.exists():
        subject = "".join(f"/O={group}" for group in groups) + f"/CN={name}"
        subprocess.run(["openssl", "req", "-new", "-newkey", "ec", "-pkeyopt", "ec_paramgen_curve:P-256", "-nodes", "-keyout",
                        key, "-out", request, "-subj", subject], check=True, capture_output=True)
        subprocess.run(["openssl", "x509", "-req", "-in", request, "-CA", pki / "client-ca.crt", "-CAkey", pki / "client-ca.key",
                        "-set_serial", str(int.from_bytes(os.urandom(8), "big")), "-days", "1", "-out", cert],
                       check=True, capture_output=True)
    return cert, key
