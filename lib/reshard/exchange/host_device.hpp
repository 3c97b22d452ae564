#pragma once
// Marks functions that run on the host and, where nvcc compiles them, on a GPU too.

#ifdef __CUDACC__
#define RESHARD_HOST_DEVICE __host__ __device__
#else
#define RESHARD_HOST_DEVICE
#endif
