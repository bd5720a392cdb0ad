// What a router holds by management, and what it says to requests: the recorded answers of qpid-dispatch 1.19.0 (section 6 of the
// docs/spec/messaging.md. No I/O: what the data plane has to do is told by `on(event, type, entity)`.
export const P = 'org.apache.qpid.dispatch.';
const CORE = { [P + 'router.config.address']: 'address', [P + 'router.config.autoLink']: 'autoLink', [P + 'router.config.linkRoute']: 'linkRoute' };
const AGENT = { [P + 'connector']: 'connector', [P + 'listener']: 'listener', [P + 'sslProfile']: 'sslProfile', [P + 'vhost']: 'vhost' };
const SEEN = { [P + 'router.link']: 'link', [P + 'router.node']: 'node', [P + 'connection']: 'connection', [P + 'router.address']: 'routerAddress' };
export const KINDS = { ...CORE, ...AGENT };
export const TYPES = Object.fromEntries(Object.entries(KINDS).map(([type, kind]) => [kind, type]));
export const MOST_NODES = 65535; // of one body, for whoever decodes it
const MOST_NAME = 512;

export const COLUMNS = {
  address: ['name', 'identity', 'type', 'prefix', 'distribution', 'waypoint', 'ingressPhase', 'egressPhase', 'priority', 'pattern', 'fallback'],
  autoLink: ['name', 'identity', 'type', 'address', 'direction', 'phase', 'externalAddress', 'linkRef', 'containerId', 'connection', 'operStatus',
    'lastError'],
  linkRoute: ['name', 'identity', 'type', 'prefix', 'distribution', 'connection', 'containerId', 'direction', 'operStatus', 'pattern',
    'addExternalPrefix', 'delExternalPrefix'],
};
// What the agent takes of its types. A value's type is that of its default; undefined: a text without one.
const INTEGER = Symbol('integer'), MAP = Symbol('map'), FLAG = Symbol('flag');
const TAKES = {
  connector: { host: '127.0.0.1', port: 'amqp', role: 'normal', cost: 1, idleTimeoutSeconds: 16, linkCapacity: INTEGER, maxFrameSize: 16384,
    maxSessions: 32768, maxSessionFrames: INTEGER, sslProfile: undefined, saslMechanisms: undefined, saslUsername: undefined, saslPassword: undefined,
    verifyHostname: true, allowRedirect: true, stripAnnotations: 'both', failoverUrls: undefined, messageLoggingComponents: 'none',
    policyVhost: undefined, protocolFamily: undefined, openProperties: MAP },
  listener: { host: '', port: 'amqp', role: 'normal', cost: 1, idleTimeoutSeconds: 16, initialHandshakeTimeoutSeconds: 0, linkCapacity: INTEGER,
    maxFrameSize: 16384, maxSessions: 32768, maxSessionFrames: INTEGER, sslProfile: undefined, saslMechanisms: undefined, authenticatePeer: false,
    requireEncryption: false, requireSsl: false, stripAnnotations: 'both', multiTenant: false, policyVhost: undefined, http: false,
    healthz: FLAG, metrics: FLAG, websockets: FLAG, failoverUrls: undefined, messageLoggingComponents: 'none', protocolFamily: undefined,
    openProperties: MAP, httpRootDir: undefined, allowUnsettledMulticast: FLAG },
  sslProfile: { certFile: undefined, privateKeyFile: undefined, password: undefined, caCertFile: undefined, uidFormat: undefined,
    uidNameMappingFile: undefined, trustedCertsFile: undefined, ciphers: undefined, protocols: undefined },
  vhost: { hostname: undefined, aliases: undefined, maxConnections: 65535, maxConnectionsPerUser: 65535, maxConnectionsPerHost: 65535,
    maxMessageSize: INTEGER, allowUnknownUser: false, groups: MAP },
};
const ROLES = { connector: ['normal', 'inter-router', 'route-container', 'edge'], listener: ['normal', 'inter-router', 'route-container', 'edge'] };
const DISTRIBUTIONS = ['multicast', 'closest', 'balanced', 'unavailable'];

/** Segments of an address: `.` and `/` separate alike. */
export const segments = (address) => address.split(/[./]/);
export const canonical = (address) => segments(address).join('/');
export function matches(pattern, parts, p = 0, i = 0) {
  for (; p < pattern.length; ++p, ++i) {
    if (pattern[p] === '#') {
      for (let rest = i; rest <= parts.length; ++rest) {
        if (matches(pattern, parts, p + 1, rest)) return true;
      }
      return false;
    }
    if (i >= parts.length || (pattern[p] !== '*' && pattern[p] !== parts[i])) return false;
  }
  return i === parts.length;
}

/** Whether it is the Python agent that answers such a request. */
export const is_agents = (props) => {
  const type = (props.operation === 'QUERY' ? props.entityType : props.type) ?? '';
  return !(type in CORE) && !(type in SEEN);
};

class Refused extends Error {
  constructor(code, text) {
    super(text);
    this.code = code;
  }
}
const bad = (text) => new Refused(400, text);
const text_of = (name) => name[0].toUpperCase() + name.slice(1) + 'Entity';
const bytes = (text) => Buffer.byteLength(text ?? '');

export class Tables {
  constructor({ id, hazards, on, seen }) {
    Object.assign(this, { id, hazards, on, seen });
    this.clear();
  }

  /** All that management has made is gone, as after a start. */
  clear() {
    this.next = 1;
    this.begun = Date.now();
    this.rows = Object.fromEntries(Object.values(KINDS).map((kind) => [kind, new Map()]));  // by identity
    this.names = Object.fromEntries(Object.values(KINDS).map((kind) => [kind, new Map()])); // identity by name
    this.patterns = new Map(); // entity of an address by what it matches, one key for prefix and pattern
    this.wild = new Map();     // those of `patterns` with wildcards
    this.aliases = new Map();  // vhost's identity by alias; outlives the vhost (MH-7)
  }

  find(kind, props) {
    const { name, identity } = props;
    if (name === undefined && identity === undefined) throw bad('No name or identity provided');
    return this.rows[kind].get(identity ?? this.names[kind].get(name));
  }

  /** The address that is most like one: {distribution, waypoint, …}, or undefined. */
  treatment(address) {
    const parts = segments(address), whole = this.hazards ? parts.join('/') : address;
    const exact = this.patterns.get(whole);
    if (exact) return exact;
    let best, weight = -1;
    for (const [pattern, entity] of this.wild) {
      const words = pattern.split('/'), own = words.filter((word) => word !== '#' && word !== '*').length;
      if (own > weight && matches(words, parts)) [best, weight] = [entity, own];
    }
    for (let length = parts.length; length > weight && length > 0; --length) {
      const found = this.patterns.get(parts.slice(0, length).join('/') + '/#');
      if (found) return found;
    }
    return best;
  }

  vhost(hostname) {
    return this.rows.vhost.get('vhost/' + hostname) ?? this.rows.vhost.get(this.aliases.get(hostname));
  }

  // requests

  /** {code, text, body, cost, agent}, or undefined: never answered. `cost` in milliseconds of a real router. */
  answer(props, body) {
    const type = props.type ?? '', operation = (props.operation ?? '').toUpperCase(), agent = !(type in CORE) && !(type in SEEN);
    try {
      if (operation === 'QUERY') return this.query(props.entityType ?? '', body, props);
      if (operation === 'GET-MGMT-NODES') return { code: 200, text: 'OK', body: [`amqp:/_topo/0/${this.id}/$management`], cost: 0, agent: true };
      if (type === P + 'router') throw new Refused(403, 'Forbidden');
      const kind = KINDS[type];
      if (!kind && type in SEEN) throw new Refused(operation === 'READ' ? 404 : 403, operation === 'READ' ? 'Not Found' : 'Forbidden');
      if (!kind) throw bad(`No such entity type '${type}'`);
      if (this.hazards && !agent && operation === 'UPDATE') return undefined; // MH-3
      if (this.hazards && !agent && bytes(props.name) > MOST_NAME && operation !== 'READ') return { hang: true }; // MH-4
      const done = { CREATE: this.create, READ: this.read, UPDATE: this.update, DELETE: this.remove }[operation];
      if (!done) throw new Refused(501, `Operation '${operation}' not implemented for '${type}' ['CREATE', 'DELETE', 'READ']`);
      return { cost: 0, agent, ...done.call(this, kind, props, body ?? {}, agent, type) };
    } catch (fault) {
      if (!(fault instanceof Refused)) throw fault;
      return { code: fault.code, text: fault.message, body: null, cost: 0, agent };
    }
  }

  create(kind, props, body, agent, type) {
    const name = props.name ?? (agent ? body.name : undefined);
    const entity = agent ? this.checked(kind, name, body) : this[kind](body);
    if (!agent && name !== undefined && this.names[kind].has(name)) throw bad('Name conflicts with an existing entity');
    if (kind === 'address') {
      const key = this.pattern_of(entity);
      if (this.patterns.has(key)) throw bad('Already exists');
      this.patterns.set(key, entity);
      if (/(^|\/)(\*|#)(\/|$)/.test(key.replace(/\/#$/, ''))) this.wild.set(key, entity);
    }
    const identity = agent ? this.identity_of(kind, name, entity) : String(this.next++);
    const whole = { name: name ?? (agent ? identity : null), identity, type, ...entity };
    if (kind === 'address') this.patterns.set(this.pattern_of(entity), whole);
    if (this.wild.has(this.pattern_of(entity))) this.wild.set(this.pattern_of(entity), whole);
    this.rows[kind].set(identity, whole);
    if (whole.name !== null) this.names[kind].set(whole.name, identity);
    const echo = { ...whole }; // before the data plane makes anything of it
    this.on('create', kind, whole);
    return { code: 201, text: 'Created', body: echo };
  }

  read(kind, props, body, agent) {
    const found = this.find(kind, props);
    if (!found) throw new Refused(404, agent ? this.none(props) : 'Not Found');
    // MH-2: 5.6 ms at 100,000
    const cost = this.hazards && kind === 'autoLink' && props.identity === undefined ? this.rows.autoLink.size * 56e-6 : 0;
    return { code: 200, text: 'OK', body: { ...found }, cost };
  }

  update(kind, props, body, agent, type) {
    if (kind !== 'vhost') throw new Refused(501, `Operation 'UPDATE' not implemented for '${type}' ['CREATE', 'DELETE', 'READ']`);
    const found = this.find(kind, props);
    if (!found) throw new Refused(404, this.none(props));
    if (body.hostname !== undefined && body.hostname !== found.hostname) throw bad("Cannot update attribute 'hostname' in UPDATE");
    const { name, identity, type: of, hostname, ...rest } = body;
    const merged = { ...found, ...this.typed('vhost', rest) };
    this.limits(merged);
    this.take_aliases(found.identity, merged.aliases, true);
    Object.assign(found, merged);
    this.on('update', kind, found);
    return { code: 200, text: 'OK', body: { ...found } };
  }

  remove(kind, props, body, agent) {
    const found = this.find(kind, props);
    if (!found) throw new Refused(404, agent ? this.none(props) : 'Not Found');
    if (kind === 'listener' && found.http) throw bad('HTTP listeners cannot be deleted');
    this.forget(kind, found);
    return { code: 204, text: 'No Content', body: null };
  }

  forget(kind, found) {
    this.rows[kind].delete(found.identity);
    if (found.name !== null) this.names[kind].delete(found.name);
    if (kind === 'address') {
      this.patterns.delete(this.pattern_of(found));
      this.wild.delete(this.pattern_of(found));
    }
    if (kind === 'vhost' && !this.hazards) this.take_aliases(found.identity, '', true); // MH-7
    this.on('remove', kind, found);
  }

  query(type, body, props) {
    const kind = KINDS[type] ?? SEEN[type] ?? (type === P + 'router' ? 'router' : undefined), agent = !(type in CORE) && !(type in SEEN);
    const asked = body?.attributeNames ?? [];
    const all = !kind ? [] : kind === 'router' ? [this.router()] : KINDS[type] ? [...this.rows[kind].values()] : this.seen(kind, type);
    const offset = Number(props.offset ?? 0), end = props.count === undefined ? all.length : offset + Number(props.count);
    const page = all.slice(offset, end);
    const known = COLUMNS[kind] ?? [...new Set(page.flatMap((entity) => Object.keys(entity)))];
    const columns = asked.length ? asked : known;
    let results = page.map((entity) => columns.map((column) => entity[column] ?? null));
    if (this.hazards) { // MH-5
      let nodes = MOST_NODES - columns.length - 6;
      const fit = [];
      for (const row of results) {
        if (nodes <= 1) break;
        fit.push(row.slice(0, nodes - 1));
        nodes -= row.length + 1;
      }
      results = fit;
    }
    // MH-1: each row is looked for from the head of the list
    const rows = Math.min(end, all.length);
    const cost = this.hazards && type in CORE ? Math.max(0, rows * rows - offset * offset) * 1e-5 : 0;
    return { code: 200, text: 'OK', body: { attributeNames: columns, results }, cost, agent };
  }

  // values

  address(body) {
    const { prefix = null, pattern = null } = body;
    if ((prefix === null) === (pattern === null)) throw bad('Must have exactly one of \'prefix\' and \'pattern\'');
    const silent = (name, fine, otherwise) => {
      if (body[name] === undefined) return otherwise;
      if (fine(body[name])) return body[name];
      if (!this.hazards) throw bad(`Invalid value for '${name}'`); // MH-10
      return otherwise;
    };
    const waypoint = silent('waypoint', (value) => typeof value === 'boolean', false), number = (value) => typeof value === 'number';
    if (!this.hazards) this.only(COLUMNS.address, body);
    return { prefix, distribution: silent('distribution', (value) => DISTRIBUTIONS.includes(value), 'balanced'), waypoint,
      ingressPhase: silent('ingressPhase', number, 0), egressPhase: silent('egressPhase', number, waypoint ? 1 : 0),
      priority: silent('priority', number, -1), pattern, fallback: silent('fallback', (value) => typeof value === 'boolean', false) };
  }

  autoLink(body) {
    if (!this.hazards) this.only(COLUMNS.autoLink, body);
    this.directed(body);
    if (typeof body.address !== 'string') throw bad("No address for the auto link");
    return { address: body.address, direction: body.direction, phase: typeof body.phase === 'number' ? body.phase : body.direction === 'in' ? 1 : 0,
      externalAddress: body.externalAddress ?? null, linkRef: null, containerId: body.containerId ?? null, connection: body.connection ?? null,
      operStatus: 'inactive', lastError: null };
  }

  linkRoute(body) {
    if (!this.hazards) this.only(COLUMNS.linkRoute, body);
    this.directed(body);
    const { prefix = null, pattern = null } = body;
    if ((prefix === null) === (pattern === null)) throw bad('Must have exactly one of \'prefix\' and \'pattern\'');
    return { prefix, distribution: 'linkBalanced', connection: body.connection ?? null, containerId: body.containerId ?? null,
      direction: body.direction, operStatus: 'inactive', pattern, addExternalPrefix: body.addExternalPrefix ?? null,
      delExternalPrefix: body.delExternalPrefix ?? null };
  }

  directed(body) {
    if (body.direction !== 'in' && body.direction !== 'out') throw bad("Invalid value for 'direction'");
  }

  only(columns, body) {
    const unknown = Object.keys(body).find((key) => !columns.includes(key));
    if (unknown) throw bad(`No such attribute '${unknown}'`);
  }

  /** An entity of the agent: defaults and types; refused if it is wrong. */
  checked(kind, name, body) {
    const { name: _, identity, type, ...rest } = body;
    const entity = {};
    for (const [key, value] of Object.entries(TAKES[kind])) {
      if (value !== undefined && typeof value !== 'symbol') entity[key] = value;
    }
    Object.assign(entity, this.typed(kind, rest));
    if (ROLES[kind] && !ROLES[kind].includes(entity.role)) throw bad(`ValidationError: Invalid value for 'role': '${entity.role}'`);
    if (kind === 'connector' && entity.sslProfile && !this.hazards && !this.names.sslProfile.has(entity.sslProfile)) throw bad('No such sslProfile'); // MH-12
    if (kind === 'vhost') {
      if (!entity.hostname) throw bad("ValidationError: Missing required attribute 'hostname'");
      this.limits(entity);
    }
    if (kind === 'connector') Object.assign(entity, { connectionStatus: 'CONNECTING', connectionMsg: '' });
    const other = name !== undefined && this.rows[kind].get(this.names[kind].get(name));
    const show = (attributes) => `${text_of(kind)}(${Object.entries(attributes).map(([key, value]) => `${key}=${value}`).join(', ')})`;
    if (other) throw bad(`adding ${show({ name, ...entity })} duplicates unique attribute 'name' from existing ${show(other)}`);
    const same = this.rows[kind].get(this.identity_of(kind, name, entity));
    if (same) throw bad(`adding ${show({ name, ...entity })} duplicates unique attribute 'identity' from existing ${show(same)}`);
    if (kind === 'vhost') this.take_aliases(this.identity_of(kind, name, entity), entity.aliases ?? '', false);
    return entity;
  }

  typed(kind, body) {
    const takes = TAKES[kind], entity = {};
    for (const [key, value] of Object.entries(body)) {
      if (!(key in takes)) throw bad(`ValidationError: ${text_of(kind)} has no attribute '${key}'`);
      const like = takes[key];
      const fits = like === MAP ? typeof value === 'object' : like === INTEGER || typeof like === 'number' ? Number.isInteger(Number(value)) && value !== ''
        : like === FLAG || typeof like === 'boolean' ? typeof value === 'boolean' : typeof value === 'string';
      if (value === null || value === undefined) continue;
      if (!fits) throw bad(`ValidationError: Invalid value for '${key}': '${value}'`);
      entity[key] = like === INTEGER || typeof like === 'number' ? Number(value) : value;
    }
    return entity;
  }

  limits(vhost) {
    for (const key of ['maxConnections', 'maxConnectionsPerUser', 'maxConnectionsPerHost']) {
      if (vhost[key] < 0) throw new Refused(500, `PolicyError: Policy vhost '${vhost.hostname}' option '${key}' has value '${vhost[key]}' below minimum '0'`);
    }
  }

  take_aliases(identity, list, replace) {
    const wanted = (list ?? '').split(',').map((one) => one.trim()).filter(Boolean);
    for (const alias of wanted) {
      const holder = this.aliases.get(alias);
      if ((holder !== undefined && !(replace && holder === identity)) || (this.rows.vhost.has('vhost/' + alias) && 'vhost/' + alias !== identity)) {
        throw new Refused(500, `PolicyError: Policy vhost '${identity.slice(6)}' alias '${alias}' is already in use`);
      }
    }
    if (replace) {
      for (const [alias, holder] of this.aliases) {
        if (holder === identity) this.aliases.delete(alias);
      }
    }
    for (const alias of wanted) this.aliases.set(alias, identity);
  }

  identity_of(kind, name, entity) {
    return kind === 'vhost' ? 'vhost/' + entity.hostname : kind === 'sslProfile' ? 'sslProfile/' + name : `${kind}/${entity.host}:${entity.port}:${name}`;
  }

  pattern_of(entity) {
    const text = entity.prefix ?? entity.pattern ?? '', key = this.hazards ? canonical(text) : text;
    return typeof entity.prefix === 'string' ? key + '/#' : key;
  }

  none({ name, identity }) {
    return 'No entity with ' + (name !== undefined ? `name=${name}` : `identity=${identity}`);
  }

  router() {
    const links = this.seen('link'), connections = this.seen('connection');
    return { name: 'router/' + this.id, identity: 'router/' + this.id, type: P + 'router', id: this.id, mode: 'interior', version: '1.19.0',
      addrCount: this.seen('routerAddress').length, linkCount: links.length, autoLinkCount: this.rows.autoLink.size,
      linkRouteCount: this.rows.linkRoute.size, connectionCount: connections.length, memoryUsage: process.memoryUsage.rss(),
      uptimeSeconds: Math.floor((Date.now() - this.begun) / 1000) };
  }
}
