#include "server/internal/worker_values.h"

#include <algorithm>
#include <filesystem>

#include "base/strings.h"

namespace kintsugi::server {
namespace {

using krm::Json;

constexpr Duration kLongest = std::chrono::hours(1);

std::string below(const std::string& prefix, const std::string& key) {
  return prefix.empty() ? key : prefix + "." + key;
}

}  // namespace

Error WorkerReader::fault(const std::string& key, std::string_view what) const {
  std::size_t line = 1;
  for (std::string at = key; !at.empty();) {
    if (const auto found = lines_.find(at); found != lines_.end()) {
      line = found->second;
      break;
    }
    const std::size_t dot = at.rfind('.');
    at.resize(dot == std::string::npos ? 0 : dot);
  }
  return Error(Errc::kConfig,
               path_ + ":" + std::to_string(line) + ": " + key + ": " + std::string(what));
}

Expected<void> WorkerReader::read(const Json& section, const std::string& prefix,
                                  const std::vector<WorkerKey>& keys) const {
  for (const krm::JsonMember& member : section.members()) {
    const std::string path = below(prefix, member.key);
    const auto known = std::find_if(keys.begin(), keys.end(),
                                    [&](const WorkerKey& one) { return one.name == member.key; });
    if (known == keys.end()) {
      return fail(fault(path, "unknown key"));
    }
    if (known->set) {
      if (const std::string wrong = known->set(member.value); !wrong.empty()) {
        return fail(fault(path, wrong));
      }
      continue;
    }
    if (!member.value.is_object()) {
      return fail(fault(path, "must be a section with keys"));
    }
    if (!known->named) {
      if (auto done = read(member.value, path, known->keys); !done) {
        return done;
      }
      continue;
    }
    for (const krm::JsonMember& one : member.value.members()) {
      const std::string path_of = below(path, one.key);
      const std::vector<WorkerKey> keys_of = known->named(one.key);
      if (keys_of.empty()) {
        return fail(fault(path_of, "unknown key"));
      }
      if (!one.value.is_object()) {
        return fail(fault(path_of, "must be a section with keys"));
      }
      if (auto done = read(one.value, path_of, keys_of); !done) {
        return done;
      }
    }
  }
  return {};
}

WorkerSetter worker_text(std::string& target) {
  return [&target](const Json& value) -> std::string {
    if (!value.is_string() || value.as_string().empty()) {
      return "must be text";
    }
    target = value.as_string();
    return {};
  };
}

WorkerSetter worker_file(std::string& target, const std::string& folder) {
  return [&target, folder](const Json& value) -> std::string {
    if (!value.is_string() || value.as_string().empty()) {
      return "must be a file name";
    }
    const std::filesystem::path path(value.as_string());
    target = path.is_absolute() ? path.string() : (std::filesystem::path(folder) / path).string();
    return {};
  };
}

WorkerSetter worker_texts(std::vector<std::string>& target) {
  return [&target](const Json& value) -> std::string {
    target.clear();
    if (!value.is_array()) {
      return "must be a list of texts";
    }
    for (const Json& item : value.items()) {
      if (!item.is_string() || item.as_string().empty()) {
        return "must be a list of texts";
      }
      target.emplace_back(item.as_string());
    }
    return {};
  };
}

WorkerSetter worker_bytes(std::size_t& target, std::size_t low, std::size_t high) {
  return [&target, low, high](const Json& value) -> std::string {
    const std::int64_t number = value.is_integer() ? value.as_integer() : -1;
    if (number < 0 || static_cast<std::uint64_t>(number) < low ||
        static_cast<std::uint64_t>(number) > high) {
      return "must be a number of bytes from " + std::to_string(low) + " to " +
             std::to_string(high);
    }
    target = static_cast<std::size_t>(number);
    return {};
  };
}

WorkerSetter worker_number(double& target, double low, double high) {
  return [&target, low, high](const Json& value) -> std::string {
    if (!value.is_number() || !(value.as_double() >= low) || !(value.as_double() <= high)) {
      return "must be a number from " + Json(low).dump() + " to " + Json(high).dump();
    }
    target = value.as_double();
    return {};
  };
}

WorkerSetter worker_duration(Duration& target, Duration low) {
  return [&target, low](const Json& value) -> std::string {
    const auto time = value.is_string() ? parse_go_duration_ns(value.as_string()) : std::nullopt;
    if (!time || Duration(*time) < low || Duration(*time) > kLongest) {
      return "must be a duration such as 500ms, 15s or 1m, from " + duration_text(low) + " to 1h";
    }
    target = Duration(*time);
    return {};
  };
}

std::string duration_text(Duration time) {
  const std::int64_t ns = time.count();
  if (ns % 1'000'000'000 == 0) {
    return std::to_string(ns / 1'000'000'000) + "s";
  }
  return ns % 1'000'000 == 0 ? std::to_string(ns / 1'000'000) + "ms" : std::to_string(ns) + "ns";
}

}  // namespace kintsugi::server
