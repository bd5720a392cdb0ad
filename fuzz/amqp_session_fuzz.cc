// What a router or broker says: the session goes on or ends with a reason, every request gets one
// answer at most, and values read from a message are bounded. The first byte tells which component
// it is and whether SASL is over, the second the size of the pieces.
#include <algorithm>
#include <cstdint>
#include <set>
#include <string>
#include <string_view>

#include "fuzz/pieces.h"
#include "workers/messaging/amqp/internal/amqp_codec.h"
#include "workers/messaging/amqp/management_session.h"

namespace {

using namespace kintsugi;           // NOLINT
using namespace kintsugi::workers;  // NOLINT
using namespace std::string_view_literals;

std::string sasl() {
  std::string out("AMQP\x03\x01\x00\x00"sv);
  out +=
      "\x00\x00\x00\x19\x02\x01\x00\x00\x00\x53\x40\xc0\x0c\x01\xa3\x09"
      "ANONYMOUS"sv;
  out += "\x00\x00\x00\x10\x02\x01\x00\x00\x00\x53\x44\xc0\x03\x01\x50\x00"sv;
  return out;
}

void read_message(std::string_view bytes) {
  const auto parts = split_reply(bytes);
  if (!parts) {
    return;
  }
  const ManagementReply reply = decode_reply(*parts);
  fuzz::check(krm::Json::parse(reply.body.dump()).has_value());
  fuzz::check(krm::Json::parse(reply.properties.dump()).has_value());
}

}  // namespace

extern "C" int LLVMFuzzerTestOneInput(const std::uint8_t* data, std::size_t size) {
  if (size < 2) {
    return 0;
  }
  const std::uint8_t flags = data[0];
  const std::size_t piece = 1 + data[1] * 4U;
  const std::string_view said(reinterpret_cast<const char*>(data) + 2, size - 2);
  read_message(said);

  ManagementSession::Params params;
  params.kind = (flags & 1U) != 0 ? ComponentKind::kBroker : ComponentKind::kRouter;
  params.window = 5;
  params.max_message = 64 * 1024;
  TimePoint now{};
  ManagementSession session(std::move(params), now);
  if ((flags & 2U) == 0) {
    session.receive(sasl(), now);
    fuzz::check(session.state() == ManagementSession::State::kOpening);
  }
  const ManagementRequest request{{{"operation", std::string("READ")}}, std::string("[]")};
  std::set<std::uint64_t> waiting;
  const auto take = [&] {
    while (const auto answered = session.take()) {
      fuzz::check(waiting.erase(answered->id) == 1);
    }
  };
  for (std::size_t at = 0; at < said.size(); at += piece) {
    now += milliseconds(100);
    session.receive(said.substr(at, piece), now);
    while (session.room() > 0) {
      const std::uint64_t id = session.submit(request, now);
      fuzz::check(id != 0 && waiting.insert(id).second);
    }
    while (!session.output().empty()) {
      session.consume(std::min<std::size_t>(session.output().size(), 999));
    }
    take();
    fuzz::check(session.in_flight() == waiting.size() && waiting.size() <= 5);
    if (session.next_timer() && *session.next_timer() <= now) {
      session.on_timer(now);
    }
  }
  session.peer_closed();
  take();
  fuzz::check(session.state() == ManagementSession::State::kClosed && !session.fault().empty());
  fuzz::check(waiting.empty() && !session.next_timer());
  return 0;
}
