#pragma once
// Steps of a round that may fail on one process while the others go on.

#include <optional>

#include "reshard/base/error.hpp"

namespace reshard::pipeline {

/// Runs a step unless one before it has failed; an error is kept for the end of the round.
template <typename Step>
void attempt(std::optional<Error>& failure, Step step) {
  if (failure) return;
  try {
    step();
  } catch (const Error& error) {
    failure = error;
  }
}

}  // namespace reshard::pipeline
