#include "server/internal/peer_probe.h"

#include <algorithm>
#include <chrono>
#include <cstdlib>
#include <ctime>
#include <iterator>
#include <utility>

#include "base/strings.h"
#include "krm/json.h"
#include "store/etcd/etcd_check.h"

namespace kintsugi::server {
namespace {

constexpr std::int64_t kClockTolerance = 30;  // [s]
constexpr int kUnauthorized = 401, kForbidden = 403, kNotFound = 404, kServerFault = 500;

/// Causes in OpenSSL's and the system's words, and what they mean here.
constexpr std::pair<std::string_view, std::string_view> kCauses[] = {
    {"unable to get local issuer certificate", "its certificate is not of the CA that is named"},
    {"self-signed certificate", "its certificate is not of the CA that is named"},
    {"self signed certificate", "its certificate is not of the CA that is named"},
    {"certificate signature failure", "its certificate is not of the CA that is named"},
    {"hostname mismatch", "its certificate does not name the host"},
    {"IP address mismatch", "its certificate does not name the host"},
    {"certificate has expired", "its certificate has ended"},
    {"certificate is not yet valid", "its certificate is not valid yet"},
    {"certificate revoked", "its certificate is revoked"},
    {"certificate required", "it wants a client certificate"},
    {"wrong version number", "it does not speak TLS"},
    {"Connection refused", "refused the connection"},
    {"Host not found", "its name does not resolve"},
};

/// The first that the text has, with the details in parentheses that follow it.
std::string meaning_of(std::string_view text) {
  for (const auto& [cause, meaning] : kCauses) {
    if (const std::size_t at = text.find(cause); at != std::string_view::npos) {
      return std::string(meaning) + std::string(text.substr(at + cause.size()));
    }
  }
  return std::string(text);
}

/// What a Status says; "" of another answer.
std::string message_of(std::string_view body) {
  const auto status = krm::Json::parse(body);
  constexpr std::size_t kMost = 200;
  return status && status->is_object() && status->text({"kind"}) == "Status"
             ? std::string(status->text({"message"}).substr(0, kMost))
             : std::string();
}

std::string seconds_text(Duration time) {
  return std::to_string(std::chrono::duration_cast<std::chrono::seconds>(time).count()) + " s";
}

}  // namespace

std::optional<std::int64_t> seconds_ahead(std::string_view date, std::int64_t now) {
  std::tm parts{};
  const std::string text(date);
  const char* const end = ::strptime(text.c_str(), "%a, %d %b %Y %H:%M:%S GMT", &parts);
  if (end == nullptr || *end != '\0') {
    return std::nullopt;
  }
  return ::timegm(&parts) - now;
}

/// One peer under way.
struct PeerProbe::Asked {
  explicit Asked(Peer one) : peer(std::move(one)), url(peer.server.url) {}
  Peer peer;
  const net::Url url;
  std::unique_ptr<net::Upstream> server;
  std::unique_ptr<proxy::BackendCheck> check;
  std::vector<ConfigFinding> findings;
  bool begun = false, done = false;
  net::Job job;  ///< uses the others
};

PeerProbe::PeerProbe(Bounds bounds) : bounds_(bounds), loop_("validate"), limit_(loop_) {}

PeerProbe::~PeerProbe() = default;

void PeerProbe::add(Peer peer) {
  if (asked_.size() == bounds_.most) {
    ++left_out_;
    return;
  }
  ++check_.checks;
  asked_.push_back(std::make_unique<Asked>(std::move(peer)));
}

ConfigCheck PeerProbe::run() {
  limit_.start(bounds_.all, [this] {
    for (const auto& asked : asked_) {
      if (!std::exchange(asked->done, true)) {
        finding(*asked, asked->peer.required,
                "did not answer within " + seconds_text(bounds_.all) + ", as all have to");
      }
    }
    loop_.stop();
  });
  loop_.post([this] { begin(); });
  loop_.run();
  for (const auto& asked : asked_) {
    asked->job.end();
    std::move(asked->findings.begin(), asked->findings.end(), std::back_inserter(check_.findings));
  }
  if (left_out_ > 0) {
    check_.findings.push_back({false, std::to_string(left_out_) + " more servers were not asked"});
  }
  asked_.clear();
  return std::move(check_);
}

void PeerProbe::begin() {
  for (auto one = asked_.begin(); one != asked_.end() && running_ < bounds_.at_once; ++one) {
    Asked& asked = **one;
    if (std::exchange(asked.begun, true)) {
      continue;
    }
    ++running_;
    asked.peer.server.connect_timeout = bounds_.each;
    asked.peer.server.tls_timeout = bounds_.each;
    asked.peer.server.queue_timeout = bounds_.each;
    asked.server = net::Upstream::make(loop_, asked.peer.server);
    asked.job = net::Job(ask(asked));
  }
  if (running_ == 0) {
    loop_.stop();
  }
}

void PeerProbe::done(Asked& asked) {
  if (!std::exchange(asked.done, true)) {
    --running_;
    loop_.post([this] { begin(); });
  }
}

void PeerProbe::finding(Asked& asked, bool is_error, const std::string& what) {
  std::string shown = what;
  std::replace_if(
      shown.begin(), shown.end(), [](char c) { return static_cast<unsigned char>(c) < ' '; }, ' ');
  asked.findings.push_back({is_error, asked.peer.place + ": " + asked.peer.name + " (" +
                                          asked.url.scheme + "://" + asked.url.authority() +
                                          "): " + shown});
}

net::Task<> PeerProbe::ask(Asked& asked) {
  const Duration turn{};
  co_await net::sleep(loop_, turn);  // begin() is on the stack, and goes on
  net::FetchRequest request;
  request.target = asked.peer.asks == Peer::Asks::kEtcd ? "/version" : asked.peer.target;
  request.headers = asked.peer.headers;
  request.headers.set("accept", "application/json");
  request.timeout = bounds_.each;
  net::Answer<Expected<net::FetchResponse>> waited;
  const auto call = net::fetch(loop_, *asked.server, std::move(request), waited.callback());
  const Expected<net::FetchResponse> answer = co_await waited;
  judge(asked, answer);
  if (!answer || answer->status >= kServerFault) {
    done(asked);
    co_return;
  }
  if (asked.peer.asks == Peer::Asks::kAsserted) {
    ask_identity(asked);
    co_return;
  }
  if (asked.peer.asks == Peer::Asks::kEtcd) {
    net::Task<> asking = ask_etcd(asked);
    co_await asking;
  } else if (answer->status == 200 && asked.peer.more) {
    for (Peer& peer : asked.peer.more(answer->body)) {
      add(std::move(peer));
    }
  }
  done(asked);
}

net::Task<> PeerProbe::ask_etcd(Asked& asked) {
  net::Task<Expected<void>> checking = store::check_etcd(loop_, asked.peer.etcd);
  const Expected<void> fits = co_await checking;
  if (!fits) {
    finding(asked, asked.peer.required, std::string(fits.error().message()));
  }
}

/// Its own connection and its own tries; what it cannot find out was told by judge(), or is told
/// nowhere.
void PeerProbe::ask_identity(Asked& asked) {
  proxy::BackendTarget target{asked.peer.name, asked.peer.server, {}};
  asked.check = std::make_unique<proxy::BackendCheck>(
      loop_, std::vector<proxy::BackendTarget>{std::move(target)},
      proxy::BackendCheck::Hooks{[this, &asked](const Expected<void>& verdict) {
                                   if (!verdict) {
                                     // Nothing is forwarded: the proxy ends with it.
                                     finding(asked, true, std::string(verdict.error().message()));
                                   }
                                   done(asked);
                                 },
                                 [this, &asked] { done(asked); }});
}

void PeerProbe::judge(Asked& asked, const Expected<net::FetchResponse>& answer) {
  const bool required = asked.peer.required;
  if (!answer) {
    const std::string& why = asked.server->last_failure();
    finding(asked, required,
            answer.error().code() == Errc::kDeadline || why.empty()
                ? "did not answer within " + seconds_text(bounds_.each)
                : meaning_of(why));
    return;
  }
  const auto ahead = seconds_ahead(answer->headers.get("date"), std::time(nullptr));
  if (ahead && std::abs(*ahead) > kClockTolerance) {
    finding(asked, false,
            "its clock is " + std::to_string(std::abs(*ahead)) + " s " +
                (*ahead > 0 ? "ahead" : "behind"));
  }
  if (asked.peer.asks == Peer::Asks::kAsserted) {
    if (answer->status >= kServerFault) {
      finding(asked, required, "answers " + std::to_string(answer->status));
    }
    return;  // nobody was named: any other answer is one
  }
  const std::string message = message_of(answer->body);
  const std::string said = message.empty() ? "" : ": " + message;
  if (answer->status == kUnauthorized) {
    finding(asked, required, "does not take the credential (401)");
  } else if (answer->status == kForbidden &&
             message.find("\"system:anonymous\"") != std::string::npos) {
    finding(asked, required, "takes this for system:anonymous (403)");
  } else if (answer->status == kForbidden) {
    finding(asked, required, "does not allow it (403)" + said);
  } else if (answer->status >= kServerFault ||
             (answer->status == kNotFound && asked.peer.asks == Peer::Asks::kReads)) {
    finding(asked, required, "answers " + std::to_string(answer->status) + said);
  }
}

}  // namespace kintsugi::server
