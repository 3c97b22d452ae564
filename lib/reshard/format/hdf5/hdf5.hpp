#pragma once
// HDF5, one file (HDF5 File Format Specification 3.0; library 1.10.8 or later, serial).
//
// A tensor is a dataset; its path without the leading '/' is its name. Names that a path cannot hold are stored under a
// percent-encoded name, with the exact one in the attribute `name` (names.hpp). Element types: types.hpp.
//
// Files of ours carry on every dataset the attributes `dtype` ("bf16"; fixed-length UTF-8) and `global_shape` (1-D
// int64, one entry per dim), on the root `axes` (1-D of fixed-length UTF-8, "tp=2"), `rank` (int64) and
// `reshard_version` (int64, 1: the version of these conventions). `name`, `global_shape`, `axes` and `rank` count only
// under a root with `reshard_version`. HDF5 files have no text-to-text metadata: NewFile::metadata is not stored.
//
// We write reproducible files: no times anywhere, format bounds V110, link creation order tracked, datasets made in
// byte order of their names, contiguous, allocated at once, never filled, aligned to 4096 from 64 KiB on.
//
// We read: contiguous datasets by their address; compact, chunked and compressed ones through the library. Hard and
// soft links within the file are names of their own. What a name finds but cannot be a tensor, or was never written, is
// a Refusal: datasets of other types (kDtype), data that were never written or are declared beyond all proportion to
// what is stored (kFormat), filters other than deflate, shuffle and fletcher32 (kUnsupported), links, storage and
// virtual datasets that leave the file (kLink, unless allowed), dangling links (kLink).
//
// The library is the weakest parser of all: on files from elsewhere it runs in a child process (child.hpp).

#include <memory>
#include <string>
#include <string_view>

#include "reshard/format/format.hpp"

namespace reshard::format {

/// `child_binary` is an executable that, with kHdf5ChildArgument as its first argument, calls run_hdf5_child; empty:
/// the library reads in this process. Safe from several threads; catalogs are read one after another.
std::unique_ptr<FileFormat> make_hdf5(fs::path child_binary);

constexpr std::string_view kHdf5ChildArgument = "--hdf5-child";

/// "1.10.8", of the library this is built with.
std::string hdf5_version();

/// The main function of the child. Serves requests until its parent closes the connection; returns the exit code.
int run_hdf5_child(int argc, char** argv);

}  // namespace reshard::format
