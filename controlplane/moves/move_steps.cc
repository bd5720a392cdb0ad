#include "controlplane/moves/move_steps.h"

#include <optional>
#include <utility>

#include "apiserver/keys.h"
#include "base/log.h"
#include "controlplane/internal/names.h"
#include "controlplane/moves/internal/move_row.h"
#include "controlplane/moves/internal/move_rows.h"
#include "controlplane/moves/move_book.h"
#include "controlplane/moves/move_limits.h"

namespace kintsugi::controlplane {
namespace {

using krm::Json;

constexpr std::int64_t kEndedRowsLive = 24 * 60 * 60;  // [s]

}  // namespace

bool can_move(std::string_view cluster) noexcept {
  return !cluster.empty() && cluster != kRootCluster &&
         cluster.find(':') == std::string_view::npos && cluster != "*";
}

MoveSteps::MoveSteps(net::Loop& loop, Params params)
    : loop_(loop), params_(std::move(params)), forget_incoming_(loop) {}
MoveSteps::~MoveSteps() { alive_.end(); }

MoveSteps::Row MoveSteps::row(std::string_view resource, const std::string& cluster) const {
  const Expected<store::Entry> entry = params_.store.get(move_key(resource, cluster));
  if (!entry) {
    return {};
  }
  Expected<Json> json = apiserver::decode_stored(entry->value.view(), "", "", entry->modified);
  return {json ? std::optional<Json>(std::move(*json)) : std::nullopt, entry->modified};
}

void MoveSteps::commit(std::vector<store::Op> ops, Json answer, Done done) {
  params_.store.commit(
      std::move(ops), [&loop = loop_, alive = alive_.weak(), answer = std::move(answer),
                       done = std::move(done)](Expected<store::CommitResult> result) mutable {
        auto kept = std::make_shared<Expected<store::CommitResult>>(std::move(result));
        loop.post([alive, kept, answer = std::move(answer), done = std::move(done)]() mutable {
          if (!alive) {
            return;
          }
          if (!*kept) {
            done(fail(std::move(kept->error())));
          } else if ((*kept)->conflict || (*kept)->excess) {
            done(fail(Errc::kConflict, "another step was faster"));
          } else {
            if (answer.find("revision") == nullptr) {
              answer["revision"] = static_cast<std::int64_t>((*kept)->revision);
            }
            done(std::move(answer));
          }
        });
      });
}

void MoveSteps::run(const std::string& cluster, const Json& asked, Done done) {
  struct Step {
    std::string_view name;
    void (MoveSteps::*function)(const std::string&, const Json&, Done);
  };
  static constexpr Step kSteps[] = {
      {"begin", &MoveSteps::begin},    {"page", &MoveSteps::page},
      {"past", &MoveSteps::past},      {"follow", &MoveSteps::follow},
      {"take", &MoveSteps::take},      {"fence", &MoveSteps::fence},
      {"ready", &MoveSteps::ready},    {"switch", &MoveSteps::give},
      {"arrive", &MoveSteps::arrive},  {"leave", &MoveSteps::leave},
      {"settle", &MoveSteps::settle},  {"release", &MoveSteps::release},
      {"abandon", &MoveSteps::abandon}};
  if (!can_move(cluster) || asked.text({"migration"}).empty()) {
    done(fail(never("the logical cluster cannot be moved")));
    return;
  }
  for (const Step& step : kSteps) {
    if (step.name == asked.text({"step"})) {
      (this->*step.function)(cluster, asked, std::move(done));
      return;
    }
  }
  done(fail(never("no such step")));
}

void MoveSteps::drop_ended(std::int64_t now) {
  const auto visit = [this](std::string_view resource, const auto& has_ended) {
    store::RangeQuery query;
    query.prefix = apiserver::collection_prefix(resource, kMovesCluster, "");
    std::vector<store::Op> ops;
    static_cast<void>(params_.store.range(query, [&](const store::EntryView& entry) {
      const Expected<Json> row = apiserver::decode_stored(entry.value, "", "", entry.modified);
      if (row && has_ended(*row)) {
        ops.push_back({store::EventType::kDelete, std::string(entry.key), std::string(entry.value),
                       entry.modified});
      }
      return true;
    }));
    for (store::Op& op : ops) {  // each for itself: one that has changed keeps no other
      commit({std::move(op)}, Json::object(), [](const Expected<Json>&) {});
    }
  };
  visit(kArrivals, [&](const Json& row) {
    const Arrival arrival = read_arrival(row);
    const bool is_known = arrival.phase == "abandoned" ||
                          (arrival.settled && arrival.revision <= params_.store.compacted());
    return is_known && arrival.at + kEndedRowsLive <= now;
  });
  visit(kFences, [&](const Json& row) {
    const Fence fence = read_fence(row);
    bool is_empty = true;
    const std::string cluster(row.text({"metadata", "name"}));
    return fence.left && fence.at + kEndedRowsLive <= now &&
           visit_rows(params_.store, cluster, "", 0,
                      [&](const store::EntryView&) { return is_empty = false; }) &&
           is_empty;
  });
}

void MoveSteps::release_overdue(TimePoint now) {
  store::RangeQuery query;
  query.prefix = apiserver::collection_prefix(kFences, kMovesCluster, "");
  std::map<std::string, TimePoint, std::less<>> since;
  std::vector<store::Op> ops;
  static_cast<void>(params_.store.range(query, [&](const store::EntryView& entry) {
    const Expected<Json> row = apiserver::decode_stored(entry.value, "", "", entry.modified);
    const Fence fence = row ? read_fence(*row) : Fence();
    if (!fence.ends || fence.moved) {
      return true;
    }
    const auto known = fenced_since_.find(fence.migration);
    const TimePoint seen = known == fenced_since_.end() ? now : known->second;
    since.emplace(fence.migration, seen);
    if (now - seen >= kLongestStop) {
      log_warn("a logical cluster takes writes again: its move took too long",
               {{"cluster", std::string(row->text({"metadata", "name"}))}, {"to", fence.to}});
      ops.push_back({store::EventType::kDelete, std::string(entry.key), std::string(entry.value),
                     entry.modified});
    }
    return true;
  }));
  fenced_since_ = std::move(since);
  for (store::Op& op : ops) {
    commit({std::move(op)}, Json::object(), [](const Expected<Json>&) {});
  }
}

}  // namespace kintsugi::controlplane
