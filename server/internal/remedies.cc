#include "server/internal/remedies.h"

#include <algorithm>
#include <array>
#include <cstddef>
#include <cstdint>
#include <iterator>
#include <optional>
#include <string>
#include <utility>

#include "base/strings.h"
#include "server/internal/port_owner.h"
#include "server/kubeconfig.h"

namespace kintsugi::server {
namespace {

/// `says` are parts of what the fault says, any of them; `does` has <dir> and <data> in it. The
/// first row that fits counts: what is certain stands before what may be.
struct Row {
  std::array<std::string_view, 4> says;
  std::string_view does;
};

constexpr Row kRows[] = {
    {{"store is damaged", "is damaged;", "MDB_CORRUPTED", "MDB_PAGE_NOTFOUND"},
     "`kintsugi store check --dir <data>` says what is left of it, and `kintsugi restore` brings a "
     "backup back"},
    {{"has format "},
     "start the release that wrote it, or bring back a backup of this one with `kintsugi restore`"},
    {{"No space left", "Disk quota exceeded", "MDB_MAP_FULL"},
     "make room where <dir> is (`df -h <dir>`); nothing that was acknowledged is lost"},
    {{"Read-only file system"}, "mount the file system of <dir> for writing"},
    {{"Permission denied", "Operation not permitted"},
     "who starts it has to own what is below <dir> (`ls -ln <dir>`)"},
    {{"Too many open files"}, "raise the hard limit of files (`ulimit -Hn`, `LimitNOFILE=`)"},
    {{"Cannot allocate memory", "Resource temporarily unavailable"},
     "there is no memory or no process left for it: `free -m`, `ulimit -u`, the control group"},
    {{"in use by process", "in use by another"},
     "end that process, or use another --dir: a store has one writer"},
    {{"address already in use"}, "end what listens there, or use another --port"},
    {{"cannot assign requested address", "Cannot assign requested address"},
     "no interface of this machine has that address (`ip address`): use another --bind"},
    {{"not yet valid", "not valid before"}, "set the clock of this machine (`date -u`)"},
    {{"certificate has expired", "certificate has ended"},
     "`kintsugi pki status --dir <dir>` says which one, and who has the key of its CA renews it: "
     "`kintsugi up` does for its own, `kintsugi pki rotate-ca --dir <dir>` for CAs"},
    {{"certificate verify failed", "self-signed certificate", "unable to get local issuer"},
     "it shows a certificate of another CA than <dir> has: `kintsugi pki status --dir <dir>`; give "
     "it one of this CA, or this one its own"},
    {{"system:anonymous", "Unauthorized", ": 401", ": 403"},
     "it does not take the credential that it is asked with: see that certificates and kubeconfigs "
     "are those of <dir>, and were not mixed with another installation's"},
    {{"etcd"}, "see whether etcd answers (`etcdctl endpoint health`); it goes on by itself then"},
    {{"Refused", "refused"},
     "nobody listens there: see whether that server runs (`kintsugi get shards`); it goes on by "
     "itself then"},
    {{"Resolve", "resolve", "Name or service not known"},
     "see whether this machine can resolve that name (`getent hosts`)"},
    {{"timed out", "Timeout", "time-out"},
     "see whether that server can be reached from here, and is not overloaded"},
    {{"are not listed yet"}, "it asks shards that have not answered yet: `kintsugi get shards`"},
    {{"(signal 9)"},
     "if it was not you who ended it, `dmesg` says whether memory ran out: --memory-budget"},
    {{"does not answer", "does not listen yet"},
     "it still starts, or hangs: --hang-timeout ends one that has answered before"},
};

bool fits(const Row& row, std::string_view why) {
  return std::any_of(row.says.begin(), row.says.end(), [&](std::string_view says) {
    return !says.empty() && why.find(says) != std::string_view::npos;
  });
}

/// "<command> of pid 7", "uid 33" where its descriptors may not be seen; "" of nobody.
std::string owner_of_port_in(std::string_view why) {
  const std::string_view before = why.substr(0, why.find(": address already in use"));
  const std::string_view place = before.substr(before.rfind(' ') + 1);
  const std::size_t colon = place.rfind(':');
  if (before.size() == why.size() || colon == std::string_view::npos) {
    return {};
  }
  const auto port = parse_decimal<std::uint16_t>(place.substr(colon + 1));
  std::string host(place.substr(0, colon));
  std::erase_if(host, [](char c) { return c == '[' || c == ']'; });
  const auto owner = port ? port_owner(host, *port) : std::nullopt;
  return !owner               ? ""
         : owner->process > 0 ? "pid " + std::to_string(owner->process) + " has it; "
                              : "a process of uid " + std::to_string(owner->user) + " has it; ";
}

}  // namespace

std::string remedy_of(std::string_view process, std::string_view why, const Layout& layout) {
  const auto* const row = std::find_if(std::begin(kRows), std::end(kRows),
                                       [&](const Row& one) { return fits(one, why); });
  if (row == std::end(kRows)) {
    return {};
  }
  std::string text(row->does);
  const std::string name(process);
  const std::string data =
      name.starts_with("proxy") ? layout.proxy_data(name) : layout.shard_data(name);
  for (const auto& [mark, value] :
       {std::pair<std::string_view, std::string_view>("<dir>", layout.dir), {"<data>", data}}) {
    for (std::size_t at = text.find(mark); at != std::string::npos;
         at = text.find(mark, at + value.size())) {
      text.replace(at, mark.size(), value);
    }
  }
  return owner_of_port_in(why) + text;
}

std::string with_remedy(std::string_view process, std::string_view why, const Layout& layout) {
  const std::string remedy = remedy_of(process, why, layout);
  return std::string(why) + (remedy.empty() ? "" : "; ") + remedy;
}

std::string left_out_line(std::string_view shard, unsigned shards, unsigned in_folder,
                          const Layout& layout) {
  const std::string name(shard);
  const auto access = read_kubeconfig(layout.shard_kubeconfig(name), "base");
  return name + (access ? " (" + access->server + ")" : "") +
         " has data here and does not run: this start has --shards " + std::to_string(shards) +
         ", the folder " + std::to_string(in_folder) + "; use --shards " +
         std::to_string(in_folder) + ", or, if nobody needs what it has, `kubectl --kubeconfig=" +
         layout.shard_kubeconfig("root") + " delete shard " + name + "`";
}

}  // namespace kintsugi::server
