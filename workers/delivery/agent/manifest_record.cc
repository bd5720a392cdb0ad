#include "workers/delivery/agent/manifest_record.h"

#include <utility>

namespace kintsugi::workers {

std::string ManifestRecord::encode() const {
  return krm::Json::object({{"generation", generation},
                            {"deleting", deleting},
                            {"answered", answered},
                            {"state", static_cast<std::int64_t>(state)},
                            {"id", id},
                            {"prefix", prefix},
                            {"hash", hash},
                            {"apiVersion", api_version},
                            {"kind", kind},
                            {"namespace", ns},
                            {"name", name},
                            {"target", target_uid},
                            {"content", content_hash},
                            {"status", status_hash}})
      .dump();
}

std::optional<ManifestRecord> ManifestRecord::decode(std::string_view text) {
  const auto json = krm::Json::parse(text);
  if (!json || !json->is_object()) {
    return std::nullopt;
  }
  const auto read = [&json](std::string_view key) { return std::string(json->text({key})); };
  const auto number = [&json](std::string_view key) {
    const krm::Json* const value = json->find(key);
    return value == nullptr ? -1 : value->as_integer(-1);
  };
  const auto flag = [&json](std::string_view key) {
    const krm::Json* const value = json->find(key);
    return value != nullptr && value->as_bool();
  };
  ManifestRecord out;
  out.generation = number("generation");
  const std::int64_t state = number("state");
  if (out.generation < 1 || state < 0 ||
      state > static_cast<std::int64_t>(ManifestState::kDeleted)) {
    return std::nullopt;
  }
  out.state = static_cast<ManifestState>(state);
  out.deleting = flag("deleting");
  out.answered = flag("answered");
  out.id = read("id");
  out.prefix = read("prefix");
  out.hash = read("hash");
  out.api_version = read("apiVersion");
  out.kind = read("kind");
  out.ns = read("namespace");
  out.name = read("name");
  out.target_uid = read("target");
  out.content_hash = read("content");
  out.status_hash = read("status");
  return out;
}

std::string RefusalRecord::encode() const {
  return krm::Json::object({{"generation", generation},
                            {"told", told},
                            {"id", id},
                            {"prefix", prefix},
                            {"hash", hash},
                            {"reason", reason},
                            {"message", message}})
      .dump();
}

std::optional<RefusalRecord> RefusalRecord::decode(std::string_view text) {
  const auto json = krm::Json::parse(text);
  if (!json || json->text({"reason"}).empty()) {
    return std::nullopt;
  }
  RefusalRecord out;
  const krm::Json* const generation = json->find("generation");
  const krm::Json* const told = json->find("told");
  out.generation = generation == nullptr ? 0 : generation->as_integer();
  out.told = told != nullptr && told->as_bool();
  out.id = json->text({"id"});
  out.prefix = json->text({"prefix"});
  out.hash = json->text({"hash"});
  out.reason = json->text({"reason"});
  out.message = json->text({"message"});
  return out;
}

ManifestVerdict judge_manifest(const ManifestRecord* known, const ResourceMessage& message,
                               std::string_view hash) noexcept {
  if (known == nullptr || message.generation > known->generation) {
    return ManifestVerdict::kTaken;
  }
  if (message.generation < known->generation || (known->deleting && !message.deleting)) {
    return ManifestVerdict::kOlder;
  }
  const bool again = known->hash == hash && known->state != ManifestState::kDeleted;
  return again ? ManifestVerdict::kSame : ManifestVerdict::kTaken;
}

ManifestRecord ordered(const ManifestRecord* known, const ResourceMessage& message,
                       std::string_view prefix, std::string hash) {
  ManifestRecord out;
  out.generation = message.generation;
  out.deleting = message.deleting;
  out.state = message.deleting ? ManifestState::kDeleting : ManifestState::kQueued;
  out.id = message.resource_generation_id;
  out.prefix = prefix;
  out.hash = std::move(hash);
  out.api_version = message.api_version;
  out.kind = message.kind;
  out.ns = message.ns;
  out.name = message.name;
  if (known != nullptr && known->deleting && message.deleting) {
    out.target_uid = known->target_uid;  // the same object is on its way
  }
  return out;
}

}  // namespace kintsugi::workers
