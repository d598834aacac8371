#pragma once

/// Marks what is compiled for the CPU and, by nvcc, for GPUs.
#ifdef __CUDACC__
#define GNN_HOST_DEVICE __host__ __device__
#else
#define GNN_HOST_DEVICE
#endif
