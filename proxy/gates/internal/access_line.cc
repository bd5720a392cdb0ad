#include "proxy/gates/internal/access_line.h"

#include <algorithm>
#include <array>
#include <charconv>
#include <ctime>

#include "base/shown_text.h"
#include "krm/json.h"

namespace kintsugi::proxy {
namespace {

constexpr std::size_t kMostPath = 512, kMostText = 256;  // bytes
constexpr int kTooMany = 429, kServerFault = 500;

/// The path, which is all of a target that is shown.
std::string path_of(std::string_view target) {
  return shown_text(target.substr(0, target.find('?')), kMostPath);
}

/// The trace of a W3C traceparent, "" for what is none.
std::string_view trace_of(std::string_view parent) {
  constexpr std::size_t kVersion = 3, kTrace = 32;  // "00-", hex digits
  const std::string_view id = parent.substr(std::min(kVersion, parent.size()), kTrace);
  const bool is_hex = std::all_of(id.begin(), id.end(), [](char c) {
    return (c >= '0' && c <= '9') || (c >= 'a' && c <= 'f');
  });
  return id.size() == kTrace && is_hex && parent.size() > kVersion + kTrace &&
                 parent[kVersion + kTrace] == '-'
             ? id
             : std::string_view();
}

/// Milliseconds with three digits behind the point.
std::string milliseconds_text(Duration time) {
  const std::int64_t us = std::max<std::int64_t>(time / std::chrono::microseconds(1), 0);
  std::string digits = std::to_string(us % 1000);
  digits.insert(0, 3 - digits.size(), '0');
  return std::to_string(us / 1000) + "." + digits;
}

class Line {
 public:
  void text(std::string_view key, std::string_view value) {
    if (!value.empty()) {
      begin(key);
      krm::append_json_string(out_, value);
    }
  }
  /// Digits that are there already.
  void digits(std::string_view key, std::string_view value) {
    begin(key);
    out_.append(value);
  }
  void number(std::string_view key, std::uint64_t value) {
    std::array<char, 24> text{};
    const auto end = std::to_chars(text.data(), text.data() + text.size(), value).ptr;
    digits(key, {text.data(), static_cast<std::size_t>(end - text.data())});
  }
  [[nodiscard]] std::string take() {
    out_ += '}';
    return std::move(out_);
  }
  Line() { out_.reserve(512); }

 private:
  void begin(std::string_view key) {
    out_.append(out_.empty() ? "{\"" : ",\"").append(key).append("\":");
  }
  std::string out_;
};

/// "[27/Nov/2026:13:00:00 +0000]"
std::string clf_time(std::int64_t at) {
  const std::time_t seconds = at / 1'000'000;
  std::tm parts{};
  ::gmtime_r(&seconds, &parts);
  constexpr std::array<std::string_view, 12> kMonths = {"Jan", "Feb", "Mar", "Apr", "May", "Jun",
                                                        "Jul", "Aug", "Sep", "Oct", "Nov", "Dec"};
  std::array<char, 32> day{}, rest{};
  std::strftime(day.data(), day.size(), "[%d/", &parts);
  std::strftime(rest.data(), rest.size(), "/%Y:%H:%M:%S +0000]", &parts);
  return std::string(day.data()) + std::string(kMonths.at(static_cast<std::size_t>(parts.tm_mon))) +
         rest.data();
}

/// A word of a line of text: nothing that ends it.
std::string word(std::string_view text) {
  std::string out = shown_text(text, kMostText);
  std::replace_if(
      out.begin(), out.end(),
      [](char c) { return static_cast<unsigned char>(c) <= ' ' || c == '"' || c == '\x7f'; }, '_');
  return out.empty() ? "-" : out;
}

}  // namespace

std::string access_flags(const AccessEvent& event) {
  std::string out;
  const auto add = [&out](bool is_so, std::string_view flag) {
    if (is_so) {
      out.append(out.empty() ? "" : ",").append(flag);
    }
  };
  add(event.note.has_no_route, "NR");
  add(event.note.none_up, "UH");
  add(event.note.connect_failed, "UF");
  add(event.note.timed_out, "UT");
  add(event.note.was_retried, "RT");
  add(event.code == kTooMany, "RL");
  add(event.note.is_served_here, "LO");
  add(event.note.is_merged, "MG");
  add(event.client_went, "DC");
  add(event.note.was_lost || (event.was_cut && !event.client_went && !event.was_evicted), "UC");
  add(event.note.is_drained, "DR");
  add(event.was_evicted, "EV");
  return out.empty() ? "-" : out;
}

std::string access_json(const AccessEvent& event) {
  const krm::RequestInfo& info = event.info;
  Line line;
  line.text("ts", rfc3339_micro(event.at));
  line.digits("dur_ms", milliseconds_text(event.took));
  if (event.first >= Duration()) {
    line.digits("ttfb_ms", milliseconds_text(event.first));
  }
  if (event.note.upstream >= Duration()) {
    line.digits("upstream_ms", milliseconds_text(event.note.upstream));
  }
  line.text("proto", event.version == 1 ? "HTTP/1.1" : "HTTP/2");
  line.text("method", shown_text(event.method, kMostText));
  line.text("path", path_of(event.target));
  line.text("verb", shown_text(info.verb, kMostText));
  if (info.is_resource) {
    line.text("gvr", shown_text((info.group.empty() ? "" : info.group + "/") + info.version + "/" +
                                    info.resource,
                                kMostText));
    line.text("ns", shown_text(info.ns, kMostText));
    line.text("name", shown_text(info.name, kMostText));
    line.text("sub", shown_text(info.subresource, kMostText));
  }
  line.text("cluster", shown_text(event.note.cluster, kMostText));
  line.text("shard", shown_text(event.note.shard, kMostText));
  line.number("code", static_cast<std::uint64_t>(std::max(event.code, 0)));
  line.text("flags", access_flags(event));
  line.number("bytes_in", event.in);
  line.number("bytes_out", event.out);
  line.text("user", shown_text(event.note.user, kMostText));
  line.number("groups_n", event.note.groups);
  line.text("client", event.address);
  line.text("agent", shown_text(event.agent, kMostText));
  line.text("audit_id", shown_text(event.audit_id, kMostText));
  line.text("trace", trace_of(event.trace_parent));
  return line.take();
}

std::string access_text(const AccessEvent& event) {
  std::string path = path_of(event.target);
  std::replace_if(
      path.begin(), path.end(),
      [](char c) { return static_cast<unsigned char>(c) <= ' ' || c == '"' || c == '\x7f'; }, '_');
  return word(event.address) + " - " + word(event.note.user) + " " + clf_time(event.at) + " \"" +
         word(event.method) + " " + path + (event.version == 1 ? " HTTP/1.1\" " : " HTTP/2\" ") +
         std::to_string(event.code) + " " + std::to_string(event.out) + " " +
         milliseconds_text(event.took) + " " + word(event.note.shard) + " " + access_flags(event) +
         " " + word(event.audit_id);
}

bool always_told(const AccessEvent& event, bool goes_on, Duration slow) noexcept {
  const std::string_view path = event.info.path;
  if (path == "/readyz" || path == "/livez" || path == "/healthz") {
    return false;  // who asks is told, and asks again
  }
  return goes_on || event.code == 0 || event.code == kTooMany || event.code >= kServerFault ||
         event.was_cut || event.took >= slow;
}

}  // namespace kintsugi::proxy
