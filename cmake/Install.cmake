# What the images copy: component `controller` is one program; component `worker` is one program and the
# libraries of LibTorch that it loads, all beside each other in lib.
set(GNN_INSTALL_RPATH "$ORIGIN/../lib:$ORIGIN/../lib/gnn")

if(GNN_WITH_TORCH AND GNN_BUILD_WORKER)
  set(_torch_files "${LibTorch_PREFIX}/lib/libtorch_cpu.so" "${LibTorch_PREFIX}/lib/libc10.so")
  # An official zip has hashes in these libraries' names, and the CUDA ones only if it is a CUDA zip.
  file(
    GLOB _bundled
    "${LibTorch_PREFIX}/lib/libgomp*.so*" "${LibTorch_PREFIX}/lib/libcudart*.so*" "${LibTorch_PREFIX}/lib/libcupti*.so*"
  )
  list(APPEND _torch_files ${_bundled})
  if(EXISTS "${LibTorch_CUDA_PREFIX}/lib/libcupti.so.13")
    foreach(lib libcudart.so.13 libcupti.so.13)
      list(APPEND _torch_files "${LibTorch_CUDA_PREFIX}/lib/${lib}")
    endforeach()
  endif()
  install(FILES ${_torch_files} DESTINATION lib COMPONENT worker)

  if(GNN_WITH_NCCL OR GNN_WITH_CUDA_KERNELS)
    # What libtorch_cuda.so loads, and NVRTC, which cuBLAS opens by name. Of cuDNN that is its front alone: the worker does
    # without its parts (run_rank.cpp). cuSOLVER would be for linear algebra, which no model here has.
    set(_nvidia "${LibTorch_CUDA_PREFIX}/..")
    file(
      GLOB _cuda_files
      "${LibTorch_PREFIX}/lib/libtorch_cuda.so" "${LibTorch_PREFIX}/lib/libtorch_nvshmem.so"
      "${LibTorch_PREFIX}/lib/libc10_cuda.so"
      "${_nvidia}/nccl/lib/libnccl.so.2" "${_nvidia}/cudnn/lib/libcudnn.so.*"
      "${_nvidia}/cusparselt/lib/libcusparseLt.so.*" "${_nvidia}/nvshmem/lib/libnvshmem_host.so.*"
    )
    foreach(_lib cublas cublasLt cufft cufile curand cusparse nvJitLink nvrtc nvrtc-builtins)
      file(GLOB _versions "${LibTorch_CUDA_PREFIX}/lib/lib${_lib}.so.*")
      list(APPEND _cuda_files ${_versions})
    endforeach()
    install(FILES ${_cuda_files} DESTINATION cuda-lib COMPONENT worker)
  endif()
endif()
