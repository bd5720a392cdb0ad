"""Kintsugi under the name of kcp-front-proxy, with kcp's command line; and servers that stand between it and a shard."""
import http.client
import http.server
import json
import os
import pathlib
import select
import socket
import ssl
import subprocess
import tempfile
import urllib.parse

import kit

CLUSTERS = "https://not.used:1"  # the backend of the entry /clusters/, which nobody asks


def entry(installation, path, url, **more):
    pki = installation.pki
    lines = [f"path: {path}", f"backend: {url}", f"backend_server_ca: {pki}/serving-ca.crt",
             f"proxy_client_cert: {pki}/proxy-requestheader.crt", f"proxy_client_key: {pki}/proxy-requestheader.key",
             *(f"{key}: {value}" for key, value in more.items())]
    return "- " + "\n  ".join(lines) + "\n"


class FrontProxy:
    """The binary under kcp's name, with the flags that sharded-test-server passes."""

    def __init__(self, installation, mapping, *more, flags=None):
        self.installation = installation
        self.dir = pathlib.Path(tempfile.mkdtemp(dir=installation.dir, prefix="front-"))
        self.port = kit.free_port()
        self.mapping = self.dir / "mapping.yaml"
        self.mapping.write_text(mapping)
        self.program = self.dir / "kcp-front-proxy"
        self.program.symlink_to(kit.BINARY)
        pki, kubeconfig = installation.pki, installation.state / "shards" / "root" / "admin.kubeconfig"
        self.arguments = flags if flags is not None else [
            "--bind-address=127.0.0.1", f"--mapping-file={self.mapping}", f"--root-directory={self.dir}",
            f"--root-kubeconfig={kubeconfig}", f"--shards-kubeconfig={kubeconfig}", f"--client-ca-file={pki}/client-ca.crt",
            "--requestheader-username-headers=X-Remote-User", "--requestheader-group-headers=X-Remote-Group",
            "--requestheader-extra-headers-prefix=X-Remote-Extra-",
            f"--requestheader-client-ca-file={pki}/requestheader-ca.crt", "--requestheader-allowed-names=kcp-front-proxy",
            f"--tls-cert-file={pki}/proxy.crt", f"--tls-private-key-file={pki}/proxy.key", f"--secure-port={self.port}",
            "--v=4"]
        self.arguments += more
        self.log = self.dir / "log"
        self.process = None
        self.user = None  # who runs it, if somebody else
        self.environment = {}  # what it has besides

    def run(self):
        return subprocess.run([str(self.program), *self.arguments], capture_output=True, text=True, timeout=60, check=False,
                              cwd=self.dir, user=self.user)

    def begin(self):
        with self.log.open("ab") as log:
            self.process = subprocess.Popen([str(self.program), *self.arguments], stdout=log, stderr=log, cwd=self.dir,
                                            stdin=subprocess.DEVNULL, user=self.user, env={**os.environ, **self.environment})

    def lines(self):
        """Those of the log that are whole."""
        return [json.loads(line) for line in self.log.read_text().splitlines(keepends=True) if line.startswith("{") and line.endswith("\n")]

    def __enter__(self):
        self.begin()
        try:
            kit.eventually(lambda: self.client("").get("/readyz").status == 200, 20, "ready")
        except BaseException:
            self.__exit__()
            print(self.log.read_text(errors="replace")[-3000:])
            raise
        return self

    def __exit__(self, *_):
        if self.process and self.process.poll() is None:
            self.process.kill()
            self.process.wait()

    def client(self, path="/clusters/root", cert="admin", ca=None):
        pki = self.installation.pki
        pair = (pki / f"{cert}.crt", pki / f"{cert}.key") if cert else (None, None)
        return kit.Client(f"https://127.0.0.1:{self.port}{path}", ca or pki / "serving-ca.crt", *pair)


def kubeconfig(installation, user, server="", name="kubeconfig", **cluster):
    """A kubeconfig with this user entry, for a server with the installation's certificate."""
    path = pathlib.Path(tempfile.mkdtemp(dir=installation.dir, prefix="kubeconfig-")) / name
    where = {"server": server, "certificate-authority": f"{installation.pki}/serving-ca.crt", **cluster}
    path.write_text(json.dumps({
        "apiVersion": "v1", "kind": "Config", "current-context": "here", "clusters": [{"name": "here", "cluster": where}],
        "users": [{"name": "me", "user": user}], "contexts": [{"name": "here", "context": {"cluster": "here", "user": "me"}}]}))
    return path


def pair(installation, name="shard-admin"):
    """A user entry with a certificate of the installation."""
    return {"client-certificate": f"{installation.pki}/{name}.crt", "client-key": f"{installation.pki}/{name}.key"}


class ConnectProxy:
    """An HTTP proxy that makes connections, and forwards requests; who does not say `authorization` is refused. `asked`: where to,
    `forwarded`: the URLs. It knows that all names below .example are this machine."""

    def __init__(self, authorization=None):
        self.asked, self.forwarded, proxy = [], [], self

        class Handler(http.server.BaseHTTPRequestHandler):
            protocol_version = "HTTP/1.1"

            def knows(self):
                known = not authorization or self.headers.get("Proxy-Authorization") == authorization
                if not known:
                    self.send_error(407)
                return known

            def do_GET(self):
                proxy.forwarded.append(self.path)
                if not self.knows():
                    return
                url = urllib.parse.urlsplit(self.path)
                assert url.netloc == self.headers["Host"], self.headers
                name = "127.0.0.1" if url.hostname.endswith(".example") else url.hostname
                there = http.client.HTTPConnection(name, url.port, timeout=600)
                there.request("GET", self.path.removeprefix(f"http://{url.netloc}"), headers={
                    key: value for key, value in self.headers.items() if not key.lower().startswith("proxy-")})
                answer = there.getresponse()
                body = answer.read()
                self.send_response(answer.status)
                self.send_header("Content-Length", str(len(body)))
                self.end_headers()
                self.wfile.write(body)
                there.close()

            def do_CONNECT(self):
                proxy.asked.append(self.path)
                if not self.knows():
                    return
                host, port = self.path.rsplit(":", 1)
                with socket.create_connection(("127.0.0.1" if host.endswith(".example") else host, int(port)), timeout=600) as there:
                    self.send_response(200, "Connection established")
                    self.end_headers()
                    sides = {self.connection: there, there: self.connection}
                    while True:
                        for side in select.select(list(sides), [], [])[0]:
                            piece = side.recv(65536)
                            if not piece:
                                return
                            sides[side].sendall(piece)

        self.server = kit.Server(Handler)
        self.url, self.close = self.server.url, self.server.close


class Gate:
    """A server in front of a shard that knows other credentials than shards do: who shows one of `accepted` (values of
    Authorization) is the shard's administrator there, callers that the proxy asserts are themselves, all others get 401.
    `refusal(path)` may give a status for what is to be answered instead, `answer(method, path, body)` status and JSON."""

    def __init__(self, installation, shard, accepted=(), refusal=lambda path: None, answer=lambda *_: None):
        self.answer = answer
        self.accepted, self.refusal, self.asked, self.headers = set(accepted), refusal, [], []
        pki, gate = installation.pki, self

        class Handler(http.server.BaseHTTPRequestHandler):
            protocol_version = "HTTP/1.1"

            def do_GET(self):
                shown, said = self.connection.getpeercert(True), self.headers.get("Authorization")
                gate.asked.append((self.path, said))
                gate.headers.append(dict(self.headers.items()))
                body = self.rfile.read(int(self.headers.get("Content-Length", 0)))
                status = gate.refusal(self.path) or (None if shown or said in gate.accepted else 401)
                if status:
                    return self.say(status, {"kind": "Status", "apiVersion": "v1", "status": "Failure", "code": status,
                                             "message": f"the gate says {status}"})
                if own := gate.answer(self.command, self.path, body):
                    return self.say(*own)
                context = ssl.create_default_context(cafile=str(pki / "serving-ca.crt"))
                name = "proxy-requestheader" if shown and not said else "shard-admin"
                context.load_cert_chain(pki / f"{name}.crt", pki / f"{name}.key")
                there = http.client.HTTPSConnection(shard.removeprefix("https://"), context=context, timeout=600)
                headers = {key: value for key, value in self.headers.items() if key.lower() not in ("authorization", "host")}
                there.request(self.command, self.path, body or None, headers)
                answer = there.getresponse()
                self.send_response(answer.status)
                for key in ("Content-Type", "Retry-After"):
                    if answer.headers.get(key):
                        self.send_header(key, answer.headers[key])
                self.send_header("Transfer-Encoding", "chunked")
                self.end_headers()
                while piece := answer.read1(65536):
                    self.wfile.write(b"%x\r\n%s\r\n" % (len(piece), piece))
                self.wfile.write(b"0\r\n\r\n")
                return None

            def say(self, status, value):
                text = json.dumps(value).encode()
                self.send_response(status)
                self.send_header("Content-Type", "application/json")
                self.send_header("Content-Length", str(len(text)))
                self.end_headers()
                self.wfile.write(text)

            do_POST = do_PUT = do_PATCH = do_DELETE = do_GET

        self.server = kit.Server(Handler, pki)
        self.server.context.verify_mode = ssl.CERT_OPTIONAL
        for authority in ("client-ca", "requestheader-ca"):
            self.server.context.load_verify_locations(str(pki / f"{authority}.crt"))
        self.url, self.close = self.server.url, self.server.close
