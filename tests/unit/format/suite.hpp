#pragma once
// What every format must do: each format's test file calls these from test cases of its own.

#include <vector>

#include "reshard/format/format.hpp"

namespace reshard::format::suite {

/// `absent`: dtypes the format cannot store, which it must refuse by name.
void round_trips_every_dtype(const FileFormat& format, const std::vector<Dtype>& absent);
void round_trips_scalars_and_zero_sizes(const FileFormat& format);
/// Slashes, percent signs, line ends, quotes, dots, the empty name, prefixes of each other.
void round_trips_odd_names(const FileFormat& format);
void reads_every_part_of_a_tensor(const FileFormat& format);
void reads_from_several_threads(const FileFormat& format);
/// In any order of the tensors, and laid out as foretold.
void creates_the_same_bytes_again(const FileFormat& format);
/// Layouts cost no tensor bytes: here of 12 TiB.
void lays_out_more_than_memory_holds(const FileFormat& format);
/// Missing, empty, a directory, a FIFO, text, another format.
void refuses_what_is_no_file_of_the_format(const FileFormat& format);

}  // namespace reshard::format::suite
