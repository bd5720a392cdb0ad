#pragma once

#include <algorithm>
#include <cstdint>
#include <functional>
#include <list>
#include <memory>
#include <random>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "http/session.h"

/// Peers in memory for the tests and fuzz targets of this module. Nothing of the product includes
/// this.
namespace kintsugi::http::testing {

class CountingHost final : public SessionHost {
 public:
  void output_ready() noexcept override { ++calls; }
  int calls = 0;
};

/// What one side of an exchange has seen, and whether the rules of handler.h were kept.
struct Record {
  std::string body;
  HeaderList trailers;
  int ends = 0;
  int closes = 0;
  int drains = 0;
  bool late = false;  ///< a call after on_close, or data after the end
  Errc cause = Errc::kOk;
};

struct ServerExchange {
  RequestHead head;
  Record in;
  ResponseStream* stream = nullptr;  ///< null after on_close
  bool auto_consume = true;
  std::function<void(ServerExchange&, std::string_view, bool)> on_data;
  std::function<void(ServerExchange&)> on_drained;
};

/// Keeps every exchange it ever saw; `on_request` may answer at once.
class TestHandler final : public Handler {
 public:
  std::function<void(ServerExchange&)> on_open;
  std::list<ServerExchange> exchanges;

  [[nodiscard]] std::unique_ptr<RequestHandler> on_request(
      RequestHead head, ResponseStream& stream) noexcept override {
    ServerExchange& exchange = exchanges.emplace_back();
    exchange.head = std::move(head);
    exchange.stream = &stream;
    if (on_open) {
      on_open(exchange);
    }
    return std::make_unique<Listener>(exchange);
  }
  [[nodiscard]] ServerExchange& at(std::size_t index) {
    return *std::next(exchanges.begin(), static_cast<std::ptrdiff_t>(index));
  }

 private:
  class Listener final : public RequestHandler {
   public:
    explicit Listener(ServerExchange& exchange) : exchange_(exchange) {}
    void on_data(std::string_view bytes, bool end) noexcept override {
      Record& in = exchange_.in;
      in.late = in.late || in.closes > 0 || in.ends > 0;
      in.body.append(bytes);
      in.ends += end ? 1 : 0;
      if (exchange_.auto_consume) {
        exchange_.stream->consume(bytes.size());
      }
      if (exchange_.on_data) {
        exchange_.on_data(exchange_, bytes, end);
      }
    }
    void on_trailers(HeaderList trailers) noexcept override {
      exchange_.in.trailers = std::move(trailers);
    }
    void on_drained() noexcept override {
      exchange_.in.late = exchange_.in.late || exchange_.in.closes > 0;
      ++exchange_.in.drains;
      if (exchange_.on_drained) {
        exchange_.on_drained(exchange_);
      }
    }
    void on_close(Errc cause) noexcept override {
      ++exchange_.in.closes;
      exchange_.in.cause = cause;
      exchange_.stream->send_data("after the end", true);  // must be harmless
      exchange_.stream = nullptr;
    }

   private:
    ServerExchange& exchange_;
  };
};

class TestResponse final : public ResponseHandler {
 public:
  TestResponse() = default;
  TestResponse(const TestResponse&) = delete;
  TestResponse& operator=(const TestResponse&) = delete;
  ~TestResponse() override {
    if (stream != nullptr) {
      stream->detach();
    }
  }
  int status = 0;
  int heads = 0;
  bool head_ended = false;
  HeaderList headers;
  Record in;
  RequestStream* stream = nullptr;
  bool auto_consume = true;
  std::function<void(TestResponse&)> on_first_byte;
  std::function<void(TestResponse&)> on_more;

  void on_head(ResponseHead head, bool end) noexcept override {
    status = head.status;
    headers = std::move(head.headers);
    head_ended = end;
    ++heads;
    in.late = in.late || in.closes > 0;
    if (on_first_byte) {
      on_first_byte(*this);
    }
  }
  void on_data(std::string_view bytes, bool end) noexcept override {
    in.late = in.late || in.closes > 0 || in.ends > 0 || heads == 0;
    in.body.append(bytes);
    in.ends += end ? 1 : 0;
    if (auto_consume && stream != nullptr) {
      stream->consume(bytes.size());
    }
  }
  void on_trailers(HeaderList trailers) noexcept override { in.trailers = std::move(trailers); }
  void on_drained() noexcept override {
    ++in.drains;
    if (on_more) {
      on_more(*this);
    }
  }
  void on_close(Errc cause) noexcept override {
    ++in.closes;
    in.cause = cause;
    stream = nullptr;
  }
};

/// How bytes travel between two sessions: in spans of `span`, fed in pieces of `piece` bytes.
struct Wire {
  std::size_t span = 16 * 1024;
  std::size_t piece = 1 << 20;
  std::mt19937* random =
      nullptr;  ///< when set, both sizes are drawn anew each time, up to the values

  [[nodiscard]] std::size_t draw(std::size_t most, std::size_t least) const {
    return random == nullptr ? most
                             : std::uniform_int_distribution<std::size_t>(least, most)(*random);
  }
};

/// All that `from` has to say now.
inline std::string take_all(Session& from, const Wire& wire = {}) {
  std::string all;
  for (int idle = 0; idle < 3;) {
    std::string buffer(wire.draw(wire.span, std::min<std::size_t>(64, wire.span)), '\0');
    const std::size_t size = from.produce(buffer);
    all.append(buffer, 0, size);
    idle = size == 0 ? idle + 1 : 0;
  }
  return all;
}

/// Moves what `from` has to say now; returns how many bytes. Stops feeding when `to` does not want
/// to read.
inline std::size_t move_bytes(Session& from, Session& to, const Wire& wire, std::string& kept) {
  const std::string fresh = take_all(from, wire);
  kept.append(fresh);
  std::size_t done = 0;
  while (done < kept.size() && to.wants_read()) {
    const std::string_view part = std::string_view(kept).substr(
        done, wire.draw(wire.piece, std::min<std::size_t>(1, wire.piece)));
    (void)to.feed(part);
    done += part.size();
    if (wire.random != nullptr && (*wire.random)() % 4 == 0) {
      to.settle();
    }
  }
  kept.erase(0, done);
  from.settle();
  to.settle();
  return fresh.size() + done;
}

/// A client and a server session joined by a wire without delay.
class Pair {
 public:
  TestHandler handler;
  PeerInfo peer;
  CountingHost client_host, server_host;
  std::unique_ptr<ClientSession> client;
  std::unique_ptr<Session> server;
  Wire wire;

  static std::unique_ptr<Pair> h2(SessionLimits client_limits = {},
                                  SessionLimits server_limits = {}) {
    auto pair = std::make_unique<Pair>();
    pair->client = make_h2_client(pair->client_host, client_limits);
    pair->server = make_h2_server(pair->handler, pair->peer, pair->server_host, server_limits);
    return pair;
  }
  static std::unique_ptr<Pair> h1(SessionLimits client_limits = {},
                                  SessionLimits server_limits = {}) {
    auto pair = std::make_unique<Pair>();
    pair->client = make_h1_client(pair->client_host, client_limits);
    pair->server = make_h1_server(pair->handler, pair->peer, pair->server_host, server_limits);
    return pair;
  }

  /// Until neither side moves.
  void run() {
    for (int idle = 0; idle < 2;) {
      const std::size_t moved = move_bytes(*client, *server, wire, to_server_) +
                                move_bytes(*server, *client, wire, to_client_);
      idle = moved == 0 ? idle + 1 : 0;
    }
  }
  void close(Errc cause = Errc::kClosed) {
    client->on_transport_closed(cause);
    server->on_transport_closed(cause);
  }

 private:
  std::string to_server_, to_client_;
};

/// A request of the client, whose stream is null when it may not be opened.
inline RequestStream* open(Pair& pair, const RequestHead& head, TestResponse& response) {
  auto stream = pair.client->open(head, response);
  response.stream = stream ? *stream : nullptr;
  return response.stream;
}

inline RequestHead make_head(std::string method, std::string target, bool end = true) {
  RequestHead head;
  head.method = std::move(method);
  head.scheme = "https";
  head.authority = "shard.example:6443";
  head.target = std::move(target);
  head.end_stream = end;
  return head;
}

inline HeaderList fields(
    std::initializer_list<std::pair<std::string_view, std::string_view>> list) {
  HeaderList headers;
  for (const auto& [name, value] : list) {
    headers.add(name, value);
  }
  return headers;
}

/// A body that shows any lost, doubled or swapped byte.
inline std::string pattern(std::size_t size, std::uint32_t seed = 1) {
  std::string text(size, '\0');
  std::mt19937 random(seed);
  for (char& c : text) {
    c = static_cast<char>('!' + random() % 90);
  }
  return text;
}

}  // namespace kintsugi::http::testing
