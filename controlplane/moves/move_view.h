#pragma once

#include "controlplane/moves/move_steps.h"
#include "controlplane/views/answering_view.h"

namespace kintsugi::controlplane {

/// How shards answer each other's logicalclusterdumps, the steps of a move, in the view `moves`
/// (KK-212). @param steps  outlives the view.
[[nodiscard]] AnsweringView::Answer answer_moves(MoveSteps& steps);

}  // namespace kintsugi::controlplane
