#pragma once

#include <map>
#include <memory>
#include <span>
#include <string>
#include <string_view>

#include "http/handler.h"
#include "proxy/console/internal/page_files.h"

namespace kintsugi::proxy {

/// The page itself (OP-703): `/ui/` is index.html, everything else has a hash in its name.
/// Compressed once. Threads: one loop.
class StaticFiles {
 public:
  explicit StaticFiles(std::span<const PageFile> files = page_files());
  /// @param name  of the path, behind "/ui/". 404 for what is not there.
  [[nodiscard]] std::unique_ptr<http::RequestHandler> answer(const http::RequestHead& head,
                                                             http::ResponseStream& stream,
                                                             std::string_view name) const;

 private:
  struct File {
    std::string_view bytes, type;
    std::string gzip, tag;
    bool hashed = false;  ///< its name changes with its bytes
  };
  std::map<std::string, File, std::less<>> files_;
};

}  // namespace kintsugi::proxy
