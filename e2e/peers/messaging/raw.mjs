// npm rhea, so that messages, outcomes and coordinators pass through it unchanged. Import this in place of rhea.
import { createRequire } from 'node:module';

const require = createRequire(import.meta.url);
export const rhea = require('rhea');
const message = require('rhea/lib/message.js'), terminus = require('rhea/lib/terminus.js'), frames = require('rhea/lib/frames.js');
const Session = require('rhea/lib/session.js');
export const types = require('rhea/lib/types.js');
export const { accepted, released, rejected, modified } = message;

const decode = message.decode, unwrap_outcome = message.unwrap_outcome, unwrap_terminus = terminus.unwrap, transfer = frames.transfer;
const output = Session.prototype.output;
/** A message of an event has its bytes alone; `read` makes a message of them. */
message.decode = (data) => ({ raw: data });
export const read = (event) => decode(event.message.raw);
export const encode = message.encode;

const COORDINATOR = 0x30;
const code_of = (value) => Number(value?.descriptor?.value);
terminus.unwrap = (field) => (code_of(field) === COORDINATOR ? { coordinator: true, described: () => field } : unwrap_terminus(field));
export const is_coordinator = (target) => target?.coordinator === true;
/** A target that is a coordinator of transactions. */
export const coordinator = () => types.described(types.wrap_ulong(COORDINATOR), types.wrap_list([]));
// Declared and those within transactions stay as they came.
message.unwrap_outcome = (outcome) => (code_of(outcome) === 0x33 || code_of(outcome) === 0x34 ? outcome : unwrap_outcome(outcome));

/** That a delivery is part of a transaction. */
export const in_transaction = (id) => types.described(types.wrap_ulong(0x34), types.wrap_list([types.wrap_binary(id)]));
types.wrap_delivery_state = (state) => state;

/** The state in a transfer (of a transaction) is that of its delivery. */
Session.prototype.output = function (frame, payload) {
  if (frame && frame.delivery_tag !== undefined && frame.delivery_id !== undefined && frame.handle !== undefined) {
    const delivery = this.outgoing.deliveries.by_id(frame.delivery_id);
    if (delivery?.in_transfer) frame.state = delivery.in_transfer;
  }
  return output.call(this, frame, payload);
};

// A sender and a receiver of one session may have the same name; rhea would take the second for the first.
const key_of = (name, is_receiver) => `${is_receiver ? 'r' : 's'} ${name}`;
Session.prototype.create_link = function (name, constructor, options) {
  let handle = 0;
  while (this.local.handles[handle]) handle += 1;
  const link = new constructor(this, name, handle, options);
  this.links[key_of(name, link.is_receiver())] = link;
  this.local.handles[handle] = link;
  return link;
};
Session.prototype.remove_link = function (link) {
  delete this.remote.handles[link.remote.handle];
  delete this.local.handles[link.local.handle];
  delete this.links[key_of(link.name, link.is_receiver())];
};
Session.prototype.on_attach = function (frame) {
  const { name, role, handle } = frame.performative;
  const link = this.links[key_of(name, !role)] ?? (role ? this.create_sender(name) : this.create_receiver(name));
  this.remote.handles[handle] = link;
  link.on_attach(frame);
  link.remote.attach = frame.performative;
};

// What a peer has said of deliveries counts before that it closes, although both come at once: rhea tells of the first a turn later.
const Connection = require('rhea/lib/connection.js');
for (const [kind, name, sessions] of [[Session, 'on_detach', (session) => [session]], [Session, 'on_end', (session) => [session]],
  [Connection, 'on_close', (connection) => Object.values(connection.local_channel_map)]]) {
  const handle = kind.prototype[name];
  kind.prototype[name] = function (frame) {
    for (const session of sessions(this)) session.outgoing.process();
    return handle.call(this, frame);
  };
}

/** A link has the state of the transfer that its message is from. */
const on_transfer = Session.prototype.on_transfer;
Session.prototype.on_transfer = function (frame) {
  if (!this._get_link(frame)._incomplete) this._get_link(frame).transfer_state = frame.performative.state;
  return on_transfer.call(this, frame);
};

/** What a peer has said of a delivery, to be said of another one. */
export const outcome = (state) => (state && typeof state.described === 'function' ? state.described() : state);

/** A link's credit without what rhea has not written yet. */
export function credit(link) {
  const next = link.session.outgoing.next_pending_delivery;
  link.unsent ??= [];
  while (link.unsent.length && link.unsent[0] < next) link.unsent.shift();
  return link.credit - link.unsent.length;
}

/** Messages that may be sent on a link now. */
export const room = (link) => Math.min(credit(link), link.session.outgoing.available());

/** Sends bytes of a message on a link that has room. */
export function send(link, raw, { settled = false, state } = {}) {
  const delivery = link.send(raw, undefined, 0);
  (link.unsent ??= []).push(delivery.id);
  if (settled) delivery.settled = true;
  if (state) delivery.in_transfer = state;
  return delivery;
}
