#include "workers/messaging/amqp/internal/proton_text.h"

#include <proton/codec.h>
#include <proton/condition.h>
#include <proton/connection.h>

#include <algorithm>

namespace kintsugi::workers {
namespace {

constexpr std::size_t kMostText = 512, kMostPeerText = 256;

std::string_view text_of(pn_data_t* data) {
  const pn_type_t type = pn_data_type(data);
  if (type != PN_STRING && type != PN_SYMBOL) {
    return {};
  }
  const pn_bytes_t bytes = pn_data_get_bytes(data);
  return {bytes.start, bytes.size};
}

}  // namespace

std::string ascii_text(std::string_view text) {
  std::string out(text.substr(0, kMostText));
  std::replace_if(
      out.begin(), out.end(), [](char c) { return c < ' ' || c > '~'; }, '?');
  return out;
}

std::string condition_text(pn_condition_t* condition) {
  if (condition == nullptr || !pn_condition_is_set(condition)) {
    return {};
  }
  const char* name = pn_condition_get_name(condition);
  const char* description = pn_condition_get_description(condition);
  std::string out = name == nullptr ? "" : name;
  if (description != nullptr && *description != '\0') {
    out += ": ";
    out += description;
  }
  return ascii_text(out);
}

AmqpPeer peer_of(pn_connection_t* connection) {
  AmqpPeer peer;
  const auto keep = [](std::string_view text) { return ascii_text(text.substr(0, kMostPeerText)); };
  if (const char* container = pn_connection_remote_container(connection)) {
    peer.container = keep(container);
  }
  pn_data_t* data = pn_connection_remote_properties(connection);
  if (data == nullptr) {
    return peer;
  }
  pn_data_rewind(data);
  if (!pn_data_next(data) || pn_data_type(data) != PN_MAP || !pn_data_enter(data)) {
    return peer;
  }
  while (pn_data_next(data)) {
    const std::string key(text_of(data).substr(0, kMostPeerText));
    if (!pn_data_next(data)) {
      break;
    }
    if (key == "product") {
      peer.product = keep(text_of(data));
    } else if (key == "version") {
      peer.version = keep(text_of(data));
    }
  }
  return peer;
}

}  // namespace kintsugi::workers
