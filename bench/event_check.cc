#include "bench/event_check.h"

#include <algorithm>
#include <cstring>

namespace kintsugi::bench {
namespace {

// {"type":"MODIFIED","sent":"<20 digits>","seq":"<20 digits>" (event_source.cc)
constexpr std::size_t kSequenceAt = 56, kDigits = 20;
constexpr std::string_view kVersion = "\"resourceVersion\":\"";
constexpr std::string_view kSent = "\"sent\":\"";
constexpr std::string_view kType = "{\"type\":\"";
constexpr std::uint64_t kVersionsOfShard = 1'000'000'000;  // collection.h
constexpr std::size_t kPrefix = 5;                         // of a gRPC message

std::uint64_t number(std::string_view text) {
  std::uint64_t value = 0;
  for (const char c : text) {
    if (c < '0' || c > '9') {
      break;
    }
    value = value * 10 + static_cast<std::uint64_t>(c - '0');
  }
  return value;
}

std::string_view behind(std::string_view text, std::string_view key) {
  const std::size_t at = text.find(key);
  return at == std::string_view::npos ? std::string_view() : text.substr(at + key.size());
}

}  // namespace

EventForm event_form(std::string_view name) {
  constexpr std::array<std::string_view, 4> kNames = {"numbered", "shards", "rising", "etcd"};
  const auto* at = std::find(kNames.begin(), kNames.end(), name);
  if (at == kNames.end()) {
    die("--form is numbered, shards, rising or etcd");
  }
  return static_cast<EventForm>(at - kNames.begin());
}

void EventCheck::take(Watched& watch, std::string_view bytes) {
  if (form_ == EventForm::kEtcd) {
    take_messages(watch, bytes);
    return;
  }
  while (!bytes.empty()) {
    const std::size_t end = bytes.find('\n');
    const std::string_view part = bytes.substr(0, end);
    const bool whole = watch.have == 0 && end != std::string_view::npos;
    if (!whole) {
      const std::size_t count = std::min(part.size(), Watched::kHead - watch.have);
      std::memcpy(watch.head.data() + watch.have, part.data(), count);
      watch.have += count;
      if (end == std::string_view::npos) {
        return;
      }
    }
    bytes.remove_prefix(end + 1);
    take_one(watch, whole ? part.substr(0, Watched::kHead)
                          : std::string_view(watch.head.data(), watch.have));
    watch.have = 0;
  }
}

void EventCheck::take_messages(Watched& watch, std::string_view bytes) {
  while (!bytes.empty()) {
    if (watch.left == 0) {
      const std::size_t count = std::min(bytes.size(), kPrefix - watch.have);
      std::memcpy(watch.head.data() + watch.have, bytes.data(), count);
      watch.have += count;
      bytes.remove_prefix(count);
      if (watch.have < kPrefix) {
        return;
      }
      for (std::size_t i = 1; i < kPrefix; ++i) {
        watch.left = watch.left << 8U | static_cast<unsigned char>(watch.head[i]);
      }
      watch.have = 0;
      continue;
    }
    const std::string_view part = bytes.substr(0, watch.left);
    const std::size_t count = std::min(part.size(), Watched::kHead - watch.have);
    std::memcpy(watch.head.data() + watch.have, part.data(), count);
    watch.have += count;
    watch.left -= part.size();
    bytes.remove_prefix(part.size());
    if (watch.left == 0) {
      const std::string_view head(watch.head.data(), watch.have);
      watch.have = 0;
      if (head.find(kSent) != std::string_view::npos) {  // else it says that the watch exists
        took(watch, head);
      }
    }
  }
}

void EventCheck::take_one(Watched& watch, std::string_view head) {
  if (form_ == EventForm::kNumbered) {
    take_numbered(watch, head);
  } else {
    take_kube(watch, head);
  }
}

void EventCheck::take_numbered(Watched& watch, std::string_view head) {
  if (head.size() < kSequenceAt + kDigits) {
    die("a line is too short");
  }
  const std::uint64_t sequence = number(head.substr(kSequenceAt, kDigits));
  if (sequence != watch.next) {
    die("event " + std::to_string(sequence) + " came instead of " + std::to_string(watch.next));
  }
  ++watch.next;
  took(watch, head);
}

void EventCheck::take_kube(Watched& watch, std::string_view head) {
  if (!head.starts_with(kType) || head.size() <= kType.size()) {
    die("not an event: " + std::string(head));
  }
  const char type = head[kType.size()];
  if (type == 'E') {
    ++errors_;
    return;
  }
  const std::string_view version = behind(head, kVersion);
  if (type == 'B') {
    ++bookmarks_;
    watch.cursor = version.substr(0, version.find('"'));
    watch.marked = watch.due;
    return;
  }
  const std::uint64_t revision = number(version);
  if (form_ == EventForm::kRising) {
    if (type == 'M' && revision <= watch.next) {
      die("version " + std::to_string(revision) + " came after " + std::to_string(watch.next));
    }
    watch.next = std::max(watch.next, revision);
  } else if (type == 'M') {
    std::uint64_t& due = watch.due[revision / kVersionsOfShard % Watched::kShardsMax];
    if (due != 0 && revision != due) {
      die("version " + std::to_string(revision) + " came instead of " + std::to_string(due));
    }
    due = revision + 1;
  }
  if (type == 'M') {
    took(watch, head);
  }
}

void EventCheck::took(Watched& watch, std::string_view head) {
  ++events_;
  ++watch.seen;
  const std::uint64_t sent = number(behind(head, kSent)), now = now_ns();
  if (sent >= watch.opened_at) {
    latency_.add(now > sent ? (now - sent) / 1'000 : 0);
  }
}

void EventCheck::resume(Watched& watch) const {
  watch.have = watch.left = 0;
  watch.due = watch.marked;
  watch.next = 0;
}

}  // namespace kintsugi::bench
