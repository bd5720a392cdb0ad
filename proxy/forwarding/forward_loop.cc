#include <memory>
#include <string>

#include "proxy/forwarding/forward.h"

namespace kintsugi::proxy {

void ForwardLoop::list_watches(serving::WatchList& into) const {
  for (const serving::WatchDrain* drain :
       {&watches, &unproven, &moving, &tunnels, &unproven_tunnels}) {
    drain->list(into);
  }
}

serving::FairSeats& ForwardLoop::seats_of(const std::string& shard) {
  std::unique_ptr<serving::FairSeats>& seats = seats_[shard];
  if (seats == nullptr) {
    seats = std::make_unique<serving::FairSeats>(loop, process_limits->seats(), process_limits,
                                                 &all_seats_);
  }
  return *seats;
}

}  // namespace kintsugi::proxy
