// HTTP/1.1 bytes against both engines. First byte: bit 0 the role, bit 1 answer at once, bit 2
// upgrade, bits 3-7 the size of the pieces (0: all at once). The rest is what the peer sends.

#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <string_view>

#include "fuzz/pieces.h"
#include "http/testing/support.h"

namespace {

using namespace kintsugi;
using namespace kintsugi::http;

void feed_all(Session& session, std::string_view bytes, std::size_t step) {
  session.set_now(TimePoint{});
  while (!bytes.empty() && session.wants_read() && !session.finished()) {
    const std::string_view part = bytes.substr(0, step);
    bytes.remove_prefix(part.size());
    const bool fine = session.feed(part).has_value();
    (void)testing::take_all(session, {200, 0, nullptr});
    session.settle();
    if (!fine) {
      break;
    }
  }
}

}  // namespace

extern "C" int LLVMFuzzerTestOneInput(const std::uint8_t* data, std::size_t size) {
  if (size == 0) {
    return 0;
  }
  const unsigned flags = data[0];
  const std::string_view bytes(reinterpret_cast<const char*>(data + 1), size - 1);
  const std::size_t step = flags >> 3 == 0 ? bytes.size() : flags >> 3;
  testing::CountingHost host;
  if ((flags & 1) != 0) {
    testing::TestResponse response;
    auto client = make_h1_client(host, {});
    RequestHead head = testing::make_head((flags & 2) != 0 ? "HEAD" : "GET", "/");
    head.protocol = (flags & 4) != 0 ? "websocket" : "";
    auto opened = client->open(head, response);
    fuzz::check(opened.has_value());
    response.stream = *opened;
    (void)testing::take_all(*client);
    feed_all(*client, bytes, step);
    client->on_transport_closed(Errc::kClosed);
    fuzz::check(response.in.closes == 1 && !response.in.late && response.in.ends <= 1 &&
                response.heads <= 1);
    return 0;
  }
  testing::TestHandler handler;
  PeerInfo peer;
  auto server = make_h1_server(handler, peer, host, {});
  handler.on_open = [flags](testing::ServerExchange& exchange) {
    fuzz::check(!exchange.head.method.empty() && !exchange.head.target.empty());
    if ((flags & 2) != 0) {
      exchange.stream->send_head((flags & 4) != 0 && !exchange.head.protocol.empty() ? 101 : 200,
                                 {}, false);
      exchange.stream->send_data(std::string_view("answer"), true);
    }
  };
  feed_all(*server, bytes, step);
  server->on_transport_closed(Errc::kClosed);
  for (const testing::ServerExchange& exchange : handler.exchanges) {
    fuzz::check(exchange.in.closes == 1 && !exchange.in.late && exchange.in.ends <= 1);
  }
  return 0;
}
