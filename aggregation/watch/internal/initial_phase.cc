#include "aggregation/watch/internal/initial_phase.h"

#include <algorithm>
#include <functional>
#include <utility>

#include "aggregation/asking/shard_answer.h"
#include "aggregation/bytes/json_split.h"
#include "base/strings.h"
#include "krm/status.h"

namespace kintsugi::aggregation {
namespace {

constexpr Duration kListFirst = seconds(600);
constexpr std::string_view kPage = "&limit=500";

/// The object of an item: itself, or that of a row.
std::string_view object_of(std::string_view item, bool is_row) {
  MemberWalk walk(item);
  while (is_row) {
    const auto member = walk.next();
    if (!member) {
      return {};
    }
    if (key_is(member->key, "object")) {
      return member->value;
    }
  }
  return item;
}

}  // namespace

InitialPhase::InitialPhase(Asking& shared, Host& host, const Member& member,
                           ShardQuestion& question, const WatchStart& start)
    : shared_(shared),
      host_(host),
      member_(member),
      question_(question),
      any_state_(start.any_state),
      wanted_(start.revision),
      asked_at_(shared.loop.now()),
      timer_(shared.loop),
      future_(shared.loop) {}

bool InitialPhase::prefers_list() const {
  return shared_.lists_first(member_.id, question_.route.scope);
}

void InitialPhase::list(std::string_view reason) {
  ++shared_.stats.emulated[{member_.name, reason}];
  accepted_ = false;  // by the answer to an earlier one
  begin(Task::kDeliver);
}

void InitialPhase::watch_accepted() {
  if (wanted_ != 0 && !std::exchange(head_asked_, true)) {
    future_.start(shared_.params.future_wait, [this] { ask_how_far(); });
  }
  timer_.start(shared_.params.silence, [this] { silent(); });
}

void InitialPhase::heard(const EventFacts& facts) {
  if (task_ == Task::kDeliver) {
    return;
  }
  if (task_ != Task::kNone) {
    pages_->close();
    task_ = Task::kNone;
  }
  is_slow_ = false;
  only_added_ = only_added_ && facts.type == EventType::kAdded;
  watched_.add(facts.facts);
  watch_accepted();
}

void InitialPhase::ask_how_far() {
  head_probe_ =
      std::make_unique<ListProbe>(shared_, question_, member_.id, [this](const ListEnvelope& list) {
        const std::uint64_t reached = parse_decimal(list.resource_version).value_or(0);
        if (reached != 0 && reached < wanted_) {
          refuse_future(reached);
        }
      });
  head_probe_->start();
}

void InitialPhase::refuse_future(std::uint64_t reached) {
  const Error error = version_too_large(wanted_, reached);
  http::ResponseHead head;
  head.status = krm::http_status(error);
  head.headers.add("content-type", "application/json");
  head.headers.add("retry-after", std::to_string(krm::retry_after_seconds(error)));
  stop();
  host_.on_phase_refused(head, krm::to_status(error).dump());
}

void InitialPhase::end_at(std::uint64_t revision) {
  if (revision < wanted_) {
    refuse_future(revision);
  } else {
    host_.on_phase_end(kind(), revision);
  }
}

void InitialPhase::stop() noexcept {
  timer_.cancel();
  future_.cancel();
  if (head_probe_ != nullptr) {
    head_probe_->stop();
  }
  head_asked_ = false;
  task_ = Task::kNone;
  if (pages_ != nullptr) {
    pages_->close();
  }
}

void InitialPhase::consume(std::size_t bytes) noexcept {
  if (pages_ != nullptr && task_ == Task::kDeliver) {
    pages_->consume(bytes);
  }
}

void InitialPhase::Tally::add(const ObjectFacts& facts) noexcept {
  ++count;
  const std::uint64_t uid = std::hash<std::string_view>()(facts.uid);
  hash += uid * (2 * facts.revision + 1);
}

void InitialPhase::begin(Task task) {
  ShardPages::Listener& self = *this;
  task_ = task;
  timer_.cancel();
  listed_ = {};
  ListQuery list;
  list.query = task == Task::kProbe ? std::string_view("&limit=1") : kPage;
  if (task == Task::kDeliver && any_state_) {
    list.query = "&resourceVersion=0";
  }
  if (pages_ != nullptr) {  // it may be on the stack
    pages_->close();
    shared_.loop.post([kept = std::shared_ptr<ShardPages>(std::move(pages_))] {});
  }
  pages_ = std::make_unique<ShardPages>(shared_, self, member_.id, question_, std::move(list));
  if (!pages_->start()) {
    on_pages_end(ShardPages::End::kBroken);
  }
}

void InitialPhase::silent() {
  if (host_.is_held_back()) {
    watch_accepted();  // not the shard's silence
  } else if (watched_.count > 0) {
    begin(Task::kCompare);
  } else if (is_slow_) {
    list("slow");
  } else {
    begin(Task::kProbe);
  }
}

void InitialPhase::on_item(std::string_view item, const ListEnvelope& envelope) {
  if (task_ == Task::kProbe) {
    return;
  }
  const bool is_row = envelope.kind == "Table";
  const ObjectFacts facts =
      (question_.shape.coding->protobuf ? proto_item_facts(item)
                                        : object_facts(object_of(item, is_row)))
          .value_or(ObjectFacts{});
  if (task_ == Task::kCompare) {
    listed_.add(facts);
    return;
  }
  if (!std::exchange(accepted_, true)) {
    host_.on_list_accepted();
  }
  if (task_ == Task::kDeliver) {
    host_.on_listed_event(
        is_row ? row_event("ADDED", envelope.api_version, facts.revision, envelope.columns, item)
               : question_.shape.coding->item("ADDED", kind(), facts, item));
  }
}

void InitialPhase::on_bytes(std::size_t count) {
  if (task_ == Task::kDeliver) {
    host_.on_listed_bytes(count);
  } else if (task_ == Task::kProbe && pages_->items() > 0) {
    pages_->close();
    end_probe(ShardPages::End::kDone);
  } else {
    pages_->consume(count);
  }
}

void InitialPhase::on_pages_end(ShardPages::End end) {
  switch (task_) {
    case Task::kNone:
      return;
    case Task::kDeliver:
      end_deliver(end);
      return;
    case Task::kCompare:
      end_compare(end);
      return;
    case Task::kProbe:
      end_probe(end);
      return;
  }
}

/// Of an object "WidgetList" is a list of.
StreamKind InitialPhase::kind() const {
  const ListEnvelope& list = pages_->envelope();
  std::string_view kind = list.kind;
  if (kind.ends_with("List")) {
    kind.remove_suffix(4);
  }
  return {std::string(kind), list.api_version};
}

void InitialPhase::end_compare(ShardPages::End end) {
  task_ = Task::kNone;
  if (end != ShardPages::End::kDone) {
    watch_accepted();  // once more, later
    return;
  }
  if (wanted_ > pages_->revision() && pages_->revision() != 0) {
    watch_accepted();  // it waits: see ask_how_far()
    return;
  }
  if (only_added_ && listed_ == watched_ && pages_->revision() != 0) {
    ++shared_.stats.emulated[{member_.name, "silent"}];
    end_at(pages_->revision());
    return;
  }
  shared_.list_first(member_.id, question_.route.scope, kListFirst);
  host_.on_phase_lost("its initial events did not end");
}

void InitialPhase::end_probe(ShardPages::End end) {
  task_ = Task::kNone;
  const bool is_absent = end == ShardPages::End::kRefused && pages_->answer().status == 404;
  const bool is_empty = end == ShardPages::End::kDone && pages_->items() == 0;
  if (is_absent || (is_empty && pages_->revision() == 0)) {
    host_.on_phase_absent(pages_->answer(), pages_->body());
  } else if (is_empty && pages_->revision() < wanted_) {
    watch_accepted();  // it waits: see ask_how_far()
  } else if (is_empty) {
    ++shared_.stats.emulated[{member_.name, "empty"}];
    end_at(pages_->revision());
  } else if (end == ShardPages::End::kDone) {
    is_slow_ = true;
    const TimePoint due = asked_at_ + shared_.params.initial_deadline;
    timer_.start(std::max<Duration>(due - shared_.loop.now(), milliseconds(1)),
                 [this] { silent(); });
  } else {
    watch_accepted();
  }
}

void InitialPhase::end_deliver(ShardPages::End end) {
  task_ = Task::kNone;
  const bool own_token =
      pages_->answer().status == 401 && question_.head.headers.contains("authorization");
  if (end == ShardPages::End::kRefused &&
      (own_token || judge_answer(pages_->answer(), pages_->body()) == ShardVerdict::kFinal)) {
    host_.on_phase_refused(pages_->answer(), pages_->body());
    return;
  }
  const bool is_missing = end == ShardPages::End::kRefused && pages_->answer().status == 404;
  const bool says_nothing =
      end == ShardPages::End::kDone && pages_->items() == 0 && pages_->revision() == 0;
  if ((is_missing && !accepted_) || says_nothing) {
    host_.on_phase_absent(pages_->answer(), pages_->body());
    return;
  }
  if (end != ShardPages::End::kDone || pages_->revision() == 0) {
    host_.on_phase_lost("its list ended with " + std::to_string(pages_->answer().status));
    return;
  }
  if (!prefers_list()) {
    shared_.list_first(member_.id, question_.route.scope, kListFirst);
  }
  if (!std::exchange(accepted_, true)) {
    host_.on_list_accepted();
  }
  end_at(pages_->revision());
}

}  // namespace kintsugi::aggregation
