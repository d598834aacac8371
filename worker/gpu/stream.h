#pragma once

struct CUstream_st;

namespace gnn::gpu {

/// CUDA's cudaStream_t, named without its headers. Null: the default stream.
using Stream = CUstream_st*;

}  // namespace gnn::gpu
