#include "krm/internal/apply_conflicts.h"

#include <algorithm>
#include <functional>
#include <utility>

#include "krm/go_text.h"

namespace kintsugi::krm {

namespace {

using Path = std::vector<std::string>;

/// Numbers, texts, booleans: the order of values in structured-merge-diff.
int compare_values(const Json& a, const Json& b) {
  const auto rank = [](const Json& value) {
    return value.is_number() ? 0 : value.is_string() ? 1 : value.is_bool() ? 2 : 3;
  };
  if (rank(a) != rank(b)) {
    return rank(a) - rank(b);
  }
  if (a.is_number()) {
    const double left = a.as_double();
    const double right = b.as_double();
    return left < right ? -1 : left > right ? 1 : 0;
  }
  if (a.is_string()) {
    return a.as_string().compare(b.as_string());
  }
  return static_cast<int>(a.as_bool()) - static_cast<int>(b.as_bool());
}

int compare_keys(const Json& a, const Json& b) {
  const auto& left = a.members();
  const auto& right = b.members();
  for (std::size_t i = 0; i < left.size() && i < right.size(); ++i) {
    if (const int order = left[i].key.compare(right[i].key); order != 0) {
      return order;
    }
    if (const int order = compare_values(left[i].value, right[i].value); order != 0) {
      return order;
    }
  }
  return left.size() < right.size() ? -1 : left.size() > right.size() ? 1 : 0;
}

/// Fields before items by key before items of sets.
bool element_before(const std::string& a, const std::string& b) {
  const auto rank = [](const std::string& element) {
    return std::string_view("fkvi").find(element.front());
  };
  if (rank(a) != rank(b) || a.front() == 'f') {
    return rank(a) != rank(b) ? rank(a) < rank(b) : a < b;
  }
  const auto left = Json::parse(std::string_view(a).substr(2));
  const auto right = Json::parse(std::string_view(b).substr(2));
  if (!left || !right) {
    return a < b;
  }
  return (a.front() == 'k' ? compare_keys(*left, *right) : compare_values(*left, *right)) < 0;
}

/// Members first, then what is below them.
void collect(const FieldSet& set, Path& prefix, std::vector<Path>& out) {
  std::vector<std::pair<std::string, const FieldSet*>> elements;
  std::vector<std::string> members;
  set.for_each([&](const std::string& element, bool member, const FieldSet& below) {
    elements.emplace_back(element, &below);
    if (member) {
      members.push_back(element);
    }
  });
  std::sort(members.begin(), members.end(), element_before);
  std::sort(elements.begin(), elements.end(),
            [](const auto& a, const auto& b) { return element_before(a.first, b.first); });
  for (std::string& member : members) {
    out.push_back(prefix);
    out.back().push_back(std::move(member));
  }
  for (auto& [element, below] : elements) {
    prefix.push_back(std::move(element));
    collect(*below, prefix, out);
    prefix.pop_back();
  }
}

/// What managers are sorted by.
std::string identifier(const ManagedFieldsEntry& entry) {
  std::string out;
  const auto field = [&out](std::string_view name, std::string_view value) {
    if (!value.empty()) {
      out += (out.empty() ? "{\"" : ",\"") + std::string(name) + "\":";
      append_json_string(out, value);
    }
  };
  field("manager", entry.manager);
  field("operation", entry.operation);
  field("apiVersion", entry.operation == "Apply" ? std::string_view() : entry.api_version);
  field("subresource", entry.subresource);
  return out;
}

std::string manager_text(const ManagedFieldsEntry& entry) {
  std::string out = go_quote(entry.manager);
  if (!entry.subresource.empty()) {
    out += " with subresource " + go_quote(entry.subresource);
  }
  if (entry.operation == "Update") {
    out += " using " + entry.api_version;
  }
  return out;
}

}  // namespace

Error conflict_error(std::vector<FieldConflict> conflicts) {
  std::sort(conflicts.begin(), conflicts.end(), [](const auto& a, const auto& b) {
    return identifier(*a.entry) < identifier(*b.entry);
  });
  ErrorDetail detail;
  std::string lines;
  for (const FieldConflict& each : conflicts) {
    const std::string manager = manager_text(*each.entry);
    lines += (lines.empty() ? "conflicts with " : "\nconflicts with ") + manager + ":";
    std::vector<Path> paths;
    Path prefix;
    collect(each.fields, prefix, paths);
    for (const Path& path : paths) {
      std::string field = FieldSet::path_text(path);
      lines += "\n- " + field;
      detail.causes.push_back(
          {"FieldManagerConflict", "conflict with " + manager, std::move(field)});
    }
  }
  if (detail.causes.size() == 1) {
    detail.message =
        "Apply failed with 1 conflict: " + detail.causes[0].message + ": " + detail.causes[0].field;
  } else {
    detail.message =
        "Apply failed with " + std::to_string(detail.causes.size()) + " conflicts: " + lines;
  }
  return Error(Errc::kConflict, std::move(detail));
}

}  // namespace kintsugi::krm
