#include "bench/collection.h"

#include <algorithm>

namespace kintsugi::bench {
namespace {

constexpr std::size_t kLog = 20'000;  // events
constexpr std::size_t kNameDigits = 7, kRevisionDigits = 10, kSentDigits = 20;
constexpr std::uint64_t kRevisions = 1'000'000'000;  // of one shard

}  // namespace

void Collection::Form::put(std::uint64_t value, std::size_t at, std::size_t digits) {
  for (std::size_t i = at + digits; i-- > at; value /= 10) {
    text[i] = static_cast<char>('0' + value % 10);
  }
}

Collection::Form Collection::make(std::string_view begin, std::string_view type,
                                  std::string_view end, std::size_t size) {
  Form out;
  out.text = begin;
  out.text += '{';
  out.text += type;
  out.text += R"("metadata":{"name":"object-)";
  out.name = out.text.size();
  out.text.append(kNameDigits, '0');
  out.text += R"(","namespace":"default","uid":"5f8a6d0e-7d8c-4c0f-9d2b-000000000000",)"
              R"("resourceVersion":")";
  out.revision = out.text.size();
  out.text.append(kRevisionDigits, '0');
  out.text += R"("},"data":{"sent":")";
  out.sent = out.text.size();
  out.text.append(kSentDigits, '0');
  out.text += R"(","pad":")";
  constexpr std::string_view kClose = "\"}}";
  const std::size_t rest = out.text.size() + kClose.size() + end.size();
  out.text.append(size > rest ? size - rest : 0, 'x');
  out.text += kClose;
  out.text += end;
  return out;
}

Collection::Collection(std::uint64_t shard, std::uint64_t objects, std::size_t size)
    : objects_(std::max<std::uint64_t>(objects, 1)),
      base_(std::clamp<std::uint64_t>(shard, 1, 9) * kRevisions),
      revision_(base_ + objects_),
      event_(make(R"({"type":"MODIFIED","object":)", R"("kind":"ConfigMap","apiVersion":"v1",)",
                  "}\n", size)),
      added_(make(R"({"type":"ADDED","object":)", R"("kind":"ConfigMap","apiVersion":"v1",)", "}\n",
                  size)),
      item_(make("", "", "", size)) {}

std::string_view Collection::next_event(std::uint64_t time) {
  ++revision_;
  event_.put(revision_ % objects_, event_.name, kNameDigits);
  event_.put(revision_, event_.revision, kRevisionDigits);
  event_.put(time, event_.sent, kSentDigits);
  log_.push_back(event_.text);
  if (log_.size() > kLog) {
    log_.pop_front();
  }
  return log_.back();
}

bool Collection::replay(std::uint64_t revision, std::string& out) const {
  if (revision > revision_ || revision_ - revision > log_.size()) {
    return revision > revision_;  // of the future: nothing yet
  }
  for (auto i = log_.end() - static_cast<std::ptrdiff_t>(revision_ - revision); i != log_.end();
       ++i) {
    out += *i;
  }
  return true;
}

void Collection::add_initial(std::string& out) {
  for (std::uint64_t i = 0; i < objects_; ++i) {
    added_.put(i, added_.name, kNameDigits);
    added_.put(base_ + 1 + i, added_.revision, kRevisionDigits);
    out += added_.text;
  }
}

std::string Collection::bookmark(bool initial_end) const {
  std::string out =
      R"({"type":"BOOKMARK","object":{"kind":"ConfigMap","apiVersion":"v1","metadata":)"
      R"({"resourceVersion":")" +
      std::to_string(revision_) + '"';
  if (initial_end) {
    out += R"(,"annotations":{"k8s.io/initial-events-end":"true"})";
  }
  return out + "}}}\n";
}

std::string Collection::list_head() const {
  return R"({"kind":"ConfigMapList","apiVersion":"v1","metadata":{"resourceVersion":")" +
         std::to_string(revision_) + R"("},"items":[)";
}

void Collection::add_items(std::string& out, std::uint64_t first, std::uint64_t count,
                           std::uint64_t total) {
  for (std::uint64_t i = first; i < first + count; ++i) {
    item_.put(i, item_.name, kNameDigits);
    item_.put(base_ + 1 + i, item_.revision, kRevisionDigits);
    out += item_.text;
    out += i + 1 < total ? "," : "]}";
  }
}

std::string_view parameter(std::string_view target, std::string_view name) noexcept {
  std::size_t at = target.find('?');
  while (at < target.size()) {
    const std::size_t end = std::min(target.find('&', at + 1), target.size());
    const std::string_view pair = target.substr(at + 1, end - at - 1);
    if (pair.starts_with(name) && pair.size() > name.size() && pair[name.size()] == '=') {
      return pair.substr(name.size() + 1);
    }
    at = end;
  }
  return {};
}

}  // namespace kintsugi::bench
