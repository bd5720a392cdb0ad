#include "base/host_port.h"

namespace kintsugi {

std::string url_host(std::string_view host) {
  std::string text(host);
  return host.find(':') == std::string_view::npos ? text : "[" + text + "]";
}

std::string host_port(std::string_view host, std::uint16_t port) {
  return url_host(host) + ":" + std::to_string(port);
}

}  // namespace kintsugi
