"""Thousands of watches on few HTTP/2 connections, which go on at another server when theirs is gone: informers that never list."""
import json
import select
import threading
import time

import raw_h2


class Follower:
    """One watch: what it was told, and the cursor of its last bookmark."""

    def __init__(self, cursor):
        self.cursor, self.events, self.bookmarks, self.rest, self.status = cursor, [], 0, b"", None


class Lines(raw_h2.Connection):
    """Watches of one user: each stream's lines go to its follower."""

    def __init__(self, client, path, followers):
        super().__init__(client)
        self.of = {}
        with self.at_once():
            for one in followers:
                one.rest, one.status = b"", None
                self.of[self.open("GET", f"{path}&resourceVersion={one.cursor}", [("accept", "application/json")]).number] = one

    def read(self, wait=0.05):
        try:
            with self.at_once():
                super().read(wait)
        except OSError:
            self.closed = True
        return not self.closed

    def take(self, kind, flags, number, payload):
        super().take(kind, flags, number, payload)
        one, stream = self.of.get(number), self.streams.get(number)
        if one is None:
            return
        one.status = stream.status
        lines = (one.rest + stream.body).split(b"\n")
        one.rest, stream.body = lines.pop(), b""
        for line in lines:
            event = json.loads(line)
            meta = event["object"].get("metadata", {})
            if event["type"] == "BOOKMARK":
                one.cursor, one.bookmarks = meta["resourceVersion"], one.bookmarks + 1
            else:
                one.events.append((event["type"], meta.get("name", str(event["object"]))))

    def lost(self, stays):
        """@param stays  what runs when the server says that it goes is read to its end, as HTTP libraries do"""
        if stays and self.goaway is not None:
            return self.closed or all(stream.over for stream in self.streams.values())
        return self.closed or self.goaway is not None or any(stream.over for stream in self.streams.values())


class Crowd(threading.Thread):
    """`each` watches of every user, on a connection of the user's own."""

    def __init__(self, users, path, cursor, each, elsewhere=False, stays=False):
        """@param users  a list for each: clients of the servers, the first one is used first
        @param elsewhere  who loses a connection goes to the next server, as a balancer might lead it
        @param stays  see Lines.lost(); each user has a thread then, as one that connects must not keep another from reading"""
        super().__init__(daemon=True)
        self.path, self.end = path + "?watch=1&allowWatchBookmarks=true", threading.Event()
        self.groups = [(list(clients), [Follower(cursor) for _ in range(each)]) for clients in users]
        self.all = [one for _, followers in self.groups for one in followers]
        self.moves, self.faults, self.refused, self.elsewhere, self.stays = 0, [], set(), elsewhere, stays
        self.start()

    def connect(self, clients, followers):
        while not self.end.is_set():
            try:
                return Lines(clients[0], self.path, followers)
            except OSError:
                clients.append(clients.pop(0))
                time.sleep(0.01)
        return None

    def run(self):
        parts = [[group] for group in self.groups] if self.stays else [self.groups]
        threads = [threading.Thread(target=self.follow, args=(part,), daemon=True) for part in parts]
        for one in threads:
            one.start()
        for one in threads:
            one.join()

    def follow(self, groups):
        try:
            self.follow_all(groups)
        except Exception as fault:  # pylint: disable=broad-except
            self.faults.append(fault)

    def follow_all(self, groups):
        links = [self.connect(*group) for group in groups]
        while not self.end.is_set():
            ready = set(select.select([link.tls for link in links], [], [], 0.1)[0])
            for number, link in enumerate(links):
                if link.tls in ready or link.tls.pending():
                    link.read(0)
                if link.lost(self.stays):
                    self.refused |= {stream.status for stream in link.streams.values()} - {None, 200}
                    link.close()
                    self.moves += 1
                    if self.elsewhere:
                        groups[number][0].append(groups[number][0].pop(0))
                    links[number] = self.connect(*groups[number])
                    if links[number] is None:
                        return
        for link in links:
            link.close()
