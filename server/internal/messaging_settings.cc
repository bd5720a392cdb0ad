#include "server/internal/messaging_settings.h"

#include <cstdint>
#include <utility>

namespace kintsugi::server {

namespace {

using krm::Json;

constexpr Duration kLeast = milliseconds(10);

WorkerSetter flag(bool& target) {
  return [&target](const Json& value) -> std::string {
    target = value.as_bool(target);
    return value.is_bool() ? "" : "must be true or false";
  };
}

WorkerSetter count(std::size_t& target, std::size_t high) {
  return [&target, high](const Json& value) -> std::string {
    const std::int64_t number = value.is_integer() ? value.as_integer() : -1;
    if (number < 1 || static_cast<std::uint64_t>(number) > high) {
      return "must be a whole number from 1 to " + std::to_string(high);
    }
    target = static_cast<std::size_t>(number);
    return {};
  };
}

/// What may be left out, and then is "".
WorkerSetter or_none(std::string& target, WorkerSetter set) {
  return [&target, set = std::move(set)](const Json& value) -> std::string {
    if (value.is_string() && value.as_string().empty()) {
      target.clear();
      return {};
    }
    return set(value);
  };
}

Json texts(const std::vector<std::string>& all) {
  Json out = Json::array();
  for (const std::string& one : all) {
    out.push_back(one);
  }
  return out;
}

}  // namespace

std::vector<WorkerKey> messaging_keys(workers::MessagingConfig& config, const std::string& folder) {
  return {
      {"infra_clusters", worker_texts(config.infra_clusters)},
      {"allow_local_connectors", flag(config.allow_local_connectors)},
      {"certificates",
       {},
       {{"directory", worker_text(config.certificate_directory)},
        {"cert_propagation_delay", worker_duration(config.cert_propagation_delay, Duration{})}}},
      {"components",
       {},
       {{"ca_file", or_none(config.ca_file, worker_file(config.ca_file, folder))},
        {"certificate_file",
         or_none(config.certificate_file, worker_file(config.certificate_file, folder))},
        {"key_file", or_none(config.key_file, worker_file(config.key_file, folder))},
        {"user", or_none(config.user, worker_text(config.user))},
        {"password_file", or_none(config.password_file, worker_file(config.password_file, folder))},
        {"window", count(config.window, 10'000)}}},
      {"checks",
       {},
       {{"counters", worker_duration(config.counters, kLeast)},
        {"secrets", worker_duration(config.secrets, kLeast)},
        {"sweep", worker_duration(config.sweep, kLeast)},
        {"links", worker_duration(config.links, kLeast)}}},
      {"reconciles", count(config.reconciles, 100'000)},
  };
}

std::pair<std::string, std::string> messaging_fault(const workers::MessagingConfig& config) {
  if (config.certificate_file.empty() != config.key_file.empty()) {
    return {"components", "needs both of certificate_file and key_file, or none"};
  }
  if (!config.certificate_file.empty() && config.ca_file.empty()) {
    return {"components", "certificate_file needs ca_file"};
  }
  if (config.user.empty() != config.password_file.empty()) {
    return {"components", "needs both of user and password_file, or none"};
  }
  return {};
}

Json messaging_document(const workers::MessagingConfig& config) {
  return Json::object(
      {{"allow_local_connectors", config.allow_local_connectors},
       {"certificates",
        Json::object({{"cert_propagation_delay", duration_text(config.cert_propagation_delay)},
                      {"directory", config.certificate_directory}})},
       {"checks", Json::object({{"counters", duration_text(config.counters)},
                                {"links", duration_text(config.links)},
                                {"secrets", duration_text(config.secrets)},
                                {"sweep", duration_text(config.sweep)}})},
       {"components", Json::object({{"ca_file", config.ca_file},
                                    {"certificate_file", config.certificate_file},
                                    {"key_file", config.key_file},
                                    {"password_file", config.password_file},
                                    {"user", config.user},
                                    {"window", static_cast<std::int64_t>(config.window)}})},
       {"infra_clusters", texts(config.infra_clusters)},
       {"reconciles", static_cast<std::int64_t>(config.reconciles)}});
}

}  // namespace kintsugi::server
