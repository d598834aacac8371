# Warnings of our own targets (gnn_library, gnn_executable, gnn_test link gnn_warnings privately).
add_library(gnn_warnings INTERFACE)
target_compile_options(
  gnn_warnings
  INTERFACE
    $<$<COMPILE_LANGUAGE:CXX>:-Wall;-Wextra;-Wpedantic;-Wshadow;-Wnon-virtual-dtor;-Woverloaded-virtual>
    $<$<AND:$<COMPILE_LANGUAGE:CXX>,$<BOOL:${GNN_WERROR}>>:-Werror>
)
# Conversions are checked where LibTorch's macros do not drown them.
add_library(gnn_strict_warnings INTERFACE)
target_link_libraries(gnn_strict_warnings INTERFACE gnn_warnings)
target_compile_options(gnn_strict_warnings INTERFACE $<$<COMPILE_LANGUAGE:CXX>:-Wconversion;-Wsign-conversion>)
