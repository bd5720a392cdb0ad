// ListRun: from the first item to the end.
#include <algorithm>

#include "aggregation/asking/merge_guard.h"
#include "aggregation/bytes/marker.h"
#include "aggregation/bytes/proto_build.h"
#include "aggregation/list/internal/list_run.h"
#include "base/strings.h"
#include "krm/protobuf.h"
#include "krm/status.h"
#include "serving/identity.h"

namespace kintsugi::aggregation {
namespace {

using Fault = ListSplitter::Fault;
using Kind = ListStep::Kind;

/// Other lists of the payer, or of everybody, wait already.
Error too_much_spooled() {
  Error error(Errc::kTooManyRequests, "too many protobuf lists are being put together");
  error.edit().retry_after_seconds = 1;
  return error;
}

}  // namespace

void ListRun::go_on() {
  if (done_ || !decided_ || working_) {
    return;
  }
  working_ = true;
  while (!done_ && decided_ && down_.unsent_bytes() < shared_.params.queue_high) {
    if (closing_) {
      send_spooled();
      continue;
    }
    if (current_ >= parts_.size()) {
      finish();
      continue;
    }
    ListPart& part = *parts_[current_];
    if (part.step.kind == Kind::kSkip) {
      ++current_;
    } else if (part.step.kind == Kind::kLater && plan_.limit > 0 && count_ >= plan_.limit) {
      finish();
    } else if (part.step.kind == Kind::kLater) {
      const std::int64_t room = plan_.limit > 0 ? plan_.limit - count_ : 0;
      part.step.kind = Kind::kRead;
      part.step.query = plan_.inconsistent ? newest_query(query_, room)
                                           : pinned_query(query_, part.step.pin, room);
      ask(part);
    } else if (!take(part)) {
      break;
    }
  }
  working_ = false;
}

bool ListRun::take(ListPart& part) {
  if (!part.answered()) {
    return false;
  }
  if (!fits(part)) {
    return true;
  }
  bool good = true;
  const Fault fault = part.read([&](std::string_view item) {
    good = good && is_of_kind(part.envelope());
    if (good) {
      add_item(part, item);
    }
  });
  const auto revision = parse_decimal(part.envelope().resource_version);
  if (!output_.started() && shared_.is_too_large(part.member.id, revision.value_or(0))) {
    lose(part, kTooLargeVersions, "sequence");
    return false;
  }
  flush(false);
  if (!spool_fits()) {
    return !done_;
  }
  const bool complete = fault == Fault::kNone && part.complete();
  if (fault != Fault::kNone || !good || (complete && !is_of_kind(part.envelope()))) {
    ++shared_.stats.dropped[{part.member.name, "malformed"}];
    lose(part, "its answer cannot be understood", "malformed");
    return false;
  }
  if (!complete) {
    if (part.ended()) {
      lose(part, "its answer was cut off", "malformed");
    }
    return false;
  }
  return end_part(part);
}

bool ListRun::spool_fits() {
  if (format_ != ListFormat::kProtobuf) {
    return true;
  }
  const std::size_t most = shared_.params.protobuf_spool;
  if (!spooled_) {
    spooled_.emplace(lists_.memory, MemoryAccount::kLists, serving::payer_of(down_.peer()).name,
                     MemoryBudget::Bounds{most, false});
  }
  const bool fits = spooled_->set(spool_.size()) == MemoryBudget::Fit::kFits;
  if (fits && spool_.size() <= most) {
    return true;
  }
  std::string others = without_protobuf(accept_);
  if (others.empty() && spool_.size() <= most) {
    spool_ = ProtoSpool();
    spooled_.reset();
    refuse(too_much_spooled());
  } else {
    ask_all_as(std::move(others));
  }
  return false;
}

bool ListRun::fits(ListPart& part) {
  if (part.format() == format_) {
    return true;
  }
  if (end_page_before(part)) {
    return false;
  }
  if (format_ == ListFormat::kProtobuf) {
    ask_all_as(without_protobuf(accept_));
  } else {
    lose(part, "it answers in a media type that was not asked for", "malformed");
  }
  return false;
}

/// A restore has brought back what another shard has by now (GR-411).
bool ListRun::rests(const ListPart& part, std::string_view item) const {
  const topology::Snapshot& now = shared_.view->current();
  return now.conflicts() > 0 && part.member.marker.empty() &&
         now.rests(part.member.id, cluster_of(item, format_));
}

void ListRun::add_item(ListPart& part, std::string_view item) {
  if (rests(part, item)) {
    return;
  }
  const std::string cluster =
      part.member.marker.empty() ? system_cluster_of(item, format_) : std::string();
  std::string room;
  const std::string_view marker = marker_of(shared_.options, part.member, cluster, room);
  if (marker.empty() && !cluster.empty()) {
    return;
  }
  if (format_ == ListFormat::kProtobuf) {
    spool_.add(item, marker.empty() ? std::string() : proto_annotation_suffix(kMarker, marker));
  } else {
    text_.open(part.envelope());
    marker.empty() ? text_.add(item) : text_.add(with_marker(item, marker));
  }
  ++part.items;
  ++count_;
}

bool ListRun::is_of_kind(const ListEnvelope& envelope) {
  if (envelope.kind.empty() || (envelope.api_version.empty() && envelope.kind != "Status")) {
    return true;  // not yet known
  }
  if (envelope_.kind.empty()) {
    envelope_.kind = envelope.kind;
    envelope_.api_version = envelope.api_version;
    envelope_.columns = envelope.columns;
  }
  return envelope.kind != "Status" && envelope.kind == envelope_.kind &&
         envelope.api_version == envelope_.api_version;
}

bool ListRun::end_part(ListPart& part) {
  part.finished = true;
  const ListEnvelope& envelope = part.envelope();
  shard_info_ = shard_info_.empty() ? envelope.shard_info : shard_info_;
  std::uint64_t& component = components_[part.member.slot];
  if (const std::uint64_t revision = parse_decimal(envelope.resource_version).value_or(0);
      shared_.is_too_large(part.member.id, revision)) {
    lose(part, kTooLargeVersions, "sequence");
    return false;
  } else if (revision > kBegun && (component == 0 || plan_.inconsistent)) {
    component = revision;
  }
  if (envelope.continue_token.empty()) {
    part.close();
    ++current_;
    return true;
  }
  if (plan_.limit > 0 && count_ > 0) {
    member_token_ = envelope.continue_token;
    finish();
  } else {  // it makes pages although none were asked for, or all of this one was left out
    part.step.query = continued_query(query_, envelope.continue_token, plan_.limit);
    ask(part);
  }
  return true;
}

void ListRun::flush(bool end) {
  if (std::string& out = text_.out(); end || !out.empty()) {
    if (!output_.started()) {
      start_output("application/json");
    }
    output_.write(out, end);
    out.clear();
  }
}

std::size_t ListRun::index_of(const ListPart& part) const {
  return static_cast<std::size_t>(
      std::find_if(parts_.begin(), parts_.end(),
                   [&](const auto& each) { return each.get() == &part; }) -
      parts_.begin());
}

const std::string& ListRun::version() {
  if (version_.empty() || version_of_ != components_) {
    version_ = codec_.format_as_of(generation_, components_);
    version_of_ = components_;
  }
  return version_;
}

MergedContinue ListRun::next_token(std::size_t index) {
  MergedContinue token;
  token.generation = codec_.history().current().generation;
  token.check = codec_.check();
  token.inconsistent = plan_.inconsistent;
  token.slot = static_cast<std::uint16_t>(parts_[index]->member.slot);
  token.pins = components_;
  token = continue_as_of(generation_, std::move(token), codec_);
  const std::string& text = version();
  token.sequence = text.size() <= 20 ? parse_decimal(text).value_or(0) : 0;
  return token;
}

std::string ListRun::continue_text() {
  if (plan_.limit == 0 || lists_.positions.keys.empty()) {
    return {};
  }
  std::size_t index = current_;
  if (member_token_.empty()) {
    while (index < parts_.size() && parts_[index]->step.kind == Kind::kSkip) {
      ++index;
    }
  }
  if (index >= parts_.size()) {
    return {};
  }
  MergedContinue token = next_token(index);
  token.member_token = member_token_;
  return encode_continue(token, question(), lists_.positions.keys.front());
}

void ListRun::start_output(std::string_view type) {
  http::HeaderList headers;
  headers.add("content-type", type);
  headers.add("cache-control", "no-cache, private");
  headers.add("audit-id", head_.headers.get("audit-id"));
  warnings_.add_to(headers);
  if (!missing_.empty()) {
    const bool configured = shared_.options.policy == MissingShards::kPartial;
    ++(configured ? shared_.stats.lists_partial : shared_.stats.lists_partial_asked);
  }
  output_.start(std::move(headers), may_compress_);
}

void ListRun::finish() {
  if (envelope_.kind.empty()) {  // no shard was read
    envelope_.kind = "List";
    envelope_.api_version = "v1";
  }
  const ListEnd end{version(), continue_text(), shard_info_};
  if (format_ == ListFormat::kJson) {
    text_.close(envelope_, end);
    flush(true);
    stop(200);
    return;
  }
  for (const auto& part : parts_) {
    part->close();
  }
  spool_.close(envelope_, end);
  closing_ = true;
  start_output(krm::kProtobufMediaType);
  go_on();
}

void ListRun::send_spooled() {
  const std::string piece = spool_.take_piece();
  const bool last = spool_.empty();
  if (spooled_) {
    (void)spooled_->set(spool_.size());
  }
  output_.write(piece, last);
  if (last) {
    stop(200);
  }
}

void ListRun::too_late() {
  if (done_) {
    return;
  }
  Causes late;
  for (const auto& part : parts_) {
    if (part->asked() && !part->ended()) {
      late.emplace_back(part->member.name, "its list did not end in time");
    }
  }
  if (late.empty()) {
    late.emplace_back("list", "the list did not end in time");
  }
  fail_with(shards_unavailable(late, false));
}

void ListRun::fail_with(const Error& error) {
  if (done_) {
    return;
  }
  if (!output_.started()) {
    refuse(error);
    return;
  }
  stop(kCutOff);
  output_.abort();
}

void ListRun::on_part_fault() {
  working_ = false;
  fail_with(krm::internal("the list could not be merged"));
}

void ListRun::on_drained() noexcept {
  guard_read(
      "client of a merged list", [this] { go_on(); }, [this] { on_part_fault(); });
}

void ListRun::refuse(const Error& error) {
  stop(krm::http_status(error));
  serving::send_error(down_, form_, error);
}

void ListRun::stop(int code) noexcept {
  if (std::exchange(done_, true)) {
    return;
  }
  shared_.stats.list_times[code].add(shared_.loop.now() - begun_at_);
  deadline_.cancel();
  for (const auto& part : parts_) {
    part->close();
  }
  ticket_.reset();
}

}  // namespace kintsugi::aggregation
