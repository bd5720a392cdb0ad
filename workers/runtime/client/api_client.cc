#include "workers/runtime/client/api_client.h"

#include <charconv>
#include <optional>

#include "krm/json.h"

namespace kintsugi::workers {
namespace {

constexpr std::size_t kMostText = 256;

Duration retry_after_of(const http::HeaderList& headers) noexcept {
  const std::string_view text = headers.get("retry-after");
  int value = 0;
  const auto [end, error] = std::from_chars(text.data(), text.data() + text.size(), value);
  return error == std::errc() && end == text.data() + text.size() && value > 0 ? seconds(value)
                                                                               : Duration{};
}

}  // namespace

std::string ApiAnswer::text() const {
  std::string out = status == 0 ? std::string(errc_name(cause)) : "HTTP " + std::to_string(status);
  if (const krm::Json* message = body.is_object() ? body.find("message") : nullptr;
      !ok() && message != nullptr && message->is_string()) {
    out.append(": ").append(message->as_string());
  }
  if (out.size() > kMostText) {
    std::size_t end = kMostText;
    while (end > 0 && (static_cast<unsigned char>(out[end]) & 0xC0U) == 0x80U) {
      --end;  // not within a character
    }
    out.resize(end);
  }
  return out;
}

http::HeaderList worker_headers(const std::function<http::HeaderList()>& credentials,
                                std::string_view user_agent) {
  http::HeaderList out;
  if (credentials) {
    out = credentials();
  }
  out.add("user-agent", user_agent);
  return out;
}

ApiClient::ApiClient(net::Loop& loop, net::Upstream& upstream, Params params)
    : loop_(loop),
      upstream_(upstream),
      params_(std::move(params)),
      budgets_{WriteBudget(params_.writes_per_second, params_.burst),
               WriteBudget(params_.writes_per_second, params_.burst),
               WriteBudget(params_.writes_per_second, params_.burst)} {}

http::HeaderList ApiClient::headers(std::string_view content_type) const {
  http::HeaderList out = worker_headers(params_.credentials, params_.user_agent);
  out.add("accept", "application/json");
  if (!content_type.empty()) {
    out.add("content-type", content_type);
  }
  return out;
}

net::Task<ApiAnswer> ApiClient::get(std::string path, Duration timeout) {
  net::FetchRequest request;
  request.target = params_.prefix + path;
  request.headers = headers({});
  request.timeout = timeout > Duration{} ? timeout : params_.timeout;
  net::Task<ApiAnswer> sending = send(std::move(request));
  ApiAnswer answer = co_await sending;
  co_return answer;
}

ApiClient::Turn::~Turn() {
  if (state_ == State::kWaits) {
    client_.turns_.erase(at_);
  } else if (state_ == State::kTaken) {
    client_.window_.give_back();
    client_.next_turns();
  }
}

bool ApiClient::Turn::take(std::function<void(bool)> go) {
  if (client_.turns_.empty() && client_.window_.has_room()) {
    client_.window_.take();
    state_ = State::kTaken;
    return true;
  }
  go_ = std::move(go);
  at_ = client_.turns_.insert(client_.turns_.end(), this);
  state_ = State::kWaits;
  return false;
}

void ApiClient::Turn::answered(bool refused) {
  state_ = State::kNone;
  client_.window_.answered(refused, client_.loop_.now());
  client_.next_turns();
}

/// In a later turn of the loop: whoever has given his place back is still on the stack.
void ApiClient::next_turns() {
  if (turns_.empty() || waking_) {
    return;
  }
  waking_ = true;
  loop_.post(alive_.guard([this] {
    waking_ = false;
    const Alive::Guard alive = alive_.weak();
    while (alive && !turns_.empty() && window_.has_room()) {
      Turn& turn = *turns_.front();
      turns_.pop_front();
      window_.take();
      turn.state_ = Turn::State::kTaken;
      const std::function<void(bool)> go = std::move(turn.go_);
      go(true);
    }
  }));
}

net::Task<ApiAnswer> ApiClient::write(ApiWrite write) {
  WriteBudget& budget = budgets_[static_cast<std::size_t>(write.kind)];
  if (const Duration wait = budget.take(loop_.now()); wait > Duration{}) {
    net::Sleep pause(loop_, wait);
    co_await pause;
  }
  Turn turn(*this);
  if (write.kind != WriteKind::kLease) {
    net::Answer<bool> turned;
    if (!turn.take(turned.callback())) {
      [[maybe_unused]] const bool mine = co_await turned;
    }
  }
  if ((write.kind != WriteKind::kLease && may_write_ && !may_write_()) ||
      (write.may_write && !write.may_write())) {
    ++counts_.withheld;
    ApiAnswer withheld;
    withheld.cause = Errc::kCancelled;
    co_return withheld;
  }
  net::FetchRequest request;
  request.method = std::move(write.method);
  request.target = params_.prefix + write.path;
  request.headers = headers(write.content_type);
  request.body = std::move(write.body);
  request.timeout = write.timeout > Duration{} ? write.timeout : params_.timeout;
  request.kind = net::UpstreamClass::kWrite;
  net::Task<ApiAnswer> sending = send(std::move(request));
  ApiAnswer answer = co_await sending;
  if (write.kind != WriteKind::kLease) {
    turn.answered(answer.is(429));
  }
  co_return answer;
}

net::Task<ApiAnswer> ApiClient::send(net::FetchRequest request) {
  const std::string method = request.method;
  const TimePoint begin = loop_.now();
  net::Answer<Expected<net::FetchResponse>> answered;
  const std::unique_ptr<net::Call> call =
      net::fetch(loop_, upstream_, std::move(request), answered.callback());
  Expected<net::FetchResponse> response = co_await answered;
  ApiAnswer answer;
  ++counts_.answers;
  counts_.waited += loop_.now() - begin;
  if (!response) {
    answer.cause = response.error().code();
    ++counts_.requests[{"<error>", method}];
    co_return answer;
  }
  answer.status = response->status;
  answer.retry_after = retry_after_of(response->headers);
  ++counts_.requests[{std::to_string(answer.status), method}];
  if (auto body = krm::Json::parse(response->body)) {
    answer.body = std::move(*body);
  } else if (answer.ok() && !response->body.empty()) {
    answer.status = 0;  // cut, or no answer of such a server: nobody knows what it did
    answer.cause = Errc::kProtocol;
  }
  answer.raw = std::move(response->body);
  co_return answer;
}

}  // namespace kintsugi::workers
