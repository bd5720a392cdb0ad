// "<method> <target>": proxy and shard read the same in a target, in whatever form it comes, and
// what is forwarded or served means what was received (SE-021 SE-023 SE-025).
#include <cstdint>
#include <cstdlib>
#include <string>
#include <string_view>

#include "krm/request_target.h"

namespace {

using kintsugi::krm::RequestTarget;
using kintsugi::krm::TargetFault;
using kintsugi::krm::TargetForm;
namespace krm = kintsugi::krm;

void check(bool holds) {
  if (!holds) {
    std::abort();
  }
}

std::string meaning(std::string_view method, std::string_view target, const RequestTarget& parsed) {
  const krm::RequestInfo info = krm::request_info_of(method, target, parsed);
  const bool is_refused = parsed.fault == TargetFault::kMalformed;  // before it is understood
  check(is_refused || !info.is_resource || parsed.is_watch == (info.verb == "watch") ||
        (method != "GET" && method != "HEAD"));
  const bool known = parsed.form == TargetForm::kCluster ||
                     (parsed.service != krm::VirtualWorkspace::kOther &&
                      parsed.service != krm::VirtualWorkspace::kAdmin);  // else a guess for tokens
  std::string out = (known ? parsed.cluster : "") + '\n' + info.verb + '\n' + info.path;
  for (const std::string* part : {&info.group, &info.version, &info.ns, &info.resource,
                                  &info.subresource, &info.name, &parsed.scope_name}) {
    out += '\n' + *part;
  }
  return out + (parsed.is_watch ? "watch" : "") + (parsed.is_long_running ? "long" : "");
}

void check_forms(std::string_view method, std::string_view target, krm::TargetRules rules) {
  const RequestTarget parsed = krm::parse_target(method, target, rules);
  check(parsed.query <= target.size() && parsed.trail <= target.size() &&
        parsed.inner <= target.size() && parsed.info_end <= parsed.query);
  const std::string what = meaning(method, target, parsed);
  if (parsed.fault == TargetFault::kUnclean) {
    const RequestTarget again = krm::parse_target(method, parsed.reason, rules);
    check(again.fault != TargetFault::kUnclean);
    check(!parsed.reason.starts_with("//") && !parsed.reason.starts_with("/\\"));
    if (rules.shard && parsed.form == TargetForm::kCluster) {
      check(again.form == TargetForm::kCluster && again.cluster == parsed.cluster);
    }
  }
  if (parsed.fault != TargetFault::kNone || parsed.info_end != parsed.query) {
    return;
  }
  const std::string plain = krm::canonical_target(target, parsed);
  const RequestTarget again = krm::parse_target(method, plain, rules);
  check(again.fault == TargetFault::kNone && again.form == parsed.form);
  check(meaning(method, plain, again) == what);
  check(krm::canonical_target(plain, again) == plain);
  if (!parsed.plain_prefix.empty()) {  // what a proxy forwards
    const std::string forwarded = parsed.plain_prefix + std::string(target.substr(parsed.trail));
    check(meaning(method, forwarded, krm::parse_target(method, forwarded, rules)) == what);
  }
}

}  // namespace

extern "C" int LLVMFuzzerTestOneInput(const std::uint8_t* data, std::size_t size) {
  const std::string_view text(reinterpret_cast<const char*>(data), size);
  const std::size_t space = text.find(' ');
  if (space == std::string_view::npos) {
    return 0;
  }
  const std::string_view method = text.substr(0, space);
  const std::string_view target = text.substr(space + 1);
  for (const bool shard : {false, true}) {
    for (const bool opaque : {false, true}) {
      check_forms(method, target, {.shard = shard, .opaque_proxy = opaque});
    }
  }
  const RequestTarget proxy = krm::parse_target(method, target);
  const RequestTarget shard = krm::parse_target(method, target, {.shard = true});
  if (proxy.fault != TargetFault::kNone || shard.fault != TargetFault::kNone) {
    return 0;
  }
  const bool leads = shard.form == TargetForm::kCluster || shard.form == TargetForm::kService;
  if (leads && proxy.form == TargetForm::kOther) {  // the proxy refuses a scope in a scope (SE-033)
    const std::string trail = krm::canonical_trail(target.substr(shard.trail));
    check(trail.starts_with("/clusters") || trail.starts_with("/shards") ||
          trail.starts_with("/partitions"));
  } else {
    check(meaning(method, target, proxy) == meaning(method, target, shard));
  }
  return 0;
}
