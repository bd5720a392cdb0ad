#include "serving/trace_exporter.h"

#include <algorithm>
#include <optional>
#include <thread>
#include <utility>
#include <vector>

#include "base/log.h"
#include "base/secret_file.h"
#include "base/strings.h"
#include "base/time.h"
#include "base/trace.h"
#include "base/version.h"
#include "net/loop.h"
#include "net/tls.h"
#include "net/upstream.h"
#include "serving/internal/otlp.h"

namespace kintsugi::serving {
namespace {

constexpr std::size_t kBatch = 512;  // spans
constexpr int kAttempts = 5;
constexpr Duration kLongestPause = seconds(30), kFlush = seconds(2), kSayAgain = seconds(60);
constexpr std::string_view kPath = "/v1/traces";
constexpr std::uint32_t kMostSeconds = 30;

Expected<http::HeaderList> read_headers(const std::string& file) {
  http::HeaderList out;
  if (file.empty()) {
    return out;
  }
  auto text = read_secret_file(file);
  if (!text) {
    return fail(std::move(text.error()));
  }
  for (const std::string_view line : split(text->view(), '\n')) {
    const std::size_t colon = line.find(':');
    if (trim(line).empty()) {
      continue;
    }
    if (colon == 0 || colon == std::string_view::npos) {
      return fail(Errc::kConfig, file + ": a line is not \"name: value\"");
    }
    out.add(to_lower(trim(line.substr(0, colon))), trim(line.substr(colon + 1)));
  }
  return out;
}

bool may_try_again(int status) {
  return status == 429 || status == 502 || status == 503 || status == 504;
}

}  // namespace

class TraceExporter::Thread {
 public:
  Thread(TraceParams params, net::UpstreamParams server, http::HeaderList headers)
      : params_(std::move(params)), headers_(std::move(headers)), loop_("traces"), timer_(loop_) {
    resource_ = {{"service.name", params_.service}, {"service.version", build_version()}};
    if (!params_.instance.empty()) {
      resource_.emplace_back("service.instance.id", params_.instance);
    }
    server.connect_timeout = server.queue_timeout = params_.timeout;
    server.max_connections = 1;
    target_ = server.url.path.empty() ? std::string(kPath) : "";
    server_ = net::Upstream::make(loop_, std::move(server));
    timer_.start(params_.pause, [this] { look(); });
    thread_ = std::thread([this] { loop_.run(); });
  }
  ~Thread() {
    set_tracing(false);
    loop_.post([this] {
      ending_ = true;
      limit_.emplace(loop_);
      limit_->start(kFlush, [this] { loop_.stop(); });
      if (call_ == nullptr) {
        look();
      }
    });
    thread_.join();
  }

 private:
  void look() {
    call_.reset();
    if (batch_.empty()) {
      batch_ = take_spans(kBatch);
      attempts_ = 0;
    }
    if (!batch_.empty()) {
      send();
    } else if (ending_) {
      loop_.stop();
    } else {
      timer_.start(params_.pause, [this] { look(); });
    }
  }

  void send() {
    ++attempts_;
    net::FetchRequest request;
    request.method = "POST";
    request.target = target_;
    request.headers = headers_;
    request.headers.set("content-type", "application/x-protobuf");
    request.body = encode_spans(resource_, batch_);
    request.timeout = params_.timeout;
    call_ = net::fetch(loop_, *server_, std::move(request),
                       [this](const Expected<net::FetchResponse>& answer) { on_answer(answer); });
  }

  void on_answer(const Expected<net::FetchResponse>& answer) {
    constexpr int kFine = 200;
    if (answer && answer->status == kFine) {
      const auto rejected = rejected_spans(answer->body);
      const std::size_t refused =
          std::min(static_cast<std::size_t>(rejected.value_or(0)), batch_.size());
      count_spans_sent(batch_.size() - refused);
      if (refused > 0) {
        lose(refused, "the collector did not take all of a batch");
      }
      next();
      return;
    }
    const bool again = !answer || may_try_again(answer->status);
    if (again && !ending_ && attempts_ < kAttempts) {
      Duration pause = std::min<Duration>(params_.retry * (1 << (attempts_ - 1)), kLongestPause);
      const auto said =
          answer ? parse_decimal<std::uint32_t>(answer->headers.get("retry-after")) : std::nullopt;
      if (said) {
        pause = seconds(std::min(*said, kMostSeconds));
      }
      timer_.start(pause, [this] { look(); });
      return;
    }
    lose(batch_.size(), answer ? "answers " + std::to_string(answer->status)
                               : std::string(answer.error().message()));
    next();
  }

  /// After a whole batch there may be more.
  void next() {
    const bool was_whole = batch_.size() == kBatch;
    batch_.clear();
    if (was_whole || ending_) {
      loop_.post([this] { look(); });
    } else {
      timer_.start(params_.pause, [this] { look(); });
    }
  }

  void lose(std::size_t count, const std::string& why) {
    count_spans_failed(count);
    const TimePoint now = Clock::now();
    if (now - said_at_ >= kSayAgain || said_at_ == TimePoint{}) {
      said_at_ = now;
      log_warn("spans are lost: the collector of traces does not take them",
               {{"endpoint", params_.endpoint},
                {"spans", static_cast<std::uint64_t>(count)},
                {"cause", why}});
    }
  }

  const TraceParams params_;
  const http::HeaderList headers_;
  TraceResource resource_;
  std::string target_;
  net::Loop loop_;
  net::Timer timer_;
  std::optional<net::Timer> limit_;
  std::unique_ptr<net::Upstream> server_;
  std::unique_ptr<net::Call> call_;
  std::vector<Span> batch_;
  int attempts_ = 0;
  bool ending_ = false;
  TimePoint said_at_{};
  std::thread thread_;
};

TraceExporter::TraceExporter(std::unique_ptr<Thread> thread) : thread_(std::move(thread)) {}
TraceExporter::~TraceExporter() = default;

Expected<std::unique_ptr<TraceExporter>> TraceExporter::start(TraceParams params) {
  net::UpstreamParams server;
  auto url = net::Url::parse(params.endpoint);
  if (!url) {
    return fail(std::move(url.error()).at("tracing.endpoint"));
  }
  server.url = std::move(*url);
  if (server.url.scheme == "https") {
    net::TlsParams tls;
    tls.ca_file = params.ca_file;
    auto made = net::TlsContext::client(tls);
    if (!made) {
      return fail(std::move(made.error()).at("tracing.ca_file"));
    }
    server.tls = std::move(*made);
  }
  auto headers = read_headers(params.headers_file);
  if (!headers) {
    return fail(std::move(headers.error()).at("tracing.headers_file"));
  }
  set_tracing(true);
  return std::unique_ptr<TraceExporter>(new TraceExporter(
      std::make_unique<Thread>(std::move(params), std::move(server), std::move(*headers))));
}

}  // namespace kintsugi::serving
