#include "workers/runtime/unit/internal/deletion_doubts.h"

#include <utility>

#include "workers/runtime/reflector/object_cache.h"

namespace kintsugi::workers {
namespace {

constexpr Duration kPatience = seconds(3);  // with one question
constexpr Duration kAgain = seconds(1);

}  // namespace

Deletion judge_deletion(const ApiAnswer& answer, const DoubtedObject& object, Duration asked_for) {
  if (answer.ok()) {
    const bool same = uid_hash(answer.body.text({"metadata", "uid"})) == object.uid;
    return same ? Deletion::kLives : Deletion::kDeleted;
  }
  if (!answer.is(404) && !answer.is(403)) {
    return Deletion::kUnknown;
  }
  const bool of_object = answer.is(404) && answer.body.text({"details", "name"}) == object.name;
  return of_object || asked_for >= kNoCluster ? Deletion::kDeleted : Deletion::kUnknown;
}

void DeletionDoubts::add(DoubtedObject object, std::function<void()> deleted) {
  doubts_.push_back({std::move(object), std::move(deleted), loop_.now()});
  ask_soon(Duration{});
}

void DeletionDoubts::drop(UnitId unit) {
  for (Doubt& doubt : doubts_) {
    if (doubt.object.unit == unit) {
      doubt.deleted = nullptr;
    }
  }
}

void DeletionDoubts::ask_soon(Duration delay) {
  if (!asking_) {
    timer_.start(delay, [this] {
      asking_ = true;
      job_ = net::Job(ask());
    });
  }
}

net::Task<> DeletionDoubts::ask() {
  const std::size_t count = doubts_.size();
  for (std::size_t i = 0; i < count; ++i) {
    const std::string path = doubts_.front().object.path;
    net::Task<ApiAnswer> asking = proxy_.get(path, kPatience);
    const ApiAnswer answer = co_await asking;
    Doubt doubt = std::move(doubts_.front());
    doubts_.pop_front();
    const Deletion verdict = judge_deletion(answer, doubt.object, loop_.now() - doubt.since);
    if (verdict == Deletion::kUnknown && doubt.deleted) {
      doubts_.push_back(std::move(doubt));
    } else if (verdict == Deletion::kDeleted && doubt.deleted) {
      doubt.deleted();
    }
  }
  asking_ = false;
  if (!doubts_.empty()) {
    ask_soon(kAgain);
  }
}

}  // namespace kintsugi::workers
