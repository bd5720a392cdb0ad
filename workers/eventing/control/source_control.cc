#include "workers/eventing/control/source_control.h"

#include <optional>
#include <tuple>
#include <utility>

#include "krm/path_prefixes.h"
#include "workers/runtime/control/outcome_of.h"
#include "workers/runtime/status/finalizers.h"
#include "workers/runtime/status/status_write.h"

namespace kintsugi::workers {
namespace {

using krm::Json;

constexpr int kMostSourceWrites = 8;  ///< of one turn
constexpr Duration kSourcePasses = seconds(10);

std::string source_path(const Key& key) {
  return krm::cluster_root(key.cluster)
      .append(kKafkaSources.base())
      .append("/namespaces/")
      .append(key.ns)
      .append("/")
      .append(kKafkaSources.name)
      .append("/")
      .append(key.name);
}

}  // namespace

SourceControl::SourceControl(EventingSite& site)
    : site_(site), sources_(site.unit().follow<CachedSource>(kKafkaSources, source_projection())) {
  site_.groups().add_handler([this](const CacheChange& change) { group_changed(change); });
}

/// A group's name is the uid of its source.
void SourceControl::group_changed(const CacheChange& change) {
  if (change.initial || controller_ == nullptr) {
    return;  // sources that are loaded look at their groups
  }
  std::ignore =
      sources_->lookup(0, change.key.name, [&](const shards::ObjectKey& at, const CachedSource&) {
        if (at.cluster == change.key.cluster && at.ns == change.key.ns) {
          controller_->add({at.cluster, at.ns, at.name}, Priority::kLive);
        }
      });
}

void SourceControl::lay(const ApiAnswer& answer) {
  if (!answer.ok()) {
    return;
  }
  if (answer.body.text({"kind"}) == kConsumerGroups.kind) {
    site_.lay_group(answer.body);
  } else if (answer.body.text({"kind"}) == kKafkaSources.kind) {
    sources_->lay(answer.body, site_.unit().loop().now());
  }
}

net::Task<Outcome> SourceControl::reconcile(Key key) {
  const Step step = site_.unit().step(*controller_, key.view());
  for (int i = 0; i < kMostSourceWrites; ++i) {
    GroupWrite what = next(key);
    if (!what.write) {
      co_return what.outcome;
    }
    net::Task<ApiAnswer> writing = site_.unit().write(step, std::move(*what.write));
    const ApiAnswer answer = co_await writing;
    lay(answer);
    if (!answer.ok()) {
      const Outcome outcome = outcome_of(answer, what.kind);
      // What is gone is told by the watch.
      co_return outcome.kind == Outcome::Kind::kDone ? Outcome::error() : outcome;
    }
  }
  co_return Outcome::requeue_after({});
}

GroupWrite SourceControl::next(const Key& key) {
  const auto found = sources_->find({key.cluster, key.ns, key.name});
  if (!found || !site_.groups().synced()) {
    return ended(Outcome::requeue_after(milliseconds(100)));  // not everything is read yet
  }
  if (*found == nullptr) {
    passing_since_.erase(seen_key(key.cluster, key.ns, key.name));
    return ended(Outcome::done());
  }
  const CachedSource& source = **found;
  const CachedGroup* const group = find_in(site_.groups(), key.cluster, key.ns, source.uid);
  if (source.deleting) {
    return farewell(key, source, group);
  }
  const Json object = source.object.value();
  GroupWrite out;
  if (!source.has_finalizer) {
    if (auto patch = add_finalizer_patch(object, kSourceFinalizer)) {
      out.write = patch_of(source_path(key), std::move(*patch), kJsonPatch, WriteKind::kObject);
      return out;
    }
  }
  const Json wish = group_of_source(key.ns, key.name, object);
  const Key group_key{key.cluster, key.ns, source.uid};
  if (group == nullptr) {
    out.write.emplace();
    out.write->method = "POST";
    const std::string path = group_path(group_key);
    out.write->path = path.substr(0, path.rfind('/'));
    out.write->body = wish.dump();
    out.kind = RequestKind::kCreate;
    return out;
  }
  if (group->deleting) {
    return ended(Outcome::done());  // when it is gone it is made again
  }
  if (auto patch = group_patch(group->object.value(), wish)) {
    out.write = patch_of(group_path(group_key), std::move(*patch), kMergePatch, WriteKind::kObject);
    return out;
  }
  return write_status(key, source, object, group);
}

GroupWrite SourceControl::write_status(const Key& key, const CachedSource& source,
                                       const Json& object, const CachedGroup* group) {
  const TimePoint now = site_.unit().loop().now();
  const std::string text = seen_key(key.cluster, key.ns, key.name);
  if (is_group_passing(*group)) {
    const TimePoint since = passing_since_.emplace(text, now).first->second;
    if (now - since < kSourcePasses) {
      return ended(Outcome::requeue_after(kSourcePasses - (now - since)));
    }
  } else {
    passing_since_.erase(text);
  }
  const Json* const found = object.find("status");
  const Json had = found == nullptr ? Json::object() : *found;
  Json want = had;
  set_source_status(want, source.generation, group, site_.now());
  GroupWrite out;
  if (auto body = status_patch(had, want)) {
    out.write =
        patch_of(source_path(key) + "/status", std::move(*body), kMergePatch, WriteKind::kStatus);
  }
  return out;
}

/// Its group goes first.
GroupWrite SourceControl::farewell(const Key& key, const CachedSource& source,
                                   const CachedGroup* group) {
  GroupWrite out;
  if (group != nullptr && !group->deleting) {
    out.write.emplace();
    out.write->method = "DELETE";
    out.write->path = group_path({key.cluster, key.ns, source.uid});
    out.kind = RequestKind::kDelete;
  } else if (group == nullptr) {
    if (auto patch = remove_finalizer_patch(source.object.value(), kSourceFinalizer)) {
      out.write = patch_of(source_path(key), std::move(*patch), kJsonPatch, WriteKind::kObject);
    }
  }
  return out;
}

}  // namespace kintsugi::workers
