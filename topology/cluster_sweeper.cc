#include "topology/cluster_sweeper.h"

#include <memory>

namespace kintsugi::topology {

using krm::Json;

ClusterSweeper::ClusterSweeper(net::Loop& loop, topology::Objects& objects,
                               std::vector<Resource> resources,
                               std::function<bool(std::string_view)> exists, Duration grace)
    : objects_(objects),
      resources_(std::move(resources)),
      exists_(std::move(exists)),
      grace_(grace),
      queue_(loop, [this](const std::string& cluster, const net::WorkQueue::Finished& finished) {
        sweep(cluster, finished);
      }) {}

void ClusterSweeper::cluster_gone(std::string_view cluster) { queue_.add_after(cluster, grace_); }

void ClusterSweeper::sweep(const std::string& cluster, const net::WorkQueue::Finished& finished) {
  if (exists_(cluster)) {
    finished(true);
    return;
  }
  struct Pass {
    std::size_t open = 1;
    bool ok = true;
  };
  auto pass = std::make_shared<Pass>();
  const auto one_done = [pass, finished](bool ok) {
    pass->ok = pass->ok && ok;
    if (--pass->open == 0) {
      finished(pass->ok);
    }
  };
  for (const Resource& resource : resources_) {
    std::vector<Json> objects;
    objects_.list(cluster, resource.first, resource.second, [&](const Json& object) {
      objects.push_back(object);
      return true;
    });
    pass->open += objects.size();
    for (Json& object : objects) {
      remove(cluster, resource, std::move(object), [one_done](const Expected<Json>& result) {
        one_done(result || result.error().code() == Errc::kNotFound);
      });
    }
  }
  one_done(true);
}

void ClusterSweeper::remove(const std::string& cluster, const Resource& resource, Json object,
                            topology::Objects::Done done) {
  const auto remove_now = [this, cluster, resource, done](const Json& present) {
    objects_.remove(cluster, resource.first, resource.second, present.text({"metadata", "name"}),
                    present.text({"metadata", "uid"}), done);
  };
  const Json* finalizers = object.at({"metadata", "finalizers"});
  if (finalizers == nullptr || finalizers->size() == 0) {
    remove_now(object);
    return;
  }
  object["metadata"].erase("finalizers");
  // One that was marked as deleted before goes with its last finalizer.
  objects_.update(cluster, resource.first, resource.second, "", std::move(object),
                  [remove_now, done](Expected<Json> result) {
                    if (result) {
                      remove_now(*result);
                    } else {
                      done(std::move(result));
                    }
                  });
}

}  // namespace kintsugi::topology
