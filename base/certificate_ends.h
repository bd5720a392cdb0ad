#pragma once

#include <cstdint>
#include <mutex>
#include <string>
#include <utility>
#include <vector>

namespace kintsugi {

/// When a certificate that the process uses is no longer valid.
struct CertificateEnd {
  std::string use;      ///< "serving", "client", "ca", "requestheader" or "peer"
  std::string name;     ///< the key of the configuration that names it, or the shard
  std::int64_t at = 0;  ///< [s since 1970]; of a file of several the first that ends
};

/// Those that are in force. Written at each load, read by whatever loop is asked for metrics.
/// Threads: any.
class CertificateEnds {
 public:
  void set(std::vector<CertificateEnd> ends) {
    const std::lock_guard lock(mutex_);
    ends_ = std::move(ends);
  }
  [[nodiscard]] std::vector<CertificateEnd> get() const {
    const std::lock_guard lock(mutex_);
    return ends_;
  }

 private:
  mutable std::mutex mutex_;
  std::vector<CertificateEnd> ends_;
};

}  // namespace kintsugi
