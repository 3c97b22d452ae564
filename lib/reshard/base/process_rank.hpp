#pragma once

namespace reshard {

/// Number of a process of this run, from 0. Not a rank of a checkpoint: the two are independent.
using ProcessRank = int;

}  // namespace reshard
