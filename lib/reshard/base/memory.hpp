#pragma once
// Memory of the process as a whole.

namespace reshard {

/// Gives memory that was freed back to the system, as far as the C library does that on demand (glibc). Of use once a
/// phase of many small allocations is over: what the next one needs comes in large pieces.
void release_free_memory();

}  // namespace reshard
