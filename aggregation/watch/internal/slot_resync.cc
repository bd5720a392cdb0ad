#include "aggregation/watch/internal/slot_resync.h"

#include <algorithm>
#include <utility>

#include "aggregation/asking/jitter.h"
#include "aggregation/list/listed_item.h"

namespace kintsugi::aggregation {

SlotResync::SlotResync(Asking& shared, Sink& sink, Member member, ShardQuestion& question,
                       std::unique_ptr<KeyIndex> index)
    : shared_(shared),
      sink_(sink),
      member_(std::move(member)),
      question_(question),
      index_(std::move(index)),
      retry_(shared.loop),
      backoff_(shared.params.first_backoff) {}

void SlotResync::start() {
  ShardPages::Listener& self = *this;
  broken_ = false;
  index_->begin_sweep();
  pages_ = std::make_unique<ShardPages>(shared_, self, member_.id, question_, ListQuery());
  if (!pages_->start()) {
    again();
  }
}

void SlotResync::stop() noexcept {
  if (pages_ != nullptr) {
    pages_->close();
  }
  retry_.cancel();
}

void SlotResync::on_item(std::string_view raw, const ListEnvelope&) {
  if (broken_) {
    return;
  }
  std::string room;
  const std::optional<ListedItem> listed =
      read_listed(shared_.options, member_, question_.shape, raw, room);
  if (!listed) {
    broken_ = true;
    return;
  }
  const ObjectFacts* const facts = &listed->facts;
  const KeyIndex::Change change = index_->meet(*facts);
  if (change == KeyIndex::Change::kReplaced) {
    const KeyIndex::Entry old = *index_->find(*facts);
    ObjectFacts gone = *facts;
    gone.uid = old.uid;
    const std::uint64_t before = std::max<std::uint64_t>(facts->revision, 2) - 1;
    sink_.on_difference(
        *this, gone, question_.shape.coding->deleted(question_.shape.kind, gone, before, old.kept));
  }
  if (change != KeyIndex::Change::kNone && !is_hidden(*facts)) {
    sink_.on_difference(
        *this, *facts,
        question_.shape.coding->item(change == KeyIndex::Change::kModified ? "MODIFIED" : "ADDED",
                                     question_.shape.kind, *facts, listed->item));
  }
  index_->put(*facts, question_.shape.coding->kept(facts->metadata));
}

void SlotResync::on_pages_end(ShardPages::End end) {
  const int status = pages_->answer().status;
  if (status == 404 || status == 403) {
    sink_.on_resync_failed(*this);
    return;
  }
  const ListEnvelope& list = pages_->envelope();
  const std::uint64_t revision = pages_->revision();
  if (status == 200 && !list.kind.empty() &&
      (list.kind == "Table") != question_.shape.kind.is_table()) {
    sink_.on_resync_failed(*this);
    return;
  }
  if (end != ShardPages::End::kDone || broken_ || revision == 0) {
    again();
    return;
  }
  if (shared_.is_too_large(member_.id, revision)) {
    sink_.on_resync_failed(*this);
    return;
  }
  index_->sweep([this, revision](const ObjectFacts& facts, const KeyIndex::Entry& entry) {
    sink_.on_difference(
        *this, facts,
        question_.shape.coding->deleted(question_.shape.kind, facts, revision, entry.kept));
  });
  sink_.on_resynced(*this, revision);
}

void SlotResync::again() {
  retry_.start(about(backoff_), [this] { start(); });
  backoff_ = std::min(backoff_ * 2, shared_.params.last_backoff);
}

}  // namespace kintsugi::aggregation
