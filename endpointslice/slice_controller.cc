#include "endpointslice/slice_controller.h"

#include "base/time.h"
#include "topology/conditions.h"

namespace kintsugi::endpointslice {
namespace {

using krm::Json;
using topology::Objects;

constexpr std::string_view kGroup = "apis.kcp.io";
constexpr std::string_view kSlices = "apiexportendpointslices";

std::string key_of(std::string_view cluster, std::string_view name) {
  return std::string(cluster) + "|" + std::string(name);
}
std::string_view cluster_of(const Json& object) {
  return object.text({"metadata", "annotations", "kcp.io/cluster"});
}

}  // namespace

SliceController::SliceController(net::Loop& loop, Objects& objects, World& world,
                                 SliceDefaults defaults)
    : objects_(objects),
      world_(world),
      defaults_(std::move(defaults)),
      slices_(loop, [this](const std::string& key,
                           net::WorkQueue::Finished done) { reconcile(key, std::move(done)); }),
      defaults_queue_(loop, [this](const std::string& key, net::WorkQueue::Finished done) {
        reconcile_default(key, std::move(done));
      }) {
  subscriptions_.push_back(
      objects_.on_change(kGroup, kSlices, [this](const Objects::Change& change) {
        if (change.object != nullptr) {
          slices_.add(key_of(change.cluster, change.name));
          return;
        }
        // A default slice is made again.
        defaults_queue_.add(key_of(change.cluster, change.name));
      }));
  subscriptions_.push_back(
      objects_.on_change("topology.kcp.io", "partitions", [this](const Objects::Change& change) {
        objects_.list(change.cluster, kGroup, kSlices, [&](const Json& slice) {
          if (slice.text({"spec", "partition"}) == change.name) {
            slices_.add(key_of(change.cluster, slice.text({"metadata", "name"})));
          }
          return true;
        });
      }));
  mark_all();
}

void SliceController::mark_all() {
  objects_.list("*", kGroup, kSlices, [this](const Json& slice) {
    slices_.add(key_of(cluster_of(slice), slice.text({"metadata", "name"})));
    return true;
  });
}

void SliceController::shards_changed() { mark_all(); }

void SliceController::export_changed(std::string_view cluster, std::string_view name) {
  if (!cluster.empty()) {
    defaults_queue_.add(key_of(cluster, name));
  }
  // A slice may name the export's cluster by any of its paths, so the name alone selects.
  objects_.list("*", kGroup, kSlices, [&](const Json& slice) {
    if (slice.text({"spec", "export", "name"}) == name) {
      slices_.add(key_of(cluster_of(slice), slice.text({"metadata", "name"})));
    }
    return true;
  });
}

void SliceController::reconcile(const std::string& key, net::WorkQueue::Finished finished) {
  ++stats_.runs;
  const std::size_t bar = key.find('|');
  const std::string cluster = key.substr(0, bar);
  auto slice = objects_.get(cluster, kGroup, kSlices, key.substr(bar + 1));
  if (!slice || slice->at({"metadata", "deletionTimestamp"}) != nullptr) {
    finished(true);
    return;
  }
  SliceInput input;
  input.slice = &*slice;
  input.cluster = cluster;
  input.now = rfc3339(unix_seconds());
  const std::string_view path = slice->text({"spec", "export", "path"});
  const std::string_view name = slice->text({"spec", "export", "name"});
  input.export_facts = world_.find_export(path.empty() ? std::string_view(cluster) : path, name);
  input.shards = world_.shards(input.export_facts.cluster_name, name);
  std::optional<Json> partition;
  if (const std::string_view wanted = slice->text({"spec", "partition"}); !wanted.empty()) {
    partition = objects_.get(cluster, "topology.kcp.io", "partitions", wanted);
    input.partition = partition ? &*partition : nullptr;
  }
  Json status = build_slice_status(input, defaults_);
  const Json* old = slice->find("status");
  if (old != nullptr && topology::same_but_times(*old, status)) {
    finished(true);
    return;
  }
  (*slice)["status"] = std::move(status);
  objects_.update(cluster, kGroup, kSlices, "status", std::move(*slice),
                  [this, finished](Expected<Json> result) {
                    ++stats_.writes;
                    finished(result || result.error().code() == Errc::kNotFound);
                  });
}

void SliceController::reconcile_default(const std::string& key, net::WorkQueue::Finished finished) {
  const std::size_t bar = key.find('|');
  const std::string cluster = key.substr(0, bar);
  const std::string name = key.substr(bar + 1);
  const ExportRecord* record = world_.export_record(cluster, name);
  const auto slice = objects_.get(cluster, kGroup, kSlices, name);
  if (record == nullptr) {
    // The slice that the export owned goes with it.
    const Json* owners = slice ? slice->at({"metadata", "ownerReferences"}) : nullptr;
    const bool owned = owners != nullptr && owners->size() == 1 &&
                       owners->items().front().text({"kind"}) == "APIExport" &&
                       owners->items().front().text({"name"}) == name;
    if (!owned || world_.find_export(cluster, name).state != ExportFacts::State::kAbsent) {
      finished(true);
      return;
    }
    objects_.remove(cluster, kGroup, kSlices, name, slice->text({"metadata", "uid"}),
                    [finished](Expected<Json> result) {
                      finished(result || result.error().code() == Errc::kNotFound);
                    });
    return;
  }
  if (slice || record->skip_default_slice) {
    finished(true);
    return;
  }
  Json spec = Json::object({{"export", Json::object({{"name", name}})}});
  if (!record->path.empty()) {
    spec["export"]["path"] = record->path;
  }
  Json owner = Json::object({{"apiVersion", "apis.kcp.io/v1alpha1"},
                             {"kind", "APIExport"},
                             {"name", name},
                             {"uid", record->uid}});
  Json object = Json::object(
      {{"apiVersion", "apis.kcp.io/v1alpha1"},
       {"kind", "APIExportEndpointSlice"},
       {"metadata", Json::object({{"name", name}, {"ownerReferences", Json::array({owner})}})},
       {"spec", spec}});
  objects_.create(cluster, kGroup, kSlices, std::move(object),
                  [this, finished](Expected<Json> result) {
                    ++stats_.writes;
                    finished(result || result.error().code() == Errc::kAlreadyExists);
                  });
}

}  // namespace kintsugi::endpointslice
