# tandem_layer(core PRIVATE third_party::eigen): the layer's library, from every .cpp of its folder, and every .cu where
# there is CUDA. Folders named cuda and nccl are for builds with CUDA alone.
# tandem_compile_options(target): the flags that every target of ours gets.
# tandem_precompile(layer headers...): the compiler reads these headers and some of the standard library once for all
# sources of the layer. tandem_precompile(layer REUSE_FROM other): the layer uses the precompiled headers of another
# layer. Each source must still include what it uses, because .ci/other_compilers builds without precompiled headers.
# tandem_unity(layer [EXCEPT rooms...]): the compiler reads up to eight sources of a folder as one, except in these
# rooms. Most of the time that a source takes goes into headers and templates that its neighbours use too. Names in
# anonymous namespaces must then differ within a folder. A group never mixes sources of the ground floor and of
# annexes. Call it last, because it skips sources with options or definitions of their own.
# tandem_program_options(target [WITHOUT_HEADERS]): the flags of programs that only call the library: little
# optimisation is enough. The compiler reads <tandem/tandem.h> once for all of them, except those with WITHOUT_HEADERS.
# tandem_optimize(layer level EXCEPT sources...): GCC compiles a release build of the layer with this level of
# optimisation in place of -O3, except for these sources. The compiler can't use precompiled headers for them, because
# it accepts those for equal options only.

function(tandem_compile_options target)
  target_compile_options(${target} PRIVATE
    $<$<COMPILE_LANGUAGE:CXX>:-Wall;-Wextra>
    "$<$<COMPILE_LANGUAGE:CUDA>:--expt-relaxed-constexpr;-Xcompiler=-Wall,-Wextra,-Wno-unused-parameter>"
    # nvcc warns of every name `module` at the beginning of a line, which C++20 allows.
    $<$<COMPILE_LANGUAGE:CUDA>:--diag-suppress=3189>)
  if(CMAKE_CXX_COMPILER_ID STREQUAL "GNU" AND CMAKE_CXX_COMPILER_VERSION VERSION_LESS 13)
    # False alarms of GCC 12: in its own AVX-512 header (bug 105593) and in std::string (bug 105329).
    target_compile_options(${target} PRIVATE
      $<$<COMPILE_LANGUAGE:CXX>:-Wno-maybe-uninitialized;-Wno-uninitialized;-Wno-restrict>)
  endif()
  if(CMAKE_CXX_COMPILER_ID STREQUAL "Clang")
    # Loops are marked to be vectorised where possible, but some call a function that has no form for vectors.
    target_compile_options(${target} PRIVATE $<$<COMPILE_LANGUAGE:CXX>:-Wno-pass-failed>)
  endif()
  # Kernels pass vectors of 64 bytes between functions of one build, which all agree on how; GCC warns of the
  # agreement where the processor has no AVX-512.
  target_compile_options(${target} PRIVATE $<$<COMPILE_LANGUAGE:CXX>:-Wno-psabi>)
  if(TANDEM_WERROR)
    target_compile_options(${target} PRIVATE
      $<$<COMPILE_LANGUAGE:CXX>:-Werror> "$<$<COMPILE_LANGUAGE:CUDA>:--Werror=all-warnings;-Xcompiler=-Werror>")
  endif()
  if(TANDEM_ARCH)
    target_compile_options(${target} PRIVATE $<$<COMPILE_LANGUAGE:CXX>:-march=${TANDEM_ARCH}>)
  endif()
  if(TANDEM_SANITIZE)
    # A finding of the undefined-behaviour sanitizer ends the program, as with the other sanitizers. Otherwise the test
    # would pass, and its output would go unread.
    target_compile_options(${target} PRIVATE
      $<$<COMPILE_LANGUAGE:CXX>:-fsanitize=${TANDEM_SANITIZE};-fno-sanitize-recover=undefined;-fno-omit-frame-pointer>)
    target_link_options(${target} PUBLIC -fsanitize=${TANDEM_SANITIZE})
  endif()
  if(TANDEM_COVERAGE)
    target_compile_options(${target} PRIVATE $<$<COMPILE_LANGUAGE:CXX>:--coverage>)
    target_link_options(${target} PUBLIC --coverage)
  endif()
endfunction()

set(tandem_standard_headers <algorithm> <array> <atomic> <chrono> <cmath> <condition_variable> <cstring> <filesystem>
                            <functional> <limits> <map> <memory> <mutex> <optional> <set> <span> <sstream> <string>
                            <thread> <utility> <vector>)
function(tandem_precompile layer)
  if(NOT TANDEM_PRECOMPILE)
    return()
  endif()
  cmake_parse_arguments(headers "" "REUSE_FROM" "" ${ARGN})
  if(headers_REUSE_FROM)
    target_precompile_headers(tandem_${layer} REUSE_FROM tandem_${headers_REUSE_FROM})
  else()
    target_precompile_headers(tandem_${layer} PRIVATE ${ARGN} ${tandem_standard_headers})
  endif()
  tandem_cache_precompiled(tandem_${layer})
endfunction()

function(tandem_program_options target)
  tandem_compile_options(${target})
  target_compile_options(${target} PRIVATE $<$<AND:$<COMPILE_LANGUAGE:CXX>,$<CONFIG:Release>>:-O1>)
  # Without annexes there are too few such programs for the precompiled header to save time.
  if(NOT TANDEM_PRECOMPILE OR NOT TANDEM_ANNEXES OR ARGN STREQUAL "WITHOUT_HEADERS")
    return()
  endif()
  if(NOT TARGET tandem_program_headers)
    set(source ${PROJECT_BINARY_DIR}/program_headers.cpp)
    file(CONFIGURE OUTPUT ${source} CONTENT "")
    add_library(tandem_program_headers OBJECT EXCLUDE_FROM_ALL ${source})
    target_link_libraries(tandem_program_headers PRIVATE tandem)
    tandem_program_options(tandem_program_headers WITHOUT_HEADERS)
    target_precompile_headers(tandem_program_headers PRIVATE <tandem/tandem.h>)
    tandem_cache_precompiled(tandem_program_headers)
  endif()
  target_precompile_headers(${target} REUSE_FROM tandem_program_headers)
  tandem_cache_precompiled(${target})
endfunction()

function(tandem_cache_precompiled target)
  if(CMAKE_CXX_COMPILER_ID STREQUAL "GNU")
    target_compile_options(${target} PRIVATE $<$<COMPILE_LANGUAGE:CXX>:-fpch-preprocess>)  # for ccache
  endif()
endfunction()

function(tandem_optimize layer level)
  cmake_parse_arguments(sources "" "" "EXCEPT" ${ARGN})
  if(NOT CMAKE_CXX_COMPILER_ID STREQUAL "GNU" OR NOT CMAKE_BUILD_TYPE STREQUAL "Release")
    return()
  endif()
  target_compile_options(tandem_${layer} PRIVATE $<$<COMPILE_LANGUAGE:CXX>:${level}>)
  if(sources_EXCEPT)
    set_source_files_properties(${sources_EXCEPT} PROPERTIES COMPILE_OPTIONS -O3 SKIP_PRECOMPILE_HEADERS ON)
  endif()
endfunction()

# CMake's own UNITY_BUILD writes absolute paths into its sources: the compiler cache would then know them in one
# checkout only.
function(tandem_unity layer)
  if(NOT TANDEM_UNITY)
    return()
  endif()
  cmake_parse_arguments(rooms "" "" "EXCEPT" ${ARGN})
  get_target_property(sources tandem_${layer} SOURCES)
  set(units "")
  foreach(source ${sources})
    get_source_file_property(options ${source} COMPILE_OPTIONS)
    get_source_file_property(definitions ${source} COMPILE_DEFINITIONS)
    file(RELATIVE_PATH path ${PROJECT_SOURCE_DIR} ${source})
    cmake_path(GET path PARENT_PATH room)
    if(options OR definitions OR NOT path MATCHES "^${layer}/.*[.]cpp$" OR room IN_LIST rooms_EXCEPT)
      continue()
    endif()
    tandem_annex_of(${path} annex)
    string(REPLACE "/" "_" unit ${room})
    if(annex)
      string(APPEND unit "_annex")
    endif()
    list(APPEND units ${unit})
    list(APPEND sources_of_${unit} ${path})
  endforeach()
  list(REMOVE_DUPLICATES units)
  foreach(unit ${units})
    list(LENGTH sources_of_${unit} count)
    math(EXPR last "${count} - 1")
    foreach(begin RANGE 0 ${last} 8)
      list(SUBLIST sources_of_${unit} ${begin} 8 part)
      list(LENGTH part length)
      if(length LESS 2)
        continue()
      endif()
      list(TRANSFORM part REPLACE "(.+)" "#include \"\\1\"\n" OUTPUT_VARIABLE includes)
      string(CONCAT includes ${includes})
      set(source ${CMAKE_CURRENT_BINARY_DIR}/unity/${unit}_${begin}.cpp)
      file(CONFIGURE OUTPUT ${source} CONTENT "${includes}" @ONLY)
      target_sources(tandem_${layer} PRIVATE ${source})
      if(CMAKE_CXX_COMPILER_ID STREQUAL "GNU")
        # GCC takes the anonymous namespace of a source that another file includes for that of a header.
        set_source_files_properties(${source} PROPERTIES COMPILE_OPTIONS -Wno-subobject-linkage)
      endif()
      list(TRANSFORM part PREPEND ${PROJECT_SOURCE_DIR}/)
      set_source_files_properties(${part} PROPERTIES HEADER_FILE_ONLY ON)
    endforeach()
  endforeach()
  target_include_directories(tandem_${layer} PRIVATE ${PROJECT_SOURCE_DIR})
endfunction()

function(tandem_layer name)
  cmake_parse_arguments(layer "" "" "USES;PRIVATE;ADDS" ${ARGN})
  file(GLOB_RECURSE sources CONFIGURE_DEPENDS ${CMAKE_CURRENT_SOURCE_DIR}/*.cpp ${CMAKE_CURRENT_SOURCE_DIR}/*.cu)
  if(NOT TANDEM_HAS_CUDA)
    list(FILTER sources EXCLUDE REGEX "/cuda/|/nccl/")
  endif()
  tandem_annexes(${name} sources ${layer_ADDS})
  add_library(tandem_${name} STATIC ${sources})
  set_target_properties(tandem_${name} PROPERTIES POSITION_INDEPENDENT_CODE ON)
  target_compile_features(tandem_${name} PUBLIC cxx_std_20)
  tandem_compile_options(tandem_${name})
  target_include_directories(tandem_${name} PUBLIC $<BUILD_INTERFACE:${PROJECT_BINARY_DIR}/include>)
  list(TRANSFORM layer_USES PREPEND tandem_)
  target_link_libraries(tandem_${name} PUBLIC ${layer_USES} PRIVATE Threads::Threads)
  tandem_link(tandem_${name} ${layer_PRIVATE})
  if(TANDEM_HAS_CUDA)
    tandem_link_for(tandem_${name} third_party::cuda
                    "/cuda/|/nccl/|/profile/profile[.]cpp|/(version|gpu_choice)[.]cpp")
  endif()
endfunction()

# Links what third_party/ has found. After installation the target names the files themselves.
function(tandem_link target)
  foreach(dependency ${ARGN})
    if(dependency MATCHES "^third_party::")
      target_link_libraries(${target} PRIVATE $<BUILD_INTERFACE:${dependency}>)
    else()
      target_link_libraries(${target} PRIVATE ${dependency})
    endif()
    tandem_install_links(${target} ${dependency})
  endforeach()
endfunction()

# The same for a dependency that only some builds have: the files whose paths match `pattern` are compiled with its
# headers and definitions, and all others as without it, so that the compiler cache knows them.
function(tandem_link_for target dependency pattern)
  target_link_libraries(${target} INTERFACE $<BUILD_INTERFACE:$<LINK_ONLY:${dependency}>>)
  tandem_install_links(${target} ${dependency})
  get_target_property(files ${target} SOURCES)
  list(FILTER files INCLUDE REGEX "${pattern}")
  get_target_property(libraries ${dependency} INTERFACE_LINK_LIBRARIES)
  foreach(library ${dependency} ${libraries})
    if(TARGET ${library})
      get_target_property(definitions ${library} INTERFACE_COMPILE_DEFINITIONS)
      if(definitions)
        set_property(SOURCE ${files} APPEND PROPERTY COMPILE_DEFINITIONS ${definitions})
      endif()
      get_target_property(folders ${library} INTERFACE_INCLUDE_DIRECTORIES)
      foreach(file ${files})
        foreach(folder ${folders})
          if(folder AND file MATCHES "[.]cu$")
            set_property(SOURCE ${file} APPEND PROPERTY COMPILE_OPTIONS -isystem=${folder})
          elseif(folder)
            set_property(SOURCE ${file} APPEND PROPERTY COMPILE_OPTIONS -isystem${folder})
          endif()
        endforeach()
      endforeach()
    endif()
  endforeach()
endfunction()

function(tandem_install_links target dependency)
  set(libraries ${dependency})
  if(dependency MATCHES "^third_party::")
    get_target_property(libraries ${dependency} INTERFACE_LINK_LIBRARIES)
    if(libraries)
      target_link_libraries(${target} INTERFACE "$<INSTALL_INTERFACE:${libraries}>")
    endif()
  endif()
  foreach(library ${libraries})
    if(TARGET ${library})
      set(library "$<TARGET_PROPERTY:${library},INTERFACE_LINK_LIBRARIES>")
    endif()
    if(library)
      set_property(TARGET ${target} APPEND PROPERTY TANDEM_LINKED_FILES ${library})
    endif()
  endforeach()
endfunction()
