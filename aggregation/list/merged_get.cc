#include "aggregation/list/merged_get.h"

#include <algorithm>
#include <memory>
#include <optional>
#include <string>
#include <utility>
#include <vector>

#include "aggregation/asking/member_call.h"
#include "aggregation/asking/merge_guard.h"
#include "aggregation/asking/merge_query.h"
#include "aggregation/asking/shard_answer.h"
#include "aggregation/asking/shard_question.h"
#include "aggregation/bytes/marker.h"
#include "aggregation/bytes/proto_build.h"
#include "aggregation/bytes/proto_split.h"
#include "aggregation/list/list_plan.h"
#include "base/log.h"
#include "base/strings.h"
#include "krm/go_text.h"
#include "krm/status.h"
#include "serving/answer.h"

namespace kintsugi::aggregation {
namespace {

constexpr std::string_view kProtobuf = "application/vnd.kubernetes.protobuf";

/// Everything that the shards are asked with but the version, which is theirs.
std::string passed_on(const krm::Query& query) {
  std::string out;
  for (const auto& [key, value] : query.pairs()) {
    if (key != "resourceVersion") {
      out += '&' + percent_encode(key) + '=' + percent_encode(value);
    }
  }
  return out;
}

class MergedGet final : public http::RequestHandler {
 public:
  MergedGet(Lists& lists, http::RequestHead head, http::ResponseStream& stream, MergeRoute route)
      : shared_(lists.asking),
        positions_(lists.positions),
        down_(stream),
        form_(serving::AnswerForm::of(head)),
        head_(std::move(head)),
        route_(std::move(route)),
        timer_(shared_.loop) {}

  void start(std::string_view accept, bool partial) {
    ask_as(head_, accept);
    partial_ = partial;
    const std::vector<Member> members = route_.members();
    const CursorCodec codec = positions_.codec(route_.scope);
    const std::string version(route_.info.query.get("resourceVersion").value_or(""));
    const DecodedVersion read = codec.decode(version, member_flags(codec.history(), members));
    if (read.kind == VersionClass::kMalformed) {
      refuse(version_malformed(version));
      return;
    }
    if (read.kind == VersionClass::kUnknown || read.kind == VersionClass::kFuture ||
        !read.departed.empty()) {
      refuse(version_expired());
      return;
    }
    if (members.empty()) {
      refuse(shards_unavailable({{"none", "no shard is known"}}, false));
      return;
    }
    for (const Member& member : members) {
      parts_.push_back(std::make_unique<Part>(*this, member));
    }
    timer_.start(shared_.params.first_byte, [this] {
      guard_read(
          "deadline of a merged get", [this] { too_late(); }, [this] { fail(); });
    });
    const std::string more = passed_on(route_.info.query);
    for (const auto& part : parts_) {
      std::string query = more;
      if (read.kind == VersionClass::kZero) {
        query += "&resourceVersion=0";
      } else if (read.kind == VersionClass::kCursor && read.components[part->member.slot] != 0) {
        query += "&resourceVersion=" + std::to_string(read.components[part->member.slot]);
      }
      ask(*part, query);
    }
    judge();
  }

  void on_data(std::string_view bytes, bool) noexcept override { down_.consume(bytes.size()); }
  void on_close(Errc) noexcept override { stop(); }

 private:
  struct Part final : MemberCall::Listener {
    Part(MergedGet& o, Member m)
        : owner(o), member(std::move(m)), call(o.shared_.loop, *this), later(o.shared_.loop) {}
    void on_head(const http::ResponseHead& answer) override { head = answer; }
    void on_data(std::string_view bytes) override {
      call.consume(bytes.size());
      body += bytes;
      if (body.size() > owner.shared_.params.max_event) {
        call.close();
        owner.lost(*this, "its answer is too large");
      }
    }
    void on_fault() override { owner.fail(); }
    void on_end(Errc why) override {
      if (why != Errc::kOk) {
        owner.lost_on_the_way(*this, why);
        return;
      }
      ended = true;
      if (has_it() && owner.shared_.is_too_large(member.id, revision())) {
        ++owner.shared_.stats.shard_failures[{member.name, "sequence"}];
        owner.lost(*this, kTooLargeVersions);
        return;
      }
      owner.judge();
    }
    void close() noexcept {
      call.close();
      later.cancel();
    }
    /// Of the object.
    [[nodiscard]] std::uint64_t revision() const {
      const bool json = media_type(head.headers.get("content-type")) == "application/json";
      const auto facts = json ? object_facts(body) : proto_object_facts(body);
      return facts ? facts->revision : 0;
    }
    MergedGet& owner;
    Member member;
    MemberCall call;
    http::ResponseHead head;
    std::string body, query;
    unsigned repeats = 0;
    net::Timer later;  // until it is sent again
    bool ended = false;
    std::string cause;  // why it has no answer; "": it has, or will
    [[nodiscard]] ShardVerdict verdict() const {
      // The caller's own token.
      const bool own = head.status == 401 && owner.head_.headers.contains("authorization");
      return own ? ShardVerdict::kFinal : judge_answer(head, body);
    }
    [[nodiscard]] bool has_it() const {
      const std::string_view type = media_type(head.headers.get("content-type"));
      return cause.empty() && head.status == 200 &&
             (type == "application/json" || type == kProtobuf);
    }
  };

  void ask(Part& part, std::string query) {
    if (!query.empty()) {
      query.front() = '?';
    }
    part.query = std::move(query);
    send(part);
  }

  void send(Part& part) {
    http::RequestHead head = head_;
    head.target = route_.path + part.query;
    part.cause = ask_shard(shared_, route_, part.member.id, net::UpstreamClass::kRead,
                           std::move(head), part.call);
    part.ended = !part.cause.empty();
  }

  void lost_on_the_way(Part& part, Errc cause) {
    if (!shared_.sends_again(route_, part.member.id, cause, part.repeats)) {
      lost(part, errc_name(cause));
      return;
    }
    ++part.repeats;
    part.head = {};
    part.body.clear();
    part.later.start(Duration{}, [this, &part] {
      const auto again = [&] {
        send(part);
        judge();
      };
      guard_read("get that is sent again", again, [this] { fail(); });
    });
  }

  void lost(Part& part, std::string_view cause) {
    part.ended = true;
    part.cause = cause;
    judge();
  }

  void too_late() {
    for (const auto& part : parts_) {
      if (!part->ended) {
        part->close();
        part->ended = true;
        part->cause = "no answer in time";
      }
    }
    judge();
  }

  /// When everybody has answered or failed.
  void judge() {
    const bool all =
        std::all_of(parts_.begin(), parts_.end(), [](const auto& part) { return part->ended; });
    if (!all || done_) {
      return;
    }
    std::vector<Part*> found;
    std::vector<std::pair<std::string, std::string>> away;
    Part* refused = nullptr;
    for (const auto& part : parts_) {
      if (part->has_it()) {
        found.push_back(part.get());
      } else if (!part->cause.empty()) {
        away.emplace_back(part->member.name, part->cause);
      } else if (part->verdict() == ShardVerdict::kDown) {
        away.emplace_back(part->member.name, "it answers " + std::to_string(part->head.status));
      } else if (part->verdict() != ShardVerdict::kAbsent && refused == nullptr) {
        refused = part.get();
      }
    }
    if (found.size() > 1) {
      refuse(ambiguous(found));
    } else if (found.size() == 1) {
      pass_on(*found.front());
    } else if (refused != nullptr) {
      pass_on(*refused);
    } else if (!away.empty() && (!partial_ || away.size() == parts_.size())) {
      ++shared_.stats.failed;
      refuse(shards_unavailable(away, false));
    } else {
      for (const auto& [shard, cause] : away) {
        warnings_.add_missing(shard, cause);
      }
      pass_on(**std::find_if(parts_.begin(), parts_.end(),
                             [](const auto& part) { return part->cause.empty(); }));
    }
  }

  [[nodiscard]] Error ambiguous(const std::vector<Part*>& found) const {
    std::string names;
    for (const Part* part : found) {
      names += (names.empty() ? "" : ", ") + part->member.marker;
    }
    Error error(Errc::kConflict, route_.info.qualified_resource() + ' ' +
                                     krm::go_quote(route_.info.name) +
                                     " is in several logical clusters: " + names +
                                     "; read it at /clusters/<name>/ of one of them");
    ErrorDetail& detail = error.edit();
    for (const Part* part : found) {
      detail.causes.push_back({"AmbiguousName", "found in logical cluster " + part->member.marker,
                               part->member.marker});
    }
    return error;
  }

  void pass_on(Part& part) {
    const std::string_view type = media_type(part.head.headers.get("content-type"));
    std::string body = std::move(part.body);
    if (part.head.status == 200 && type == "application/json") {
      body = document_with_marker(body, part.member.marker);
    } else if (part.head.status == 200 && type == kProtobuf) {
      auto marked = proto_object_with(body, proto_annotation_suffix(kMarker, part.member.marker));
      if (!marked) {
        refuse(shards_unavailable({{part.member.name, "its answer cannot be understood"}}, false));
        return;
      }
      body = std::move(*marked);
    }
    http::HeaderList headers = passed_headers(part.head);
    headers.add("audit-id", head_.headers.get("audit-id"));
    warnings_.add_from(part.head.headers);
    warnings_.add_to(headers);
    const int status = part.head.status;
    if (status == 504 && !headers.contains("retry-after")) {
      headers.add("retry-after", "1");  // AGG-402
    }
    stop();
    down_.send_head(status, headers, false);
    down_.send_data(body, true);
  }

  void fail() {
    if (!done_) {
      refuse(krm::internal("the answers could not be merged"));
    }
  }

  void refuse(const Error& error) {
    stop();
    serving::send_error(down_, form_, error);
  }

  void stop() noexcept {
    done_ = true;
    timer_.cancel();
    for (const auto& part : parts_) {
      part->close();
    }
  }

  Asking& shared_;
  const Positions& positions_;
  http::ResponseStream& down_;
  serving::AnswerForm form_;
  http::RequestHead head_;  // what every shard is asked with
  MergeRoute route_;
  net::Timer timer_;
  std::vector<std::unique_ptr<Part>> parts_;
  Warnings warnings_;
  bool partial_ = false, done_ = false;
};

}  // namespace

std::unique_ptr<http::RequestHandler> answer_merged_get(Lists& lists, LateSlots& late,
                                                        http::RequestHead head,
                                                        http::ResponseStream& stream,
                                                        MergeRoute route) {
  const std::optional<std::string> accept = mergeable_accept(head.headers.get("accept"), true);
  if (!accept) {
    return serving::answer_error(head, stream, not_mergeable(true));
  }
  struct Question {
    http::RequestHead head;
    MergeRoute route;
    std::string accept;
  };
  const std::optional<std::uint32_t> named =
      named_generation(route.info.query.get("resourceVersion").value_or(""));
  const auto kept =
      std::make_shared<Question>(Question{std::move(head), std::move(route), *accept});
  const auto ask = [&lists, &stream, kept]() -> std::unique_ptr<http::RequestHandler> {
    const bool partial = asks_partial(lists.asking.options, kept->head.headers);
    auto get =
        std::make_unique<MergedGet>(lists, std::move(kept->head), stream, std::move(kept->route));
    get->start(kept->accept, partial);
    return get;
  };
  return late.when_known({kept, &kept->head}, stream, named, ask);
}

}  // namespace kintsugi::aggregation
