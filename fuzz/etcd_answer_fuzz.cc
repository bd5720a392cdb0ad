// What an etcd says: messages do not depend on the pieces that a body comes in, none makes a
// process crash, revisions of a watch rise, and rows are one to one with keys.
#include <cstdint>
#include <string>
#include <string_view>
#include <vector>

#include "fuzz/pieces.h"
#include "store/etcd/internal/keys.h"
#include "store/etcd/internal/stored_value.h"
#include "store/etcd/internal/transaction.h"
#include "store/etcd/internal/watch_joiner.h"
#include "store/etcd/wire/frames.h"
#include "store/etcd/wire/messages.h"

namespace {

using kintsugi::fuzz::check;
using namespace kintsugi::store::etcd;  // NOLINT

constexpr std::size_t kLimit = 1U << 16;

std::vector<std::string> messages_of(std::string_view body, std::size_t piece) {
  FrameReader reader(kLimit);
  std::vector<std::string> out;
  bool fine = true;
  while (!body.empty() && fine) {
    const std::string_view part = body.substr(0, piece);
    body.remove_prefix(part.size());
    fine = reader.feed(part, [&out](std::string_view message) { out.emplace_back(message); })
               .has_value();
  }
  return out;
}

void read_event(const JoinedEvent& event) {
  static const Keys keys("/p/");
  if (const auto key = keys.store_key(event.key)) {
    check(keys.row(*key) == event.key);
  }
  if (const auto opened = open_value(event.key, event.value)) {
    (void)decode_deletions(opened->value);
  }
}

void read_others(std::string_view message) {
  RangeResponse range;
  (void)decode(message, range);
  StatusResponse status;
  (void)decode(message, status);
  MemberListResponse members;
  (void)decode(message, members);
  AlarmResponse alarms;
  (void)decode(message, alarms);
  std::string token;
  (void)decode_authenticate(message, token);
  TxnResponse response;
  if (decode(message, response)) {
    Plan plan;
    plan.request.compares = {{"/p/seat/r", 1}, {"/p/x/a", 2}};
    plan.compared = {0};
    const std::vector<kintsugi::store::Op> ops(1);
    (void)judge(plan, ops, 5, response);
  }
}

}  // namespace

extern "C" int LLVMFuzzerTestOneInput(const std::uint8_t* data, std::size_t size) {
  const std::string_view body(reinterpret_cast<const char*>(data), size);
  const auto messages = messages_of(body, size + 1);
  check(messages == messages_of(body, 1 + size / 7));
  check(messages == messages_of(body, 1));
  WatchJoiner joiner(3, kLimit);
  std::uint64_t last = 3;
  for (const std::string& message : messages) {
    read_others(message);
    WatchResponse response;
    if (!decode(message, response)) {
      continue;
    }
    const Joined joined = joiner.on_response(response);
    for (const RevisionGroup& group : joined.groups) {
      check(group.revision > last && !group.events.empty());
      last = group.revision;
      for (const JoinedEvent& event : group.events) {
        read_event(event);
      }
    }
    check(joiner.position() >= last);
  }
  return 0;
}
