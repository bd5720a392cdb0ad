#!/usr/bin/env python3
"""Sends a message to an address and receives it again, with Apache Qpid Proton (Debian: python3-qpid-proton).
Usage: hello.py <host:port> <space id> <address> [address to receive from]"""
import sys

from proton import Message
from proton.handlers import MessagingHandler
from proton.reactor import Container


class Hello(MessagingHandler):
    def __init__(self, place, space, address, source=None):
        super().__init__(prefetch=1)
        self.place, self.space, self.address, self.source, self.said = place, space, address, source or address, {}

    def on_start(self, event):
        # The name that the connection is opened with says which space is meant.
        self.connection = event.container.connect(f"amqp://{self.place}", virtual_host=self.space, allowed_mechs="ANONYMOUS", reconnect=False)
        event.container.create_receiver(self.connection, self.source)

    def on_link_opened(self, event):
        if event.receiver:
            event.container.create_sender(self.connection, self.address)

    def on_sendable(self, event):
        if "sent" not in self.said:
            self.said["sent"] = ""
            event.sender.send(Message(body=f"hello, {self.address}", durable=True))

    def on_accepted(self, event):
        self.done("sent", "sent, and accepted")

    def on_message(self, event):
        self.accept(event.delivery)
        self.done("received", f"received: {event.message.body}")

    def done(self, what, text):
        self.said[what] = text
        if all(self.said.get(one) for one in ("sent", "received")):
            print(self.said["sent"], self.said["received"], sep="\n")
            self.connection.close()

    def on_rejected(self, event):
        sys.exit(f"the message was not taken: {event.delivery.remote.condition or event.delivery.remote_state}")

    on_released = on_rejected

    def on_transport_error(self, event):
        sys.exit(f"no connection: {event.transport.condition}")

    def on_connection_error(self, event):
        sys.exit(f"the connection was closed: {event.connection.remote_condition}")

    def on_link_error(self, event):
        sys.exit(f"the address cannot be used: {event.link.remote_condition}")


Container(Hello(*sys.argv[1:])).run()
