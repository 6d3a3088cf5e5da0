# The annexes of third_party/annexes.txt. -DTANDEM_ANNEXES=OFF leaves them all out: then the ground floor is built
# alone.
#
# tandem_annexes(layer variable [function...]): takes the files of annexes out of the list in `variable` where they are
# to be left out, and adds the source file that calls the functions of the others, after those that are given:
# add_LAYER_annexes() (core/base/annex.h).

option(TANDEM_ANNEXES "Build the annexes, which stand beside the ground floor (third_party/annexes.txt)" ON)

set(annexes ${CMAKE_CURRENT_LIST_DIR}/annexes.txt)
set_property(DIRECTORY APPEND PROPERTY CMAKE_CONFIGURE_DEPENDS ${annexes})
file(STRINGS ${annexes} tandem_annexes REGEX "^[^#]")

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
    string(REPLACE "." "[.]" pattern ${files})
    string(REPLACE "*" ".*" pattern ${pattern})
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
