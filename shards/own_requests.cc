#include "shards/own_requests.h"

#include <algorithm>
#include <array>
#include <string_view>
#include <utility>

#include "base/log_level.h"
#include "krm/path_prefixes.h"
#include "krm/request_info.h"
#include "krm/request_target.h"
#include "shards/answer_log.h"

namespace kintsugi::shards {
namespace {

constexpr std::array<std::string_view, 12> kHeaders = {
    "accept",         "accept-encoding",
    "content-type",   "content-length",
    "user-agent",
    "authorization",  // the proxy's own token
    "x-remote-user",  // the proxy's own name
    "x-remote-group", "x-kcp-internal-deep-subjectaccessreview",
    "if-none-match",  "te",
    "host",
};
/// What a read for others also tells of where it comes from.
constexpr std::array<std::string_view, 3> kWayHeaders = {"audit-id", "via",
                                                         "x-kcp-virtual-resource-hops"};

template <std::size_t N>
bool is_one_of(std::string_view text, const std::array<std::string_view, N>& table) noexcept {
  return std::find(table.begin(), table.end(), text) != table.end();
}

bool has_own_headers(OwnRole role, const http::HeaderList& headers) {
  for (std::size_t i = 0; i < headers.size(); ++i) {
    const std::string_view name = headers[i].name;
    if (!is_one_of(name, kHeaders) &&
        !(role == OwnRole::kReviewed && is_one_of(name, kWayHeaders))) {
      return false;
    }
  }
  return true;
}

/// What is asked below the logical cluster, or the virtual workspace, that the target names: those
/// of shards, what is common to all, and with reviewed rights reads of clusters/*.
krm::RequestInfo asked_by(OwnRole role, const http::RequestHead& head, std::string_view target,
                          const krm::RequestTarget& parsed) {
  const bool is_known = parsed.form == krm::TargetForm::kCluster ||
                        (parsed.form == krm::TargetForm::kService &&
                         (parsed.service == krm::VirtualWorkspace::kAdmin ||
                          (role == OwnRole::kReviewed && parsed.cluster == "*")));
  return parsed.scope == krm::TargetScope::kNone && is_known
             ? krm::request_info_of(head.method, target, parsed)
             : krm::parse_request_info(head.method, target);
}

const std::string& note_prefix() {
  static const std::string& prefix =
      *new std::string(std::string(krm::kServicesPrefix) + "partitions/");
  return prefix;
}

bool is_cluster_name(std::string_view text) noexcept {
  return !text.empty() && std::all_of(text.begin(), text.end(), [](char c) {
    return (c >= 'a' && c <= 'z') || (c >= '0' && c <= '9') || c == '-';
  });
}

/// Byte for byte, so that no spelling of another path can be one.
bool is_partition_note(const http::RequestHead& head, std::string_view target) {
  if (head.method != "POST" || !target.starts_with(note_prefix())) {
    return false;
  }
  const std::string_view rest = target.substr(note_prefix().size());
  const std::string_view cluster = rest.substr(0, rest.find('/'));
  return is_cluster_name(cluster) && target == partition_note_target(cluster);
}

/// Tells in a later turn that a request was not sent.
class NotSent final : public net::Call {
 public:
  NotSent(net::Loop& loop, std::function<void()> tell) : timer_(loop) {
    timer_.start(Duration{}, std::move(tell));
  }

 private:
  net::Timer timer_;
};

bool may_be_sent(const net::FetchRequest& request) {
  http::RequestHead head;
  head.method = request.method;
  head.target = request.target;
  head.headers = request.headers;
  const bool allowed = is_own_request(OwnRole::kTopology, head);
  if (!allowed) {
    log_error("a request that the proxy's own credential is not for was not sent",
              {{"method", head.method}, {"path", head.target.substr(0, head.target.find('?'))}});
  }
  return allowed;
}

}  // namespace

std::string partition_note_target(std::string_view cluster) {
  return note_prefix() + std::string(cluster) + krm::cluster_root(cluster) +
         "/apis/topology.kcp.io/v1alpha1/partitionnotes";
}

bool is_own_request(OwnRole role, const http::RequestHead& head, const std::string& prefix) {
  std::string_view target = head.target;
  if (!target.starts_with(prefix) || !has_own_headers(role, head.headers) ||
      !head.protocol.empty()) {
    return false;
  }
  target.remove_prefix(prefix.size());
  if (role == OwnRole::kTopology && is_partition_note(head, target)) {
    return true;
  }
  const krm::RequestTarget parsed = krm::parse_target(head.method, target);
  if (parsed.fault != krm::TargetFault::kNone) {
    return false;  // a name from an object that hides a path
  }
  const krm::RequestInfo info = asked_by(role, head, target, parsed);
  if (!info.is_resource) {
    return is_own_path(info.verb, info.path);
  }
  if (role == OwnRole::kReviewed) {
    return info.subresource.empty() && (info.verb == "list" || info.verb == "watch");
  }
  return has_own_right(
      role, {info.verb, info.group,
             std::string_view(info.resource).substr(0, info.resource.find(':')),  // no identity
             info.subresource});
}

std::unique_ptr<net::Call> own_fetch(net::Loop& loop, net::Upstream& upstream,
                                     net::FetchRequest request,
                                     std::function<void(Expected<net::FetchResponse>)> done) {
  if (may_be_sent(request)) {
    if (is_logged(LogLevel::kDebug)) {
      done = [done = std::move(done), server = upstream.params().url.authority(),
              method = request.method, target = request.target, &loop,
              begun = loop.now()](Expected<net::FetchResponse> answer) {
        log_answer(server, method, target, answer ? answer->status : 0, loop.now() - begun);
        done(std::move(answer));
      };
    }
    return net::fetch(loop, upstream, std::move(request), std::move(done));
  }
  return std::make_unique<NotSent>(loop, [done = std::move(done)] {
    done(fail(Errc::kForbidden, "the proxy's own credential is not for this"));
  });
}

std::unique_ptr<net::Call> own_stream(net::Loop& loop, net::Upstream& upstream,
                                      net::FetchRequest request, net::StreamCallbacks callbacks) {
  if (may_be_sent(request)) {
    return net::stream(loop, upstream, std::move(request), std::move(callbacks));
  }
  return std::make_unique<NotSent>(loop,
                                   [end = std::move(callbacks.on_end)] { end(Errc::kForbidden); });
}

}  // namespace kintsugi::shards
