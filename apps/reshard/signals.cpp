#include "signals.hpp"

#include <initializer_list>

namespace reshard::app {
namespace {

volatile std::sig_atomic_t caught_signal = 0;  // the one thing a signal handler may touch

extern "C" void on_signal(int number) {
  caught_signal = number;
}

}  // namespace

void ignore_file_limit() {
  std::signal(SIGXFSZ, SIG_IGN);
}

const volatile std::sig_atomic_t* catch_signals() {
  for (const int number : {SIGINT, SIGTERM}) {
    struct sigaction action {};
    action.sa_handler = on_signal;
    action.sa_flags = static_cast<int>(SA_RESTART | SA_RESETHAND);
    sigaction(number, &action, nullptr);
  }
  return &caught_signal;
}

}  // namespace reshard::app
