#include "topology/import.h"

#include <utility>

#include "base/log.h"
#include "base/strings.h"
#include "krm/annotations.h"
#include "krm/path_prefixes.h"
#include "shards/own_requests.h"

namespace kintsugi::topology {
namespace {

using krm::Json;

struct Kind {
  std::string_view group, resource;
  bool bound;  ///< served through an APIExport: wildcard URLs need its identity
};
/// Owners before what they own.
constexpr Kind kKinds[] = {{"topology.kcp.io", "partitionsets", true},
                           {"topology.kcp.io", "partitions", true},
                           {"apis.kcp.io", "apiexportendpointslices", false}};
constexpr std::size_t kKindCount = std::size(kKinds);
constexpr int kIdentityWaits = 8;  // with the back-off of the queue about two seconds
constexpr std::size_t kPage = 500;

/// What is kept of a foreign object.
Json copy_of(const Json& object) {
  Json copy = Json::object();
  for (const std::string_view member : {"apiVersion", "kind", "spec"}) {
    if (const Json* value = object.find(member)) {
      copy[member] = *value;
    }
  }
  Json& metadata = copy["metadata"];
  metadata = Json::object();
  for (const std::string_view member :
       {"name", "uid", "creationTimestamp", "labels", "annotations", "ownerReferences"}) {
    if (const Json* value = object.at({"metadata", member})) {
      metadata[member] = *value;
    }
  }
  return copy;
}

}  // namespace

/// One attempt at one shard.
struct Importer::Pass {
  std::string shard;
  ShardId id = 0;
  std::unique_ptr<net::Upstream> upstream;
  std::unique_ptr<net::Call> call;
  std::vector<std::unique_ptr<net::Call>> over;  ///< calls that have answered
  std::size_t kind = 0;
  std::string next_page;
  struct Found {
    std::size_t kind;
    Json object;
  };
  std::vector<Found> found;
  std::size_t stored = 0;
  bool storing = false;
  net::WorkQueue::Finished finished;
};

Importer::Importer(net::Loop& loop, Objects& objects, ImportLog& log, ImportParams params)
    : loop_(loop),
      objects_(objects),
      log_(log),
      params_(std::move(params)),
      queue_(loop, [this](const std::string& name, net::WorkQueue::Finished finished) {
        run(name, std::move(finished));
      }) {}

Importer::~Importer() = default;

void Importer::on_change(const ShardChanged& change) {
  const ShardSpec& spec = change.shard.spec;
  if (change.removed) {
    shards_.erase(spec.name);
    done_.erase(change.shard.id);
    return;
  }
  Shard& shard = shards_[spec.name];
  const bool news = shard.id != change.shard.id || shard.base_url != spec.base_url;
  shard = {change.shard.id, spec.base_url, 0};
  if (news && !done_.contains(shard.id)) {
    queue_.add(spec.name);
  }
}

void Importer::run(const std::string& name, net::WorkQueue::Finished finished) {
  const auto shard = shards_.find(name);
  if (shard == shards_.end() || done_.contains(shard->second.id)) {
    finished(true);
    return;
  }
  if (params_.identity().empty() && shard->second.waits++ < kIdentityWaits) {
    finished(false);
    return;
  }
  auto upstream = params_.upstream(name, shard->second.base_url);
  if (!upstream) {
    finished(true);  // until it has another URL
    return;
  }
  auto pass = std::make_shared<Pass>();
  pass->shard = name;
  pass->id = shard->second.id;
  pass->upstream = net::Upstream::make(loop_, std::move(*upstream));
  pass->finished = std::move(finished);
  passes_[name] = pass;
  fetch(pass);
}

void Importer::fetch(const PassPtr& pass) {
  while (pass->kind < kKindCount && params_.imports && !params_.imports(kKinds[pass->kind].group)) {
    ++pass->kind;
  }
  if (pass->kind == kKindCount) {
    store_next(pass);
    return;
  }
  const Kind& kind = kKinds[pass->kind];
  const std::string identity = kind.bound ? params_.identity() : std::string();
  std::string target = std::string(krm::kEverywhereEscaped) + "/apis/" + std::string(kind.group) +
                       "/v1alpha1/" + std::string(kind.resource) +
                       (identity.empty() ? "" : ":" + identity) + "?limit=" + std::to_string(kPage);
  if (!pass->next_page.empty()) {
    target += "&continue=" + percent_encode(pass->next_page);
  }
  net::FetchRequest request;
  request.target = std::move(target);
  request.headers = params_.headers;
  request.headers.set("accept", "application/json");
  if (pass->call != nullptr) {
    pass->over.push_back(std::move(pass->call));
  }
  pass->call = shards::own_fetch(
      loop_, *pass->upstream, std::move(request),
      [this, weak = std::weak_ptr<Pass>(pass)](Expected<net::FetchResponse> answer) {
        if (const PassPtr alive = weak.lock()) {
          take_page(alive, std::move(answer));
        }
      });
}

void Importer::take_page(const PassPtr& pass, Expected<net::FetchResponse> answer) {
  if (!answer) {
    finish(pass, false);
    return;
  }
  if (answer->status == 200) {
    auto page = Json::parse(answer->body);
    const Json* items = page ? page->find("items") : nullptr;
    if (items == nullptr || !items->is_array()) {
      finish(pass, false);
      return;
    }
    for (const Json& item : items->items()) {
      pass->found.push_back({pass->kind, item});
    }
    pass->next_page = page->text({"metadata", "continue"});
  } else if (answer->status != 403 && answer->status != 404) {
    finish(pass, false);
    return;
  }
  if (pass->next_page.empty() && ++pass->kind == kKindCount) {
    store_next(pass);
    return;
  }
  fetch(pass);
}

void Importer::store_next(const PassPtr& pass) {
  while (pass->stored < pass->found.size()) {
    const Pass::Found& found = pass->found[pass->stored++];
    const Kind& kind = kKinds[found.kind];
    const Json& object = found.object;
    const std::string cluster(object.text({"metadata", "annotations", krm::kClusterAnnotation}));
    const std::string_view name = object.text({"metadata", "name"});
    const std::string_view uid = object.text({"metadata", "uid"});
    if (cluster.empty() || name.empty() || uid.empty() ||
        object.at({"metadata", "deletionTimestamp"}) != nullptr) {
      continue;
    }
    const std::string key = cluster + "|" + std::string(kind.resource) + "|" + std::string(name) +
                            "|" + std::string(uid);
    if (log_.has(key)) {
      ++stats_.skipped;
      continue;
    }
    if (!pass->storing) {
      pass->storing = true;
      if (storing_++ == 0) {
        params_.busy(true);
      }
    }
    if (objects_.get(cluster, kind.group, kind.resource, name)) {
      ++stats_.skipped;
      note(pass, key);
      return;
    }
    objects_.adopt(
        cluster, kind.group, kind.resource, copy_of(object),
        [this, weak = std::weak_ptr<Pass>(pass), key](const Expected<Json>& result) {
          const PassPtr alive = weak.lock();
          if (alive == nullptr) {
            return;
          }
          const Errc code = result ? Errc::kOk : result.error().code();
          if (code == Errc::kOk) {
            ++stats_.copied;
          } else if (code == Errc::kAlreadyExists) {
            ++stats_.skipped;
          } else if (code == Errc::kInvalid || code == Errc::kBadRequest) {
            ++stats_.refused;
            log_warn(
                "object of a shard is not valid here",
                {{"shard", alive->shard}, {"object", key}, {"error", result.error().to_string()}});
          } else {
            finish(alive, false);
            return;
          }
          note(alive, key);
        });
    return;
  }
  finish(pass, true);
}

void Importer::note(const PassPtr& pass, const std::string& key) {
  log_.add(key, [this, weak = std::weak_ptr<Pass>(pass)](bool ok) {
    if (const PassPtr alive = weak.lock()) {
      if (ok) {
        store_next(alive);
      } else {
        finish(alive, false);
      }
    }
  });
}

void Importer::finish(const PassPtr& pass, bool ok) {
  if (pass->storing && --storing_ == 0) {
    params_.busy(false);
  }
  pass->storing = false;
  const auto shard = shards_.find(pass->shard);
  const bool current = shard != shards_.end() && shard->second.id == pass->id;
  if (ok && current) {
    done_.insert(pass->id);
    if (!pass->found.empty()) {
      log_info("objects of a shard are imported",
               {{"shard", pass->shard}, {"objects", static_cast<int>(pass->found.size())}});
    }
    params_.imported(pass->id);
  }
  // The call may be running this very function.
  passes_.erase(pass->shard);
  loop_.defer([pass] {});
  pass->finished(ok || !current);
}

}  // namespace kintsugi::topology
