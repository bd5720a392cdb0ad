#include "workers/delivery/protocol/status_received.h"

#include <algorithm>

#include "base/strings.h"
#include "workers/delivery/protocol/content_type.h"
#include "workers/delivery/protocol/resource_message.h"

namespace kintsugi::workers {

const DeliveryCondition* ReceivedStatus::find(std::string_view type) const noexcept {
  const auto found = std::find_if(conditions.begin(), conditions.end(),
                                  [type](const auto& one) { return one.type == type; });
  return found == conditions.end() ? nullptr : &*found;
}

bool ReceivedStatus::is_deleted() const noexcept {
  const DeliveryCondition* const deleted = find("Deleted");
  return deleted != nullptr && deleted->holds;
}

Expected<ReceivedStatus> parse_status(
    std::string_view content_type, std::string_view payload,
    const std::vector<std::pair<std::string, std::string>>& user) {
  const auto codec = delivery_codec(content_type);
  if (!codec) {
    return fail(Errc::kBadRequest, "the content type is none of v1/json, v1/json+gzip");
  }
  auto text = unpack(*codec, payload, {});
  if (!text) {
    return fail(std::move(text.error()));
  }
  auto json = krm::Json::parse(*text);
  if (!json) {
    return fail(std::move(json.error()));
  }
  const krm::Json* const conditions = json->at({"reconcileStatus", "conditions"});
  if (conditions == nullptr || !conditions->is_array()) {
    return fail(Errc::kBadRequest, "it has no reconcileStatus.conditions");
  }
  ReceivedStatus out;
  for (const krm::Json& one : conditions->items()) {
    out.conditions.push_back({std::string(one.text({"type"})), one.text({"status"}) == "True",
                              std::string(one.text({"reason"})),
                              std::string(one.text({"message"}))});
  }
  if (const krm::Json* const status = json->find("contentStatus"); status != nullptr) {
    out.content_status = *status;
  }
  if (const std::string_view id = raw_member(*text, "resourceGenerationID"); !id.empty()) {
    out.resource_generation_id = id;
  }
  for (const auto& [name, value] : user) {
    if (name == "kintsugi-generation") {
      out.generation = parse_decimal<std::int64_t>(value).value_or(0);
    } else if (name == "kintsugi-seq") {
      out.sequence = parse_decimal<std::uint64_t>(value).value_or(0);
    } else if (name == "kintsugi-hash") {
      out.hash = value;
    }
  }
  out.json = std::move(*text);
  return out;
}

}  // namespace kintsugi::workers
