#include "server/internal/worker_roles.h"

#include <algorithm>
#include <iterator>

#include "workers/example/example.h"

namespace kintsugi::server {
namespace {

struct Entry {
  std::string_view name;
  workers::Role (*make)();
};

constexpr Entry kRoles[] = {
    {"example", workers::example_role},
};

}  // namespace

std::vector<std::string> worker_roles() {
  std::vector<std::string> out;
  for (const Entry& entry : kRoles) {
    out.emplace_back(entry.name);
  }
  return out;
}

workers::Role make_worker_role(std::string_view name) {
  return std::find_if(std::begin(kRoles), std::end(kRoles),
                      [&](const Entry& entry) { return entry.name == name; })
      ->make();
}

}  // namespace kintsugi::server
