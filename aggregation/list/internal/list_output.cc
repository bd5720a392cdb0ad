#include "aggregation/list/internal/list_output.h"

#include <utility>

namespace kintsugi::aggregation {

void ListOutput::start(http::HeaderList headers, bool may_compress) {
  started_ = true;
  headers_ = std::move(headers);
  headers_.add("vary", "Accept-Encoding");
  may_compress_ = may_compress;
  if (!may_compress_) {
    send_head();
  }
}

void ListOutput::send_head() {
  sent_ = true;
  if (gzip_ != nullptr) {
    headers_.add("content-encoding", "gzip");
  }
  down_.send_head(200, headers_, false);
}

void ListOutput::write(std::string_view bytes, bool end) {
  if (!sent_) {
    held_ += bytes;
    if (held_.size() <= http::kGzipThreshold && !end) {
      return;
    }
    if (held_.size() > http::kGzipThreshold) {
      gzip_ = std::make_unique<http::Gzip>();
    }
    send_head();
    const std::string all = std::exchange(held_, {});
    write(all, end);
    return;
  }
  if (gzip_ == nullptr) {
    down_.send_data(bytes, end);
    return;
  }
  std::string packed;
  gzip_->write(bytes, end, packed);
  if (!packed.empty() || end) {
    down_.send_data(packed, end);
  }
}

void ListOutput::abort() noexcept {
  if (!sent_) {
    send_head();
  }
  down_.reset(Errc::kInternal);
}

}  // namespace kintsugi::aggregation
