#include "workers/runtime/status/status_write.h"

#include <algorithm>
#include <utility>

#include "krm/merge_patch.h"
#include "workers/runtime/status/conditions.h"

namespace kintsugi::workers {
namespace {

using krm::Json;

constexpr std::size_t kNames = 10;
constexpr std::size_t kMaxName = 64;
constexpr std::size_t kMaxSummary = 768;  // leaves room in a condition's message

std::size_t bytes_of(const Json& value) { return value.dump().size(); }

/// What an entry of a list is called.
std::string name_of(const Json& entry) {
  if (entry.is_string()) {
    return std::string(cut_utf8(entry.as_string(), kMaxName));
  }
  for (const std::string_view field : {"name", "podName", "id", "host", "type"}) {
    if (const std::string_view text = entry.text({field}); !text.empty()) {
      return std::string(cut_utf8(text, kMaxName));
    }
  }
  return {};
}

struct Largest {
  Json* value = nullptr;
  std::string path;
  std::size_t bytes = 0;
};

/// The largest list or map of more than kNames entries; of one inside another the outer one.
void look(Json& value, const std::string& path, Largest& found) {
  const bool long_one = (value.is_array() || value.is_object()) && value.size() > kNames;
  if (long_one && !path.empty()) {
    if (const std::size_t bytes = bytes_of(value); bytes > found.bytes) {
      found = {&value, path, bytes};
    }
    return;
  }
  if (value.is_object()) {
    for (krm::JsonMember& member : value.edit_members()) {
      if (!path.empty() || member.key != "conditions") {
        look(member.value, path.empty() ? member.key : path + "." + member.key, found);
      }
    }
  } else if (value.is_array()) {
    for (Json& item : value.edit_items()) {
      look(item, path + "[]", found);
    }
  }
}

/// Cuts it; tells what it was.
std::string cut(const Largest& found) {
  std::string out =
      found.path + ": " + std::to_string(found.value->size()) + " entries, first 10: ";
  std::string names;
  const auto put = [&](std::string_view name) {
    if (!name.empty()) {
      names += names.empty() ? "" : ", ";
      names += cut_utf8(name, kMaxName);
    }
  };
  if (found.value->is_array()) {
    Json::Array& items = found.value->edit_items();
    items.erase(items.begin() + kNames, items.end());
    for (const Json& item : items) {
      put(name_of(item));
    }
  } else {
    Json::Object& members = found.value->edit_members();
    members.erase(members.begin() + kNames, members.end());
    for (const krm::JsonMember& member : members) {
      put(member.key);
    }
  }
  return names.empty() ? out.substr(0, out.rfind(", ")) : out + names;
}

/// No fewer bytes than its text has, as long as that is below `limit`; without writing it.
std::size_t most_bytes(const Json& value, std::size_t limit) {
  constexpr std::size_t kMostScalar = 32, kEscaped = 6;
  std::size_t out = kMostScalar;
  if (value.is_string()) {
    return out + kEscaped * value.as_string().size();
  }
  if (value.is_object()) {
    for (const krm::JsonMember& member : value.members()) {
      out += kMostScalar + kEscaped * member.key.size() + most_bytes(member.value, limit);
      if (out > limit) {
        return out;
      }
    }
  } else if (value.is_array()) {
    for (const Json& item : value.items()) {
      out += most_bytes(item, limit);
      if (out > limit) {
        return out;
      }
    }
  }
  return out;
}

}  // namespace

std::optional<std::string> status_patch(const Json& from, const Json& to,
                                        std::string_view resource_version) {
  if (same_status(from, to)) {
    return std::nullopt;
  }
  Json patch = Json::object({{"status", krm::make_merge_patch(from, to)}});
  if (!resource_version.empty()) {
    patch.make({"metadata", "resourceVersion"}) = Json(resource_version);
  }
  return patch.dump();
}

void set_or_erase(Json& status, std::string_view key, std::string_view value) {
  if (value.empty()) {
    status.erase(key);
  } else {
    status[key] = value;
  }
}

std::string summarize_status(Json& status, std::size_t limit) {
  if (most_bytes(status, limit) <= limit) {
    return {};
  }
  std::string summary;
  const auto tell = [&](std::string_view text) {
    if (summary.size() + text.size() <= kMaxSummary) {
      summary += summary.empty() ? "" : "; ";
      summary += text;
    }
  };
  std::size_t bytes = bytes_of(status);
  while (bytes > limit) {
    Largest found;
    look(status, "", found);
    if (found.value == nullptr) {
      Json rest = Json::object();
      for (const char* kept : {"conditions", "observedGeneration"}) {
        if (const Json* value = status.find(kept)) {
          rest[kept] = *value;
        }
      }
      status = std::move(rest);
      tell("all but the conditions left out");
      break;
    }
    tell(cut(found));
    bytes = bytes_of(status);
  }
  return summary;
}

}  // namespace kintsugi::workers
