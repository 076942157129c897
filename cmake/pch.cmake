# Precompiled headers for the sanitizer presets, whose builds are the longest part of .ci/run: reading the same headers for
# every file is a quarter of them. The other presets do without, which proves that each file includes what it uses.
option(TWOHOP_PCH "Precompile the headers that most files include" OFF)

if(TWOHOP_PCH AND CCACHE)
  # What ccache wants before it caches what uses them, and what they change nothing about here.
  set(CMAKE_CXX_COMPILER_LAUNCHER env CCACHE_SLOPPINESS=pch_defines,time_macros,include_file_ctime,include_file_mtime
      ${CMAKE_CXX_COMPILER_LAUNCHER})
endif()

# One set of them serves all targets of equal flags and with at least its own target's definitions; the rest does without.
set(TWOHOP_PCH_STANDARD
  <algorithm> <array> <atomic> <cerrno> <chrono> <cmath> <cstdint> <cstring> <functional> <map> <memory> <mutex> <optional>
  <set> <span> <string> <string_view> <thread> <utility> <vector> <fmt/format.h>)

# A program (with LIBRARY: an object library, which has other flags) that is nothing but the owner of a set.
function(twohop_make_pch name)
  cmake_parse_arguments(PARSE_ARGV 1 arg "LIBRARY" "" "HEADERS;LINK")
  if(NOT TWOHOP_PCH)
    return()
  endif()
  file(GENERATE OUTPUT ${CMAKE_CURRENT_BINARY_DIR}/${name}.cpp CONTENT "int main() { return 0; }\n")
  if(arg_LIBRARY)
    add_library(${name} OBJECT EXCLUDE_FROM_ALL ${CMAKE_CURRENT_BINARY_DIR}/${name}.cpp)
  else()
    add_executable(${name} EXCLUDE_FROM_ALL ${CMAKE_CURRENT_BINARY_DIR}/${name}.cpp)
  endif()
  target_link_libraries(${name} PRIVATE fmt::fmt ${arg_LINK})
  target_precompile_headers(${name} PRIVATE ${TWOHOP_PCH_STANDARD} ${arg_HEADERS})
endfunction()

function(twohop_use_pch target name)
  if(TWOHOP_PCH)
    target_precompile_headers(${target} REUSE_FROM ${name})
  endif()
endfunction()
