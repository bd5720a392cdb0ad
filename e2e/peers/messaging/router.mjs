// A stand-in for qpid-dispatch 1.19.0 on npm rhea: management and data plane of one router, for tests.
//
//   node router.mjs [--id R1] [--port 0] [--tenants-port 0] [--hazards all|none] [--scale 0.01] [--distribution unavailable] [--tls FOLDER]
//     [--version 1.19.0] [--host 127.0.0.1]
//
// Two listeners: `port` on `host` for whoever manages it, `tenants_port` (multiTenant) on 127.0.0.1 for clients, who are told apart by the hostname
// of their open. --version is what it says of itself. With --tls (tls.crt, tls.key, ca.crt) the first one is TLS, and clients need a certificate (SASL EXTERNAL).
// --scale: share of the time that a real router needs for queries and reads (MH-1, MH-2). When ready, one line of JSON on stdout; then an
// answer {"seq", "ok", …} for each command, a line of JSON on stdin: {"seq", "command", …}. The end of stdin ends it.
import fs from 'node:fs';
import path from 'node:path';
import readline from 'node:readline';
import { parseArgs } from 'node:util';
import { Plane } from './plane.mjs';
import { types } from './raw.mjs';
import { KINDS, P, Tables, TYPES, is_agents } from './tables.mjs';

const { values: flags } = parseArgs({ options: {
  id: { type: 'string', default: 'R1' }, port: { type: 'string', default: '0' }, 'tenants-port': { type: 'string', default: '0' },
  hazards: { type: 'string', default: 'all' }, scale: { type: 'string', default: '0.01' },
  distribution: { type: 'string', default: 'unavailable' }, tls: { type: 'string' }, version: { type: 'string', default: '1.19.0' }, host: { type: 'string', default: '127.0.0.1' } } });
const hazards = flags.hazards === 'all', scale = Number(flags.scale);
const MOST_LOGGED = 10_000;

/** Requests one after the other, each as long as it takes. */
class Lane {
  waiting = [];
  busy = false;

  push(work) {
    this.waiting.push(work);
    if (!this.busy) this.turn();
  }

  turn() {
    while (this.waiting.length) {
      const { cost, done } = this.waiting.shift()();
      if (cost >= 0.5) {
        this.busy = true;
        setTimeout(() => {
          done();
          this.busy = false;
          this.turn();
        }, cost);
        return;
      }
      done();
    }
  }
}

const state = { hung: false, stuck: [], drop: [], twice: [], codeless: [], garbled: [], held: [], hold: 0, delay: 0, requests: {}, log: [], dropped: 0, unheard: 0,
  youngest: {}, overtaken: 0 };
const lanes = { core: new Lane(), agent: new Lane() };
let chance = 12345; // of 8 to 14 ms; the same in each run

function typed(value) {
  if (typeof value === 'number') return Number.isInteger(value) && Math.abs(value) < 2 ** 31 ? types.wrap_int(value) : types.wrap_long(value);
  if (Array.isArray(value)) return types.wrap_list(value.map(typed));
  if (value && typeof value === 'object') return types.wrap_map(Object.fromEntries(Object.entries(value).map(([key, one]) => [key, typed(one)])));
  return value;
}

/** Counters of a router are ulong. */
function typed_body(props, body) {
  if (props.operation !== 'QUERY' || props.entityType !== P + 'router') return typed(body);
  const row = body.results.map((one) => one.map((value) => (typeof value === 'number' ? types.wrap_ulong(value) : value)));
  return types.wrap_map({ attributeNames: types.wrap_list(body.attributeNames), results: types.wrap_list(row.map((one) => types.wrap_list(one))) });
}

function is_wanted(list, props) {
  const at = list.findIndex((one) => ['operation', 'type', 'name'].every((key) => one[key] === undefined || one[key] === props[key]
    || (key === 'type' && TYPES[one.type] === props.type)));
  if (at < 0) return undefined;
  const found = list[at];
  if (--found.count <= 0) list.splice(at, 1);
  return found;
}

const deep = (depth) => (depth ? { below: deep(depth - 1) } : 'bottom');
/** What is made of an answer, by the `how` of `garble`. */
const GARBLE = {
  types: (reply) => void Object.assign(reply, { body: types.wrap_list([1, 2, 3]), application_properties: { statusCode: '201', statusDescription: 7 } }),
  deep: (reply) => void (reply.body = typed(deep(100))),
};

function respond(message, props, answer, agent) {
  const number = typeof message.correlation_id !== 'string';
  const correlation = agent && hazards && number ? undefined : message.correlation_id; // MH-6
  const reply = { correlation_id: correlation, application_properties: { statusCode: types.wrap_int(answer.code), statusDescription: answer.text },
    body: typed_body(props, answer.body) };
  if (is_wanted(state.drop, props)) {
    state.dropped += 1;
    return;
  }
  if (is_wanted(state.codeless, props)) delete reply.application_properties.statusCode;
  GARBLE[is_wanted(state.garbled, props)?.how]?.(reply);
  const times = is_wanted(state.twice, props) ? 2 : 1;
  const go = () => {
    for (let i = 0; i < times; ++i) if (!plane.reply(message.reply_to, reply)) state.unheard += 1;
  };
  if (state.hold > 0) {
    state.held.unshift(go);
    if (--state.hold === 0) for (const one of state.held.splice(0)) one();
  } else if (state.delay > 0) setTimeout(go, state.delay);
  else go();
}

/** Of connections of one container that speak in turns only the youngest does: each that comes after one that spoke is younger. */
function note_speaker(connection) {
  const container = plane.connections.get(connection)?.container_id;
  if (container === undefined) return;
  if (connection < (state.youngest[container] ?? 0)) state.overtaken += 1;
  else state.youngest[container] = connection;
}

function request(message, connection) {
  note_speaker(connection);
  const props = { ...message.application_properties }, type = props.operation === 'QUERY' ? props.entityType : props.type;
  const agent = is_agents(props);
  const by_type = (state.requests[props.operation] ??= {});
  by_type[type] = (by_type[type] ?? 0) + 1;
  const entry = { operation: props.operation, type, name: props.name ?? props.identity ?? null, connection, at: Date.now(),
    ...(props.offset === undefined ? {} : { offset: Number(props.offset) }) };
  if (state.log.length < MOST_LOGGED) state.log.push(entry);
  const work = () => {
    if (state.hung) {
      state.stuck.push([message, connection]);
      return { cost: 0, done: () => {} };
    }
    const answer = tables.answer(props, message.body);
    entry.code = answer?.code ?? null;
    if (answer?.hang) state.hung = true; // MH-4
    if (answer === undefined || answer.hang) return { cost: 0, done: () => {} };
    chance = (chance * 1103515245 + 12345) % 2 ** 31;
    const cost = agent ? (hazards ? 8 + (6 * chance) / 2 ** 31 : 0) : answer.cost * scale; // MH-8, MH-1
    return { cost, done: () => respond(message, props, answer, agent) };
  };
  lanes[agent ? 'agent' : 'core'].push(work);
}

const tables = new Tables({ id: flags.id, hazards, on: (...all) => plane.on(...all), seen: (kind, type) => plane.seen(kind, type) });
const plane = new Plane({ id: flags.id, tables, request, distribution: flags.distribution, version: flags.version });

const commands = {
  'drop-next-reply': ({ count = 1, operation, type, name }) => void state.drop.push({ count, operation, type, name }),
  duplicate: ({ count = 1, operation, type, name }) => void state.twice.push({ count, operation, type, name }),
  codeless: ({ count = 1, operation, type, name }) => void state.codeless.push({ count, operation, type, name }), // no statusCode
  garble: ({ count = 1, operation, type, name, how }) => void state.garbled.push({ count, operation, type, name, how }),
  reverse: ({ count }) => void (state.hold = count), // the next ones wait for the last of them, and leave in the opposite order
  delay: ({ ms }) => void (state.delay = ms),
  hang: () => void (state.hung = true),
  resume: () => {
    state.hung = false;
    for (const one of state.stuck.splice(0)) request(...one);
  },
  cut: () => plane.cut(),
  'restart-empty': () => {
    plane.clear();
    tables.clear();
    Object.assign(state, { hung: false, stuck: [] });
  },
  delete: ({ type, name, identity }) => {
    const kind = KINDS[type] ?? type, found = tables.find(kind, { name, identity });
    if (!found) throw new Error(`no ${kind} ${name ?? identity}`);
    tables.forget(kind, found);
  },
  create: ({ type, name, attributes }) => {
    const { code, text, body } = tables.answer({ operation: 'CREATE', type: TYPES[type] ?? type, name }, attributes);
    if (code !== 201) throw new Error(text);
    return { body };
  },
  dump: ({ log = false, rows: whole = true }) => ({ id: flags.id, uptime: Math.floor((Date.now() - tables.begun) / 1000), requests: state.requests,
    sizes: Object.fromEntries(Object.entries(tables.rows).map(([kind, rows]) => [kind, rows.size])),
    ...(whole ? { tables: Object.fromEntries(Object.entries(tables.rows).map(([kind, rows]) => [kind, [...rows.values()]])), links: plane.seen('link') } : {}),
    connections: plane.seen('connection'), most: plane.most, overtaken: state.overtaken, aliases: Object.fromEntries(tables.aliases),
    dropped: state.dropped, unheard: state.unheard, hung: state.hung, stuck: state.stuck.length, ...(log ? { log: state.log } : {}) }),
  forget: () => { // the counts
    Object.assign(state, { requests: {}, log: [], dropped: 0, unheard: 0, overtaken: 0 });
    plane.count_anew();
  },
};

const say = (line) => process.stdout.write(JSON.stringify(line) + '\n');
readline.createInterface({ input: process.stdin }).on('line', (line) => {
  let seq = null;
  try {
    const command = JSON.parse(line);
    seq = command.seq ?? null;
    if (!Object.hasOwn(commands, command.command)) throw new Error(`no command ${command.command}`);
    say({ seq, ok: true, ...commands[command.command](command) });
  } catch (fault) {
    say({ seq, ok: false, error: fault.message });
  }
}).on('close', () => process.exit(0));

const file = (name) => fs.readFileSync(path.join(flags.tls, name));
const files = flags.tls && { cert: file('tls.crt'), key: file('tls.key'), ca: file('ca.crt') };
plane.main = plane.listen({ host: flags.host, port: Number(flags.port), tls: files, peers: Boolean(files) });
plane.tenants = plane.listen({ host: '127.0.0.1', port: Number(flags['tenants-port']), multiTenant: true });
for (const server of [plane.main, plane.tenants]) server.on('error', () => process.exit(1));
plane.main.on('listening', () => {
  const ready = () => say({ ready: true, id: flags.id, port: plane.main.address().port, tenants_port: plane.tenants.address().port });
  if (plane.tenants.listening) ready();
  else plane.tenants.on('listening', ready);
});
