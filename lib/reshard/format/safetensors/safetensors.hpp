#pragma once
// safetensors, one file (github.com/huggingface/safetensors, README "Format"):
//
//   0      8 bytes  N, unsigned little-endian: length of the header, at most 100 000 000
//   8      N bytes  UTF-8 JSON object that begins with '{'; writers pad it with blanks
//   8 + N  rest     tensor bytes, row-major, little-endian
//
// The header maps a tensor's name to {"dtype": "BF16", "shape": [8, 4], "data_offsets": [begin, end)}, offsets counted
// from 8 + N, and `__metadata__` to a flat map of text to text. The ranges tile the rest of the file exactly: no hole,
// no overlap, no byte behind the last. Keys are unique (the reference reader keeps one silently; this one refuses).
//
// We write: tensors by descending element size, then by name in byte order, so that each is aligned to its element;
// `__metadata__` first, with "format": "pt"; keys "DCP_*" never (torch.distributed.checkpoint would believe them); the
// header padded to a multiple of 8.

#include <memory>

#include "reshard/format/format.hpp"

namespace reshard::format {

/// Stateless; safe from several threads.
std::unique_ptr<FileFormat> make_safetensors();

}  // namespace reshard::format
