# tandem_compiler_cache(): ccache, where it is installed, in CMAKE_CXX_COMPILER_LAUNCHER.
function(tandem_compiler_cache)
  find_program(CCACHE ccache)
  if(NOT CCACHE)
    return()
  endif()
  # -march=native is a text that means another processor on another machine: the cache is told what it means here.
  execute_process(COMMAND ${CMAKE_CXX_COMPILER} -march=${TANDEM_ARCH} -\#\#\# -E -x c++ /dev/null
                  ERROR_VARIABLE meaning)
  string(REGEX MATCH "[^\n]*cc1[^\n]*" meaning "${meaning}")  # how the compiler proper is called
  string(SHA256 meaning "${meaning}")
  # The sloppiness allows precompiled headers, and warnings in another language. CCACHE_DEPEND makes the cache compare
  # whole headers: it would take two that differ in a comment for the same, but GCC tells a header that `#pragma once`
  # leaves out by its every byte, and includes it again beside a precompiled header that has the other comment.
  set(CMAKE_CXX_COMPILER_LAUNCHER ${CMAKE_COMMAND} -E env CCACHE_NAMESPACE=whole-headers-${meaning} CCACHE_DEPEND=1
      CCACHE_SLOPPINESS=pch_defines,time_macros,include_file_mtime,include_file_ctime,locale ${CCACHE} PARENT_SCOPE)
endfunction()
