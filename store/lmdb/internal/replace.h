#pragma once

#include <string>

#include "base/error.h"

namespace kintsugi::store {

/// The data file of the store in the folder `made` in the place of that of `directory`, on the disk
/// when it returns; in one step. Readers' slots belong to a file, so the lock file, in which a
/// backup that still reads the old one has its slot, goes first. The caller has the store's lock.
/// @error kIo
[[nodiscard]] Expected<void> put_in_place(const std::string& directory, const std::string& made);

}  // namespace kintsugi::store
