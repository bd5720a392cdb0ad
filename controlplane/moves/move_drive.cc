#include "controlplane/moves/move_drive.h"

#include <algorithm>
#include <utility>

#include "controlplane/moves/move_limits.h"

namespace kintsugi::controlplane {
namespace {

using krm::Json;

constexpr std::int64_t kMostTries = 4;  // the first and three more
constexpr std::int64_t kMostRestarts = 3;
constexpr std::int64_t kRowsPerSecond = 2'000, kBytesPerSecond = 20'000'000;
/// So little is left to be copied that writes may stop for it.
constexpr std::int64_t kSmallRest = 100;
constexpr Duration kQuickRound = milliseconds(100);
constexpr std::int64_t kMostRounds = 100;          // then they stop, however much is left
constexpr Duration kLongestSilence = seconds(30);  // of a shard, while it is copied
constexpr Duration kRest = milliseconds(300);
constexpr Duration kShortRest = milliseconds(50);  // while writes wait
constexpr Duration kBetweenTries = seconds(2);

bool flag(const Json& answer, std::string_view member) {
  const Json* value = answer.find(member);
  return value != nullptr && value->as_bool();
}

}  // namespace

std::string MoveDrive::migration() const {
  return attempt_ == 0 ? uid_ : uid_ + "." + std::to_string(attempt_);
}

MoveDrive::Action MoveDrive::enter(MovePhase phase) {
  Action out;
  out.does = Does::kEnter;
  out.phase = phase;
  return out;
}

MoveDrive::Action MoveDrive::ask(Stage stage) const {
  Action out;
  out.does = Does::kAsk;
  out.migration = stage < Stage::kBegin ? other_ : migration();
  const auto step = [&](bool at_origin, std::string_view name, Json more = Json::object()) {
    out.at_origin = at_origin;
    out.step = name;
    out.more = std::move(more);
  };
  switch (stage) {
    case Stage::kOtherRelease:
      step(true, "release");
      break;
    case Stage::kOtherAbandon:
      step(false, "abandon");
      break;
    case Stage::kBegin:
      step(false, "begin");
      break;
    case Stage::kPage:
      step(true, "page", Json::object({{"continue", next_}, {"at", at_}}));
      break;
    case Stage::kTakePage:
    case Stage::kTakeWritten:
    case Stage::kTakeLast:
      step(false, "take", Json::object({{"number", pages_}, {"entries", entries_}}));
      break;
    case Stage::kPast:
      step(true, "past", Json::object({{"until", at_}, {"floor", floor_}, {"after", complete_}}));
      break;
    case Stage::kFollow:
    case Stage::kLast:
      step(true, "follow", Json::object({{"after", complete_}}));
      break;
    case Stage::kFence:
      step(true, "fence");
      break;
    case Stage::kReady:
      step(false, "ready",
           Json::object({{"pages", pages_},
                         {"rows", sum_rows_},
                         {"digest", digest_},
                         {"revision", revision_},
                         {"floor", floor_},
                         {"deleted", to_json(deleted_)}}));
      break;
    case Stage::kSwitch:
      step(true, "switch", Json::object({{"at", fence_at_}}));
      break;
    case Stage::kRelease:
      step(true, "release", Json::object({{"abandoned", abandoned_}}));
      break;
    case Stage::kArrive:
      step(false, "arrive");
      break;
    case Stage::kLeave:
      step(true, "leave");
      break;
    case Stage::kSettle:
      step(false, "settle");
      break;
    case Stage::kAskAbandon:
    case Stage::kAbandon:
    case Stage::kAgain:
    case Stage::kOver:
      step(false, "abandon");
      break;
  }
  return out;
}

MoveDrive::Action MoveDrive::next(MovePhase phase, bool cancelled, TimePoint now) {
  heard_ = heard_ == TimePoint() ? now : heard_;
  if (stage_ == Stage::kOver) {
    Action out;
    out.does = Does::kDone;
    out.failure = why_;
    return out;
  }
  if (now < not_before_) {
    Action out;
    out.pause = not_before_ - now;
    return out;
  }
  asked_ = now;
  switch (phase) {
    case MovePhase::kPreparing:
      return prepare(cancelled);
    case MovePhase::kMigrating:
      return migrate(cancelled, now);
    case MovePhase::kOriginCleanup:
      return stage_ == Stage::kSettle ? enter(MovePhase::kDestinationFinalize)
                                      : ask(stage_ = Stage::kLeave);
    case MovePhase::kDestinationFinalize:
      break;
  }
  return ask(stage_ = Stage::kSettle);
}

MoveDrive::Action MoveDrive::prepare(bool cancelled) {
  if (cancelled && stage_ < Stage::kAbandon) {
    end_try("the LogicalClusterMigration was deleted", true);
    stage_ = Stage::kAbandon;  // nothing is fenced
  }
  return stage_ == Stage::kFence ? enter(MovePhase::kMigrating) : ask(stage_);
}

MoveDrive::Action MoveDrive::migrate(bool cancelled, TimePoint now) {
  if (stage_ < Stage::kFence) {  // another one has driven it
    end_try("the root shard was restarted", false);
  } else if (stage_ < Stage::kSwitch && cancelled) {
    end_try("the LogicalClusterMigration was deleted", true);
  } else if (stage_ < Stage::kSwitch && stopped_ != TimePoint() && now - stopped_ > kLongestStop) {
    end_try("writes would have been refused for more than 5 s: " + why_, false);
  } else if (stage_ == Stage::kAgain && (cancelled || attempt_ + 1 >= kMostTries)) {
    why_ = cancelled ? "the LogicalClusterMigration was deleted" : why_;
    for_good_ = true;
    stage_ = Stage::kAbandon;
  }
  if (stage_ == Stage::kFence && stopped_ == TimePoint()) {
    stopped_ = now;
  }
  if (stage_ == Stage::kAgain) {
    Action out = enter(MovePhase::kPreparing);
    out.attempt = attempt_ + 1;
    out.note = why_;
    return out;
  }
  return stage_ == Stage::kLeave ? enter(MovePhase::kOriginCleanup) : ask(stage_);
}

void MoveDrive::end_try(std::string why, bool for_good) {
  why_ = std::move(why);
  for_good_ = for_good;
  stage_ = Stage::kRelease;
}

void MoveDrive::restart_copy() {
  pages_ = rows_ = bytes_ = at_ = floor_ = complete_ = rounds_ = 0;
  next_.clear();
  entries_ = Json();
  deleted_.clear();
  stage_ = Stage::kBegin;
}

void MoveDrive::answered(const Expected<Json>& answer, TimePoint now) {
  if (!answer) {
    on_error(answer.error(), now);
    return;
  }
  heard_ = now;
  if (stage_ < Stage::kFence) {
    on_copied(*answer, now);
  } else if (stage_ < Stage::kRelease) {
    on_stopped(*answer);
  } else {
    on_owner(*answer, now);
  }
}

void MoveDrive::take_written(const Json& answer) {
  const Json* entries = answer.find("entries");
  entries_ = entries == nullptr ? Json::array() : *entries;
  merge(deleted_, answer.find("deleted"));
  complete_ = integer_of(answer, "complete");
}

void MoveDrive::on_copied(const Json& answer, TimePoint now) {
  if (flag(answer, "gone")) {  // history that it needs
    if (++restarts_ > kMostRestarts) {
      end_try("the origin forgets its history faster than it can be copied", true);
      stage_ = Stage::kAbandon;
      return;
    }
    restart_copy();
    return;
  }
  switch (stage_) {
    case Stage::kOtherRelease:
      if (flag(answer, "moved")) {
        end_try("another migration has moved the logical cluster", true);
        stage_ = Stage::kOver;
        break;
      }
      stage_ = Stage::kOtherAbandon;
      break;
    case Stage::kOtherAbandon:
      stage_ = Stage::kBegin;
      break;
    case Stage::kBegin:
      other_ = answer.text({"other"});
      if (!other_.empty()) {
        stage_ = Stage::kOtherRelease;
        break;
      }
      restart_copy();
      most_rows_ = integer_of(answer, "most");
      copying_ = now;
      stage_ = Stage::kPage;
      break;
    case Stage::kPage:
      at_ = integer_of(answer, "at");
      next_ = answer.text({"continue"});
      bytes_ += integer_of(answer, "bytes");
      entries_ = answer.find("entries") == nullptr ? Json::array() : *answer.find("entries");
      stage_ = Stage::kTakePage;
      break;
    case Stage::kTakePage:
      ++pages_;
      rows_ += static_cast<std::int64_t>(entries_.size());
      stage_ = next_.empty() ? Stage::kPast : Stage::kPage;
      not_before_ = copying_ + std::max(milliseconds(rows_ * 1'000 / kRowsPerSecond),
                                        milliseconds(bytes_ * 1'000 / kBytesPerSecond));
      if (rows_ > most_rows_ || bytes_ > static_cast<std::int64_t>(kMostMovedBytes)) {
        end_try("the logical cluster is too large to be moved to this shard", true);
        stage_ = Stage::kAbandon;
      }
      break;
    case Stage::kPast:
      if (const std::int64_t floor = integer_of(answer, "floor"); floor != floor_) {
        floor_ = floor;
        deleted_.clear();
      }
      take_written(answer);
      if (complete_ >= at_) {
        complete_ = at_;
        stage_ = Stage::kFollow;
      }
      break;
    case Stage::kFollow:
      take_written(answer);
      is_calm_ = (!flag(answer, "more") && integer_of(answer, "changed") <= kSmallRest &&
                  now - asked_ <= kQuickRound) ||
                 ++rounds_ >= kMostRounds;
      stage_ = entries_.size() > 0 ? Stage::kTakeWritten
               : is_calm_          ? Stage::kFence
                                   : Stage::kFollow;
      break;
    default:  // kTakeWritten
      ++pages_;
      rows_ += static_cast<std::int64_t>(entries_.size());
      stage_ = is_calm_ ? Stage::kFence : Stage::kFollow;
      break;
  }
}

void MoveDrive::on_stopped(const Json& answer) {
  const auto after_last = [this] {
    return complete_ >= fence_at_ && sum_rows_ >= 0 ? Stage::kReady : Stage::kLast;
  };
  switch (stage_) {
    case Stage::kFence:
      revision_ = integer_of(answer, "revision");
      fence_at_ = integer_of(answer, "at");
      stage_ = Stage::kLast;
      break;
    case Stage::kLast:
      if (flag(answer, "gone")) {
        end_try("the origin has forgotten its history", false);
        break;
      }
      take_written(answer);
      if (answer.find("digest") != nullptr) {
        sum_rows_ = integer_of(answer, "rows");
        digest_ = answer.text({"digest"});
      }
      stage_ = entries_.size() > 0 ? Stage::kTakeLast : after_last();
      break;
    case Stage::kTakeLast:
      ++pages_;
      rows_ += static_cast<std::int64_t>(entries_.size());
      stage_ = after_last();
      break;
    case Stage::kReady:
      stage_ = Stage::kSwitch;
      break;
    default:  // kSwitch
      stage_ = Stage::kArrive;
      break;
  }
}

void MoveDrive::on_owner(const Json& answer, TimePoint now) {
  switch (stage_) {
    case Stage::kRelease:
      if (flag(answer, "moved")) {
        stage_ = Stage::kArrive;
      } else if (flag(answer, "ask")) {
        stage_ = Stage::kAskAbandon;
      } else {
        stage_ = for_good_ ? Stage::kAbandon : Stage::kAgain;
        not_before_ = for_good_ ? now : now + kBetweenTries;
      }
      break;
    case Stage::kAskAbandon:
      abandoned_ = !flag(answer, "arrived");
      stage_ = abandoned_ ? Stage::kRelease : Stage::kLeave;
      break;
    case Stage::kArrive:
      stop_ = stopped_ == TimePoint() ? Duration() : now - stopped_;
      why_.clear();
      stage_ = Stage::kLeave;
      break;
    case Stage::kLeave:
      stage_ = Stage::kSettle;
      break;
    case Stage::kSettle:
      why_.clear();
      stage_ = Stage::kOver;
      break;
    default:  // kAbandon
      stage_ = Stage::kOver;
      break;
  }
}

void MoveDrive::on_error(const Error& error, TimePoint now) {
  const std::string text(error.message());
  const bool is_final = error.code() == Errc::kInvalid;
  if (stage_ < Stage::kFence) {
    if (is_final || now - heard_ > kLongestSilence) {
      end_try(text, true);
      stage_ = Stage::kAbandon;  // nothing is fenced
    } else {
      not_before_ = now + kRest;
    }
  } else if (stage_ < Stage::kRelease) {
    why_ = text;
    // Whether the origin has heard of a switch, it says itself.
    if (is_final || stage_ == Stage::kSwitch) {
      end_try(text, is_final && stage_ == Stage::kFence);
    } else {
      not_before_ = now + kShortRest;
    }
  } else if (stage_ == Stage::kAbandon && now - heard_ > kLongestSilence) {
    stage_ = Stage::kOver;  // what it keeps goes with the next move there
  } else {
    not_before_ = now + (stage_ == Stage::kArrive ? kShortRest : kRest);
  }
}

}  // namespace kintsugi::controlplane
