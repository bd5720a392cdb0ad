#include "aggregation/position/move_keeper.h"

#include <string>
#include <utility>
#include <vector>

#include "base/log.h"
#include "krm/json.h"

namespace kintsugi::aggregation {
namespace {

constexpr std::string_view kKey = "kintsugi.merge/moves";  ///< no key of an object
constexpr Duration kPause = milliseconds(250);
constexpr Duration kRetry = seconds(1);

}  // namespace

MoveKeeper::MoveKeeper(net::Loop& loop, store::Store& store, std::shared_ptr<MoveBook> book)
    : loop_(loop), store_(store), book_(std::move(book)), timer_(loop) {}

Expected<void> MoveKeeper::start() {
  const Expected<store::Entry> stored = store_.get(kKey);
  if (stored) {
    const Expected<krm::Json> json = krm::Json::parse(stored->value.view());
    const Expected<void> read = json ? book_->restore(*json) : fail(Errc::kCorrupt);
    if (!read) {  // no reason to serve nothing
      log_error("what was known of moved clusters cannot be read", {});
    }
  } else if (stored.error().code() != Errc::kNotFound) {
    return fail(stored.error().clone());
  }
  book_->on_change([&loop = loop_, wait = alive_.guard([this] {
    timer_.start(kPause, [this] { save(); });
  })] { loop.post(wait); });
  return {};
}

void MoveKeeper::save() {
  std::vector<store::Op> ops;
  ops.push_back({store::EventType::kPut, std::string(kKey), book_->to_json().dump(), std::nullopt});
  auto again = alive_.guard([this] { timer_.start(kRetry, [this] { save(); }); });
  store_.commit(std::move(ops), [&loop = loop_, again = std::move(again)](
                                    Expected<store::CommitResult> result) mutable {
    if (result) {
      return;
    }
    log_error("what is known of moved clusters cannot be stored", {});
    loop.post(std::move(again));
  });
}

}  // namespace kintsugi::aggregation
