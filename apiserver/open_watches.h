#pragma once

#include "serving/watch_list.h"

namespace kintsugi::apiserver {

class ApiServer;

/// Offers the watches that a server serves. Read `into` in the same turn.
/// Threads: the server's loop.
void list_watches(const ApiServer& server, serving::WatchList& into);

}  // namespace kintsugi::apiserver
