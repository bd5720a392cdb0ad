"""Informers that never list: their merged watches go on at another proxy, at their last cursor, whenever they end."""
import threading
import time


class Follower(threading.Thread):
    """An informer without lists: its merged watch goes on at the other proxy, at the last cursor, whenever it ends."""

    def __init__(self, proxies, cursor, path, cost=None):
        """@param cost  of a client: it goes on at the one with the least, as a balancer leads it, not at the next one"""
        super().__init__(daemon=True)
        self.cost = cost
        self.proxies, self.cursor, self.path = list(proxies), cursor, path
        self.names, self.resumes, self.faults, self.done = [], [], [], threading.Event()
        self.bookmarks = 0
        self.start()

    def run(self):
        while not self.done.is_set():
            client = self.proxies[0]
            begin = time.monotonic()
            try:
                self.follow(client)
            except (OSError, AssertionError, ValueError) as fault:
                if "410" in str(fault) or "Expired" in str(fault):
                    self.faults.append(str(fault))
                    return
            self.proxies.append(self.proxies.pop(0))
            if self.cost:
                self.proxies = sorted(self.proxies, key=self.cost)
            self.resumes.append(begin)
            time.sleep(0.02)

    def follow(self, client):
        for event in client.watch(f"{self.path}?watch=1&allowWatchBookmarks=true&resourceVersion={self.cursor}", timeout=30):
            if event["type"] == "ERROR":
                self.faults.append(str(event))
                self.done.set()
                return
            if event["type"] == "BOOKMARK":
                self.cursor = event["object"]["metadata"]["resourceVersion"]
                self.bookmarks += 1
            else:
                self.names.append((event["type"], event["object"]["metadata"]["name"]))
            if self.done.is_set():
                return
