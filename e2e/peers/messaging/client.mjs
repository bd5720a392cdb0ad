// An AMQP client on npm rhea, told what to do by lines of JSON on stdin, {"seq", "do", …}; an answer {"seq", …} for each on stdout, when
// it is done. Links and connections have the names that `as` gives them. The end of stdin ends it.
import readline from 'node:readline';
import { coordinator, in_transaction, read, rhea, types } from './raw.mjs';

const container = rhea.create_container({ reconnect: false, autoaccept: false, treat_modified_as_released: false, idle_time_out: 60000,
  tcp_no_delay: true });
for (const name of ['error', 'protocol_error', 'connection_error', 'connection_close', 'disconnected', 'sender_error', 'receiver_error', 'sender_close',
  'receiver_close', 'session_error', 'session_close', 'released', 'modified', 'rejected']) container.on(name, () => {});
const connections = new Map(), links = new Map();
const words = (error) => (error ? { condition: String(error.condition ?? error.code ?? ''), description: String(error.description ?? error.message ?? '') } : null);

/** Resolves with what `start` gives to its argument; with {late: true, …more()} at the deadline. */
function within(ms, start, more = () => ({})) {
  return new Promise((resolve) => {
    const timer = setTimeout(() => resolve({ late: true, ...more() }), ms);
    start((value) => {
      clearTimeout(timer);
      resolve(value);
    });
  });
}

/** A round trip on the connection: what the peer said before is there. */
const echoed = (connection, ms) => within(ms, (done) => {
  if (!connection.is_open()) return done({});
  const session = connection.create_session();
  session.on('session_open', () => {
    session.close();
    done({});
  });
  connection.once('disconnected', () => done({}));
  connection.once('connection_close', () => done({}));
  session.begin();
});

function attach({ connection = 'default', address, role, dynamic, link_options = {}, ms }) {
  const holder = connections.get(connection);
  return within(ms, async (done) => {
    const session = holder.create_session();
    session.begin();
    const options = { ...link_options, credit_window: 0, [role === 'sender' ? 'target' : 'source']: dynamic ? { dynamic: true } : { address } };
    const link = role === 'sender' ? session.open_sender(options) : session.open_receiver(options);
    link.bodies = [];
    link.on('message', (event) => {
      link.bodies.push({ message: read(event), delivery: event.delivery });
      link.heard?.();
    });
    const closed = () => done({ link, error: words(link.error) ?? { condition: '', description: 'closed' } });
    link.on(role + '_close', closed);
    holder.once('disconnected', () => done({ link, error: { condition: '', description: 'disconnected' } }));
    link.on(role + '_open', async () => {
      await echoed(holder, ms);
      if (!link.is_closed() && link.is_open()) done({ link });
    });
  });
}

const value_of = (value) => (Buffer.isBuffer(value) ? value.toString() : value?.content !== undefined ? value_of(value.content) : value);
const typed = (value) => (typeof value === 'number' && Number.isInteger(value)
  ? Math.abs(value) < 2 ** 31 ? types.wrap_int(value) : types.wrap_long(value)
  : Array.isArray(value) ? types.wrap_list(value.map(typed))
    : value && typeof value === 'object' ? types.wrap_map(Object.fromEntries(Object.entries(value).map(([key, one]) => [key, typed(one)]))) : value);

const actions = {
  /** {host, port, hostname} → {opened, peer, error}. A refusal that comes after the open is there as well. */
  async open({ as = 'default', host = '127.0.0.1', port, hostname = '', username = 'anonymous', password, ms }) {
    const connection = container.connect({ host, port, hostname: hostname || host, username, password });
    connections.set(as, connection);
    const found = await within(ms, (done) => {
      connection.once('connection_open', () => done({ opened: true }));
      connection.once('disconnected', (event) => done({ opened: false, error: words(event.error) ?? { condition: '', description: 'disconnected' } }));
    });
    if (!found.opened) return found;
    await echoed(connection, ms);
    const properties = connection.properties ?? {};
    return { opened: true, error: words(connection.error), peer: { container: connection.container_id, product: properties.product, version: properties.version } };
  },

  async close({ connection = 'default', ms }) {
    const holder = connections.get(connection);
    connections.delete(connection);
    return within(ms, (done) => {
      holder.once('disconnected', () => done({}));
      holder.once('connection_close', () => done({}));
      holder.close();
      if (!holder.is_remote_open()) done({});
    });
  },

  /** → {address, error} */
  async attach(asked) {
    const { link, error, late } = await attach(asked);
    if (link && !error) links.set(asked.as ?? asked.address, link);
    return { error: error ?? null, late, address: link?.source?.address ?? null };
  },

  async detach({ link, ms }) {
    const holder = links.get(link);
    links.delete(link);
    return within(ms, (done) => {
      for (const name of ['sender_close', 'receiver_close']) holder.once(name, () => done({ error: words(holder.error) }));
      holder.close();
    });
  },

  /** `bodies`, or `count` of them, to an attached link or an address → {accepted, rejected: [error], released, modified, error} */
  async send({ link, bodies, count = 1, properties, ttl, durable, ms, ...where }) {
    const found = link ? { link: links.get(link) } : await attach({ ...where, role: 'sender', ms });
    if (found.error || found.late) return { accepted: 0, error: found.error ?? null, late: found.late };
    const sender = found.link, result = { accepted: 0, rejected: [], released: 0, modified: 0, error: null };
    const list = bodies ?? Array.from({ length: count }, (_, number) => `m${number}`), own = new Set();
    let next = 0, settled = 0;
    const answer = await within(ms, (done) => {
      const push = () => {
        for (let room = sender.credit; next < list.length && room > 0 && sender.sendable(); --room) {
          own.add(sender.send({ body: list[next++], application_properties: properties, ttl, durable }));
        }
      };
      const ended = (name) => (event) => {
        if (!own.delete(event.delivery)) return;
        if (name === 'rejected') result.rejected.push(words(event.delivery.remote_state.error));
        else result[name] += 1;
        if (++settled === list.length) done(result);
        else push();
      };
      for (const name of ['accepted', 'rejected', 'released', 'modified']) sender.on(name, ended(name));
      sender.on('sendable', push);
      sender.once('sender_close', () => done({ ...result, error: words(sender.error) ?? { condition: '', description: 'closed' } }));
      push();
    }, () => ({ ...result, sent: next }));
    if (!link) sender.close();
    return answer;
  },

  /** Declares a transaction, sends `bodies` within it and commits it, or rolls it back with {fail: true} → {declared, sent, discharged, error} */
  async transaction({ connection = 'default', address, bodies, fail = false, ms }) {
    const holder = connections.get(connection), session = holder.create_session(), done = { declared: false, sent: 0, discharged: false };
    session.begin();
    const control = session.create_sender('control' + Math.random());
    control.set_source({});
    control.local.attach.target = coordinator();
    const settled = (link, start) => within(ms, (resolve) => {
      link.once('settled', (event) => resolve({ state: event.delivery.remote_state }));
      link.once('sender_close', () => resolve({ error: words(link.error) ?? { condition: '', description: 'closed' } }));
      start();
    });
    const of = (code, fields) => types.described(types.wrap_ulong(code), types.wrap_list(fields));
    // rhea writes no value that is described twice
    const bytes = (value) => {
      const writer = new types.Writer();
      writer.write(value);
      return Buffer.concat([Buffer.from([0x00, 0x53, 0x77]), writer.toBuffer()]);
    };
    const say = (code, fields) => settled(control, () => control.send(bytes(of(code, fields)), undefined, 0));
    const ready = await within(ms, (resolve) => {
      control.once('sendable', () => resolve({}));
      control.once('sender_close', () => resolve({ error: words(control.error) ?? { condition: '', description: 'closed' } }));
      control.attach();
    });
    if (ready.error || ready.late) return { ...done, ...ready };
    const { state, ...fault } = await say(0x31, [null]);
    if (!state || Number(state.descriptor?.value) !== 0x33) return { ...done, error: words(state?.error), ...fault };
    done.declared = true;
    const id = Buffer.from(state.value[0].value), { link, error } = await attach({ connection, address, role: 'sender', ms });
    if (error) return { ...done, error };
    for (const body of bodies) {
      if (!link.sendable()) await within(ms, (resolve) => link.once('sendable', resolve));
      const answer = await settled(link, () => void (link.send({ body }).in_transfer = in_transaction(id)));
      if (Number(answer.state?.descriptor?.value) !== 0x34) return { ...done, error: answer.error ?? null, state: String(answer.state) };
      done.sent += 1;
    }
    const end = await say(0x32, [types.wrap_binary(id), types.wrap_boolean(fail)]);
    done.discharged = end.state?.constructor?.composite_type === 'accepted';
    link.close();
    control.close();
    return { ...done, error: end.error ?? words(end.state?.error) };
  },

  /** → {bodies, error}; with fewer than `count` also {late} */
  async receive({ link, count = 1, outcome = 'accept', ms, ...where }) {
    const found = link ? { link: links.get(link) } : await attach({ ...where, role: 'receiver', ms });
    if (found.error || found.late) return { bodies: [], error: found.error ?? null, late: found.late };
    const receiver = found.link;
    const take = () => receiver.bodies.splice(0, count).map(({ message, delivery }) => {
      delivery[outcome]();
      return value_of(message.body);
    });
    receiver.add_credit(Math.max(0, count - receiver.credit - receiver.bodies.length));
    const answer = await within(ms, (done) => {
      receiver.heard = () => {
        if (receiver.bodies.length >= count) done({ error: null });
      };
      receiver.once('receiver_close', () => done({ error: words(receiver.error) ?? { condition: '', description: 'closed' } }));
      receiver.heard();
    });
    const bodies = take();
    if (!link) await echoed(receiver.connection, 1000).then(() => receiver.close()); // after the outcomes
    return { error: null, ...answer, bodies };
  },

  /** Requests to a management node, all at once; answers in the order of the requests: {properties, body, correlation}, null if there was
      none. {correlation: n}: a number in place of a text; {correlation: null}: a message-id alone. */
  async manage({ connection = 'default', address = '$management', requests, ms }) {
    const holder = connections.get(connection);
    if (!holder.manager) {
      const replies = await attach({ connection, role: 'receiver', dynamic: true, ms });
      if (replies.error || replies.late) return { error: replies.error ?? null, late: replies.late };
      replies.link.add_credit(100000); // it is there before the first request: without it answers are dropped
      const sender = await attach({ connection, role: 'sender', address, ms });
      if (sender.error || sender.late) return { error: sender.error ?? null, late: sender.late };
      holder.manager = { replies: replies.link, sender: sender.link, next: 1 };
    }
    const { replies, sender } = holder.manager, answers = requests.map(() => null), waits = new Map(), unknown = [];
    let next = 0;
    const answer = await within(ms, (done) => {
      const push = () => {
        for (let room = sender.credit; next < requests.length && room > 0 && sender.sendable(); --room, ++next) {
          const { properties, body, correlation } = requests[next], id = `${holder.manager.next++}`;
          const key = correlation === undefined ? id : correlation;
          waits.set(String(key), next);
          sender.send({ reply_to: replies.source.address, correlation_id: key ?? undefined, message_id: key === null ? id : undefined,
            application_properties: Object.fromEntries(Object.entries(properties).map(([name, value]) => [name, typed(value)])), body: typed(body) });
        }
      };
      replies.heard = () => {
        for (const { message, delivery } of replies.bodies.splice(0)) {
          const settled = Boolean(delivery.remote_settled);
          delivery.accept(); // what is settled already as well: it counts in the window until then
          const found = { properties: message.application_properties ?? {}, body: message.body === undefined ? null : value_of(message.body),
            correlation: message.correlation_id ?? null, settled };
          const at = waits.get(String(message.correlation_id));
          if (at === undefined || answers[at]) unknown.push(found);
          else answers[at] = found;
        }
        if (answers.every(Boolean)) done({ answers, unknown });
      };
      sender.on('sendable', push);
      replies.once('receiver_close', () => done({ answers, unknown, error: words(replies.error) }));
      holder.once('disconnected', () => done({ answers, unknown, error: { condition: '', description: 'disconnected' } }));
      push();
    }, () => ({ answers, unknown }));
    replies.heard = undefined;
    sender.removeAllListeners('sendable');
    return { error: null, ...answer };
  },
};

readline.createInterface({ input: process.stdin }).on('line', async (line) => {
  const asked = JSON.parse(line);
  let answer;
  try {
    answer = await actions[asked.do]({ ms: 5000, ...asked });
  } catch (fault) {
    answer = { fault: `${fault.stack}` };
  }
  process.stdout.write(JSON.stringify({ seq: asked.seq, ...answer }) + '\n');
}).on('close', () => process.exit(0));
