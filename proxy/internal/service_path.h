#pragma once

#include "krm/service_path.h"

namespace kintsugi::proxy {

using krm::parse_service_path;
using krm::service_target;
using krm::ServicePath;
using krm::virtual_workspace_of;
using krm::VirtualWorkspace;

}  // namespace kintsugi::proxy
