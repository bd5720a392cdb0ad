#include "proxy/merge/merged_list.h"

#include <algorithm>
#include <cstring>
#include <optional>
#include <utility>

#include "base/log.h"
#include "base/strings.h"
#include "krm/json.h"
#include "krm/status.h"
#include "proxy/answer.h"
#include "proxy/merge/json_split.h"
#include "proxy/merge/marker.h"
#include "proxy/merge/shard_answer.h"

namespace kintsugi::proxy {
namespace {

constexpr std::size_t kMaxErrorBody = 64U << 10;
constexpr std::size_t kFlushBytes = 16U << 10;
constexpr std::string_view kSystemCluster = "\"kcp.io/cluster\":\"system:";

bool is_system_object(std::string_view item) {
  return ::memmem(item.data(), item.size(), kSystemCluster.data(), kSystemCluster.size()) !=
         nullptr;
}

std::uint64_t number(std::string_view text) { return parse_decimal(text).value_or(0); }

class MergedList final : public http::RequestHandler {
 public:
  MergedList(MergeLoop& shared, http::RequestHead head, http::ResponseStream& stream,
             MergeRoute route, MergeQuery query, std::string accept)
      : shared_(shared),
        down_(stream),
        form_(AnswerForm::of(head)),
        head_(std::move(head)),
        route_(std::move(route)),
        query_(std::move(query)),
        codec_(route_.scope, shared.slots),
        first_byte_(shared.loop),
        deadline_(shared.loop) {
    ++shared_.stats.lists;
    ask_as(head_, accept);
  }

  void start() {
    members_ = route_.members();
    Expected<ListPlan> plan = make_plan();
    if (!plan) {
      refuse(plan.error());
      return;
    }
    plan_ = std::move(*plan);
    for (const Member& member : members_) {
      parts_.push_back(std::make_unique<Part>(*this, member));
    }
    if (parts_.empty()) {
      refuse(shards_unavailable({{"none", "no shard is known"}}, false));
      return;
    }
    current_ = plan_.first;
    components_.assign(codec_.history().current().uids.size(), 0);
    first_byte_.start(shared_.params.first_byte, [this] { no_first_byte(); });
    deadline_.start(shared_.params.list_deadline, [this] { too_late(); });
    for (std::size_t i = 0; i < parts_.size(); ++i) {
      Part& part = *parts_[i];
      part.step = plan_.steps[i];
      if (part.step.pin != 0) {
        components_[part.member.slot] = part.step.pin;
      }
      const bool asks =
          part.step.kind == ListStep::Kind::kRead || part.step.kind == ListStep::Kind::kPin;
      if (asks && !ask(part, part.step.query)) {
        return;
      }
    }
    begin();
    go_on();
  }

  void on_data(std::string_view bytes, bool) noexcept override { down_.consume(bytes.size()); }
  void on_drained() noexcept override { go_on(); }
  void on_close(Errc) noexcept override { stop(); }

 private:
  struct Part final : MemberCall::Listener {
    Part(MergedList& o, Member m)
        : owner(o), member(std::move(m)), call(*this), splitter(o.shared_.params.max_event) {}
    void on_head(const http::ResponseHead& answer) noexcept override {
      owner.part_head(*this, answer);
    }
    void on_data(std::string_view bytes) noexcept override {
      waiting += bytes;
      owner.part_moved(*this);
    }
    void on_end(Errc cause) noexcept override {
      ended = true;
      end_cause = cause;
      owner.part_moved(*this);
    }
    MergedList& owner;
    Member member;
    MemberCall call;
    ListSplitter splitter;
    ListStep step;
    http::ResponseHead head;
    std::string waiting;  // received, not looked at: within the stream's window
    bool headed = false;
    bool ended = false;
    bool finished = false;  // everything of it is in the answer
    bool has_items = false;
    Errc end_cause = Errc::kOk;
  };

  Expected<ListPlan> make_plan() {
    const std::vector<bool> flags = member_flags(codec_.history(), members_);
    if (query_.continue_token.empty()) {
      const DecodedVersion version = codec_.decode(query_.resource_version, flags);
      return plan_list(query_, version, slots_needed(version.components));
    }
    const Expected<MergedContinue> token =
        decode_continue(query_.continue_token, question(), shared_.keys);
    if (!token) {
      return fail(token.error().clone());
    }
    const Expected<MergedContinue> here = translate_continue(*token, codec_, flags);
    if (!here) {
      return fail(here.error().clone());
    }
    return plan_page(query_, *here, slots_needed(here->pins));
  }

  /// Leaves out members that hold nothing and never did; the slots of the others.
  std::vector<std::size_t> slots_needed(const Components& read) {
    std::erase_if(members_, [&read](const Member& member) {
      return !member.needed && (member.slot >= read.size() || read[member.slot] == 0);
    });
    std::vector<std::size_t> slots;
    for (const Member& member : members_) {
      slots.push_back(member.slot);
    }
    return slots;
  }

  [[nodiscard]] ListQuestion question() const {
    return {route_.scope,          route_.info.version,   route_.info.ns,
            query_.label_selector, query_.field_selector, query_.shard_selector};
  }

  /// False: the list has been answered.
  bool ask(Part& part, const std::string& query) {
    shards::ShardClient* client = client_of(shared_, route_, part.member.id);
    http::RequestHead head = head_;
    head.target = route_.path + query;
    part.splitter = ListSplitter(shared_.params.max_event);
    part.waiting.clear();
    part.headed = part.ended = false;
    if (client == nullptr || !part.call.open(*client, net::UpstreamClass::kRead, std::move(head))) {
      lose(part, client == nullptr ? "not known yet" : client->cause());
      return false;
    }
    return true;
  }

  void part_head(Part& part, const http::ResponseHead& head) {
    part.head = head;
    part.headed = true;
    if (head.status == 200 && media_type(head.headers.get("content-type")) != "application/json") {
      lose(part, "its answer is not JSON");
      return;
    }
    for (std::size_t i = 0; i < head.headers.size(); ++i) {
      const http::HeaderView field = head.headers[i];
      if (field.name == "warning" && warnings_.size() < 64 &&
          std::find(warnings_.begin(), warnings_.end(), field.value) == warnings_.end()) {
        warnings_.emplace_back(field.value);
      }
    }
    part_moved(part);
  }

  void part_moved(Part& part) {
    if (done_) {
      return;
    }
    if (part.headed && part.head.status != 200) {
      if (!part.ended && part.waiting.size() < kMaxErrorBody) {
        return;  // its Status tells what to do
      }
      judge(part);
      return;
    }
    if (part.ended && part.end_cause != Errc::kOk) {
      lose(part, errc_name(part.end_cause));
      return;
    }
    if (!headed_) {
      begin();
    }
    go_on();
  }

  /// An answer other than 200.
  void judge(Part& part) {
    switch (judge_answer(part.head, part.waiting)) {
      case ShardVerdict::kAbsent:
        part.call.close();
        part.ended = part.finished = true;
        part.step.kind = ListStep::Kind::kSkip;
        components_[part.member.slot] = 0;
        ++absent_;
        if (absent_ == parts_.size()) {
          pass_on(part);
          return;
        }
        if (!headed_) {
          begin();
        }
        go_on();
        return;
      case ShardVerdict::kFinal:
        pass_on(part);
        return;
      case ShardVerdict::kExpired:
        expire(part);
        return;
      default:
        lose(part, "it answers " + std::to_string(part.head.status));
    }
  }

  /// The shard's own Status goes to the client.
  void pass_on(Part& part) {
    if (headed_) {
      abort();
      return;
    }
    http::HeaderList headers = passed_headers(part.head);
    const std::string body = std::move(part.waiting);
    const int status = part.head.status;
    stop();
    headers.add("audit-id", head_.headers.get("audit-id"));
    down_.send_head(status, headers, false);
    down_.send_data(body, true);
  }

  /// A pin that the shard has forgotten; with its fresh token the client may go on (6.2).
  void expire(Part& part) {
    Error error = version_expired();
    const Expected<krm::Json> status = krm::Json::parse(part.waiting);
    const std::string fresh(status ? status->text({"metadata", "continue"}) : std::string_view());
    if (plan_.from_token && !fresh.empty() && !shared_.keys.empty()) {
      MergedContinue token = next_token(index_of(part));
      token.inconsistent = true;
      token.member_token = fresh;
      error.edit().continue_token = encode_continue(token, question(), shared_.keys.front());
    }
    ++shared_.stats.expired["history"];
    if (headed_) {
      abort();
    } else {
      refuse(error);
    }
  }

  [[nodiscard]] std::size_t index_of(const Part& part) const {
    return static_cast<std::size_t>(
        std::find_if(parts_.begin(), parts_.end(),
                     [&](const auto& each) { return each.get() == &part; }) -
        parts_.begin());
  }

  /// Status line and fields, when every shard that was asked has answered with 200.
  void begin() {
    for (const auto& part : parts_) {
      const bool asked =
          part->step.kind == ListStep::Kind::kRead || part->step.kind == ListStep::Kind::kPin;
      if (asked && !part->headed) {
        return;
      }
      if (asked && part->head.status != 200) {
        return;  // judged when its Status is there
      }
      // Pins decide what the cursor says, and columns whether rows fit together.
      if (part->step.kind == ListStep::Kind::kPin && !read_pin(*part)) {
        return;
      }
    }
    first_byte_.cancel();
    headed_ = true;
    http::HeaderList headers;
    const auto shown = std::find_if(parts_.begin(), parts_.end(),
                                    [](const auto& part) { return part->head.status == 200; });
    headers.add("content-type", shown == parts_.end() ? std::string_view("application/json")
                                                      : (*shown)->head.headers.get("content-type"));
    headers.add("cache-control", "no-cache, private");
    headers.add("audit-id", head_.headers.get("audit-id"));
    for (const std::string& warning : warnings_) {
      headers.add("warning", warning);
    }
    down_.send_head(200, headers, false);
  }

  /// True: the revision that it is pinned at is known.
  bool read_pin(Part& part) {
    if (part.finished) {
      return true;
    }
    const std::size_t size = part.waiting.size();
    const auto fault =
        part.splitter.feed(part.waiting, [&part](std::string_view) { part.has_items = true; });
    part.waiting.clear();
    part.call.consume(size);
    if (fault != ListSplitter::Fault::kNone) {
      lose(part, "its answer cannot be understood");
      return false;
    }
    if (!part.splitter.done()) {
      if (part.ended) {
        lose(part, "its answer was cut off");
      }
      return false;
    }
    part.finished = true;
    part.step.pin = number(part.splitter.envelope().resource_version);
    components_[part.member.slot] = part.step.pin;
    part.step.kind = part.has_items ? ListStep::Kind::kLater : ListStep::Kind::kSkip;
    part.call.close();
    return true;
  }

  /// Takes from the shard whose turn it is as much as the client has room for.
  void go_on() {
    if (done_ || !headed_ || working_) {
      return;
    }
    working_ = true;
    while (!done_ && down_.unsent_bytes() < shared_.params.queue_high) {
      if (current_ >= parts_.size()) {
        finish();
        break;
      }
      Part& part = *parts_[current_];
      if (part.step.kind == ListStep::Kind::kSkip) {
        ++current_;
        continue;
      }
      if (plan_.limit > 0 && count_ >= plan_.limit) {
        finish();
        break;
      }
      if (part.step.kind == ListStep::Kind::kLater) {
        part.step.kind = ListStep::Kind::kRead;
        part.finished = false;
        if (!ask(part,
                 pinned_query(query_, part.step.pin, plan_.limit > 0 ? plan_.limit - count_ : 0))) {
          break;
        }
        continue;
      }
      if (!take(part)) {
        break;
      }
    }
    working_ = false;
  }

  /// True when the part is through.
  bool take(Part& part) {
    if (!part.headed || part.head.status != 200) {
      return false;
    }
    const std::string bytes = std::exchange(part.waiting, {});
    const auto fault = part.splitter.feed(bytes, [&](std::string_view item) {
      const std::string& marker = part.member.marker;
      if (!marker.empty() || !is_system_object(item)) {
        open_list(part.splitter.envelope());
        out_ += count_ == 0 ? "" : ",";
        if (marker.empty()) {
          out_ += item;
        } else {
          out_ += with_marker(item, marker);
        }
        ++count_;
      }
    });
    flush(false);
    part.call.consume(bytes.size());
    if (fault != ListSplitter::Fault::kNone) {
      ++shared_.stats.malformed;
      lose(part, "its answer cannot be understood");
      return false;
    }
    if (!part.splitter.done()) {
      if (part.ended) {
        lose(part, "its answer was cut off");
      }
      return false;
    }
    part.finished = true;
    const ListEnvelope& envelope = part.splitter.envelope();
    open_list(envelope);
    shard_info_ = shard_info_.empty() ? envelope.shard_info : shard_info_;
    if (kind_.empty()) {
      kind_ = envelope.kind;
      api_version_ = envelope.api_version;
    }
    if (const std::uint64_t revision = number(envelope.resource_version);
        revision > 1 && (components_[part.member.slot] == 0 || plan_.inconsistent)) {
      components_[part.member.slot] = revision;
    }
    if (!envelope.continue_token.empty()) {
      member_token_ = envelope.continue_token;
      finish();
      return false;
    }
    ++current_;
    return true;
  }

  /// What stands before the items; `kind` only if it is known by now.
  void open_list(const ListEnvelope& envelope) {
    if (opened_) {
      return;
    }
    opened_ = true;
    out_ += '{';
    table_ = envelope.kind == "Table";
    if (!envelope.kind.empty()) {
      kind_ = envelope.kind;
      api_version_ = envelope.api_version;
      kind_sent_ = true;
      out_ += "\"kind\":" + krm::Json(kind_).dump() +
              ",\"apiVersion\":" + krm::Json(api_version_).dump() + ',';
    }
    if (table_) {
      columns_ = envelope.columns;
      out_ += "\"columnDefinitions\":" + (columns_.empty() ? std::string("[]") : columns_) + ',';
    }
    out_ += table_ ? "\"rows\":[" : "\"items\":[";
  }

  void flush(bool end) {
    if (end || out_.size() >= kFlushBytes || !out_.empty()) {
      down_.send_data(out_, end);
      out_.clear();
    }
  }

  [[nodiscard]] MergedContinue next_token(std::size_t index) const {
    MergedContinue token;
    token.generation = codec_.history().current().generation;
    token.check = codec_.check();
    token.inconsistent = plan_.inconsistent;
    token.slot = static_cast<std::uint16_t>(parts_[index]->member.slot);
    token.pins = components_;
    return token;
  }

  /// "" when the list ends with this page.
  [[nodiscard]] std::string continue_text() const {
    if (plan_.limit == 0 || shared_.keys.empty()) {
      return {};
    }
    std::size_t index = current_;
    if (member_token_.empty()) {
      while (index < parts_.size() && parts_[index]->step.kind == ListStep::Kind::kSkip) {
        ++index;
      }
    }
    if (index >= parts_.size()) {
      return {};
    }
    MergedContinue token = next_token(index);
    token.member_token = member_token_;
    return encode_continue(token, question(), shared_.keys.front());
  }

  void finish() {
    if (!opened_) {  // no shard was read
      ListEnvelope nothing;
      nothing.kind = "List";
      nothing.api_version = "v1";
      open_list(nothing);
    }
    out_ += ']';
    if (!kind_sent_) {
      out_ += ",\"kind\":" + krm::Json(kind_).dump() +
              ",\"apiVersion\":" + krm::Json(api_version_).dump();
    }
    krm::Json metadata = krm::Json::object({{"resourceVersion", codec_.format(components_)}});
    if (std::string token = continue_text(); !token.empty()) {
      metadata["continue"] = std::move(token);
    }
    std::string text = metadata.dump();
    if (!shard_info_.empty()) {
      text.insert(text.size() - 1, ",\"shardInfo\":" + shard_info_);
    }
    out_ += ",\"metadata\":" + text + "}\n";
    flush(true);
    stop();
  }

  void lose(Part& part, std::string_view cause) {
    if (done_) {
      return;
    }
    ++shared_.stats.failed;
    log_warn("a shard fails a merged list",
             {{"shard", part.member.name}, {"cause", cause}, {"path", route_.path}});
    if (headed_) {
      abort();
      return;
    }
    refuse(shards_unavailable({{part.member.name, std::string(cause)}}, false));
  }

  void no_first_byte() {
    std::vector<std::pair<std::string, std::string>> late;
    for (const auto& part : parts_) {
      const bool asked =
          part->step.kind == ListStep::Kind::kRead || part->step.kind == ListStep::Kind::kPin;
      if (asked && !part->headed) {
        late.emplace_back(part->member.name, "no answer in time");
      }
    }
    if (!late.empty() && !headed_ && !done_) {
      ++shared_.stats.failed;
      refuse(shards_unavailable(late, false));
    }
  }

  void too_late() {
    if (headed_) {
      abort();
    } else if (!done_) {
      refuse(shards_unavailable({{"list", "the list did not end in time"}}, false));
    }
  }

  /// The client must not take what it has for a list.
  void abort() {
    stop();
    down_.reset(Errc::kInternal);
  }

  void refuse(const Error& error) {
    stop();
    send_error(down_, form_, error);
  }

  void stop() {
    done_ = true;
    first_byte_.cancel();
    deadline_.cancel();
    for (const auto& part : parts_) {
      part->call.close();
    }
  }

  MergeLoop& shared_;
  http::ResponseStream& down_;
  AnswerForm form_;
  http::RequestHead head_;  // what every shard is asked with
  MergeRoute route_;
  MergeQuery query_;
  CursorCodec codec_;
  net::Timer first_byte_, deadline_;
  ListPlan plan_;
  std::vector<Member> members_;
  std::vector<std::unique_ptr<Part>> parts_;
  std::vector<std::string> warnings_;
  Components components_;
  std::size_t current_ = 0;  // whose items come now
  std::size_t absent_ = 0;
  std::int64_t count_ = 0;
  std::string out_;
  std::string kind_, api_version_, columns_, shard_info_, member_token_;
  bool headed_ = false, opened_ = false, kind_sent_ = false, table_ = false;
  bool done_ = false, working_ = false;
};

}  // namespace

std::unique_ptr<http::RequestHandler> make_merged_list(MergeLoop& shared, http::RequestHead head,
                                                       http::ResponseStream& stream,
                                                       MergeRoute route, MergeQuery query,
                                                       std::string accept) {
  auto list = std::make_unique<MergedList>(shared, std::move(head), stream, std::move(route),
                                           std::move(query), std::move(accept));
  list->start();
  return list;
}

}  // namespace kintsugi::proxy
