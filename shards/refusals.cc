#include "shards/refusals.h"

#include <utility>

#include "base/log.h"
#include "krm/json.h"

namespace kintsugi::shards {
namespace {

std::string message_of(std::string_view body) {
  const auto status = krm::Json::parse(body);
  const std::string_view text = status ? status->text({"message"}) : body;
  return std::string(text.substr(0, Refusals::kMostMessage));
}

}  // namespace

std::string Refusals::Refusal::text() const {
  return server + ": " + path + ": " + std::to_string(code) + (message.empty() ? "" : " ") +
         message + (user.empty() ? "" : " (asked as " + user + ")");
}

void Refusals::heard(const std::string& reader, const std::string& server, std::string_view target,
                     int code, std::string_view body) {
  const std::string path(target.substr(0, target.find('?')));
  const bool is_watch = target.find("watch=true", path.size()) != std::string_view::npos;
  const std::string key = reader + (is_watch ? " watch" : "");
  const auto known = refusals_.find(key);
  if (code < 400) {
    if (known != refusals_.end()) {
      log_warn("a server answers again what it refused",
               {{"shard", server}, {"url", path}, {"refused", known->second.times}});
      refusals_.erase(known);
    }
    return;
  }
  Refusal& refusal = refusals_[key];
  const std::uint64_t before = refusal.times;
  refusal = {server, path, message_of(body), who_ ? who_(server) : "", code, before + 1};
  if (before == 0) {
    log_warn("a server refuses what the proxy asks for itself", {{"shard", server},
                                                                 {"url", path},
                                                                 {"code", code},
                                                                 {"user", refusal.user},
                                                                 {"message", refusal.message}});
  }
}

void Refusals::forget(const std::string& server) {
  std::erase_if(refusals_, [&](const auto& entry) { return entry.second.server == server; });
}

std::vector<Refusals::Refusal> Refusals::now() const {
  std::vector<Refusal> all;
  for (const auto& [reader, refusal] : refusals_) {
    all.push_back(refusal);
  }
  return all;
}

}  // namespace kintsugi::shards
