# GNN_SANITIZE for every target of the build, so that no mixed binary is made.
if(GNN_SANITIZE)
  string(REPLACE ";" "," _gnn_sanitizers "${GNN_SANITIZE}")
  add_compile_options(-fsanitize=${_gnn_sanitizers} -fno-omit-frame-pointer -fno-sanitize-recover=all)
  add_link_options(-fsanitize=${_gnn_sanitizers})
  add_compile_definitions(GNN_SANITIZED)
  if(CMAKE_CXX_COMPILER_ID STREQUAL "GNU")
    # GCC's manual: sanitizers make this warning fire on sound code; here it is libstdc++'s <regex>.
    add_compile_options(-Wno-maybe-uninitialized)
  endif()
  if(CMAKE_CXX_COMPILER_ID STREQUAL "Clang")
    # What GCC built, LibTorch among it, has the names that Clang gave templates with constraints up to 17.
    add_compile_options(-fclang-abi-compat=17)
    # A header of libstdc++ that is precompiled is ours to Clang.
    add_compile_options(-Wno-deprecated-declarations)
  endif()
  if("address" IN_LIST GNN_SANITIZE)
    # LibTorch is not instrumented: containers that cross its border would be reported wrongly.
    add_compile_definitions(_GLIBCXX_SANITIZE_VECTOR=0)
  endif()
endif()
