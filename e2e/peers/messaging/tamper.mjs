// What stands between a worker and a real broker and changes some of the broker's answers, on npm rhea. Management goes through; nothing else does.
//
//   node tamper.mjs --to PORT [--port 0]
//
// When ready, one line of JSON on stdout; then an answer {"seq", "ok", …} for each command, a line of JSON on stdin: {"seq", "command", …}. The end
// of stdin ends it.
import { createRequire } from 'node:module';
import readline from 'node:readline';
import { parseArgs } from 'node:util';

const rhea = createRequire(import.meta.url)('rhea');
const { values: flags } = parseArgs({ options: { port: { type: 'string', default: '0' }, to: { type: 'string' } } });
const MANAGEMENT = 'activemq.management', DEPTH = 100;
const container = rhea.create_container({ id: 'tamper', reconnect: false, idle_time_out: 60000, tcp_no_delay: true });
const state = { garbled: [], opened: {}, requests: {}, next: 1 };
const deep = (depth) => (depth ? { below: deep(depth - 1) } : 'bottom');

/** What is made of an answer. */
const GARBLE = {
  text: (reply) => void (reply.body = '{not JSON'),
  two: (reply) => void (reply.body = '["one","two"]'),
  number: (reply) => void (reply.body = JSON.stringify(JSON.parse(reply.body).map(String))), // it comes as a text
  types: (reply) => void Object.assign(reply, { body: [1, 2, 3], application_properties: { _AMQ_OperationSucceeded: 'true' } }),
  deep: (reply) => void (reply.body = deep(DEPTH)),
};

function taken(operation) {
  const at = state.garbled.findIndex((one) => one.operation === operation);
  if (at < 0) return undefined;
  const one = state.garbled[at];
  if (--one.count <= 0) state.garbled.splice(at, 1);
  return GARBLE[one.how];
}

/** One connection of a worker, and one to the broker for it. */
class Pair {
  constructor(down) {
    Object.assign(this, { down, waiting: new Map(), senders: new Map(), held: [] });
    this.up = container.connect({ host: '127.0.0.1', port: Number(flags.to), username: 'anonymous' });
    this.receiver = this.up.open_receiver({ source: { dynamic: true } });
    this.sender = this.up.open_sender(MANAGEMENT);
    this.receiver.on('receiver_open', () => this.flush());
    this.sender.on('sendable', () => this.flush());
    this.receiver.on('message', ({ message }) => this.answer(message));
    for (const one of ['disconnected', 'connection_close']) this.up.on(one, () => this.down.close());
  }

  flush() {
    while (this.held.length && this.sender.sendable() && this.receiver.source?.address) {
      const message = this.held.shift(), properties = message.application_properties ?? {}, number = String(state.next++);
      const operation = properties._AMQ_OperationName ?? properties._AMQ_Attribute;
      state.requests[operation] = (state.requests[operation] ?? 0) + 1;
      this.waiting.set(number, { operation, correlation: message.correlation_id, to: message.reply_to });
      this.sender.send({ application_properties: properties, body: message.body, reply_to: this.receiver.source.address, correlation_id: number });
    }
  }

  answer(message) {
    const asked = this.waiting.get(message.correlation_id);
    this.waiting.delete(message.correlation_id);
    const reply = { correlation_id: asked.correlation, application_properties: message.application_properties, body: message.body };
    taken(asked.operation)?.(reply);
    this.senders.get(asked.to)?.send(reply);
  }
}

container.on('connection_open', ({ connection }) => {
  if (connection.pair === undefined && connection.is_server) {
    state.opened[connection.container_id] = (state.opened[connection.container_id] ?? 0) + 1;
    connection.pair = new Pair(connection);
  }
});
container.on('sender_open', ({ connection, sender }) => {
  if (!connection.is_server) return;
  if (!sender.source?.dynamic) return void sender.close({ condition: 'amqp:not-found', description: 'management alone goes through' });
  const address = `tamper.${state.next++}`;
  sender.set_source({ address, dynamic: true });
  connection.pair.senders.set(address, sender);
});
container.on('receiver_open', ({ connection, receiver }) => {
  if (!connection.is_server) return;
  receiver.set_target({ address: receiver.target?.address });
  if (receiver.target?.address !== MANAGEMENT) receiver.close({ condition: 'amqp:not-found', description: 'management alone goes through' });
});
container.on('message', ({ connection, message }) => {
  if (!connection.is_server) return;
  connection.pair.held.push(message);
  connection.pair.flush();
});
for (const name of ['disconnected', 'connection_close']) container.on(name, ({ connection }) => connection.is_server && connection.pair?.up.close());
for (const name of ['error', 'protocol_error', 'connection_error', 'sender_error', 'receiver_error', 'session_error', 'sender_close', 'receiver_close']) {
  container.on(name, () => {});
}

const commands = {
  garble: ({ operation, how, count = 1 }) => {
    if (!Object.hasOwn(GARBLE, how)) throw new Error(`no way ${how}`);
    state.garbled.push({ operation, how, count });
  },
  dump: () => ({ opened: state.opened, requests: state.requests, left: state.garbled.length }),
};
const say = (line) => process.stdout.write(JSON.stringify(line) + '\n');
readline.createInterface({ input: process.stdin }).on('line', (line) => {
  const command = JSON.parse(line);
  try {
    say({ seq: command.seq, ok: true, ...commands[command.command](command) });
  } catch (fault) {
    say({ seq: command.seq, ok: false, error: fault.message });
  }
}).on('close', () => process.exit(0));
const server = container.listen({ port: Number(flags.port), host: '127.0.0.1' });
server.on('listening', () => say({ ready: true, port: server.address().port }));
