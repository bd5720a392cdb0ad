// Messages of hubs: the first line is the topic, the second the content type, the rest the payload.
// Whatever they say, readers give what their contracts allow.
#include <cstdint>
#include <string>
#include <string_view>

#include "fuzz/pieces.h"
#include "workers/delivery/protocol/resource_message.h"
#include "workers/delivery/protocol/topics.h"

namespace {

using namespace kintsugi;           // NOLINT
using namespace kintsugi::workers;  // NOLINT
using fuzz::check;

std::string_view take_line(std::string_view& text) {
  const std::size_t end = std::min(text.find('\n'), text.size());
  const std::string_view line = text.substr(0, end);
  text.remove_prefix(std::min(end + 1, text.size()));
  return line;
}

bool is_json(std::string_view text) { return krm::Json::parse(text).has_value(); }

}  // namespace

extern "C" int LLVMFuzzerTestOneInput(const std::uint8_t* data, std::size_t size) {
  std::string_view rest(reinterpret_cast<const char*>(data), size);
  const std::string_view topic = take_line(rest), type = take_line(rest);
  const auto where = parse_delivery_topic(topic, {"v1/", "/v1/"});
  if (where) {
    check(is_topic_level(where->uid) && is_topic_level(where->client));
    check(delivery_topic(where->prefix, where->client, where->uid, where->leaf) == topic);
  }
  ResourceMessageBounds bounds;
  bounds.unpacked.bytes = 1U << 16U;
  const std::string_view uid = where ? where->uid : "u";
  const auto out = parse_resource_message(type, rest, uid, bounds);
  if (!out) {
    check(!out.error().message.empty() && is_json(out.error().resource_generation_id));
    check(out.error().resource_generation_id.size() <= 256 && out.error().generation >= 0);
    return 0;
  }
  check(is_json(out->resource_generation_id) && out->resource_generation_id.size() <= 256);
  check(out->generation > 0 && out->uid == uid && !out->name.empty() && !out->kind.empty());
  check(out->name.find('/') == std::string::npos && out->ns.find('/') == std::string::npos);
  check(out->manifest.find("status") == nullptr);
  // What is read is the same when a hub sends it again.
  krm::Json again = out->manifest;
  again.make({"metadata", "uid"}) = out->uid;
  again.make({"metadata", "generation"}) = out->generation;
  const auto twice = parse_resource_message(
      "v1/json", encode_resource_message(1, out->resource_generation_id, again), uid,
      ResourceMessageBounds{});
  check(twice && twice->manifest == out->manifest &&
        twice->resource_generation_id == out->resource_generation_id);
  return 0;
}
