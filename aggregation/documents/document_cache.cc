#include "aggregation/documents/document_cache.h"

#include <utility>

#include "base/digest.h"

namespace kintsugi::aggregation {
namespace {

/// What an entry costs besides its document.
constexpr std::size_t kEntryBytes = 512;

std::size_t cost_of(const std::string& key) { return kEntryBytes + 2 * key.size(); }

}  // namespace

std::string content_digest(std::string_view bytes) { return sha256_hex(bytes); }

KnownDocumentPtr DocumentCache::find(const std::string& key) {
  const std::lock_guard lock(mutex_);
  const auto found = by_key_.find(key);
  if (found == by_key_.end()) {
    return nullptr;
  }
  entries_.splice(entries_.begin(), entries_, found->second);
  return found->second->document;
}

KnownDocumentPtr DocumentCache::put(const std::string& key, std::string_view etag,
                                    std::string_view type, std::string_view body) {
  auto made = std::make_shared<KnownDocument>();
  made->etag = etag;
  made->type = type;
  made->digest = content_digest(body);
  made->bytes = SharedBytes(body);
  const std::lock_guard lock(mutex_);
  if (const auto old = by_key_.find(key); old != by_key_.end()) {
    erase(old->second);
  }
  if (body.size() > limit_ / 4) {
    return made;
  }
  Body& shared = bodies_[made->digest];
  if (shared.users++ == 0) {
    shared.bytes = made->bytes;
    bytes_ += body.size();
  } else {
    made->bytes = shared.bytes;
  }
  bytes_ += cost_of(key);
  entries_.push_front({key, made});
  by_key_[key] = entries_.begin();
  while (bytes_ > limit_ && entries_.size() > 1) {
    erase(std::prev(entries_.end()));
  }
  return made;
}

void DocumentCache::forget(const std::string& key) {
  const std::lock_guard lock(mutex_);
  if (const auto found = by_key_.find(key); found != by_key_.end()) {
    erase(found->second);
  }
}

std::size_t DocumentCache::bytes() const {
  const std::lock_guard lock(mutex_);
  return bytes_;
}

std::size_t DocumentCache::size() const {
  const std::lock_guard lock(mutex_);
  return entries_.size();
}

void DocumentCache::erase(std::list<Entry>::iterator entry) {
  const auto body = bodies_.find(entry->document->digest);
  if (--body->second.users == 0) {
    bytes_ -= body->second.bytes.size();
    bodies_.erase(body);
  }
  bytes_ -= cost_of(entry->key);
  by_key_.erase(entry->key);
  entries_.erase(entry);
}

}  // namespace kintsugi::aggregation
