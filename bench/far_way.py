#!/usr/bin/env python3
"""A list over real TCP between two network namespaces that a relay of packets keeps apart: 80 ms and 1 % loss (GR-507). The proxy is in
one, curl in the other, so what is measured is how the kernel's TCP sends that the proxy has chosen (net.congestion). Linux, root, /dev/net/tun.
  far_way.py [--binary build/release/bin/kintsugi] [--rtt 80] [--loss 10] [--list 20] [--congestion auto|system|NAME]
stdout: a JSON line, {"name", "p50", "unit", "budget"}."""
import argparse
import base64
import collections
import ctypes
import fcntl
import json
import os
import pathlib
import random
import select
import signal
import socket
import struct
import subprocess
import sys
import time

HERE = pathlib.Path(__file__).resolve().parent
NEW_NETWORK = 0x40000000  # CLONE_NEWNET
TUN, NO_HEADER, SET_INTERFACE = 0x1, 0x1000, 0x400454CA
NEAR, FAR = "10.77.0.1", "10.77.0.2"
PIECE = 500_000


def enter_new_network():
    if ctypes.CDLL(None, use_errno=True).unshare(NEW_NETWORK) != 0:
        raise OSError(ctypes.get_errno(), "no network namespace")
    subprocess.run(["ip", "link", "set", "lo", "up"], check=True)


def make_tun(own, peer):
    device = os.open("/dev/net/tun", os.O_RDWR | os.O_NONBLOCK | os.O_CLOEXEC)
    fcntl.ioctl(device, SET_INTERFACE, struct.pack("16sH22x", b"far", TUN | NO_HEADER))
    for words in (["addr", "add", own, "peer", peer, "dev", "far"], ["link", "set", "far", "up", "txqueuelen", "10000"]):
        subprocess.run(["ip", *words], check=True)
    return device


def relay(ends, delay, loss):
    """Packets of one device leave by the other `delay` seconds later, unless they are lost."""
    chance, queues = random.Random(1), {end: collections.deque() for end in ends}
    other = {ends[0]: ends[1], ends[1]: ends[0]}
    while True:
        now = time.monotonic()
        due = [queue[0][0] for queue in queues.values() if queue]
        ready = select.select(ends, [], [], max(0, min(due) - now) if due else None)[0]
        now = time.monotonic()
        for end in ready:
            for _ in range(64):
                try:
                    packet = os.read(end, 2048)
                except BlockingIOError:
                    break
                if chance.random() >= loss:
                    queues[other[end]].append((now + delay, packet))
        for end, queue in queues.items():
            while queue and queue[0][0] <= now:
                try:
                    os.write(end, queue.popleft()[1])
                except OSError:
                    pass  # the device is full: lost


def fork(run):
    child = os.fork()
    if child == 0:
        code = 1
        try:
            run()
            code = 0
        finally:
            os._exit(code)
    return child


def far_side(link, order):
    """Makes its end, gives it away, and asks when it is told to."""
    enter_new_network()
    device = make_tun(FAR, NEAR)
    socket.send_fds(link, [b"x"], [device])
    os.close(device)
    words = json.loads(order.recv(1 << 16))
    done = subprocess.run(words, capture_output=True, text=True, check=False)
    order.send(json.dumps([done.returncode, done.stdout]).encode())


def fill(kit, up, megabytes):
    up.make_workspace("far")
    connection = kit.Client(f"https://127.0.0.1:{up.port}", up.pki / "serving-ca.crt", up.pki / "admin.crt", up.pki / "admin.key").connect()
    for number in range(megabytes * 1_000_000 // PIECE):
        body = {"metadata": {"name": f"map-{number}"}, "data": {"text": base64.b64encode(os.urandom(PIECE * 3 // 4)).decode()}}
        connection.request("POST", "/clusters/root:far/api/v1/namespaces/default/configmaps", body=json.dumps(body),
                           headers={"Content-Type": "application/json"})
        answer = connection.getresponse()
        assert answer.status == 201, answer.read()
        answer.read()


def main():
    parser = argparse.ArgumentParser(description=__doc__.split("\n", maxsplit=1)[0])
    parser.add_argument("--binary", default=str(HERE.parent / "build/release/bin/kintsugi"))
    parser.add_argument("--rtt", type=float, default=80, help="ms")
    parser.add_argument("--loss", type=float, default=10, help="packets of 1,000")
    parser.add_argument("--list", type=int, default=20, help="MB")
    parser.add_argument("--congestion", default="")
    parser.add_argument("--kernel", default="reno", help="what the kernel uses where nobody chooses")
    arguments = parser.parse_args()
    os.environ["KINTSUGI"] = str(pathlib.Path(arguments.binary).resolve())
    if arguments.congestion:
        os.environ["KINTSUGI_CFG_NET_CONGESTION"] = arguments.congestion
    sys.path.insert(0, str(HERE.parent / "e2e" / "lib"))
    import kit  # pylint: disable=import-outside-toplevel
    enter_new_network()
    pathlib.Path("/proc/sys/net/ipv4/tcp_congestion_control").write_text(arguments.kernel)
    ours, theirs = socket.socketpair()
    order, taken = socket.socketpair()
    children = [fork(lambda: far_side(theirs, taken))]
    device = make_tun(NEAR, FAR)
    there = socket.recv_fds(ours, 1, 1)[1][0]
    children.append(fork(lambda: relay([device, there], arguments.rtt / 2e3, arguments.loss / 1e3)))
    os.close(device)
    os.close(there)
    try:
        with kit.Installation("--bind", "0.0.0.0", shards=1) as up:
            fill(kit, up, arguments.list)
            order.send(json.dumps(["curl", "-sk", "--http1.1", "-o", "/dev/null", "-w", "%{http_code} %{size_download} %{time_total}", "--cert", str(up.pki / "admin.crt"),
                                   "--key", str(up.pki / "admin.key"), f"https://{NEAR}:{up.port}/clusters/root:far/api/v1/configmaps"]).encode())
            order.settimeout(600)
            code, said = json.loads(order.recv(1 << 16))
            status, size, took = said.split()
            assert code == 0 and status == "200", (code, said)
            print(json.dumps({"name": f"list over TCP, {arguments.rtt:g} ms, {arguments.loss / 10:g} % lost, {arguments.congestion or 'as it is'}",
                              "p50": round(float(size) / float(took) / 1e6, 2), "unit": "MB/s", "budget": 2, "MB": round(float(size) / 1e6, 1)}))
    finally:
        for child in children:
            os.kill(child, signal.SIGKILL)
            os.waitpid(child, 0)


if __name__ == "__main__":
    main()
