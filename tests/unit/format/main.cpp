// The test binary is its own HDF5 child.

#define DOCTEST_CONFIG_IMPLEMENT
#include <doctest/doctest.h>

#include <string_view>

#include "reshard/format/hdf5/hdf5.hpp"

int main(int argc, char** argv) {
  if (argc > 1 && std::string_view(argv[1]) == reshard::format::kHdf5ChildArgument)
    return reshard::format::run_hdf5_child(argc, argv);
  return doctest::Context(argc, argv).run();
}
