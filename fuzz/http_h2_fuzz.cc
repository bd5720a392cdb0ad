// HTTP/2 bytes against both engines. First byte: bit 0 the role, bit 1 answer at once, bit 2 a
// preface is put in front, bits 3-7 the size of the pieces (0: all at once). The rest is what the
// peer sends.

#include <cstddef>
#include <cstdint>
#include <string>
#include <string_view>

#include "fuzz/pieces.h"
#include "http/testing/support.h"

namespace {

using namespace kintsugi;
using namespace kintsugi::http;

void feed_all(Session& session, std::string_view bytes, std::size_t step) {
  TimePoint now{};
  while (!bytes.empty() && !session.finished()) {
    session.set_now(now += milliseconds(1));
    const std::string_view part = bytes.substr(0, step);
    bytes.remove_prefix(part.size());
    const bool fine = session.feed(part).has_value();
    (void)testing::take_all(session, {300, 0, nullptr});
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
  const std::string_view settings("\0\0\0\4\0\0\0\0\0", 9);
  const bool client_role = (flags & 1) != 0;
  std::string bytes;
  if ((flags & 4) != 0) {
    bytes = client_role ? "" : "PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n";
    bytes.append(settings);
  }
  bytes.append(reinterpret_cast<const char*>(data + 1), size - 1);
  const std::size_t step = flags >> 3 == 0 ? bytes.size() : flags >> 3;
  testing::CountingHost host;
  if (client_role) {
    testing::TestResponse responses[3];
    auto client = make_h2_client(host, {});
    for (testing::TestResponse& response : responses) {
      auto opened = client->open(testing::make_head("POST", "/", false), response);
      fuzz::check(opened.has_value());
      response.stream = *opened;
      response.stream->send_data(std::string_view("question"), (flags & 2) != 0);
    }
    (void)testing::take_all(*client);
    feed_all(*client, bytes, step);
    client->on_transport_closed(Errc::kClosed);
    for (const testing::TestResponse& response : responses) {
      fuzz::check(response.in.closes == 1 && !response.in.late && response.in.ends <= 1 &&
                  response.heads <= 1);
    }
    return 0;
  }
  testing::TestHandler handler;
  PeerInfo peer;
  auto server = make_h2_server(handler, peer, host, {});
  handler.on_open = [flags](testing::ServerExchange& exchange) {
    if ((flags & 2) != 0) {
      exchange.stream->send_head(200, testing::fields({{"x", "y"}}), false);
      exchange.stream->send_data(SharedBytes("answer"), true);
    }
  };
  feed_all(*server, bytes, step);
  server->on_transport_closed(Errc::kClosed);
  for (const testing::ServerExchange& exchange : handler.exchanges) {
    fuzz::check(exchange.in.closes == 1 && !exchange.in.late && exchange.in.ends <= 1);
  }
  return 0;
}
