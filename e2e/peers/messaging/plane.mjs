// The data plane of the router stand-in: connections from clients and to brokers, the policy of vhosts, addresses, autolinks.
import fs from 'node:fs';
import net from 'node:net';
import tls from 'node:tls';
import { accepted, credit, encode, is_coordinator, outcome, read, released, rhea, room, send } from './raw.mjs';
import { LinkRoutes } from './routes.mjs';
import { canonical } from './tables.mjs';

const NO_CONNECTION = { condition: 'amqp:resource-limit-exceeded', description: 'connection disallowed by local policy' };
const NO_LINK = { condition: 'amqp:resource-limit-exceeded', description: 'link disallowed by local policy' };
export const NO_ROUTE = { condition: 'qd:no-route-to-dest', description: 'No route to the destination node' };
const WINDOW = 250;
const unprefixed = (address) => address.replace(/^amqps?:(\/\/[^/]*)?\/?/, '').replace(/^\//, '');

/** One side of the router's links on an address and phase. */
class Address {
  constructor(key, treatment) {
    Object.assign(this, { key, treatment, ins: new Set(), outs: new Set(), queue: [] });
  }
}

export class Plane {
  constructor({ id, tables, request, distribution, version }) {
    Object.assign(this, { id, tables, request, distribution, connections: new Map(), most: {}, addresses: new Map(), temporaries: new Map(),
      connectors: new Map(), listeners: new Map(), autoLinks: new Map(), next: 1, down: false });
    this.routes = new LinkRoutes(this);
    const fields = { id, container_id: id, credit_window: 0, autoaccept: false, treat_modified_as_released: false, max_frame_size: 16384,
      idle_time_out: 16000, reconnect: false, enable_sasl_external: true, tcp_no_delay: true, properties: { product: 'qpid-dispatch-router', version } };
    this.container = rhea.create_container(fields);
    this.fields = fields;
    for (const name of ['connection_open', 'connection_close', 'disconnected', 'sender_open', 'receiver_open', 'sender_close', 'receiver_close',
      'sendable', 'sender_flow', 'message', 'settled', 'accepted', 'rejected', 'released', 'modified', 'receiver_drained', 'session_close']) {
      this.container.on(name, (event) => this['on_' + name]?.(event));
    }
    for (const name of ['error', 'protocol_error', 'connection_error', 'sender_error', 'receiver_error', 'session_error']) this.container.on(name, () => {});
  }

  // listeners

  /** @param options  {host, port, multiTenant, policyVhost, tls: {key, cert, ca}, peers: whether clients need a certificate} */
  listen(options) {
    const server = options.tls ? tls.createServer({ ...options.tls, requestCert: Boolean(options.peers), rejectUnauthorized: Boolean(options.peers) })
      : net.createServer();
    server.sockets = new Set();
    server.on(options.tls ? 'secureConnection' : 'connection', (socket) => {
      server.sockets.add(socket);
      socket.on('close', () => server.sockets.delete(socket));
      socket.on('error', () => {});
      if (options.broken || this.down) return socket.destroy();
      const connection = this.container.create_connection({ ...this.fields, require_sasl: Boolean(options.peers) });
      connection.ours = { id: this.next++, dir: 'in', listener: options, senders: 0, receivers: 0, socket, prefix: '' };
      connection.accept(socket);
    });
    server.on('tlsClientError', () => {});
    server.on('error', (fault) => process.stderr.write(`listener ${options.host}:${options.port}: ${fault.message}\n`));
    server.listen({ host: options.host, port: options.port });
    return server;
  }

  // what management has made

  on(event, kind, entity) {
    if (kind === 'listener') return event === 'create' ? this.add_listener(entity) : this.remove_listener(entity);
    if (kind === 'connector') return event === 'create' ? this.add_connector(entity) : this.remove_connector(entity);
    if (kind === 'autoLink') return event === 'create' ? this.add_auto_link(entity) : this.remove_auto_link(entity);
    if (kind === 'linkRoute') return event === 'create' ? this.routes.add(entity) : this.routes.remove(entity);
  }

  files(name) {
    const profile = this.tables.rows.sslProfile.get(this.tables.names.sslProfile.get(name));
    try {
      return { cert: profile.certFile && fs.readFileSync(profile.certFile), key: profile.privateKeyFile && fs.readFileSync(profile.privateKeyFile),
        ca: profile.caCertFile && fs.readFileSync(profile.caCertFile) };
    } catch {
      return undefined;
    }
  }

  add_listener(entity) {
    const files = entity.sslProfile && this.files(entity.sslProfile), port = Number(entity.port === 'amqp' ? 5672 : entity.port);
    this.listeners.set(entity.identity, this.listen({ host: entity.host || '127.0.0.1', port, multiTenant: entity.multiTenant,
      policyVhost: entity.policyVhost, tls: files || undefined, peers: files && entity.authenticatePeer,
      broken: entity.http || (entity.sslProfile && !files?.cert) }));
  }

  remove_listener(entity) {
    const server = this.listeners.get(entity.identity);
    this.listeners.delete(entity.identity);
    server?.close();
  }

  add_connector(entity) {
    const state = { entity, tries: 0, number: this.next++ };
    this.connectors.set(entity.identity, state);
    this.dial(state);
  }

  dial(state) {
    const { entity } = state, hosts = [{ host: entity.host, port: entity.port }];
    for (const one of (entity.failoverUrls ?? '').split(',').filter(Boolean)) {
      const found = /^(?:amqps?:\/\/)?([^:]+):?(\d*)$/.exec(one.trim());
      if (found) hosts.push({ host: found[1], port: found[2] || '5672' });
    }
    const at = hosts[state.tries++ % hosts.length], port = Number(at.port === 'amqp' ? 5672 : at.port);
    const files = entity.sslProfile && this.files(entity.sslProfile);
    const again = (words) => {
      if (state.gone || state.timer) return;
      Object.assign(entity, { connectionStatus: 'CONNECTING', connectionMsg: words });
      this.lost(state);
      state.timer = setTimeout(() => {
        state.timer = undefined;
        if (!state.gone) this.dial(state);
      }, Math.min(100 * 2 ** Math.min(state.tries, 6), 3000));
    };
    if (entity.sslProfile && !files) return again(`[C${state.number}] Connection to ${at.host}:${port} failed: no such SSL profile or files`);
    const connection = this.container.create_connection({ ...this.fields, host: at.host, port, hostname: at.host,
      username: entity.saslUsername ?? 'anonymous', password: entity.saslPassword,
      ...(files ? { transport: 'tls', ...files, checkServerIdentity: entity.verifyHostname ? undefined : () => undefined, rejectUnauthorized: Boolean(files.ca) } : {}),
      max_frame_size: entity.maxFrameSize, idle_time_out: entity.idleTimeoutSeconds * 1000 || undefined });
    connection.ours = { id: state.number, dir: 'out', state, prefix: '', where: `${at.host}:${port}`, again, senders: 0, receivers: 0 };
    state.connection = connection;
    connection.connect();
    connection.ours.socket = connection.socket;
  }

  remove_connector(entity) {
    const state = this.connectors.get(entity.identity);
    this.connectors.delete(entity.identity);
    if (!state) return;
    state.gone = true;
    clearTimeout(state.timer);
    this.lost(state);
    state.connection?.close();
    state.connection?.socket?.destroySoon?.();
  }

  /** The connection of a connector has gone: its links do as well. */
  lost(state) {
    state.open = false;
    for (const one of this.autoLinks.values()) {
      if (one.state === state) {
        this.leave(one.link);
        clearTimeout(one.timer);
        one.entity.operStatus = 'inactive';
        Object.assign(one, { state: undefined, link: undefined });
      }
    }
    this.routes.lost(state);
  }

  /** The open connectors that an autolink or link route names. */
  reach(entity) {
    return [...this.connectors.values()].filter((state) => state.open && (entity.connection !== null ? state.entity.name === entity.connection
      : state.connection.container_id === entity.containerId));
  }

  // autolinks

  add_auto_link(entity) {
    const one = { entity, tries: 0 };
    this.autoLinks.set(entity.identity, one);
    this.activate(one);
  }

  activate(one) {
    const { entity } = one, [state] = this.reach(entity);
    if (!state || one.link) return;
    const external = entity.externalAddress ?? entity.address, name = `auto_link.${entity.identity}.${++one.tries}`, connection = state.connection;
    const terminus = { source: { address: entity.direction === 'in' ? external : entity.address },
      target: { address: entity.direction === 'in' ? entity.address : external }, name };
    one.link = entity.direction === 'in' ? connection.open_receiver(terminus) : connection.open_sender(terminus);
    one.link.auto = one;
    one.state = state;
    entity.operStatus = 'attaching';
  }

  auto_opened(link) {
    const { entity } = link.auto, refused = entity.direction === 'in' ? !link.source : !link.target;
    if (refused) return; // the detach with the reason follows
    Object.assign(entity, { operStatus: 'active', lastError: null });
    this.join(link, this.address(entity.address, entity.phase), entity.direction === 'in');
  }

  auto_closed(link) {
    const one = link.auto;
    this.leave(link);
    if (one.link !== link) return;
    const error = link.error;
    one.link = undefined;
    one.entity.operStatus = 'failed';
    one.entity.lastError = error ? `${error.condition}: ${error.description}` : 'Link closed by the peer';
    one.failures = (one.failures ?? 0) + 1;
    one.timer = setTimeout(() => this.activate(one), one.failures === 1 ? 2000 : 5000);
  }

  remove_auto_link(entity) {
    const one = this.autoLinks.get(entity.identity);
    this.autoLinks.delete(entity.identity);
    if (!one) return;
    clearTimeout(one.timer);
    this.leave(one.link);
    const link = one.link;
    one.link = undefined;
    link?.close();
  }

  // connections

  on_connection_open({ connection }) {
    const ours = connection.ours;
    this.connections.set(ours.id, connection);
    if (ours.dir === 'out') {
      const { entity } = ours.state;
      Object.assign(ours.state, { open: true, tries: 0 });
      Object.assign(entity, { connectionStatus: 'SUCCESS', connectionMsg: `[C${ours.id}] Connection Opened: dir=out host=${ours.where} vhost= encrypted=no `
        + `auth=ANONYMOUS user=anonymous container_id=${connection.container_id} props=:` });
      this.routes.refresh();
      for (const one of this.autoLinks.values()) this.activate(one);
      return;
    }
    const { listener } = ours, vhost = this.tables.vhost(listener.policyVhost || connection.hostname || '');
    ours.vhost = vhost?.identity;
    const users = [...this.connections.values()].filter((one) => one.ours.vhost === vhost?.identity && one.ours.dir === 'in').length;
    const denied = vhost ? users > vhost.maxConnections || vhost.allowUnknownUser === false : listener.multiTenant || listener.policyVhost;
    if (denied) {
      ours.denied = true;
      this.connections.delete(ours.id);
      connection.close(NO_CONNECTION);
      setTimeout(() => ours.socket.destroySoon(), 1000).unref();
      return;
    }
    ours.limits = vhost?.groups?.$default ?? (vhost ? {} : undefined);
    if (!listener.multiTenant) this.count(connection.container_id);
    if (vhost && listener.multiTenant) ours.prefix = vhost.hostname + '/';
  }

  /** How many connections of one container there were at once, at most. */
  count(container) {
    const now = [...this.connections.values()].filter((one) => one.ours.dir === 'in' && one.container_id === container).length;
    this.most[container] = Math.max(this.most[container] ?? 0, now);
  }

  /** From now on. */
  count_anew() {
    this.most = {};
    for (const one of this.connections.values()) if (one.ours.dir === 'in' && !one.ours.listener.multiTenant) this.count(one.container_id);
  }

  on_connection_close({ connection }) {
    this.ended(connection);
  }

  on_disconnected({ connection, error }) {
    this.ended(connection, error);
  }

  ended(connection, error) {
    const ours = connection.ours;
    this.connections.delete(ours.id);
    connection.each_link((link) => this.link_gone(link));
    for (const link of ours.links ?? []) this.link_gone(link);
    if (ours.dir === 'out' && ours.state.connection === connection) {
      const why = error?.code === 'ECONNREFUSED' ? `proton:io Connection refused - connect ${ours.where}`
        : connection.error ? `${connection.error.condition}: ${connection.error.description}` : error?.message ?? 'amqp:connection:framing-error connection aborted';
      ours.again(`[C${ours.id}] Connection to ${ours.where} failed: ${why}`);
      connection.socket?.destroySoon?.();
    }
  }

  // links

  local(connection, address) {
    const plain = unprefixed(address);
    return plain.startsWith('_topo/') ? plain : connection.ours.prefix + plain;
  }

  /** Whether policy lets a client have one more link. `kind`: senders or receivers, as the client sees them. */
  allowed(connection, kind, terminus, link) {
    const { ours } = connection, limits = ours.limits;
    (ours.links ??= new Set()).add(link);
    if (!limits) return true;
    const most = kind === 'senders' ? limits.maxSenders : limits.maxReceivers;
    const open = (list, address) => list === '*' || list === undefined || list.split(',').some((one) => one.trim() === address || one.trim() === '*');
    const fine = terminus?.dynamic ? limits.allowDynamicSource !== false
      : is_coordinator(terminus) ? true
        : kind === 'senders' && !terminus?.address ? limits.allowAnonymousSender !== false
          : open(kind === 'senders' ? limits.targets : limits.sources, terminus?.address);
    if ((most !== undefined && ours[kind] >= Number(most)) || !fine) {
      link.close(NO_LINK);
      return false;
    }
    ours[kind] += 1;
    link.counted = kind;
    return true;
  }

  on_sender_open({ connection, sender }) {
    if (sender.auto) return this.auto_opened(sender);
    if (sender.routed) return this.routes.opened(sender);
    const { source } = sender;
    if (!this.allowed(connection, 'receivers', source, sender)) return;
    if (source?.dynamic) {
      const name = `amqp:/_topo/0/${this.id}/temp.${this.next++}${Math.random().toString(36).slice(2, 10)}`;
      sender.set_source({ address: name, dynamic: true });
      sender.temporary = name;
      this.temporaries.set(unprefixed(name), sender);
      return;
    }
    if (!source?.address) return sender.close(NO_ROUTE);
    const address = this.local(connection, source.address);
    sender.local.attach.source = source.described();
    if (sender.target) sender.local.attach.target = sender.target.described();
    if (this.routes.take(sender, address, 'out')) return;
    const found = this.address(address, undefined, 'egressPhase');
    if (!found) return sender.close(NO_ROUTE);
    this.join(sender, found, false);
  }

  on_receiver_open({ connection, receiver }) {
    if (receiver.auto) return this.auto_opened(receiver);
    if (receiver.routed) return this.routes.opened(receiver);
    const { target } = receiver;
    if (!this.allowed(connection, 'senders', target, receiver)) return;
    if (target) receiver.local.attach.target = target.described();
    if (receiver.source) receiver.local.attach.source = receiver.source.described();
    if (is_coordinator(target)) {
      if (!this.routes.take(receiver, connection.ours.prefix + '$coordinator', 'in')) receiver.close(NO_ROUTE);
      return;
    }
    if (!target?.address) {
      receiver.anonymous = true;
      receiver.add_credit(WINDOW);
      return;
    }
    const address = this.local(connection, target.address);
    if (address === '$management' || address === `_topo/0/${this.id}/$management`) {
      receiver.management = true;
      receiver.add_credit(WINDOW);
      return;
    }
    if (this.temporaries.has(address)) {
      receiver.to = address;
      receiver.add_credit(WINDOW);
      return;
    }
    if (this.routes.take(receiver, address, 'in')) return;
    const found = this.address(address, undefined, 'ingressPhase');
    if (!found) return receiver.close(NO_ROUTE);
    this.join(receiver, found, true);
  }

  on_sender_close({ sender }) {
    this.link_gone(sender);
  }

  on_receiver_close({ receiver }) {
    this.link_gone(receiver);
  }

  on_session_close({ session }) {
    session.each_link((link) => this.link_gone(link));
  }

  link_gone(link) {
    if (link.gone) return;
    link.gone = true;
    const { ours } = link.connection;
    ours.links?.delete(link);
    if (link.counted) ours[link.counted] -= 1;
    if (link.temporary) this.temporaries.delete(unprefixed(link.temporary));
    if (link.auto) return this.auto_closed(link);
    if (link.routed) return this.routes.closed(link);
    this.leave(link);
  }

  // addresses

  /** The address in that phase; undefined where none may be used. */
  address(name, phase, of) {
    const entity = this.tables.treatment(name), treatment = entity?.distribution ?? this.distribution;
    const at = phase ?? entity?.[of] ?? 0, key = `${at} ${canonical(name)}`;
    if (phase === undefined && treatment === 'unavailable') return undefined;
    let found = this.addresses.get(key);
    if (!found) this.addresses.set(key, found = new Address(key, treatment));
    found.treatment = treatment;
    return found;
  }

  join(link, address, inward) {
    link.address = address;
    if (inward) {
      link.held = 0;
      address.ins.add(link);
      return this.top_up(link);
    }
    link.waiting = [];
    link.unsettled = new Set();
    address.outs.add(link);
    for (const one of address.ins) this.top_up(one);
    this.pump(address);
  }

  leave(link) {
    const address = link?.address;
    if (!address) return;
    link.address = undefined;
    address.ins.delete(link);
    if (address.outs.delete(link)) {
      for (const item of link.waiting) this.settle(item, released().described());
      for (const item of link.unsettled) this.settle(item, released().described());
      if (address.outs.size === 0) {
        for (const item of address.queue.splice(0)) this.settle(item, released().described());
        for (const one of address.ins) if (one.auto && one.credit > 0) one.drain_credit();
      }
    }
    if (address.ins.size + address.outs.size === 0) this.addresses.delete(address.key);
  }

  top_up(link) {
    const window = link.auto ? Number(link.auto.state?.entity.linkCapacity ?? WINDOW) : WINDOW;
    if (link.address?.outs.size && !link.drain) link.add_credit(window - link.credit - link.held);
  }

  on_receiver_drained({ receiver }) {
    receiver.drain = false;
    if (receiver.routed) return this.routes.drained(receiver);
    this.top_up(receiver);
  }

  on_message(event) {
    const { receiver, delivery } = event;
    if (receiver.routed) return this.routes.message(receiver, event.message.raw, delivery);
    const item = { raw: event.message.raw, delivery, link: receiver };
    if (receiver.management) {
      this.settle(item, accepted().described());
      receiver.add_credit(1);
      return this.request(read(event), receiver.connection.ours.id);
    }
    if (receiver.to !== undefined || receiver.anonymous) {
      receiver.add_credit(1);
      const to = receiver.to ?? this.local(receiver.connection, read(event).to ?? ''), temporary = this.temporaries.get(to);
      if (temporary && room(temporary) > 0) send(temporary, item.raw, { settled: true });
      const found = !temporary && this.address(to, undefined, 'ingressPhase');
      if (!found) return this.settle(item, temporary ? accepted().described() : released().described());
      return this.forward(found, item);
    }
    receiver.held = (receiver.held ?? 0) + 1;
    if (receiver.address) this.forward(receiver.address, item);
    else this.settle(item, released().described());
  }

  forward(address, item) {
    if (address.outs.size === 0) return this.settle(item, released().described());
    if (address.treatment === 'multicast') {
      for (const one of address.outs) {
        one.waiting.push({ raw: item.raw });
        this.drain_waiting(one);
      }
      return this.settle(item, accepted().described());
    }
    address.queue.push(item);
    this.pump(address);
  }

  pump(address) {
    while (address.queue.length) {
      let best;
      for (const one of address.outs) {
        if (room(one) > 0 && (!best || one.unsettled.size < best.unsettled.size)) best = one;
      }
      if (!best) return;
      this.put(best, address.queue.shift());
    }
  }

  drain_waiting(link) {
    while (link.waiting.length && room(link) > 0) this.put(link, link.waiting.shift());
  }

  put(link, item) {
    link.unsettled.add(item);
    // A broker gets again what has a header; the rest of the message is as it came.
    send(link, item.raw).item = item;
  }

  on_sendable({ sender }) {
    if (sender.later) return this.say_later(sender);
    if (sender.routed || !sender.address) return;
    this.drain_waiting(sender);
    this.pump(sender.address);
  }

  on_sender_flow({ sender }) {
    if (sender.routed) return this.routes.flow(sender);
    if (sender._draining) {
      if (sender.address) this.on_sendable({ sender });
      sender.set_drained(true);
      sender.connection._register();
    }
  }

  on_settled({ sender, delivery }) {
    if (!sender || !delivery.item) return;
    if (delivery.item.route) return this.routes.settled(delivery);
    sender.unsettled?.delete(delivery.item);
    this.settle(delivery.item, outcome(delivery.remote_state) ?? accepted().described());
  }

  settle(item, state) {
    if (!item.delivery || item.done) return;
    item.done = true;
    item.delivery.update(true, state);
    if (item.link.held) {
      item.link.held -= 1;
      this.top_up(item.link);
    }
  }

  /** An answer of management. @returns whether somebody took it. */
  reply(to, message) {
    const link = this.temporaries.get(unprefixed(to ?? ''));
    if (!link || !link.is_open() || credit(link) - (link.later?.length ?? 0) <= 0) return false;
    (link.later ??= []).push(encode(message));
    this.say_later(link);
    return true;
  }

  /** What the session has room for; the rest when it has some again. */
  say_later(link) {
    while (link.later.length && room(link) > 0) send(link, link.later.shift(), { settled: true });
  }

  // by hand

  cut() {
    for (const connection of [...this.connections.values()]) connection.ours.socket?.destroy() ?? connection.socket?.destroy();
    for (const server of [this.main, this.tenants]) for (const socket of server?.sockets ?? []) socket.destroy();
    for (const connection of [...this.connections.values()]) this.ended(connection);
  }

  /** All that management has made is gone, and every connection. */
  clear() {
    for (const state of this.connectors.values()) {
      state.gone = true;
      clearTimeout(state.timer);
      state.connection?.socket?.destroy();
    }
    for (const one of this.autoLinks.values()) clearTimeout(one.timer);
    for (const server of this.listeners.values()) {
      for (const socket of server.sockets) socket.destroy();
      server.close();
    }
    this.cut();
    for (const map of [this.connectors, this.autoLinks, this.listeners, this.addresses, this.temporaries]) map.clear();
    this.routes.clear();
  }

  /** Rows of the read-only tables. */
  seen(kind, type) {
    const rows = [];
    if (kind === 'node') rows.push({ name: this.id, identity: this.id, type, id: this.id });
    if (kind === 'routerAddress') {
      for (const one of this.addresses.values()) {
        rows.push({ name: `M${one.key.replace(' ', '')}`, identity: `M${one.key.replace(' ', '')}`, type, key: `M${one.key.replace(' ', '')}`,
          distribution: one.treatment, inProcess: 0, subscriberCount: one.outs.size });
      }
    }
    for (const connection of this.connections.values()) {
      const { ours } = connection;
      if (kind === 'connection') {
        rows.push({ name: `connection/${ours.id}`, identity: String(ours.id), type, container: connection.container_id ?? null,
          host: ours.where ?? `${ours.socket.remoteAddress}:${ours.socket.remotePort}`, dir: ours.dir, opened: true, active: true,
          role: ours.state ? ours.state.entity.role : 'normal', tenant: ours.prefix || null, isEncrypted: Boolean(ours.socket?.encrypted) });
      } else if (kind === 'link') {
        connection.each_link((link) => rows.push({ name: link.name, identity: `${ours.id}.${link.local.handle}`, type, linkName: link.name,
          linkType: 'endpoint', linkDir: link.is_receiver() ? 'in' : 'out', owningAddr: link.address ? `M${link.address.key.replace(' ', '')}` : null,
          connectionId: String(ours.id), capacity: WINDOW, unsettledCount: link.unsettled?.size ?? 0, undeliveredCount: link.waiting?.length ?? 0,
          operStatus: 'up' }));
      }
    }
    return rows;
  }
}
