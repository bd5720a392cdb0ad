#include "aggregation/watch/internal/client_feed.h"

#include <algorithm>
#include <utility>

#include "base/memory.h"
#include "base/prefetch.h"

namespace kintsugi::aggregation {

ClientFeed::Read ClientFeed::read(WatchParts& parts, bool doomed) {
  const GroupLog& log = group_.log();
  if (next_ < log.begin()) {
    return Read::kTooLittle;
  }
  bool moved = false, levelled = false;
  while (next_ < log.end() && has_room()) {
    const GroupLog::Index index = next_++;
    WatchPart* part = parts.find(log.at(index).slot);
    if (part != nullptr && part->leaves_at != 0 && index >= part->leaves_at) {
      part = parts.drop(*part);  // its shard is back
    }
    if (part != nullptr && part->attached && (log.is_current(index) || part->leaves_at != 0)) {
      deliver(parts, *part, index, doomed);
      moved = true;
    }
  }
  bool too_far = false;
  if (next_ < log.end()) {
    const bool over = log.bytes_from(next_) > asking_.params.queue_high ||
                      log.end() - next_ > asking_.params.queue_high_events;
    too_far = over && caught_up_;
  } else {
    caught_up_ = true;
    levelled = level_up(parts);
  }
  parts.drop_read(next_);
  if (too_far) {
    return Read::kTooLittle;
  }
  return moved ? Read::kMoved : levelled ? Read::kLevelled : Read::kNothing;
}

void ClientFeed::catch_up(WatchParts& parts, WatchPart& part, bool has_head, bool doomed) {
  const GroupLog& log = group_.log();
  const std::size_t slot = part.slot;
  const GroupLog::Index first = log.first_after(slot, part.component);
  if (!has_head) {  // nothing can be sent yet; what others have is skipped again
    next_ = std::min(next_, first);
    return;
  }
  for (GroupLog::Index i = first; i < next_; ++i) {
    if (log.at(i).slot == slot) {
      deliver(parts, part, i, doomed);
    }
  }
}

void ClientFeed::deliver(WatchParts& parts, WatchPart& part, GroupLog::Index index, bool doomed) {
  const GroupLog::Entry& entry = group_.log().at(index);
  if (part.skips) {
    const bool has_same = !entry.repeats || index < part.repeats_from;
    if (part.component > kBegun &&
        (entry.position < part.component || (entry.position == part.component && has_same))) {
      return;
    }
    part.skips = false;
  }
  part.component = std::max(part.component, entry.position);
  ++group_.counts().events;
  const std::string_view event = entry.bytes.view();
  const std::string_view columns =
      event.substr(std::min<std::size_t>(entry.columns_at, event.size()), entry.columns_size);
  if (columns_needed(columns)) {
    put(with_columns(event, group_.columns()));
  } else if (columns_sent_ && !columns.empty()) {
    put(without_columns(event, columns));
  } else {
    put(entry.bytes);
  }
  columns_sent_ = true;
  if (doomed || !reads_log_only(parts)) {
    group_.ring().deliver_to(entry.revision, resumable(parts, doomed), asking_.loop.now());
  }
}

bool ClientFeed::level_up(WatchParts& parts) const noexcept {
  bool moved = false;
  for (WatchPart& part : parts.all()) {
    if (const MemberWatch* stream = group_.stream(part.slot);
        part.attached && stream != nullptr && stream->position() > part.component) {
      part.component = stream->position();
      moved = true;
    }
  }
  return moved;
}

bool ClientFeed::is_level(const WatchParts& parts) const noexcept {
  return std::all_of(parts.all().begin(), parts.all().end(), [this](const WatchPart& part) {
    const MemberWatch* stream = group_.stream(part.slot);
    return part.attached && stream != nullptr && stream->position() == part.component;
  });
}

bool ClientFeed::reads_log_only(const WatchParts& parts) noexcept {
  return std::all_of(parts.all().begin(), parts.all().end(),
                     [](const WatchPart& part) { return part.attached; });
}

Components ClientFeed::components(const WatchParts& parts) const {
  Components out(group_.codec().history().current().uids.size());
  for (const WatchPart& part : parts.all()) {
    out[part.slot] = part.component;
  }
  return out;
}

Components ClientFeed::resumable(const WatchParts& parts, bool doomed) const {
  return doomed ? Components(group_.codec().history().current().uids.size(), kBegun)
                : components(parts);
}

void ClientFeed::add_event(const EventFacts& facts, std::string_view event) {
  if (facts.columns.empty() || !columns_sent_) {
    own_ +=
        columns_needed(facts.columns) ? with_columns(event, group_.columns()) : std::string(event);
  } else {
    own_ += without_columns(event, facts.columns);
  }
  own_ += group_.coding().separator;
  columns_sent_ = true;
  ++group_.counts().events;
}

void ClientFeed::add_bookmark(const WatchParts& parts, bool initial_end) {
  const bool first_of_table = group_.kind().is_table() && !columns_sent_;
  if (!initial_end && !first_of_table && !is_behind() && is_level(parts)) {
    flush();  // one for all who have everything
    put(group_.bookmark());
    return;
  }
  own_ += group_.coding().bookmark(group_.kind(), group_.codec().format(components(parts)),
                                   initial_end, first_of_table ? group_.columns() : std::string());
  columns_sent_ = columns_sent_ || (first_of_table && !group_.columns().empty());
}

void ClientFeed::flush() {
  if (!own_.empty()) {
    put(own_);
    give_back(own_);
  }
}

std::string ClientFeed::take_rest() { return std::exchange(own_, {}); }

GroupReader::Queued ClientFeed::queued() const noexcept {
  const GroupLog& log = group_.log();
  return {log.bytes_from(std::max(next_, log.begin())), down_.unsent_bytes() + own_.size()};
}

void ClientFeed::describe(serving::WatchRow& row) const {
  row.kind = "merged";
  serving::name_client(row, down_.peer());
  serving::name_target(row, group_.route().path);
  row.cluster.assign(1, '*');
  for (const Member& member : group_.members()) {
    row.shards.push_back(member.name);
  }
  row.sent = sent_ - std::min<std::uint64_t>(sent_, down_.unsent_bytes());
}

void ClientFeed::approach() const noexcept { fetch_ahead(&down_, 2); }

}  // namespace kintsugi::aggregation
