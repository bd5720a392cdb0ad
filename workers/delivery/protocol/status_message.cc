#include "workers/delivery/protocol/status_message.h"

#include "base/digest.h"

namespace kintsugi::workers {
namespace {

using krm::Json;

constexpr std::string_view kCut = "…";

std::string cut_text(const std::string& text, std::size_t most) {
  if (text.size() <= most) {
    return text;
  }
  std::size_t end = most - kCut.size();
  while (end > 0 && (static_cast<unsigned char>(text[end]) & 0xc0U) == 0x80U) {
    --end;
  }
  return text.substr(0, end) + std::string(kCut);
}

Json reconcile_status(const DeliveryStatus& status) {
  Json conditions = Json::array();
  for (const DeliveryCondition& condition : status.conditions) {
    conditions.push_back(Json::object({{"type", condition.type},
                                       {"status", condition.holds ? "True" : "False"},
                                       {"reason", condition.reason},
                                       {"message", condition.message}}));
  }
  Json out = Json::object({{"conditions", std::move(conditions)}});
  if (status.observed_generation) {
    out["observedGeneration"] = *status.observed_generation;
  }
  if (!status.creation_timestamp.empty()) {
    out["creationTimestamp"] = status.creation_timestamp;
  }
  return out;
}

}  // namespace

void bound_status(DeliveryStatus& status) {
  if (status.content_status.dump().size() > kMaxContentStatus) {
    status.content_status = Json::object({{"truncated", true}});
    if (!status.conditions.empty()) {
      std::string& message = status.conditions.front().message;
      message = "the status has more than 262144 bytes and is left out" +
                (message.empty() ? "" : "; " + message);
    }
  }
  for (DeliveryCondition& condition : status.conditions) {
    condition.message = cut_text(condition.message, kMaxConditionMessage);
  }
}

std::string encode_status(const DeliveryStatus& status, std::string_view resource_generation_id,
                          std::int64_t sent_timestamp) {
  std::string out =
      "{\"sentTimestamp\":" + std::to_string(sent_timestamp) + ",\"resourceGenerationID\":";
  out.append(resource_generation_id).append(",\"reconcileStatus\":");
  reconcile_status(status).dump_to(out);
  out += ",\"contentStatus\":";
  status.content_status.dump_to(out);
  out += '}';
  return out;
}

std::string status_hash(const DeliveryStatus& status) {
  std::string text = "{\"contentStatus\":";
  status.content_status.dump_to(text);
  text += ",\"reconcileStatus\":";
  reconcile_status(status).dump_to(text);
  text += '}';
  return sha256_hex(text);
}

}  // namespace kintsugi::workers
