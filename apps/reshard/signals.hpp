#pragma once
// SIGINT and SIGTERM ask a run to end in good order; a second one ends the process at once.

#include <csignal>

namespace reshard::app {

/// For every command: a write beyond the limit of a file's size fails (EFBIG), with a message of ours.
void ignore_file_limit();

/// Number of the signal that came, 0 before.
const volatile std::sig_atomic_t* catch_signals();

}  // namespace reshard::app
