# Warnings of our own targets (gnn_library, gnn_executable, gnn_test link gnn_warnings privately).
add_library(gnn_warnings INTERFACE)
target_compile_options(
  gnn_warnings
  INTERFACE
    $<$<COMPILE_LANGUAGE:CXX>:-Wall;-Wextra;-Wpedantic;-Wshadow;-Wnon-virtual-dtor;-Woverloaded-virtual>
    $<$<AND:$<COMPILE_LANGUAGE:CXX>,$<BOOL:${GNN_WERROR}>>:-Werror>
    # Without -Wpedantic, which complains of the code that nvcc hands to the host's compiler.
    $<$<COMPILE_LANGUAGE:CUDA>:-Xcompiler=-Wall,-Wextra>
    $<$<AND:$<COMPILE_LANGUAGE:CUDA>,$<BOOL:${GNN_WERROR}>>:-Werror=all-warnings;-Xcompiler=-Werror>
    # GCC 12's own guesses about libstdc++'s strings and vectors where those are inlined and come from a precompiled header,
    # which makes them ours to it, or at -O3: false. The address sanitizer's tests look for such faults.
    $<$<COMPILE_LANG_AND_ID:CXX,GNU>:-Wno-array-bounds;-Wno-restrict;-Wno-stringop-overflow;-Wno-stringop-overread>
    $<$<AND:$<COMPILE_LANGUAGE:CXX>,$<CONFIG:Release>>:-Wno-error=maybe-uninitialized>
)
# In a unity build a local name of one source may shadow a file's own of another.
if(GNN_UNITY GREATER 1)
  target_compile_options(gnn_warnings INTERFACE $<$<COMPILE_LANGUAGE:CXX>:-Wno-shadow>)
endif()
# Conversions are checked where LibTorch's macros do not drown them.
add_library(gnn_strict_warnings INTERFACE)
target_link_libraries(gnn_strict_warnings INTERFACE gnn_warnings)
target_compile_options(gnn_strict_warnings INTERFACE $<$<COMPILE_LANGUAGE:CXX>:-Wconversion;-Wsign-conversion>)
