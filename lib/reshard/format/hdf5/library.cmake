# The HDF5 library: RESHARD_HDF5_LIBRARIES, HDF5_C_INCLUDE_DIRS. Its archive is taken where it lies beside the shared library and
# can be linked: the shared one of Debian brings some thirty others for files on the network, which reshard never reads, and half
# of what starting the executable takes. Not under the sanitizers: tests/fuzz tells the library's faults from ours by where they lie.

option(RESHARD_HDF5_ARCHIVE "Link HDF5's archive, where there is one, in place of its shared library" ON)

set(HDF5_PREFER_PARALLEL OFF)
find_package(HDF5 REQUIRED COMPONENTS C)
set(RESHARD_HDF5_LIBRARIES ${HDF5_C_LIBRARIES})

set(linked "the shared library")
if(RESHARD_HDF5_ARCHIVE AND NOT RESHARD_SANITIZE AND NOT RESHARD_FUZZ)
  # The first is HDF5 itself, the others are what it may need.
  list(GET HDF5_C_LIBRARIES 0 shared)
  string(REGEX REPLACE "[.](so|dylib)[.0-9]*$" ".a" archive "${shared}")
  if(archive MATCHES "[.]a$" AND EXISTS ${archive})
    set(libraries ${HDF5_C_LIBRARIES})
    list(REMOVE_AT libraries 0)
    list(PREPEND libraries ${archive})
    include(CheckCSourceCompiles)
    set(CMAKE_REQUIRED_INCLUDES ${HDF5_C_INCLUDE_DIRS})
    set(CMAKE_REQUIRED_LIBRARIES ${libraries})
    check_c_source_compiles("#include <hdf5.h>
      int main(void) {
        const hid_t file = H5Fopen(\"x\", H5F_ACC_RDONLY, H5P_DEFAULT);
        return H5Dread(file, file, file, file, H5P_DEFAULT, 0) < 0;
      }" RESHARD_HDF5_ARCHIVE_LINKS)
    unset(CMAKE_REQUIRED_INCLUDES)
    unset(CMAKE_REQUIRED_LIBRARIES)
    if(RESHARD_HDF5_ARCHIVE_LINKS)
      set(RESHARD_HDF5_LIBRARIES ${libraries})
      set(linked ${archive})
    endif()
  endif()
endif()
message(STATUS "HDF5: ${HDF5_VERSION}, ${linked}")
