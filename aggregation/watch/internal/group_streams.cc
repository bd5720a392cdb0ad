#include "aggregation/watch/internal/group_streams.h"

#include <string_view>

namespace kintsugi::aggregation {

GroupStreams::GroupStreams(Watches& watches, ShardQuestion& question, const std::string& key,
                           std::function<void(std::size_t slot)> on_collision)
    : watches_(watches),
      shared_(watches.asking),
      question_(question),
      key_(key),
      names_(std::move(on_collision)) {}

GroupStreams::~GroupStreams() {
  for (auto& [slot, followed] : slots_) {
    followed.stream->stop();
  }
}

std::unique_ptr<MemberWatch> GroupStreams::make(MemberWatch::Sink& sink, const Member& member,
                                                WatchStart start) {
  auto stream = std::make_unique<MemberWatch>(shared_, sink, member, question_, start);
  const MemberWatch* followed = at(member.slot);
  if (start.initial_events && shared_.options.resync == Resync::kDiff &&
      (followed == nullptr || followed->index() == nullptr)) {
    stream->keep_index(make_index(member));
  }
  return stream;
}

FollowedSlot& GroupStreams::hold(std::size_t slot, std::unique_ptr<MemberWatch> stream) {
  if (by_slot_.size() <= slot) {
    by_slot_.resize(slot + 1);
  }
  FollowedSlot& followed = slots_[slot];
  by_slot_[slot] = {stream.get(), &followed};
  stop(std::exchange(followed.stream, std::move(stream)));
  if (watches_.homes != nullptr) {
    followed.stream->share(watches_.homes, key_);
  }
  return followed;
}

FollowedSlot& GroupStreams::go_on(std::size_t slot, std::unique_ptr<MemberWatch> stream,
                                  std::unique_ptr<KeyIndex> index) {
  FollowedSlot& followed = hold(slot, std::move(stream));
  followed.stream->keep_index(std::move(index));
  followed.stream->finish_initial();
  return followed;
}

Member GroupStreams::drop(std::size_t slot) noexcept {
  FollowedSlot& followed = slots_[slot];
  Member member = followed.stream->member();
  stop(std::move(followed.stream));
  stop(std::move(followed.resync));
  stop(std::move(followed.check));
  stop(std::move(followed.head));
  stop(std::move(followed.fill));
  slots_.erase(slot);
  by_slot_[slot] = {};
  return member;
}

void GroupStreams::bury_later(std::shared_ptr<void> asker) noexcept {
  retired_.push_back(std::move(asker));
  if (retired_.size() == 1) {
    shared_.loop.post(alive_.guard([this] { retired_.clear(); }));
  }
}

std::unique_ptr<KeyIndex> GroupStreams::make_index(const Member& member) {
  return member.marker.empty() ? std::make_unique<KeyIndex>()
                               : std::make_unique<KeyIndex>(names_, member.slot);
}

KeyIndex* GroupStreams::whole_index(const MemberWatch& stream) const {
  // Rows with whole objects cannot be made of what an index knows.
  const bool whole_rows = question_.shape.kind.is_table() &&
                          question_.passed_on.find("&includeObject=Object") != std::string::npos;
  KeyIndex* const index = stream.index();
  return index != nullptr && !index->filling() && stream.initial_done() &&
                 question_.shape.kind.known() && !whole_rows
             ? index
             : nullptr;
}

void GroupStreams::plan_index(std::size_t slot) {
  FollowedSlot& followed = slots_[slot];
  if (shared_.options.resync != Resync::kDiff || shared_.params.index_after <= Duration{} ||
      followed.stream->index() != nullptr) {
    return;
  }
  followed.fill = std::make_unique<IndexFill>(
      watches_, [this, slot] { return at(slot); },
      [this](const Member& member) { return make_index(member); }, question_);
  followed.fill->start();
}

void GroupStreams::forget_objects() noexcept {
  for (auto& [slot, followed] : slots_) {
    followed.stream->keep_index(nullptr);
  }
  names_.clear();
}

std::size_t GroupStreams::index_bytes() const noexcept {
  std::size_t sum = names_.bytes();
  for (const auto& [slot, followed] : slots_) {
    sum += followed.stream->index() == nullptr ? 0 : followed.stream->index()->bytes();
  }
  return sum;
}

}  // namespace kintsugi::aggregation
