#include "workers/runtime/unit/shared_clusters.h"

#include <algorithm>
#include <utility>

#include "base/log.h"

namespace kintsugi::workers {
namespace {

constexpr Duration kLook = seconds(1);
constexpr Duration kPatience = seconds(3);  // with one question

}  // namespace

SharedClusters::SharedClusters(net::Loop& loop, std::string role)
    : loop_(loop), role_(std::move(role)), timer_(loop) {}

void SharedClusters::ask_at(net::Upstream& upstream, ApiClient::Params params) {
  proxy_ = std::make_unique<ApiClient>(loop_, upstream, std::move(params));
  doubts_ = std::make_unique<DeletionDoubts>(loop_, *proxy_);
}

void SharedClusters::add(Unit& unit) {
  while (next_ == kElsewhere || units_.contains(next_)) {
    ++next_;
  }
  const UnitId id = next_++;
  units_[id].unit = &unit;
  ClusterRights rights;
  rights.seen = [this, id](std::string_view cluster) {
    change([&](Actions& out) { owners_.on_seen(cluster, id, loop_.now(), out); });
  };
  rights.gone = [this, id](std::string_view cluster) {
    change([&](Actions& out) { owners_.on_gone(cluster, id, out); });
    answer(id);
  };
  rights.parked = [this, id](std::string_view cluster) {
    change([&](Actions& out) { owners_.on_parked(cluster, id, out); });
    answer(id);
  };
  if (proxy_ != nullptr) {  // else nobody could say when the cluster is back
    rights.asked = [this, id](std::string_view text) { asked(id, text); };
  }
  rights.may_act = [this, id](std::string_view cluster) { return owners_.may_act(cluster, id); };
  rights.may_delete = [this, id](std::string_view cluster) {
    return owners_.may_delete(cluster, id);
  };
  if (doubts_ != nullptr) {
    rights.doubt = [this, id](const ObjectSample& object, std::uint32_t uid,
                              std::function<void()> deleted) {
      if (auto path = units_.at(id).unit->routed_path(object)) {
        doubts_->add({id, std::move(*path), object.key.name, uid}, std::move(deleted));
      }
    };
  }
  unit.share_clusters(std::move(rights));
}

void SharedClusters::remove(const Unit& unit) {
  const auto found = std::find_if(units_.begin(), units_.end(),
                                  [&](const auto& one) { return one.second.unit == &unit; });
  if (found == units_.end()) {
    return;
  }
  const UnitId id = found->first;
  units_.erase(found);
  if (doubts_ != nullptr) {
    doubts_->drop(id);
  }
  change([&](Actions& out) { owners_.on_unit_gone(id, out); });
}

void SharedClusters::change(const std::function<void(Actions& out)>& what) {
  const std::uint64_t before = owners_.duplicates_total();
  Actions out;
  what(out);
  if (owners_.duplicates_total() != before) {
    look_soon(Duration{});
  }
  if (!out.empty()) {  // later: units tell from within a change of their caches
    loop_.post(alive_.guard([this, out = std::move(out)] { carry_out(out); }));
  }
}

void SharedClusters::carry_out(const Actions& actions) {
  for (const OwnerAction& action : actions) {
    const auto unit = units_.find(action.unit);
    if (unit == units_.end()) {
      continue;
    }
    if (action.kind == OwnerAction::Kind::kAct) {
      unit->second.unit->act(action.cluster);
      continue;
    }
    log_info(
        "a cluster is shown by several endpoints; this one waits",
        {{"role", role_}, {"unit", unit->second.unit->params().name}, {"cluster", action.cluster}});
    unit->second.unit->park(action.cluster);
  }
}

/// What is asked anew is let go of; it stays so until the proxy says that the cluster is a unit's
/// of this process.
void SharedClusters::asked(UnitId unit, std::string_view text) {
  const auto place = units_.find(unit);
  if (place == units_.end()) {
    return;
  }
  const std::vector<LetGo> before = std::exchange(place->second.asked, parse_let_go(text));
  const std::vector<LetGo> now = place->second.asked;
  change([&](Actions& out) {
    for (const LetGo& one : now) {
      if (std::find(before.begin(), before.end(), one) == before.end()) {
        log_info("another worker shows a logical cluster; this one lets go of it",
                 {{"role", role_},
                  {"unit", place->second.unit->params().name},
                  {"cluster", one.cluster}});
        owners_.on_elsewhere(one.cluster, unit, loop_.now(), out);
      }
    }
  });
  answer(unit);
}

/// Says what of that is done. An answer stays as long as its question.
void SharedClusters::answer(UnitId unit) {
  const auto place = units_.find(unit);
  if (place == units_.end()) {
    return;
  }
  std::vector<LetGo> gone;
  for (const LetGo& one : place->second.asked) {
    const std::vector<LetGo>& before = place->second.gone;
    if (std::find(before.begin(), before.end(), one) != before.end() ||
        !owners_.acts(one.cluster, unit)) {
      gone.push_back(one);
    }
  }
  if (gone != place->second.gone) {
    place->second.gone = std::move(gone);
    place->second.unit->let_gone(let_go_text(place->second.gone));
  }
}

void SharedClusters::look_soon(Duration delay) {
  if (proxy_ != nullptr && !asking_) {
    timer_.start(delay, [this] { look(); });
  }
}

void SharedClusters::look() {
  std::vector<std::string> clusters = owners_.due(loop_.now());
  if (!clusters.empty()) {
    asking_ = true;
    job_ = net::Job(ask(std::move(clusters)));
  } else if (owners_.duplicates() > 0) {
    look_soon(kLook);
  }
}

net::Task<> SharedClusters::ask(std::vector<std::string> clusters) {
  for (std::size_t i = 0; i < clusters.size(); ++i) {
    const std::vector<Question> asked = questions(clusters[i]);
    std::optional<UnitId> found;
    for (std::size_t at = 0; at < asked.size() && !found; ++at) {
      net::Task<ApiAnswer> asking = proxy_->get(asked[at].path, kPatience);
      const ApiAnswer answer = co_await asking;
      found = owner(asked[at], answer);
    }
    change([&](Actions& out) { owners_.on_resolved(clusters[i], found, loop_.now(), out); });
  }
  asking_ = false;
  look_soon(kLook);
}

/// An object from each unit: one that is not there any more says nothing.
std::vector<SharedClusters::Question> SharedClusters::questions(const std::string& cluster) const {
  std::vector<Question> out;
  for (const auto& [id, place] : units_) {
    std::optional<ObjectSample> sample = place.unit->sample(cluster);
    if (!sample) {
      continue;
    }
    if (auto path = place.unit->routed_path(*sample)) {
      out.push_back({std::move(*sample), std::move(*path)});
    }
  }
  return out;
}

std::optional<UnitId> SharedClusters::owner(const Question& question,
                                            const ApiAnswer& answer) const {
  if (!answer.ok()) {
    return std::nullopt;
  }
  const std::uint64_t revision =
      shards::revision_number(answer.body.text({"metadata", "resourceVersion"}));
  std::optional<UnitId> out;
  for (const auto& [id, place] : units_) {
    if (place.unit->revision(question.sample) == revision) {
      if (out) {
        return std::nullopt;  // two that look alike
      }
      out = id;
    }
  }
  return out;
}

}  // namespace kintsugi::workers
