// Link routes of the router stand-in: a client's link is one of the broker's, its credit, messages and outcomes pass through.
import { coordinator, in_transaction, is_coordinator, outcome, released, room, send, types } from './raw.mjs';
import { matches, segments } from './tables.mjs';
import { NO_ROUTE } from './plane.mjs';

const LOST = { condition: 'qd:routed-link-lost', description: 'Connectivity to the peer container was lost' };

export class LinkRoutes {
  constructor(plane) {
    Object.assign(this, { plane, entities: new Map(), next: 1 });
  }

  add(entity) {
    this.entities.set(entity.identity, entity);
    this.refresh();
  }

  remove(entity) {
    this.entities.delete(entity.identity);
  }

  clear() {
    this.entities.clear();
  }

  refresh() {
    for (const one of this.entities.values()) one.operStatus = this.plane.reach(one).length ? 'active' : 'inactive';
  }

  lost() {
    this.refresh();
  }

  find(address, direction) {
    const parts = segments(address);
    let best, weight = -1;
    for (const one of this.entities.values()) {
      if (one.direction !== direction) continue;
      const words = one.prefix !== null ? [...segments(one.prefix), '#'] : segments(one.pattern);
      const own = words.filter((word) => word !== '*' && word !== '#').length;
      if (own > weight && matches(words, parts)) [best, weight] = [one, own];
    }
    return best;
  }

  /** Routes a client's link, if a link route has its address. Its attach is answered when the broker has answered. */
  take(link, address, direction) {
    const entity = this.find(address, direction);
    if (!entity) return false;
    const [state] = this.plane.reach(entity).sort((one, other) => (one.links ?? 0) - (other.links ?? 0));
    if (!state) {
      link.close(NO_ROUTE);
      return true;
    }
    state.links = (state.links ?? 0) + 1;
    Object.assign(link.state, { local_open: false, open_requests: 0 });
    let external = address;
    if (entity.delExternalPrefix && external.startsWith(entity.delExternalPrefix)) external = external.slice(entity.delExternalPrefix.length);
    if (entity.addExternalPrefix) external = entity.addExternalPrefix + external;
    const session = state.connection.create_session(), inward = link.is_receiver();
    session.begin();
    const options = { name: `${link.name}.${this.plane.id}.${this.next++}`, credit_window: 0, snd_settle_mode: link.snd_settle_mode,
      rcv_settle_mode: link.rcv_settle_mode };
    const other = inward ? session.create_sender(options.name, options) : session.create_receiver(options.name, options);
    for (const key of ['source', 'target']) {
      const value = link[key];
      other.local.attach[key] = is_coordinator(value) ? coordinator() : value ? value.described() : undefined;
    }
    const end = inward ? 'target' : 'source';
    if (!is_coordinator(link[end])) other.local.attach[end] = at_address(link[end], external);
    (state.connection.ours.links ??= new Set()).add(other);
    link.routed = { peer: other, entity, state, session };
    other.routed = { peer: link, entity, state, session };
    other.attach();
    return true;
  }

  /** The broker has answered. */
  opened(other) {
    const link = other.routed.peer, inward = link.is_receiver();
    if (inward ? !other.target : !other.source) return; // the detach with the reason follows
    link.attach();
    if (!inward) this.flow(link);
  }

  flow(link) {
    const other = link.routed.peer;
    if (!other.is_open()) return;
    const more = room(link) - other.credit;
    if (more > 0) other.add_credit(more);
    if (link._draining && !link.connection.ours.state) other.drain_credit();
  }

  drained(other) {
    const link = other.routed.peer;
    link.set_drained(true);
    link.connection._register();
  }

  message(link, raw, delivery) {
    const other = link.routed.peer;
    if (!other.is_open()) return delivery.update(true, released().described());
    const [transaction] = Array.isArray(link.transfer_state) ? link.transfer_state : []; // what rhea leaves of it
    const sent = send(other, raw, { settled: delivery.remote_settled, state: transaction && in_transaction(transaction) });
    if (delivery.remote_settled) delivery.update(true);
    else sent.item = { route: true, delivery };
  }

  settled(delivery) {
    delivery.item.delivery.update(true, outcome(delivery.remote_state));
  }

  closed(link) {
    const { peer, state, session } = link.routed, error = link.error;
    if (peer.gone) return;
    peer.gone = true;
    state.links -= 1;
    if (!peer.state.local_open) peer.state.open(); // attach and detach, as nobody has answered the attach yet
    const lost = link.connection.ours.state && !link.connection.is_open();
    peer.close(error ? { condition: error.condition, description: error.description } : lost ? LOST : undefined);
    peer.connection._register();
    if (peer.connection.ours.state) setTimeout(() => session.close(), 50).unref();
    else if (peer.counted) peer.connection.ours[peer.counted] -= 1;
  }
}

/** The same source or target with another address. */
function at_address(terminus, address) {
  return Object.assign(Object.create(Object.getPrototypeOf(terminus)), terminus,
    { value: [types.wrap_string(address), ...terminus.value.slice(1)] }).described();
}
