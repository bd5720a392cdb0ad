#include "server/internal/worker_roles.h"

#include <algorithm>
#include <iterator>

#include "workers/delivery/delivery.h"
#include "workers/eventing/eventing.h"
#include "workers/example/example.h"
#include "workers/messaging/messaging.h"

namespace kintsugi::server {
namespace {

struct Entry {
  std::string_view name;
  workers::Role (*make)(const WorkerRoleConfig&);
};

constexpr Entry kRoles[] = {
    {"example", [](const WorkerRoleConfig&) { return workers::example_role(); }},
    {"messaging",
     [](const WorkerRoleConfig& role) { return workers::messaging_role(role.messaging); }},
    {"delivery",
     [](const WorkerRoleConfig& role) { return workers::delivery_role(role.delivery); }},
    {"eventing",
     [](const WorkerRoleConfig& role) { return workers::eventing_role(role.eventing); }},
};

}  // namespace

std::vector<std::string> worker_roles() {
  std::vector<std::string> out;
  for (const Entry& entry : kRoles) {
    out.emplace_back(entry.name);
  }
  return out;
}

workers::Role make_worker_role(const WorkerRoleConfig& role) {
  return std::find_if(std::begin(kRoles), std::end(kRoles),
                      [&](const Entry& entry) { return entry.name == role.name; })
      ->make(role);
}

}  // namespace kintsugi::server
