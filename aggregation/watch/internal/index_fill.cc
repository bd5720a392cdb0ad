#include "aggregation/watch/internal/index_fill.h"

#include <algorithm>
#include <optional>
#include <utility>

#include "aggregation/asking/jitter.h"
#include "aggregation/list/listed_item.h"

namespace kintsugi::aggregation {
namespace {

constexpr std::size_t kAtOnce = 2;  ///< of one loop
constexpr Duration kTurnComes = seconds(1);
constexpr Duration kLongestDelay = seconds(600);

}  // namespace

IndexFill::IndexFill(Watches& watches, std::function<MemberWatch*()> stream,
                     std::function<std::unique_ptr<KeyIndex>(const Member&)> make_index,
                     ShardQuestion& question)
    : watches_(watches),
      shared_(watches.asking),
      stream_(std::move(stream)),
      make_index_(std::move(make_index)),
      question_(question),
      timer_(shared_.loop),
      delay_(shared_.params.index_after) {}

void IndexFill::start() { wait(delay_); }

void IndexFill::wait(Duration delay) {
  timer_.start(jittered(delay), [this] { list(); });
}

void IndexFill::stop() noexcept {
  timer_.cancel();
  if (pages_ != nullptr) {
    pages_->close();
  }
  give_turn();
}

void IndexFill::give_turn() noexcept {
  watches_.index_fills -= std::exchange(has_turn_, false) ? 1 : 0;
}

KeyIndex* IndexFill::index() const {
  KeyIndex* index = stream_()->index();
  return index != nullptr && index->filling() ? index : nullptr;
}

void IndexFill::list() {
  MemberWatch& stream = *stream_();
  if (stream.index() != nullptr) {
    return;  // from somebody else's initial events
  }
  if (!stream.is_live() || stream.position() <= kBegun || !question_.shape.kind.known() ||
      question_.shape.coding == nullptr || watches_.index_fills >= kAtOnce) {
    wait(kTurnComes);
    return;
  }
  if (watches_.index_bytes >= shared_.params.index_bytes) {
    wait(kLongestDelay);
    return;
  }
  ++watches_.index_fills;
  has_turn_ = true;
  broken_ = false;
  std::unique_ptr<KeyIndex> index = make_index_(stream.member());
  index->begin_fill();
  stream.keep_index(std::move(index));
  ShardPages::Listener& self = *this;
  ListQuery query;
  query.query = "&limit=500";
  query.first =
      "&resourceVersion=" + std::to_string(stream.position()) + "&resourceVersionMatch=Exact";
  pages_ =
      std::make_unique<ShardPages>(shared_, self, stream.member().id, question_, std::move(query));
  if (!pages_->start()) {
    on_pages_end(ShardPages::End::kBroken);
  }
}

void IndexFill::on_item(std::string_view raw, const ListEnvelope& envelope) {
  KeyIndex* into = index();
  const bool table = envelope.kind == "Table";
  if (into == nullptr || broken_ || table != question_.shape.kind.is_table()) {
    broken_ = true;
    return;
  }
  std::string room;
  const auto listed = read_listed(shared_.options, stream_()->member(), question_.shape, raw, room);
  if (!listed) {
    broken_ = true;
    return;
  }
  into->fill(listed->facts, question_.shape.coding->kept(listed->facts.metadata));
}

void IndexFill::on_bytes(std::size_t count) { pages_->consume(count); }

void IndexFill::on_pages_end(ShardPages::End end) {
  give_turn();
  KeyIndex* filled = index();
  if (filled != nullptr && end == ShardPages::End::kDone && !broken_) {
    filled->end_fill();
    ++shared_.stats.indexed;
    return;
  }
  if (filled != nullptr) {
    stream_()->keep_index(nullptr);
  }
  delay_ = std::min<Duration>(delay_ * 2, kLongestDelay);
  wait(delay_);
}

}  // namespace kintsugi::aggregation
