#pragma once

#include <cstdint>
#include <functional>
#include <string>
#include <string_view>
#include <vector>

#include "base/error.h"
#include "store/store.h"

/// Every value of an LMDB store written anew, for example with another key. For tools: the call
/// blocks.
namespace kintsugi::store {

struct RewriteReport {
  Revision revision = 0;  ///< as it was
  std::uint64_t values = 0;
  std::uint64_t rewritten = 0;    ///< of those
  std::vector<std::string> kept;  ///< the first 100 that stay as they are, with the reason
  std::uint64_t kept_count = 0;
};

/// What is to be stored in place of `value`; equal bytes: nothing changes. An error keeps the value
/// as it is and is reported.
using RewriteValue =
    std::function<Expected<std::string>(std::string_view key, std::string_view value)>;

/// Makes a new data file in which live values, old versions and the last states of deleted objects
/// are what `rewrite` says, and puts it in the place of the old one in one step. Revisions stay and
/// nobody hears of it: watches go on. Pages that were free, with what once stood there, are gone.
/// Until that step everything is as before, so a run that is killed can be repeated; what it left
/// is removed by the next one.
/// Cost: the size of the store in free disk space, and the time to write it.
/// @error kConfig no store is there, or it is in use; kCorrupt, kIo, kFull. Nothing has changed
/// then.
[[nodiscard]] Expected<RewriteReport> rewrite_store(const std::string& directory,
                                                    const RewriteValue& rewrite);

}  // namespace kintsugi::store
