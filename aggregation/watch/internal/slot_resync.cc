#include "aggregation/watch/internal/slot_resync.h"

#include <algorithm>
#include <charconv>
#include <utility>

#include "aggregation/bytes/listed_item.h"
#include "aggregation/list/list_accept.h"
#include "aggregation/shard_answer.h"
#include "aggregation/watch/jitter.h"
#include "aggregation/watch/member_watch.h"

namespace kintsugi::aggregation {

SlotResync::SlotResync(MergeLoop& shared, Sink& sink, Member member, const http::RequestHead& head,
                       const MergeRoute& route, const std::string& passed_on,
                       const StreamShape& shape, std::unique_ptr<KeyIndex> index)
    : shared_(shared),
      sink_(sink),
      member_(std::move(member)),
      head_(head),
      route_(route),
      passed_on_(passed_on),
      shape_(shape),
      index_(std::move(index)),
      call_(shared.loop, *this),
      splitter_(shared.params.max_event),
      messages_(shared.params.max_event),
      retry_(shared.loop),
      backoff_(shared.params.first_backoff) {}

void SlotResync::start() {
  http::RequestHead head = head_;
  head.target = route_.path;
  if (!passed_on_.empty()) {
    head.target += '?' + passed_on_.substr(1);
  }
  head.headers.set(
      "accept", accept_only(list_accept(head_.headers.get("accept")), shape_.coding->media_type));
  splitter_ = ListSplitter(shared_.params.max_event);
  messages_ = ProtoListSplitter(shared_.params.max_event);
  answer_ = {};
  broken_ = false;
  index_->begin_sweep();
  shards::ShardClient* client = client_of(shared_, route_, member_.id);
  if (client == nullptr || !call_.open(*client, net::UpstreamClass::kRead, std::move(head))) {
    again();
  }
}

void SlotResync::stop() noexcept {
  call_.close();
  retry_.cancel();
}

void SlotResync::on_head(const http::ResponseHead& head) noexcept {
  answer_ = head;
  broken_ = coding_of(head.headers.get("content-type")) != shape_.coding;
}

void SlotResync::on_data(std::string_view bytes) noexcept {
  call_.consume(bytes.size());
  if (answer_.status != 200 || broken_) {
    return;
  }
  const auto taken = [this](std::string_view item) { take(item); };
  const ListSplitter::Fault fault =
      shape_.coding->protobuf ? messages_.feed(bytes, taken) : splitter_.feed(bytes, taken);
  broken_ = fault != ListSplitter::Fault::kNone;
}

void SlotResync::take(std::string_view raw) {
  std::string room;
  const std::optional<ListedItem> listed = read_listed(shared_.options, member_, shape_, raw, room);
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
    sink_.on_difference(*this, gone,
                        shape_.coding->deleted(shape_.kind, gone, facts->revision, old.kept));
  }
  if (change != KeyIndex::Change::kNone && !is_hidden(*facts)) {
    sink_.on_difference(
        *this, *facts,
        shape_.coding->item(change == KeyIndex::Change::kModified ? "MODIFIED" : "ADDED",
                            shape_.kind, *facts, listed->item));
  }
  index_->put(*facts, shape_.coding->kept(facts->metadata));
}

void SlotResync::on_end(Errc cause) noexcept {
  if (answer_.status == 404 || answer_.status == 403) {
    sink_.on_resync_failed(*this);
    return;
  }
  const bool protobuf = shape_.coding->protobuf;
  const ListEnvelope& list = protobuf ? messages_.envelope() : splitter_.envelope();
  const std::string& version = list.resource_version;
  std::uint64_t revision = 0;
  std::from_chars(version.data(), version.data() + version.size(), revision);
  if (answer_.status == 200 && !list.kind.empty() &&
      (list.kind == "Table") != shape_.kind.is_table()) {
    sink_.on_resync_failed(*this);
    return;
  }
  if (cause != Errc::kOk || answer_.status != 200 || broken_ ||
      !(protobuf ? messages_.done() : splitter_.done()) || revision == 0) {
    again();
    return;
  }
  if (shared_.is_too_large(member_.id, revision)) {
    sink_.on_resync_failed(*this);
    return;
  }
  index_->sweep([this, revision](const ObjectFacts& facts, const KeyIndex::Entry& entry) {
    sink_.on_difference(*this, facts,
                        shape_.coding->deleted(shape_.kind, facts, revision, entry.kept));
  });
  sink_.on_resynced(*this, revision);
}

void SlotResync::again() {
  retry_.start(about(backoff_), [this] { start(); });
  backoff_ = std::min(backoff_ * 2, shared_.params.last_backoff);
}

}  // namespace kintsugi::aggregation
