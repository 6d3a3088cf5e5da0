# The annexes of third_party/annexes.txt. -DTANDEM_ANNEXES=OFF leaves them all out: then the ground floor is built
# alone.
#
# tandem_lay_out_headers(layer...): the folder of the build where <tandem/core/array/array.h> is found, as after
# installation. <tandem/tandem.h> includes most of them.
#
# tandem_annexes(layer variable [function...]): takes the files of annexes out of the list in `variable` where they are
# to be left out, and adds the source file that calls the functions of the others, after those that are given:
# add_LAYER_annexes() (core/base/annex.h).

set(annexes ${CMAKE_CURRENT_LIST_DIR}/annexes.txt)
set_property(DIRECTORY APPEND PROPERTY CMAKE_CONFIGURE_DEPENDS ${annexes})
file(STRINGS ${annexes} tandem_annexes REGEX "^[^#]")

# Sets `variable` to a pattern of annexes.txt as a regular expression.
function(tandem_annex_pattern glob variable)
  string(REPLACE "." "[.]" pattern ${glob})
  string(REPLACE "*" ".*" pattern ${pattern})
  set(${variable} ${pattern} PARENT_SCOPE)
endfunction()

set(tandem_annex_patterns "")
foreach(annex ${tandem_annexes})
  string(REGEX MATCH "^[^ ]+" files "${annex}")
  tandem_annex_pattern(${files} pattern)
  list(APPEND tandem_annex_patterns ${pattern})
endforeach()
list(JOIN tandem_annex_patterns "|" tandem_annex_patterns)

function(tandem_annexes layer variable)
  set(declarations "")
  set(calls "")
  foreach(function ${ARGN})  # what the ground floor itself adds
    string(APPEND declarations "void ${function}();\n")
    string(APPEND calls "    ${function}();\n")
  endforeach()
  foreach(annex ${tandem_annexes})
    string(REGEX MATCH "^([^ ]+) +([^ ]+) +" unused "${annex}")
    set(files ${CMAKE_MATCH_1})
    set(function ${CMAKE_MATCH_2})
    tandem_annex_pattern(${files} pattern)
    if(NOT TANDEM_ANNEXES)
      list(FILTER ${variable} EXCLUDE REGEX "/${pattern}$")
    endif()
    set(present ${${variable}})
    list(FILTER present INCLUDE REGEX "/${pattern}$")
    if(files MATCHES "^${layer}/" AND present AND NOT function STREQUAL "-")
      string(APPEND declarations "void ${function}();\n")
      string(APPEND calls "    ${function}();\n")
    endif()
  endforeach()
  set(source ${CMAKE_CURRENT_BINARY_DIR}/annexes.cpp)
  file(CONFIGURE OUTPUT ${source} @ONLY CONTENT
"// Written by third_party/TandemAnnexes.cmake.
namespace tandem {

${declarations}
void add_${layer}_annexes();
void add_${layer}_annexes() {
  static const bool added = [] {
${calls}    return true;
  }();
  static_cast<void>(added);
}

}  // namespace tandem
")
  set(${variable} ${${variable}} ${source} PARENT_SCOPE)
endfunction()

function(tandem_lay_out_headers)
  set(folder ${PROJECT_BINARY_DIR}/include/tandem)
  set(umbrella ${PROJECT_SOURCE_DIR}/distributed/tandem.h)
  file(MAKE_DIRECTORY ${folder})
  if(TANDEM_ANNEXES)
    foreach(layer ${ARGN})
      file(CREATE_LINK ${PROJECT_SOURCE_DIR}/${layer} ${folder}/${layer} SYMBOLIC)
    endforeach()
    file(CREATE_LINK ${umbrella} ${folder}/tandem.h SYMBOLIC)
    return()
  endif()
  # Header by header: those of annexes say that they are left out, and the umbrella does not include them.
  file(READ ${umbrella} text)
  foreach(layer ${ARGN})
    file(GLOB_RECURSE headers RELATIVE ${PROJECT_SOURCE_DIR} CONFIGURE_DEPENDS
         ${PROJECT_SOURCE_DIR}/${layer}/*.h ${PROJECT_SOURCE_DIR}/${layer}/*.inc)
    foreach(header ${headers})
      tandem_annex_of(${header} annex)
      get_filename_component(room ${folder}/${header} DIRECTORY)
      file(MAKE_DIRECTORY ${room})
      if(annex)
        file(CONFIGURE OUTPUT ${folder}/${header} @ONLY CONTENT
          "#error <tandem/${header}> is in an annex, which this build leaves out: ${annex} (-DTANDEM_ANNEXES=ON)\n")
        string(REPLACE "#include <tandem/${header}>\n" "" text "${text}")
      else()
        configure_file(${PROJECT_SOURCE_DIR}/${header} ${folder}/${header} COPYONLY)
      endif()
    endforeach()
  endforeach()
  file(CONFIGURE OUTPUT ${folder}/tandem.h @ONLY CONTENT "${text}")
  set_property(DIRECTORY APPEND PROPERTY CMAKE_CONFIGURE_DEPENDS ${umbrella})
endfunction()

# Sets `variable` to what annexes.txt says of the annex that `file`, a path from the repository's root, is in; "" for
# the ground floor.
function(tandem_annex_of file variable)
  set(${variable} "" PARENT_SCOPE)
  if(NOT file MATCHES "^(${tandem_annex_patterns})$")
    return()
  endif()
  foreach(annex ${tandem_annexes})
    string(REGEX MATCH "^([^ ]+) +[^ ]+ +(.*)$" unused "${annex}")
    set(what "${CMAKE_MATCH_2}")
    tandem_annex_pattern(${CMAKE_MATCH_1} pattern)
    if(file MATCHES "^${pattern}$")
      set(${variable} "${what}" PARENT_SCOPE)
      return()
    endif()
  endforeach()
endfunction()
