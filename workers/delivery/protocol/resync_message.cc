#include "workers/delivery/protocol/resync_message.h"

#include <utility>

#include "krm/json.h"
#include "workers/delivery/protocol/topics.h"

namespace kintsugi::workers {
namespace {

using krm::Json;

constexpr std::string_view kVersionList = "VersionList", kStatusHashList = "StatusHashList";
constexpr std::size_t kMaxBatches = 1'000, kMaxId = 64, kHeadBytes = 256;

Json item_of(ResyncKind kind, const ResyncItem& item) {
  if (kind == ResyncKind::kStatusHashes) {
    return Json::object(
        {{"uid", item.uid}, {"statusHash", item.status_hash.substr(0, kLeastStatusHash)}});
  }
  Json out = Json::object({{"uid", item.uid}, {"generation", item.generation}});
  if (item.deleted) {
    out["deleted"] = true;
  }
  return out;
}

/// nullopt: it is none.
std::optional<ResyncItem> item_of(ResyncKind kind, const Json& json) {
  ResyncItem out;
  out.uid = json.text({"uid"});
  if (!is_topic_level(out.uid) || out.uid.size() > kMaxDeliveryUid) {
    return std::nullopt;
  }
  if (kind == ResyncKind::kStatusHashes) {
    out.status_hash = json.text({"statusHash"});
    return out;
  }
  const Json* const generation = json.find("generation");
  const Json* const deleted = json.find("deleted");
  if (generation == nullptr || !generation->is_integer() || generation->as_integer() < 0) {
    return std::nullopt;
  }
  out.generation = generation->as_integer();
  out.deleted = deleted != nullptr && deleted->as_bool();
  return out;
}

std::size_t count_of(const Json& json, std::string_view name) {
  const Json* const value = json.find(name);
  const std::int64_t number = value == nullptr ? 1 : value->as_integer(0);
  return number < 1 || number > static_cast<std::int64_t>(kMaxBatches)
             ? 0
             : static_cast<std::size_t>(number);
}

}  // namespace

std::vector<std::string> encode_resync(ResyncKind kind, const std::string& id,
                                       const std::vector<ResyncItem>& items) {
  std::vector<Json> batches{Json::array()};
  std::size_t bytes = kHeadBytes;
  for (const ResyncItem& item : items) {
    Json one = item_of(kind, item);
    const std::size_t size = one.dump().size() + 1;
    if (batches.back().size() == kMaxResyncItems || bytes + size > kMaxResyncBytes) {
      batches.push_back(Json::array());
      bytes = kHeadBytes;
    }
    bytes += size;
    batches.back().push_back(std::move(one));
  }
  std::vector<std::string> out;
  for (Json& batch : batches) {
    out.push_back(
        Json::object({{"kind", kind == ResyncKind::kVersions ? kVersionList : kStatusHashList},
                      {"id", id},
                      {"batch", static_cast<std::int64_t>(out.size() + 1)},
                      {"of", static_cast<std::int64_t>(batches.size())},
                      {"items", std::move(batch)}})
            .dump());
  }
  return out;
}

Expected<ResyncBatch> parse_resync(std::string_view json) {
  const auto wrong = [](const char* what) { return fail(Errc::kBadRequest, what); };
  if (json.size() > kMaxResyncBytes) {
    return wrong("the batch is too large");
  }
  auto parsed = Json::parse(json);
  if (!parsed) {
    return fail(std::move(parsed.error()));
  }
  ResyncBatch out;
  const std::string_view kind = parsed->text({"kind"});
  if (kind != kVersionList && kind != kStatusHashList) {
    return wrong("kind must be VersionList or StatusHashList");
  }
  out.kind = kind == kVersionList ? ResyncKind::kVersions : ResyncKind::kStatusHashes;
  out.id = parsed->text({"id"});
  out.batch = count_of(*parsed, "batch");
  out.of = count_of(*parsed, "of");
  if (out.batch == 0 || out.of == 0 || out.batch > out.of || out.id.size() > kMaxId) {
    return wrong("batch must be from 1 to of");
  }
  const Json* const items = parsed->find("items");
  if (items == nullptr || !items->is_array() || items->size() > kMaxResyncItems) {
    return wrong("items must be a list of at most 1000");
  }
  for (const Json& one : items->items()) {
    auto item = item_of(out.kind, one);
    if (!item) {
      return wrong("an item has no uid, or no generation");
    }
    out.items.push_back(std::move(*item));
  }
  return out;
}

std::optional<std::vector<ResyncItem>> ResyncList::take(ResyncBatch batch) {
  if (batch.id != id_ || seen_.size() != batch.of) {
    id_ = batch.id;
    seen_.assign(batch.of, false);
    missing_ = batch.of;
    items_.clear();
  }
  if (seen_[batch.batch - 1]) {
    return std::nullopt;  // by QoS 1 it may come twice
  }
  seen_[batch.batch - 1] = true;
  items_.insert(items_.end(), std::make_move_iterator(batch.items.begin()),
                std::make_move_iterator(batch.items.end()));
  if (--missing_ > 0) {
    return std::nullopt;
  }
  seen_.clear();
  id_.clear();
  return std::exchange(items_, {});
}

}  // namespace kintsugi::workers
