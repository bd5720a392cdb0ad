"""The products under test: certificates, configurations, start and stop. Everything lives in bench/run."""
import json
import os
import pathlib
import re
import select
import socket
import ssl
import subprocess
import time

SUITE = "TLS_AES_128_GCM_SHA256"
PROXY_CPU, OTHER_CPU = "0", "1"
os.umask(0o077)  # keys and kubeconfigs that others may read are refused
LIMIT = 900  # no process of a run lives longer [s]

HAPROXY = """
global
    nbthread 1
    maxconn 9000
    tune.h2.max-concurrent-streams 100
    ssl-default-bind-ciphersuites {suite}
    ssl-default-server-ciphersuites {suite}
defaults
    mode http
    http-reuse always
    timeout connect 5s
    timeout client 15m
    timeout server 15m
    timeout http-keep-alive 15m
frontend fe
    bind 127.0.0.1:{port} ssl crt both.pem alpn h2,http/1.1
    default_backend be
backend be
    server s1 127.0.0.1:{shard} ssl verify none alpn h2 pool-max-conn -1
"""

KINTSUGI = """
apiVersion: kintsugi.dev/v1alpha1
kind: ProxyConfiguration
data_dir: proxy-data
existence: kcp  # h2load has no client certificate
loops: 1
listener:
  address: 127.0.0.1
  port: {port}
  cert_file: cert.pem
  key_file: key.pem
  max_streams: 100
  watch_starts: 0  # one client stands for many
authentication:
  client_ca_file: client.pem
topology:
  source: kcp
  root_kubeconfig: shard.kubeconfig
  shards_kubeconfig: shard.kubeconfig
backend:
  ca_file: cert.pem
  cert_file: proxy-client.pem
  key_file: proxy-client.key
limits:  # one client stands for many
  watches_per_user: 1000000
  watches_per_resource: 1000000
  connections_per_user: 100000
shutdown:
  grace_ms: 1000
"""

# What binaries before it do not know and refuse; they did as it says.
LATER = re.compile(r"^(existence|limits):.*\n(?: .*\n)*", re.MULTILINE)

KUBECONFIG = """
apiVersion: v1
kind: Config
clusters:
- name: base
  cluster: {{server: "https://127.0.0.1:{shard}", certificate-authority: cert.pem}}
users:
- name: base
  user: {{client-certificate: proxy-client.pem, client-key: proxy-client.key}}
contexts:
- name: base
  context: {{cluster: base, user: base}}
current-context: base
"""


def prepare(run: pathlib.Path):
    """Certificates: one server pair for all, one client pair each for clients and for Kintsugi's own requests."""
    run.mkdir(parents=True, exist_ok=True)

    def make(name, subject, *extra):
        if not (run / f"{name}.pem").exists():
            subprocess.run(
                ["openssl", "req", "-x509", "-newkey", "ec", "-pkeyopt", "ec_paramgen_curve:P-256", "-nodes", "-days",
                 "30", "-subj", subject, *extra, "-keyout", f"{name}.key", "-out", f"{name}.pem"],
                cwd=run, check=True, capture_output=True)  # fmt: skip

    make("cert", "/CN=localhost", "-addext", "subjectAltName=DNS:localhost,IP:127.0.0.1")
    make("client", "/O=bench/CN=bench-user")
    make("masters", "/O=system:masters/CN=bench-admin")
    make("proxy-client", "/CN=kintsugi-proxy")
    (run / "key.pem").write_text((run / "cert.key").read_text())
    (run / "both.pem").write_text((run / "cert.pem").read_text() + (run / "key.pem").read_text())
    for name in ("key.pem", "both.pem", "shard.kubeconfig"):  # of a run before
        if (run / name).exists():
            (run / name).chmod(0o600)


def free_port() -> int:
    with socket.socket() as probe:
        probe.bind(("127.0.0.1", 0))
        return probe.getsockname()[1]


def end_process(process, patience):
    """Asks it to end, and does not take no for an answer after `patience` [s]."""
    if process.poll() is None:
        process.terminate()
    try:
        process.wait(patience)
    except subprocess.TimeoutExpired:
        process.kill()
        process.wait()


class Tool:
    """A bench tool that talks in lines."""

    def __init__(self, run, command):
        self.command = ["taskset", "-c", OTHER_CPU, *map(str, command)]
        self.errors = open(run / "tools.err", "ab")
        self.process = subprocess.Popen(
            self.command, cwd=run, stdin=subprocess.PIPE, stdout=subprocess.PIPE, stderr=self.errors)
        self.pid = self.process.pid
        self.rest = b""

    def read(self, timeout=60) -> dict:
        end = time.monotonic() + timeout
        while b"\n" not in self.rest:
            ready, _, _ = select.select([self.process.stdout], [], [], max(0, end - time.monotonic()))
            data = os.read(self.process.stdout.fileno(), 65536) if ready else b""
            if not data:
                self.stop()
                raise RuntimeError(f"{self.command[3]} gave no answer (see bench/run/tools.err)")
            self.rest += data
        line, self.rest = self.rest.split(b"\n", 1)
        return json.loads(line)

    def tell(self, text):
        self.process.stdin.write(text.encode() + b"\n")
        self.process.stdin.flush()

    def ask(self, text) -> dict:
        self.tell(text)
        return self.read()

    def stop(self):
        end_process(self.process, 10)
        self.errors.close()


class Bed:
    """One product between an event source and a load; a context manager that leaves no process behind."""

    patience = 30  # until it answers [s]

    def __init__(self, product, binary, tools, run, max_streams=100):
        self.product, self.binary, self.tools, self.run = product, binary, tools, run
        self.max_streams = max_streams
        self.source = self.proxy = None

    def __enter__(self):
        try:
            self._start()
        except BaseException:
            self.__exit__()
            raise
        return self

    def _start(self):
        self.source = Tool(self.run, [self.tools / "bench_event_source", "--cert", "cert.pem", "--key", "key.pem",
                                      "--max-streams", self.max_streams, "--seconds", LIMIT])  # fmt: skip
        self.shard = self.source.read()["port"]
        self.port = free_port()
        self.log = open(self.run / f"{self.product}.log", "wb")
        self.proxy = subprocess.Popen(
            ["taskset", "-c", PROXY_CPU, *self._command()], cwd=self.run, stdin=subprocess.DEVNULL, stdout=self.log,
            stderr=self.log)
        self._wait_until_ready()

    def _command(self):
        names = {"port": self.port, "shard": self.shard, "suite": SUITE}
        if self.product == "haproxy":
            (self.run / "haproxy.cfg").write_text(HAPROXY.format(**names))
            return ["haproxy", "-db", "-f", "haproxy.cfg"]
        if self.product == "nghttpx":
            return ["nghttpx", "--conf=/dev/null", "--single-process", "--workers=1", "--no-ocsp", "-k", f"-f127.0.0.1,{self.port}",
                    f"-b127.0.0.1,{self.shard};;proto=h2;tls", "--tls-min-proto-version=TLSv1.3",
                    f"--tls13-ciphers={SUITE}", f"--tls13-client-ciphers={SUITE}",
                    "--frontend-http2-max-concurrent-streams=100", "--frontend-http2-read-timeout=15m",
                    "--backend-read-timeout=15m", "--backend-write-timeout=15m", "--stream-write-timeout=15m",
                    "--errorlog-file=nghttpx.err", "key.pem", "cert.pem"]  # fmt: skip
        (self.run / "shard.kubeconfig").write_text(KUBECONFIG.format(**names))
        command = [self.binary, "proxy", "--config", "proxy.yaml"]
        configuration = KINTSUGI.format(**names)
        (self.run / "proxy.yaml").write_text(configuration)
        if subprocess.run([*command, "--validate"], cwd=self.run, capture_output=True).returncode != 0:
            (self.run / "proxy.yaml").write_text(LATER.sub("", configuration))
        return command

    def _wait_until_ready(self):
        context = ssl.create_default_context()
        context.check_hostname, context.verify_mode = False, ssl.CERT_NONE
        context.set_alpn_protocols(["http/1.1"])
        end = time.monotonic() + self.patience
        request = b"GET /clusters/bench/1k HTTP/1.1\r\nHost: localhost\r\nConnection: close\r\n\r\n"
        while time.monotonic() < end:
            try:
                with socket.create_connection(("127.0.0.1", self.port), 5) as plain, context.wrap_socket(plain) as tls:
                    tls.sendall(request)
                    if tls.recv(64).startswith(b"HTTP/1.1 200"):
                        return
            except OSError:
                pass
            if self.proxy.poll() is not None:
                break
            time.sleep(0.05)
        raise RuntimeError(f"{self.product} does not answer (see bench/run/{self.product}.log)")

    @property
    def pids(self):
        return [self.proxy.pid, self.source.pid]

    def load(self, tool, *flags):
        return Tool(self.run, [self.tools / f"bench_{tool}", "--port", self.port, "--cert", "client.pem", "--key",
                               "client.key", "--seconds", LIMIT, *flags])  # fmt: skip

    def __exit__(self, *_):
        if self.proxy is not None:
            end_process(self.proxy, 5)
            self.log.close()
        if self.source is not None:
            self.source.stop()
