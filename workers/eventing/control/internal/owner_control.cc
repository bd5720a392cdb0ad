#include "workers/eventing/control/internal/owner_control.h"

#include <tuple>
#include <utility>

#include "krm/path_prefixes.h"
#include "workers/runtime/control/outcome_of.h"
#include "workers/runtime/status/finalizers.h"
#include "workers/runtime/status/status_write.h"

namespace kintsugi::workers {
namespace {

using krm::Json;

constexpr int kMostOwnerWrites = 8;  ///< of one turn
constexpr Duration kPasses = seconds(10);

}  // namespace

OwnerControl::OwnerControl(EventingSite& site, const Resource& kind, std::string_view finalizer,
                           const Projection<CachedOwner>& projection)
    : site_(site),
      kind_(kind),
      finalizer_(finalizer),
      owners_(site.unit().follow<CachedOwner>(kind, projection)) {
  site_.groups().add_handler([this](const CacheChange& change) { group_changed(change); });
}

/// A group's name is the uid of its owner.
void OwnerControl::group_changed(const CacheChange& change) {
  if (change.initial || controller_ == nullptr) {
    return;  // owners that are loaded look at their groups
  }
  std::ignore =
      owners_->lookup(0, change.key.name, [&](const shards::ObjectKey& at, const CachedOwner&) {
        if (at.cluster == change.key.cluster && at.ns == change.key.ns) {
          controller_->add({at.cluster, at.ns, at.name}, Priority::kLive);
        }
      });
}

void OwnerControl::lay(const ApiAnswer& answer) {
  if (!answer.ok()) {
    return;
  }
  if (answer.body.text({"kind"}) == kConsumerGroups.kind) {
    site_.lay_group(answer.body);
  } else if (answer.body.text({"kind"}) == kind_.kind) {
    owners_->lay(answer.body, site_.unit().loop().now());
  }
}

net::Task<Outcome> OwnerControl::reconcile(Key key) {
  const Step step = site_.unit().step(*controller_, key.view());
  for (int i = 0; i < kMostOwnerWrites; ++i) {
    GroupWrite what = look(key);
    if (!what.write) {
      co_return what.outcome;
    }
    net::Task<ApiAnswer> writing = site_.unit().write(step, std::move(*what.write));
    const ApiAnswer answer = co_await writing;
    lay(answer);
    if (what.then) {
      what.then(answer);
    }
    if (!answer.ok()) {
      const Outcome outcome = outcome_of(answer, what.kind);
      // What is gone is told by the watch.
      co_return outcome.kind == Outcome::Kind::kDone ? Outcome::error() : outcome;
    }
  }
  co_return Outcome::requeue_after({});
}

GroupWrite OwnerControl::look(const Key& key) {
  const auto found = owners_->find({key.cluster, key.ns, key.name});
  if (!found || !site_.groups().synced()) {
    return ended(Outcome::requeue_after(milliseconds(100)));  // not everything is read yet
  }
  if (*found == nullptr) {
    passing_since_.erase(seen_key(key.cluster, key.ns, key.name));
    return ended(Outcome::done());
  }
  const CachedOwner& owner = **found;
  Turn turn{key, owner, find_in(site_.groups(), key.cluster, key.ns, owner.uid),
            owner.object.value(), Json::object()};
  if (const Json* const status = turn.object.find("status")) {
    turn.status = *status;
  }
  return owner.deleting ? farewell(turn) : next(turn);
}

std::string OwnerControl::path(const Turn& turn) const {
  return krm::cluster_root(turn.key.cluster)
      .append(kind_.base())
      .append("/namespaces/")
      .append(turn.key.ns)
      .append("/")
      .append(kind_.name)
      .append("/")
      .append(turn.key.name);
}

std::optional<GroupWrite> OwnerControl::need_finalizer(const Turn& turn) const {
  if (turn.owner.has_finalizer) {
    return std::nullopt;
  }
  auto patch = add_finalizer_patch(turn.object, finalizer_);
  if (!patch) {
    return std::nullopt;
  }
  GroupWrite out;
  out.write = patch_of(path(turn), std::move(*patch), kJsonPatch, WriteKind::kObject);
  return out;
}

std::optional<GroupWrite> OwnerControl::keep_group(const Turn& turn, const Json& wish) const {
  GroupWrite out;
  const std::string at = group_path({turn.key.cluster, turn.key.ns, turn.owner.uid});
  if (turn.group == nullptr) {
    out.write.emplace();
    out.write->method = "POST";
    out.write->path = at.substr(0, at.rfind('/'));
    out.write->body = wish.dump();
    out.kind = RequestKind::kCreate;
    return out;
  }
  if (turn.group->deleting) {
    return ended(Outcome::done());  // when it is gone it is made again
  }
  auto patch = group_patch(turn.group->object.value(), wish);
  if (!patch) {
    return std::nullopt;
  }
  out.write = patch_of(at, std::move(*patch), kMergePatch, WriteKind::kObject);
  return out;
}

std::optional<Duration> OwnerControl::passes(const Turn& turn) {
  const TimePoint now = site_.unit().loop().now();
  const std::string text = seen_key(turn.key.cluster, turn.key.ns, turn.key.name);
  if (turn.group == nullptr || !is_group_passing(*turn.group)) {
    passing_since_.erase(text);
    return std::nullopt;
  }
  const Duration gone = now - passing_since_.emplace(text, now).first->second;
  return gone < kPasses ? std::optional(kPasses - gone) : std::nullopt;
}

GroupWrite OwnerControl::write_status(const Turn& turn, const Json& want, bool guarded) const {
  GroupWrite out;
  const std::string_view seen =
      guarded ? turn.object.text({"metadata", "resourceVersion"}) : std::string_view();
  if (auto body = status_patch(turn.status, want, seen)) {
    out.write = patch_of(path(turn) + "/status", std::move(*body), kMergePatch, WriteKind::kStatus);
  }
  return out;
}

GroupWrite OwnerControl::farewell(const Turn& turn) const {
  GroupWrite out;
  if (turn.group != nullptr && !turn.group->deleting) {
    out.write.emplace();
    out.write->method = "DELETE";
    out.write->path = group_path({turn.key.cluster, turn.key.ns, turn.owner.uid});
    out.kind = RequestKind::kDelete;
  } else if (turn.group == nullptr) {
    if (auto patch = remove_finalizer_patch(turn.object, finalizer_)) {
      out.write = patch_of(path(turn), std::move(*patch), kJsonPatch, WriteKind::kObject);
    }
  }
  return out;
}

}  // namespace kintsugi::workers
