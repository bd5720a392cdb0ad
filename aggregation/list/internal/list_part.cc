#include "aggregation/list/internal/list_part.h"

#include <cstring>
#include <utility>

#include "aggregation/asking/merge_guard.h"
#include "aggregation/asking/shard_answer.h"
#include "aggregation/asking/shard_question.h"
#include "krm/json.h"
#include "krm/protobuf.h"

namespace kintsugi::aggregation {
namespace {

constexpr std::size_t kMaxPeek = 32U << 10;  // within a stream's window
constexpr std::string_view kSystem = "system:";

bool contains(std::string_view text, std::string_view part) {
  return ::memmem(text.data(), text.size(), part.data(), part.size()) != nullptr;
}

/// Names and types of columns; nullopt: not understood.
std::optional<std::vector<std::pair<std::string, std::string>>> columns_of(std::string_view raw) {
  const Expected<krm::Json> parsed = krm::Json::parse(raw.empty() ? std::string_view("[]") : raw);
  if (!parsed || !parsed->is_array()) {
    return std::nullopt;
  }
  std::vector<std::pair<std::string, std::string>> out;
  for (const krm::Json& column : parsed->items()) {
    out.emplace_back(column.text({"name"}), column.text({"type"}));
  }
  return out;
}

std::optional<ObjectFacts> item_facts(std::string_view item, ListFormat format) {
  if (format == ListFormat::kProtobuf) {
    return proto_item_facts(item);
  }
  std::optional<ObjectFacts> facts = object_facts(item);
  return facts ? facts : row_facts(item);
}

}  // namespace

bool ListPart::ask(const MergeRoute& route, http::RequestHead head, bool columns) {
  close();
  head.target = route.path + step.query;
  waiting_.clear();
  cause_.clear();
  head_ = {};
  seen_ = {};
  headed_ = ended_ = finished = false;
  items = 0;
  peeks_ = columns;
  peek_ = ListSplitter(shared_.params.max_event);
  if (shared_.is_refused(member.id)) {
    cause_ = kTooLargeVersions;
    return false;
  }
  cause_ = ask_shard(shared_, route, member.id, net::UpstreamClass::kRead, std::move(head), call_);
  if (!cause_.empty()) {
    return false;
  }
  timer_.start(shared_.params.first_byte, [this] {
    guard_read(
        "shard that is late for a merged list", [this] { owner_.on_part_late(*this); },
        [this] { owner_.on_part_fault(); });
  });
  return true;
}

void ListPart::rest(Duration wait, std::function<void()> then) {
  close();
  headed_ = false;
  timer_.start(wait, [this, then = std::move(then)] {
    guard_read("shard that a merged list waits for", then, [this] { owner_.on_part_fault(); });
  });
}

void ListPart::close() noexcept {
  call_.close();
  timer_.cancel();
}

void ListPart::forget() noexcept {
  close();
  headed_ = ended_ = false;
}

void ListPart::on_head(const http::ResponseHead& head) {
  head_ = head;
  headed_ = true;
  if (head.status == 200) {
    const std::string_view type = media_type(head.headers.get("content-type"));
    format_ = type == krm::kProtobufMediaType ? ListFormat::kProtobuf : ListFormat::kJson;
    reader_.begin(format_ == ListFormat::kProtobuf);
    peeks_ = peeks_ && format_ == ListFormat::kJson;
    if (step.kind == ListStep::Kind::kRead) {
      timer_.cancel();
    }
  }
  owner_.on_part_head(*this);
}

void ListPart::on_data(std::string_view bytes) {
  waiting_ += bytes;
  if (peeks_) {
    peek(bytes);
  }
  owner_.on_part_moved(*this);
}

void ListPart::on_end(Errc cause) {
  ended_ = true;
  end_cause_ = cause;
  peeks_ = false;
  timer_.cancel();
  owner_.on_part_moved(*this);
}

void ListPart::peek(std::string_view bytes) {
  const auto fault = peek_.feed(bytes, [](std::string_view) {});
  const ListEnvelope& envelope = peek_.envelope();
  const bool told = peek_.items_begun() || !envelope.columns.empty();
  if (told || peek_.done() || fault != ListSplitter::Fault::kNone || waiting_.size() > kMaxPeek) {
    peeks_ = false;
    seen_.kind = envelope.kind;
    seen_.api_version = envelope.api_version;
    seen_.columns = envelope.columns;
  }
}

ListSplitter::Fault ListPart::read(const std::function<void(std::string_view)>& take) {
  const std::string bytes = std::exchange(waiting_, {});
  const auto fault = reader_.feed(bytes, take);
  call_.consume(bytes.size());
  return fault;
}

bool ListPart::complete() const noexcept {
  // Protobuf says nowhere that it ends.
  return reader_.done() && (format_ == ListFormat::kJson || (ended_ && end_cause_ == Errc::kOk));
}

std::string cluster_of(std::string_view item, ListFormat format) {
  const auto facts = item_facts(item, format);
  return facts ? std::string(facts->cluster) : std::string();
}

std::string system_cluster_of(std::string_view item, ListFormat format) {
  if (!contains(item, kSystem)) {
    return {};
  }
  const auto facts = item_facts(item, format);
  return facts && is_hidden(*facts) ? std::string(facts->cluster) : std::string();
}

bool same_columns(std::string_view a, std::string_view b) {
  if (a == b) {
    return true;
  }
  const auto first = columns_of(a);
  return first && first == columns_of(b);
}

}  // namespace kintsugi::aggregation
