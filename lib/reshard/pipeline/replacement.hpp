#pragma once
// How a complete staging directory takes the place of an old target. Where the file system can exchange two directories
// that is one step, and the old target is at TARGET.partial then. Elsewhere it takes renames, each of which a kill may
// follow:
//
//   1  TARGET.replacing is written: a record of which directory the old target is
//   2  TARGET is renamed to TARGET.old
//   3  TARGET.partial is renamed to TARGET
//   4  TARGET.old is renamed to TARGET.partial, and the record is removed
//
// Behind a kill the record tells that TARGET.old is the old target and nobody else's: the next run undoes step 2, or
// does step 4 (`settle`), and finds what a kill leaves where directories can be exchanged.

#include <string>

#include "reshard/base/file.hpp"

namespace reshard::pipeline {

/// Puts `staged` in the place of the target that is there, removes that one, and makes it durable. Errors: kExists
/// where something is in the way at TARGET.old or TARGET.replacing; kIo. The old target is whole, at its own place
/// wherever it can be, unless `staged` has taken it.
void replace_target(const fs::path& target, const fs::path& staged);

/// Ends what a killed replace_target has left. Errors: kExists where another run is at it, and where TARGET.old is no
/// longer what the record says: nothing is touched then; kIo.
void settle(const fs::path& target, const fs::path& staged);

/// TARGET.old, where the record says that it is the old target; else empty.
fs::path replaced_by_renames(const fs::path& target);

/// Of a directory that is not there: what to do where replace_target has left it at TARGET.old; else empty.
std::string moved_away_text(const fs::path& directory);

/// rename(2). Errors: kIo.
void move_path(const fs::path& from, const fs::path& to);

/// Makes durable what the folder says of a target that is in place. Errors: kIo, which tells that it is.
void sync_place(const fs::path& target);

/// Removes a finished target; a kill leaves of it what is known as one: the manifest goes last.
void remove_finished(const fs::path& directory);

}  // namespace reshard::pipeline
