// An audit policy, asked about requests of every kind: a policy that is taken gives an answer.
#include <cstdint>
#include <cstdlib>
#include <string_view>

#include "auth/audit_policy.h"

extern "C" int LLVMFuzzerTestOneInput(const std::uint8_t* data, std::size_t size) {
  using kintsugi::auth::AuditPolicy;
  const std::string_view text(reinterpret_cast<const char*>(data), size);
  const auto policy = AuditPolicy::parse(text, "policy.yaml");
  if (!policy) {
    return 0;
  }
  kintsugi::auth::UserInfo user;
  user.name = "alice";
  user.groups = {"system:nodes"};
  for (const std::string_view target :
       {"/api/v1/namespaces/prod/pods/a/log", "/apis/apps/v1/deployments?watch=1", "/healthz"}) {
    const auto verdict = policy->judge(kintsugi::krm::parse_request_info("GET", target), &user);
    if (verdict.level > AuditPolicy::Level::kMetadata && !policy->wants_bodies()) {
      std::abort();
    }
  }
  return 0;
}
