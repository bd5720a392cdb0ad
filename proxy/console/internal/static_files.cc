#include "proxy/console/internal/static_files.h"

#include "base/digest.h"
#include "http/gzip.h"
#include "proxy/console/console_answer.h"

namespace kintsugi::proxy {
namespace {

std::string_view type_of(std::string_view name) {
  struct Row {
    std::string_view end, type;
  };
  static constexpr Row kRows[] = {{".html", "text/html; charset=utf-8"},
                                  {".js", "text/javascript; charset=utf-8"},
                                  {".css", "text/css; charset=utf-8"},
                                  {".svg", "image/svg+xml"}};
  for (const Row& row : kRows) {
    if (name.ends_with(row.end)) {
      return row.type;
    }
  }
  return "application/octet-stream";
}

/// If-None-Match names the tag, weakly or not, or anything.
bool names_tag(std::string_view asked, std::string_view tag) {
  return asked == "*" || asked.find(tag) != std::string_view::npos;
}

}  // namespace

StaticFiles::StaticFiles(std::span<const PageFile> files) {
  for (const PageFile& one : files) {
    File file;
    file.bytes = one.bytes;
    file.type = type_of(one.name);
    file.tag = "\"" + sha256_hex(one.bytes) + "\"";
    file.hashed = one.name.find('-') != std::string_view::npos;
    http::Gzip gzip;
    gzip.write(one.bytes, true, file.gzip);
    files_.emplace(one.name, std::move(file));
  }
}

std::unique_ptr<http::RequestHandler> StaticFiles::answer(const http::RequestHead& head,
                                                          http::ResponseStream& stream,
                                                          std::string_view name) const {
  const auto found = files_.find(name.empty() ? std::string_view("index.html") : name);
  if (found == files_.end()) {
    return console_error(head, stream, 404, "there is no such page");
  }
  const File& file = found->second;
  http::HeaderList headers =
      console_headers(file.type, file.hashed ? "public, max-age=31536000, immutable" : "no-cache");
  headers.add("etag", file.tag);
  headers.add("vary", "accept-encoding");
  if (names_tag(head.headers.get("if-none-match"), file.tag)) {
    return console_answer(head, stream, 304, std::move(headers), {});
  }
  const bool gzip = http::accepts_gzip(head.headers.get("accept-encoding"));
  if (gzip) {
    headers.add("content-encoding", "gzip");
  }
  return console_answer(head, stream, 200, std::move(headers),
                        gzip ? std::string_view(file.gzip) : file.bytes);
}

}  // namespace kintsugi::proxy
