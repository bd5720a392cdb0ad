#include "store/etcd/wire/messages.h"

#include <utility>

#include "krm/protobuf_wire.h"

namespace kintsugi::store::etcd {
namespace {

using krm::put_bytes;
using krm::put_number;
using krm::WireField;
using krm::WireReader;
using krm::WireType;

constexpr std::uint64_t kTargetMod = 2;
constexpr std::uint64_t kLess = 2;
constexpr std::uint32_t kCompareRangeEnd = 64;

void put_flag(std::string& out, std::uint32_t field, bool value) {
  if (value) {
    put_number(out, field, 1);
  }
}
void put_some(std::string& out, std::uint32_t field, std::uint64_t value) {
  if (value != 0) {
    put_number(out, field, value);
  }
}
void put_text(std::string& out, std::uint32_t field, std::string_view value) {
  if (!value.empty()) {
    put_bytes(out, field, value);
  }
}

std::string encode_op(const TxnOp& op) {
  std::string inner;
  std::uint32_t field = 0;
  put_bytes(inner, 1, op.key);
  switch (op.kind) {
    case TxnOp::Kind::kRange:
      field = 1;
      put_flag(inner, 8, true);
      break;
    case TxnOp::Kind::kRead:
      field = 1;
      put_some(inner, 4, op.revision);
      break;
    case TxnOp::Kind::kPut:
      field = 2;
      put_text(inner, 2, op.value);
      break;
    case TxnOp::Kind::kDelete:
      field = 3;
      put_text(inner, 2, op.range_end);
      break;
  }
  std::string out;
  put_bytes(out, field, inner);
  return out;
}

/// Calls `visit` for every field; false: malformed, or `visit` said so.
template <typename Visit>
bool each_field(std::string_view bytes, const Visit& visit) {
  WireReader reader(bytes);
  WireField field;
  while (reader.next(field)) {
    if (!visit(field)) {
      return false;
    }
  }
  return !reader.malformed();
}

/// A field is of a type that its number has.
bool is_bytes(const WireField& field) { return field.type == WireType::kBytes; }

bool read_header(const WireField& field, Header& out) {
  return is_bytes(field) && each_field(field.bytes, [&out](const WireField& part) {
           switch (part.field) {
             case 1:
               out.cluster_id = part.number;
               break;
             case 2:
               out.member_id = part.number;
               break;
             case 3:
               out.revision = part.number;
               break;
             case 4:
               out.raft_term = part.number;
               break;
             default:
               break;
           }
           return true;
         });
}

bool read_kv(const WireField& field, KeyValue& out) {
  return is_bytes(field) && each_field(field.bytes, [&out](const WireField& part) {
           switch (part.field) {
             case 1:
               out.key = part.bytes;
               break;
             case 2:
               out.create_revision = part.number;
               break;
             case 3:
               out.mod_revision = part.number;
               break;
             case 4:
               out.version = part.number;
               break;
             case 5:
               out.value = part.bytes;
               break;
             default:
               break;
           }
           return true;
         });
}

bool read_event(const WireField& field, WatchedEvent& out) {
  return is_bytes(field) && each_field(field.bytes, [&out](const WireField& part) {
           if (part.field == 1) {
             out.is_delete = part.number == 1;
           }
           return part.field != 2 || read_kv(part, out.kv);
         });
}

bool read_response_op(const WireField& field, std::vector<RangeResponse>& out) {
  return is_bytes(field) && each_field(field.bytes, [&out](const WireField& part) {
           if (part.field != 1) {
             return true;
           }
           RangeResponse range;
           const bool fine = is_bytes(part) && decode(part.bytes, range);
           out.push_back(std::move(range));
           return fine;
         });
}

bool read_member(const WireField& field, Member& out) {
  return is_bytes(field) && each_field(field.bytes, [&out](const WireField& part) {
           switch (part.field) {
             case 1:
               out.id = part.number;
               break;
             case 2:
               out.name = part.bytes;
               break;
             case 4:
               out.client_urls.push_back(part.bytes);
               break;
             case 5:
               out.is_learner = part.number != 0;
               break;
             default:
               break;
           }
           return true;
         });
}

}  // namespace

std::string encode(const RangeRequest& request) {
  std::string out;
  put_bytes(out, 1, request.key);
  put_text(out, 2, request.range_end);
  put_some(out, 3, request.limit);
  put_some(out, 4, request.revision);
  put_flag(out, 7, request.serializable);
  put_flag(out, 8, request.keys_only);
  put_flag(out, 9, request.count_only);
  put_some(out, 10, request.min_mod_revision);
  return out;
}

std::string encode(const TxnRequest& request) {
  std::string out;
  for (const Compare& compare : request.compares) {
    std::string one;
    put_some(one, 1, compare.range_end.empty() ? 0 : kLess);
    put_number(one, 2, kTargetMod);
    put_bytes(one, 3, compare.key);
    put_number(one, 6, compare.mod_revision);
    put_text(one, kCompareRangeEnd, compare.range_end);
    put_bytes(out, 1, one);
  }
  for (const TxnOp& op : request.success) {
    put_bytes(out, 2, encode_op(op));
  }
  for (const TxnOp& op : request.failure) {
    put_bytes(out, 3, encode_op(op));
  }
  return out;
}

std::string encode(const WatchCreate& request) {
  std::string create;
  put_bytes(create, 1, request.key);
  put_text(create, 2, request.range_end);
  put_some(create, 3, request.start_revision);
  put_flag(create, 8, request.fragment);
  std::string out;
  put_bytes(out, 1, create);
  return out;
}

std::string encode_progress_request() {
  std::string out;
  put_bytes(out, 3, {});
  return out;
}

std::string encode_put(std::string_view key, std::string_view value, std::uint64_t lease) {
  std::string out;
  put_bytes(out, 1, key);
  put_text(out, 2, value);
  put_some(out, 3, lease);
  return out;
}

std::string encode_lease_grant(std::uint64_t ttl) {
  std::string out;
  put_number(out, 1, ttl);
  return out;
}

std::string encode_lease_revoke(std::uint64_t lease) {
  std::string out;
  put_number(out, 1, lease);
  return out;
}

std::string encode_compaction(std::uint64_t revision) {
  std::string out;
  put_number(out, 1, revision);
  return out;
}

std::string encode_authenticate(std::string_view name, std::string_view password) {
  std::string out;
  put_bytes(out, 1, name);
  put_bytes(out, 2, password);
  return out;
}

std::string encode_alarm(std::uint64_t action, const Alarm& alarm) {
  std::string out;
  put_some(out, 1, action);
  put_some(out, 2, alarm.member_id);
  put_some(out, 3, alarm.alarm);
  return out;
}

bool decode(std::string_view bytes, RangeResponse& out) {
  return each_field(bytes, [&out](const WireField& field) {
    switch (field.field) {
      case 1:
        return read_header(field, out.header);
      case 2:
        return read_kv(field, out.kvs.emplace_back());
      case 3:
        out.more = field.number != 0;
        return true;
      case 4:
        out.count = field.number;
        return true;
      default:
        return true;
    }
  });
}

bool decode(std::string_view bytes, TxnResponse& out) {
  return each_field(bytes, [&out](const WireField& field) {
    switch (field.field) {
      case 1:
        return read_header(field, out.header);
      case 2:
        out.succeeded = field.number != 0;
        return true;
      case 3:
        return read_response_op(field, out.ranges);
      default:
        return true;
    }
  });
}

bool decode(std::string_view bytes, WatchResponse& out) {
  return each_field(bytes, [&out](const WireField& field) {
    switch (field.field) {
      case 1:
        return read_header(field, out.header);
      case 3:
        out.created = field.number != 0;
        return true;
      case 4:
        out.canceled = field.number != 0;
        return true;
      case 5:
        out.compact_revision = field.number;
        return true;
      case 6:
        out.cancel_reason = field.bytes;
        return true;
      case 7:
        out.fragment = field.number != 0;
        return true;
      case 11:
        return read_event(field, out.events.emplace_back());
      default:
        return true;
    }
  });
}

bool decode(std::string_view bytes, StatusResponse& out) {
  return each_field(bytes, [&out](const WireField& field) {
    switch (field.field) {
      case 1:
        return read_header(field, out.header);
      case 2:
        out.version = field.bytes;
        return true;
      case 3:
        out.db_size = field.number;
        return true;
      case 4:
        out.leader = field.number;
        return true;
      case 10:
        out.is_learner = field.number != 0;
        return true;
      default:
        return true;
    }
  });
}

bool decode(std::string_view bytes, MemberListResponse& out) {
  return each_field(bytes, [&out](const WireField& field) {
    if (field.field == 1) {
      return read_header(field, out.header);
    }
    return field.field != 2 || read_member(field, out.members.emplace_back());
  });
}

bool decode(std::string_view bytes, AlarmResponse& out) {
  return each_field(bytes, [&out](const WireField& field) {
    if (field.field == 1) {
      return read_header(field, out.header);
    }
    if (field.field != 2) {
      return true;
    }
    Alarm& alarm = out.alarms.emplace_back();
    return is_bytes(field) && each_field(field.bytes, [&alarm](const WireField& part) {
             if (part.field == 1) {
               alarm.member_id = part.number;
             } else if (part.field == 2) {
               alarm.alarm = part.number;
             }
             return true;
           });
  });
}

bool decode(std::string_view bytes, Header& out) {
  return each_field(bytes, [&out](const WireField& field) {
    return field.field != 1 || read_header(field, out);
  });
}

bool decode_lease_grant(std::string_view bytes, std::uint64_t& lease) {
  return each_field(bytes, [&lease](const WireField& field) {
    if (field.field == 2) {
      lease = field.number;
    }
    return true;
  });
}

bool decode_authenticate(std::string_view bytes, std::string& token) {
  return each_field(bytes, [&token](const WireField& field) {
    if (field.field == 2) {
      token = field.bytes;
    }
    return true;
  });
}

std::string prefix_end(std::string_view prefix) {
  std::string end(prefix);
  while (!end.empty() && static_cast<unsigned char>(end.back()) == 0xFF) {
    end.pop_back();
  }
  if (!end.empty()) {
    end.back() = static_cast<char>(end.back() + 1);
  }
  return end;
}

}  // namespace kintsugi::store::etcd
