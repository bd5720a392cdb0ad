// Sends a message to an address and receives it again, with npm rhea.
// Usage: node hello.mjs <host> <port> <space id> <address> [address to receive from]
import { createRequire } from 'node:module';

const rhea = createRequire(import.meta.url)('rhea');
const [host, port, space, address, source = address] = process.argv.slice(2);
// The name that the connection is opened with says which space is meant.
const connection = rhea.connect({ host, port: Number(port), hostname: space, reconnect: false });
const said = {};

function done(what, text) {
  said[what] = text;
  if (!said.sent || !said.received) return;
  console.log(`${said.sent}\n${said.received}`);
  connection.close();
}

const receiver = connection.open_receiver({ source: { address: source }, credit_window: 0, autoaccept: false });
receiver.add_credit(1);
connection.on('receiver_open', () => connection.open_sender({ target: { address } }));
connection.once('sendable', ({ sender }) => sender.send({ body: `hello, ${address}`, durable: true }));
connection.on('accepted', () => done('sent', 'sent, and accepted'));
connection.on('message', ({ message, delivery }) => {
  delivery.accept();
  done('received', `received: ${message.body}`);
});
for (const name of ['rejected', 'released', 'connection_error', 'sender_error', 'receiver_error', 'disconnected']) {
  connection.on(name, ({ connection: of, sender, receiver: from, error }) => {
    const why = from?.error ?? sender?.error ?? of?.error ?? error;
    if (said.sent && said.received) return;
    console.error(`${name}: ${why?.description ?? why?.message ?? 'no reason was given'}`);
    process.exit(1);
  });
}
