#include "controlplane/internal/kcp_stand_in.h"

#include <algorithm>
#include <string>
#include <string_view>
#include <utility>

#include "auth/own_roles.h"
#include "auth/x509_identity.h"
#include "http/guarded_answer.h"
#include "krm/path_prefixes.h"
#include "krm/request_info.h"
#include "krm/status.h"
#include "serving/answer.h"

namespace kintsugi::controlplane {
namespace {

bool is_shard(const http::PeerInfo& peer) {
  const auth::CertificateIdentity* certificate = auth::certificate_of(peer);
  return certificate != nullptr && certificate->valid &&
         std::count(certificate->organizations.begin(), certificate->organizations.end(),
                    auth::kGroupOwnShard) > 0;
}

/// "/clusters/*" or "/clusters/%2A" before what is asked of all logical clusters; 0: of one.
std::size_t end_of_wildcard(std::string_view target) {
  for (const std::string_view front : {krm::kEverywhere, krm::kEverywhereEscaped}) {
    if (target.starts_with(front)) {
      return front.size();
    }
  }
  return 0;
}

/// What kcp's exports in root bring, one of which has a single resource of its group.
bool is_exported(std::string_view group, std::string_view resource) {
  const bool is_named = resource.find(':') == std::string_view::npos;  // without an identity
  return is_named && (group == "tenancy.kcp.io" || group == "topology.kcp.io" ||
                      (group == "core.kcp.io" && resource == "shards"));
}

}  // namespace

void StandInAuthorizer::authorize(const auth::Attributes& attributes, Done done) {
  if (attributes.cluster == "*" && !attributes.user.in_group(auth::kGroupMasters) &&
      !attributes.user.in_group(auth::kGroupOwnShard)) {
    done(auth::Decision{false, "access denied"});
    return;
  }
  inner_.authorize(attributes, std::move(done));
}

std::unique_ptr<http::RequestHandler> StandInHandler::on_request(
    http::RequestHead head, http::ResponseStream& stream) noexcept {
  const bool head_only = head.method == "HEAD";
  return http::guarded_answer("stand-in", stream, head_only, [&] {
    if (head.target.starts_with(krm::kServicesPrefix) != services_) {
      return serving::answer_error(head, stream, krm::path_not_found());
    }
    const std::size_t end = end_of_wildcard(head.target);
    if (end > 0 && !is_shard(stream.peer()) &&
        head.headers.get("accept").find("as=PartialObjectMetadata") == std::string_view::npos) {
      const krm::RequestInfo info =
          krm::parse_request_info(head.method, std::string_view(head.target).substr(end));
      if (info.is_resource && is_exported(info.group, info.resource)) {
        const std::size_t query = std::min(head.target.find('?'), head.target.size());
        head.target.insert(query, ":none");
      }
    }
    return inner_.on_request(std::move(head), stream);
  });
}

}  // namespace kintsugi::controlplane
