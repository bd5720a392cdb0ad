#pragma once

#include <string>

#include "base/error.h"
#include "base/secret.h"

namespace kintsugi::server {

/// Of the user of an etcd, without the ends of lines; empty where no file is named.
/// @error kConfig as read_secret_file().
[[nodiscard]] Expected<Secret> read_etcd_password(const std::string& file);

}  // namespace kintsugi::server
