#include "topology/store_import_log.h"

#include <utility>

#include "base/digest.h"

namespace kintsugi::topology {
namespace {

/// No key of an object: those have NUL bytes.
std::string key_of(std::string_view entry) { return "kintsugi.import/" + sha256_hex(entry); }

}  // namespace

StoreImportLog::StoreImportLog(net::Loop& loop, store::Store& store) : loop_(loop), store_(store) {}

StoreImportLog::~StoreImportLog() = default;

bool StoreImportLog::has(std::string_view key) const { return store_.get(key_of(key)).has_value(); }

void StoreImportLog::add(std::string_view key, std::function<void(bool)> done) {
  std::vector<store::Op> ops;
  ops.push_back({store::EventType::kPut, key_of(key), std::string(key), std::nullopt});
  store_.commit(std::move(ops), [&loop = loop_, weak = alive_.weak(),
                                 done = std::move(done)](Expected<store::CommitResult> result) {
    loop.post([weak, done, ok = result.has_value()] {
      if (weak) {
        done(ok);
      }
    });
  });
}

}  // namespace kintsugi::topology
