#include "workers/messaging/testing/proton_json.h"

#include <limits>

namespace kintsugi::workers {

namespace {

using krm::Json;

constexpr int kMostDepth = 32;

std::string_view view(pn_bytes_t bytes) { return {bytes.start, bytes.size}; }
pn_bytes_t bytes(std::string_view text) { return pn_bytes(text.size(), text.data()); }

}  // namespace

Json json_of(pn_data_t* data, int depth) {
  switch (pn_data_type(data)) {
    case PN_BOOL:
      return pn_data_get_bool(data);
    case PN_UBYTE:
      return std::int64_t{pn_data_get_ubyte(data)};
    case PN_BYTE:
      return std::int64_t{pn_data_get_byte(data)};
    case PN_USHORT:
      return std::int64_t{pn_data_get_ushort(data)};
    case PN_SHORT:
      return std::int64_t{pn_data_get_short(data)};
    case PN_UINT:
      return std::int64_t{pn_data_get_uint(data)};
    case PN_INT:
      return std::int64_t{pn_data_get_int(data)};
    case PN_ULONG:
      return std::uint64_t{pn_data_get_ulong(data)};
    case PN_LONG:
      return std::int64_t{pn_data_get_long(data)};
    case PN_STRING:
      return view(pn_data_get_string(data));
    case PN_SYMBOL:
      return view(pn_data_get_symbol(data));
    case PN_LIST:
    case PN_MAP:
      break;
    default:
      return {};
  }
  const bool map = pn_data_type(data) == PN_MAP;
  Json out = map ? Json::object() : Json::array();
  if (depth >= kMostDepth || !pn_data_enter(data)) {
    return out;
  }
  while (pn_data_next(data)) {
    if (!map) {
      out.push_back(json_of(data, depth + 1));
      continue;
    }
    const Json key = json_of(data, depth + 1);
    if (!pn_data_next(data)) {
      break;
    }
    out[key.as_string()] = json_of(data, depth + 1);
  }
  pn_data_exit(data);
  return out;
}

void put_json(pn_data_t* data, const Json& value) {
  switch (value.type()) {
    case Json::Type::kBool:
      pn_data_put_bool(data, value.as_bool());
      return;
    case Json::Type::kInteger: {
      const std::int64_t number = value.as_integer();
      if (number >= std::numeric_limits<std::int32_t>::min() &&
          number <= std::numeric_limits<std::int32_t>::max()) {
        pn_data_put_int(data, static_cast<std::int32_t>(number));
      } else {
        pn_data_put_long(data, number);
      }
      return;
    }
    case Json::Type::kString:
      pn_data_put_string(data, bytes(value.as_string()));
      return;
    case Json::Type::kArray:
      pn_data_put_list(data);
      pn_data_enter(data);
      for (const Json& each : value.items()) {
        put_json(data, each);
      }
      pn_data_exit(data);
      return;
    case Json::Type::kObject:
      pn_data_put_map(data);
      pn_data_enter(data);
      for (const krm::JsonMember& member : value.members()) {
        pn_data_put_string(data, bytes(member.key));
        put_json(data, member.value);
      }
      pn_data_exit(data);
      return;
    default:
      pn_data_put_null(data);
  }
}

}  // namespace kintsugi::workers
