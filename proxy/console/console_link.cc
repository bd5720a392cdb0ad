#include "proxy/console/console_link.h"

#include <utility>

namespace kintsugi::proxy {

LinkStream::LinkStream(std::shared_ptr<ConsoleLink> link) : link_(std::move(link)) {
  peer_.address = link_->address;
  peer_.tls = true;
}

void LinkStream::send_head(int status, const http::HeaderList& headers, bool end) noexcept {
  link_->data.post([link = link_, status, headers, end] {
    if (link->request != nullptr) {
      link->request->take_head(status, headers, end);
    }
  });
}

void LinkStream::send_data(std::string_view bytes, bool end) noexcept {
  link_->posted.fetch_add(bytes.size(), std::memory_order_relaxed);
  link_->data.post([link = link_, text = std::string(bytes), end] {
    if (link->request != nullptr) {
      link->request->take_data(text, end);
    }
    link->posted.fetch_sub(text.size(), std::memory_order_relaxed);
  });
}

void LinkStream::send_data(SharedBytes bytes, bool end) noexcept { send_data(bytes.view(), end); }

void LinkStream::reset(Errc cause) noexcept {
  link_->data.post([link = link_, cause] {
    if (link->request != nullptr) {
      link->request->take_reset(cause);
    }
  });
}

std::size_t LinkStream::unsent_bytes() const noexcept {
  return link_->posted.load(std::memory_order_relaxed) +
         link_->unsent.load(std::memory_order_relaxed);
}

}  // namespace kintsugi::proxy
