#include "workers/delivery/agent/target.h"

#include <algorithm>
#include <utility>

#include "base/digest.h"

namespace kintsugi::workers {
namespace {

constexpr Duration kRevertEvery = seconds(10), kContendedEvery = std::chrono::minutes(5),
                   kRevertWindow = std::chrono::minutes(10);
constexpr unsigned kMostReverts = 10;
constexpr std::string_view kNotContent[] = {"managedFields",
                                            "resourceVersion",
                                            "generation",
                                            "uid",
                                            "creationTimestamp",
                                            "deletionTimestamp",
                                            "deletionGracePeriodSeconds",
                                            "selfLink"};

DeliveryStatus status_of(const char* type, bool holds, std::string_view reason, std::string message,
                         const Target* target) {
  DeliveryStatus out;
  out.conditions = {{type, holds, std::string(reason), std::move(message)}};
  if (target != nullptr) {
    if (target->generation > 0) {
      out.observed_generation = target->generation;
    }
    out.creation_timestamp = target->creation;
    out.content_status = target->status.value();
  }
  bound_status(out);
  return out;
}

}  // namespace

Target make_target(const krm::Json& object) {
  Target out;
  const krm::Json* const meta = object.find("metadata");
  if (meta == nullptr) {
    return out;
  }
  out.uid = meta->text({"uid"});
  out.server_uid = meta->text({"annotations", kServerUid});
  out.revision = meta->text({"resourceVersion"});
  out.creation = meta->text({"creationTimestamp"});
  out.labelled = meta->text({"labels", kDeliveryLabel}) == "True";
  out.deleting = meta->find("deletionTimestamp") != nullptr;
  if (const krm::Json* const generation = meta->find("generation")) {
    out.generation = generation->as_integer();
  }
  if (const krm::Json* const finalizers = meta->find("finalizers")) {
    for (const krm::Json& one : finalizers->items()) {
      out.finalizers.emplace_back(one.as_string());
    }
  }
  if (const krm::Json* const status = object.find("status")) {
    out.status = KeptJson(*status);
  }
  krm::Json content = object;
  for (const char* const name : {"status", "apiVersion", "kind"}) {  // lists leave the last two out
    content.erase(name);
  }
  for (const std::string_view name : kNotContent) {
    content.find("metadata")->erase(name);
  }
  out.content_hash = sha256_hex(content.dump());
  return out;
}

bool may_own(const Target& target, std::string_view uid, DeliveryAdoption adopt) {
  if (!target.server_uid.empty()) {
    return target.server_uid == uid;
  }
  return adopt == DeliveryAdoption::kAlways ||
         (adopt == DeliveryAdoption::kLabelled && target.labelled);
}

std::string apply_body(krm::Json manifest, const ManifestRecord& record, std::string_view uid,
                       bool namespaced) {
  krm::Json& meta = manifest["metadata"];
  if (!namespaced) {
    meta.erase("namespace");
  }
  meta["labels"][kDeliveryLabel] = "True";
  meta["annotations"][kServerUid] = uid;
  meta["annotations"][kServerGeneration] = std::to_string(record.generation);
  return manifest.dump();
}

DeliveryStatus reconciled_status(bool holds, std::string_view reason, std::string message,
                                 const Target* target) {
  return status_of("Reconciled", holds, reason, std::move(message), target);
}

DeliveryStatus deleted_status(bool holds, std::string_view reason, std::string message,
                              const Target* target) {
  return status_of("Deleted", holds, reason, std::move(message), target);
}

Duration RevertPacer::wait(TimePoint now) const noexcept {
  if (count_ == 0) {
    return Duration::zero();
  }
  const Duration rest = contended(now) ? kContendedEvery : kRevertEvery;
  return std::max(last_ + rest - now, Duration::zero());
}

void RevertPacer::reverted(TimePoint now) noexcept {
  if (count_ == 0 || now - since_ > kRevertWindow) {
    since_ = now;
    count_ = 0;
  }
  ++count_;
  last_ = now;
}

bool RevertPacer::contended(TimePoint now) const noexcept {
  return count_ >= kMostReverts && now - since_ <= kRevertWindow;
}

}  // namespace kintsugi::workers
