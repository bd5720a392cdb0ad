#include "aggregation/list/internal/list_run.h"

#include <algorithm>

#include "aggregation/asking/merge_guard.h"
#include "base/strings.h"
#include "krm/protobuf.h"
#include "krm/status.h"

namespace kintsugi::aggregation {
namespace {

using Fault = ListSplitter::Fault;
using Kind = ListStep::Kind;

Error not_acceptable() {
  return Error(Errc::kNotAcceptable,
               "the shards do not agree on one of the media types that are accepted; "
               "application/json always works");
}

}  // namespace

ListRun::ListRun(Lists& lists, http::RequestHead head, http::ResponseStream& stream,
                 MergeRoute route, MergeQuery query, std::string accept)
    : lists_(lists),
      shared_(lists.asking),
      down_(stream),
      form_(serving::AnswerForm::of(head)),
      may_compress_(http::accepts_gzip(head.headers.get("accept-encoding"))),
      head_(std::move(head)),
      route_(std::move(route)),
      query_(std::move(query)),
      accept_(std::move(accept)),
      codec_(lists.positions.codec(route_.scope)),
      begun_at_(shared_.loop.now()),
      deadline_(shared_.loop),
      generation_(codec_.history().current().generation),
      output_(stream) {
  ++shared_.stats.lists;
  ask_as(head_, accept_);
  for (const auto& [shard, cause] : route_.left_out) {
    missing_.emplace_back(shard, cause);
    warnings_.add_missing(shard, cause);
  }
}

void ListRun::start() {
  members_ = route_.members();
  Expected<ListPlan> plan = make_plan();
  if (!plan) {
    refuse(plan.error());
    return;
  }
  plan_ = std::move(*plan);
  for (std::size_t i = 0; i < members_.size(); ++i) {
    parts_.push_back(std::make_unique<ListPart>(shared_, *this, members_[i]));
    parts_.back()->step = plan_.steps[i];
  }
  if (parts_.empty()) {
    refuse(shards_unavailable({{"none", "no shard is known"}}, false));
    return;
  }
  deadline_.start(time_allowed(), [this] {
    guard_read(
        "deadline of a merged list", [this] { too_late(); }, [this] { on_part_fault(); });
  });
  const auto answered = [this](ReadGate::Answer answer) {
    if (answer == ReadGate::Answer::kGo) {
      ask_all();
    } else {
      refuse(shards_busy(1));
    }
  };
  ticket_ =
      lists_.gate->enter(shared_.loop, {.identity = route_.caller.payer, .amount = parts_.size()},
                         shared_.params.first_byte, answered);
  if (ticket_ == nullptr) {
    answered(ReadGate::Answer::kTurnedAway);
  } else if (ticket_->may_go()) {
    answered(ReadGate::Answer::kGo);
  }
}

Expected<ListPlan> ListRun::make_plan() {
  const std::vector<bool> flags = member_flags(codec_.history(), members_);
  if (query_.continue_token.empty()) {
    const DecodedVersion version = codec_.decode(query_.resource_version, flags);
    Expected<ListPlan> plan = plan_list(query_, version, slots_needed(version.components));
    if (version.kind == VersionClass::kCursor && codec_.is_sequence()) {
      version_ = query_.resource_version;  // the same position has the same number (T06)
      version_of_ = version.components;
    }
    if (!plan && plan.error().code() == Errc::kExpired) {
      ++shared_.stats.expired[version.reason.empty() ? "native" : version.reason];
    }
    return plan;
  }
  const Expected<MergedContinue> token =
      decode_continue(query_.continue_token, question(), lists_.positions.keys);
  if (!token) {
    return fail(token.error().clone());
  }
  const Expected<MergedContinue> here = translate_continue(*token, codec_, flags);
  if (!here) {
    ++shared_.stats.expired["generation"];
    return fail(here.error().clone());
  }
  generation_ = token->generation;
  if (token->sequence != 0) {  // all pages are of one version
    version_ = std::to_string(token->sequence);
    version_of_ = here->pins;
  }
  return plan_page(query_, *here, slots_needed(here->pins));
}

std::vector<std::size_t> ListRun::slots_needed(const Components& read) {
  std::erase_if(members_, [&read](const Member& member) {
    return !member.needed && (member.slot >= read.size() || read[member.slot] == 0);
  });
  std::vector<std::size_t> slots;
  for (const Member& member : members_) {
    slots.push_back(member.slot);
  }
  return slots;
}

Duration ListRun::time_allowed() const {
  const auto asked = parse_go_duration_ns(route_.info.query.get("timeout").value_or(""));
  const Duration most = shared_.params.list_deadline;
  return asked && *asked > 0 ? std::min(most, Duration(*asked)) : most;
}

ListQuestion ListRun::question() const { return question_of(route_, query_); }

void ListRun::ask_all() {
  text_ = JsonListText();
  spool_ = ProtoSpool();
  spooled_.reset();
  envelope_ = {};
  shard_info_.clear();
  count_ = 0;
  decided_ = false;
  current_ = plan_.first;
  components_.assign(codec_.history().current().uids.size(), 0);
  for (const auto& part : parts_) {
    if (part->step.pin != 0) {
      components_[part->member.slot] = part->step.pin;
    }
  }
  Causes away;
  for (const auto& part : parts_) {
    if (done_ || !part->asked() || send(*part)) {
      continue;
    }
    if (may_miss(*part)) {
      lose(*part, part->cause(), part->reason());
    } else {
      away.emplace_back(part->member.name, part->cause());
      ++shared_.stats.shard_failures[{part->member.name, part->reason()}];
    }
  }
  if (!away.empty() && !done_) {
    ++shared_.stats.failed;
    refuse(shards_unavailable(away, false));
    return;
  }
  settle();
}

void ListRun::ask_all_as(std::string accept) {
  accept_ = std::move(accept);
  if (accept_.empty()) {
    refuse(not_acceptable());
    return;
  }
  ask_as(head_, accept_);
  for (std::size_t i = 0; i < parts_.size(); ++i) {
    ListPart& part = *parts_[i];
    const ListStep& planned = plan_.steps[i];
    const std::uint64_t revision =
        part.answered() ? parse_decimal(part.envelope().resource_version).value_or(0) : 0;
    if (part.absent || part.missing) {
      continue;
    }
    part.forget();
    if (planned.kind == Kind::kPin) {
      part.step.kind = part.has_items ? Kind::kLater : Kind::kSkip;
      continue;
    }
    part.step = planned;
    if (planned.kind == Kind::kRead && revision > kBegun &&
        planned.query.find("continue=") == std::string::npos) {
      part.step.query = pinned_query(query_, revision, plan_.limit);
    }
  }
  ask_all();
}

/// What has no revision cannot be pinned: all of it comes on one page.
void ListRun::ask_all_unpaged() {
  query_.limit = 0;
  Expected<ListPlan> plan = make_plan();
  if (!plan) {
    refuse(plan.error());
    return;
  }
  plan_ = std::move(*plan);
  for (std::size_t i = 0; i < parts_.size(); ++i) {
    ListPart& part = *parts_[i];
    if (!part.absent && !part.missing) {
      part.forget();
      part.step = plan_.steps[i];
    }
  }
  ask_all();
}

bool ListRun::send(ListPart& part) {
  return part.ask(route_, head_, allows_table(accept_) && !decided_);
}

void ListRun::ask(ListPart& part) {
  if (!send(part)) {
    lose(part, part.cause(), part.reason());
  }
}

void ListRun::settle() {
  if (done_ || decided_) {
    go_on();
    return;
  }
  ListPart* next = nullptr;
  bool any = false;
  for (const auto& part : parts_) {
    if (part->asked() && !part->answered()) {
      return;
    }
    any = any || part->answered();
    next = next == nullptr && part->step.kind == Kind::kLater ? part.get() : next;
  }
  if (!any && next != nullptr) {  // nobody has said in which form the list comes
    next->step.kind = Kind::kRead;
    next->step.query = pinned_query(query_, next->step.pin, plan_.limit);
    ask(*next);
    return;
  }
  if (!same_format()) {
    return;
  }
  for (const auto& part : parts_) {
    // Pins decide what the cursor says, and columns whether rows fit together.
    if (part->step.kind == Kind::kPin && !read_pin(*part)) {
      return;
    }
  }
  if (same_table()) {
    decide();
    go_on();
  }
}

bool ListRun::same_format() {
  bool json = false;
  bool protobuf = false;
  for (const auto& part : parts_) {
    if (part->asked()) {
      (part->format() == ListFormat::kJson ? json : protobuf) = true;
    }
  }
  if (json || protobuf) {
    format_ = protobuf ? ListFormat::kProtobuf : ListFormat::kJson;
  }
  const std::string json_accept = without_protobuf(accept_);
  if (json && json_accept.empty()) {
    refuse(not_acceptable());
    return false;
  }
  if (!json || !protobuf) {
    return true;
  }
  accept_ = json_accept;
  ask_as(head_, accept_);
  for (const auto& part : parts_) {
    if (done_ || !part->answered() || !part->asked() || part->format() == ListFormat::kJson) {
      continue;
    }
    if (std::exchange(part->retyped, true)) {
      lose(*part, "it answers in a media type that was not asked for", "malformed");
    } else {
      ask(*part);
    }
  }
  return false;
}

bool ListRun::same_table() {
  if (!allows_table(accept_) || format_ != ListFormat::kJson) {
    return true;
  }
  const ListEnvelope* first = nullptr;
  for (const auto& part : parts_) {
    if (!part->answered()) {
      continue;
    }
    if (!part->columns_known()) {
      return false;
    }
    const ListEnvelope& seen = part->columns();
    if (seen.kind.empty()) {
      continue;
    }
    if (first == nullptr) {
      first = &seen;
    } else if (seen.kind != first->kind || seen.api_version != first->api_version ||
               !same_columns(seen.columns, first->columns)) {
      ask_all_as(without_tables(accept_));
      return false;
    }
  }
  return true;
}

bool ListRun::read_pin(ListPart& part) {
  if (part.read([&part](std::string_view) { part.has_items = true; }) != Fault::kNone) {
    ++shared_.stats.dropped[{part.member.name, "malformed"}];
    lose(part, "its answer cannot be understood", "malformed");
    return false;
  }
  if (!part.complete()) {
    if (part.ended()) {
      lose(part, "its answer was cut off", "malformed");
    }
    return false;
  }
  const ListEnvelope& envelope = part.envelope();
  part.finished = true;
  part.has_items = part.has_items || !envelope.continue_token.empty();
  part.step.pin = parse_decimal(envelope.resource_version).value_or(0);
  if (part.has_items && part.step.pin <= kBegun) {
    ask_all_unpaged();
    return false;
  }
  if (shared_.is_too_large(part.member.id, part.step.pin)) {
    lose(part, kTooLargeVersions, "sequence");
    return false;
  }
  part.step.kind = part.has_items ? Kind::kLater : Kind::kSkip;
  components_[part.member.slot] = part.step.pin;
  part.close();
  return true;
}

void ListRun::decide() {
  decided_ = true;
  if (without_protobuf(accept_).empty()) {
    format_ = ListFormat::kProtobuf;
  }
  if (format_ == ListFormat::kJson) {
    // Who is asked later has to answer in the same way.
    accept_ = without_protobuf(accept_);
    ask_as(head_, accept_);
  }
}

}  // namespace kintsugi::aggregation
