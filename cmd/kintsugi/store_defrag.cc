#include <cstdio>
#include <string>
#include <utility>
#include <vector>

#include "base/time.h"
#include "cmd/kintsugi/commands.h"
#include "cmd/kintsugi/progress.h"
#include "cmd/kintsugi/store_copy.h"
#include "store/etcd/etcd_members.h"

namespace kintsugi::cmd {
namespace {

constexpr const char* kCommand = "store defrag";
constexpr const char* kNoPrefix = "/-";

std::string megabytes(std::uint64_t bytes) {
  char text[32];
  std::snprintf(text, sizeof text, "%.1f MB", static_cast<double>(bytes) / 1e6);
  return text;
}

/// All members answer, or none is blocked: one that is away and one that is blocked are two of
/// three.
Expected<store::EtcdMembers::Member> look_for(store::EtcdMembers& etcd, const std::string& url) {
  auto now = etcd.look();
  if (!now) {
    return fail(std::move(now).error());
  }
  for (store::EtcdMembers::Member& member : *now) {
    if (member.url == url) {
      return std::move(member);
    }
  }
  return fail(Errc::kUnavailable, url + " is gone");
}

Expected<void> defragment(store::EtcdMembers& etcd, const std::string& url) {
  const auto before = look_for(etcd, url);
  if (!before) {
    return fail(before.error().clone());
  }
  const TimePoint begin = Clock::now();
  {
    Progress progress(kCommand);
    progress.show(url);
    if (auto done = etcd.defragment(url); !done) {
      return done;
    }
  }
  const auto after = look_for(etcd, url);
  if (!after) {
    return fail(after.error().clone());
  }
  std::printf("%s%s: %s, now %s, in %.1f s\n", url.c_str(), before->is_leader ? " (leader)" : "",
              megabytes(before->bytes).c_str(), megabytes(after->bytes).c_str(),
              std::chrono::duration<double>(Clock::now() - begin).count());
  std::fflush(stdout);
  return {};
}

}  // namespace

int run_store_defrag(const std::string& from, StoreFlags flags) {
  if (!from.starts_with("etcd=")) {
    return complain(kCommand, "--from etcd=URL,… is required: all members", 2);
  }
  flags.store = from;
  flags.prefix = kNoPrefix;
  auto params = etcd_params(flags);
  if (!params) {
    return complain(kCommand, params.error(), params.error().code() == Errc::kConfig ? 2 : 1);
  }
  auto etcd = store::EtcdMembers::open(std::move(*params));
  if (!etcd) {
    return complain(kCommand, etcd.error());
  }
  const auto members = (*etcd)->look();
  const auto others = members ? (*etcd)->others() : fail(members.error().clone());
  if (!others) {
    return complain(kCommand, std::string(others.error().message()) + "; no member was touched");
  }
  for (const auto& member : *members) {
    if (auto done = defragment(**etcd, member.url); !done) {
      return complain(kCommand,
                      std::string(done.error().message()) + "; those after it were not touched");
    }
  }
  for (const std::string& other : *others) {
    std::printf("%s: left as it is, --from does not name it\n", other.c_str());
  }
  return 0;
}

}  // namespace kintsugi::cmd
